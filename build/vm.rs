//! Builds the library by which QEMU's threads take turns.

#[allow(dead_code, unreachable_pub)]
#[path = "../src/vm/turns/names.rs"]
mod names;
mod place;
mod shared_object;

use anyhow::Result;
use std::path::Path;

const TURNS: &str = "src/vm/turns";

fn main() -> Result<()> {
    let out = place::enter(&[TURNS])?;
    let defines = [
        // It is loaded when QEMU starts, so its own data has a fixed place in each thread.
        "-ftls-model=initial-exec".to_owned(),
        format!("-DTURNS_COUNTER=\"{}\"", names::COUNTER),
        format!("-DTURNS_LOADED={}", names::LOADED),
        format!("-DTURNS_TAKEN={}", names::TAKEN),
    ];
    shared_object::compile(&defines, &out.join("pipeprof-turns.so"), &[Path::new(TURNS).join("turns.c")])
}
