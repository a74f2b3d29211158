//! Builds the halves that do not run in this process: BPF programs (bpf/) and the QEMU plugin.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
