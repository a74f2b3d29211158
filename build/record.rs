//! Translates what the BPF programs of recordings share with this process.

mod header;
mod place;

use anyhow::Result;

fn main() -> Result<()> {
    let out = place::enter(&[])?;
    header::translate("bpf/record.h", &out.join("record.rs"))
}
