//! Builds what the collectors load: the BPF programs (bpf/), and QEMU's plugin (src/collect/insn/plugin), once per version
//! of the plugin interface.

mod bpf;
mod header;
#[allow(dead_code, unreachable_pub)]
#[path = "../src/arch/marker.rs"]
mod marker;
mod place;
mod shared_object;

use anyhow::Result;

/// Sources of the plugin.
const PLUGIN: &str = "src/collect/insn/plugin";

/// The interface versions whose declarations differ; see qemu_api.h. A QEMU that is newer than the last one can use
/// the last one while QEMU accepts it.
const INTERFACES: [u32; 5] = [1, 2, 3, 6, 7];

fn main() -> Result<()> {
    let out = place::enter(&[PLUGIN, "src/arch/marker.rs"])?;
    bpf::build(&out)?;
    header::translate("bpf/pipeprof.h", &out.join("shared.rs"))?;
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(PLUGIN)? {
        sources.push(entry?.path());
    }
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    for interface in INTERFACES {
        let defines = [format!("-DPLUGIN_API={interface}"), format!("-DMARKER_MAGIC={}u", marker::MAGIC)];
        shared_object::compile(&defines, &out.join(format!("pipeprof-insn-{interface}.so")), &sources)?;
    }
    Ok(())
}
