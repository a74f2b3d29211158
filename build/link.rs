//! Packs the relocations of the static executable (DT_RELR) if the C library's start code can read them. Unpacked, they are a
//! twentieth of the file.

use std::env;
use std::ffi::{CStr, c_char};

unsafe extern "C" {
    fn gnu_get_libc_version() -> *const c_char;
}

/// The first glibc whose start code reads packed relocations (DT_RELR), and for which processor GNU ld writes them.
const FIRST: [u32; 2] = [2, 36];
const PROCESSOR: &str = "x86_64";

fn main() {
    println!("cargo:rerun-if-changed=build/link.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|of| of.starts_with(value));
    // The C library of this machine is that which is linked.
    let own = is("HOST", PROCESSOR) && is("CARGO_CFG_TARGET_ARCH", PROCESSOR) && is("CARGO_CFG_TARGET_ENV", "gnu");
    // SAFETY: glibc returns a constant string, which ends with zero.
    let version = unsafe { CStr::from_ptr(gnu_get_libc_version()) }.to_string_lossy();
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let found = [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)];
    if own && found >= FIRST {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
