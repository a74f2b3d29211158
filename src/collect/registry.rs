//! The list of collectors: a line each in [`make`]. [`Collector::facts`] says whether `--collect auto` includes it.

use super::fgraph::Fgraph;
use super::kprobe::Kprobe;
use super::sample::Sample;
use super::{Collect, CollectPrograms};
use crate::kernel::reach::Listed;
use crate::kernel::resolve;
use crate::kernel::resolve::Resolution;
use crate::kernel::symbols::Symbols;
use crate::result::{Collector, Loader, Probe};
use anyhow::{Result, bail};
use std::sync::Arc;

/// Facts about this kernel that collectors need.
pub struct Context {
    pub loader: Loader,
    /// The functions that `kprobe` probes.
    pub probe: Probe,
    /// This kernel's symbols, or the reason why they are not available.
    pub symbols: Result<Arc<Symbols>, String>,
}

impl Context {
    /// Read this kernel.
    pub fn new(loader: Loader, probe: Probe) -> Self {
        let symbols = Symbols::running().and_then(Symbols::with_addresses);
        Self { loader, probe, symbols: symbols.map(Arc::new).map_err(|error| error.to_string()) }
    }

    /// Read nothing of this kernel: nothing is collected on it.
    pub fn unread(loader: Loader, probe: Probe) -> Self {
        Self { loader, probe, symbols: Err("the symbols were not read".to_owned()) }
    }

    pub fn symbols(&self) -> Result<Arc<Symbols>> {
        self.symbols.clone().map_err(anyhow::Error::msg)
    }

    /// Each role's functions in this kernel; empty if the symbols cannot be read.
    pub fn resolutions(&self) -> Vec<Resolution> {
        self.symbols.as_ref().map_or_else(|_| Vec::new(), |symbols| resolve::resolve(symbols, &Listed::running()))
    }
}

/// The collectors of `--collect auto`. Those that this kernel does not support report the reason.
pub fn auto() -> Vec<Collector> {
    Collector::those(|facts| facts.is_automatic).collect()
}

pub fn make(kind: Collector, context: &Context) -> Result<Box<dyn Collect>> {
    Ok(match kind {
        Collector::Sample => Box::new(Sample::new(context.loader, context.symbols()?)),
        Collector::Kprobe | Collector::Fgraph => make_for_programs(kind, context)?,
        Collector::Insn => bail!("insn requires a guest: add --kernel"),
    })
}

/// A collector of those that tell programs apart.
pub fn make_for_programs(kind: Collector, context: &Context) -> Result<Box<dyn CollectPrograms>> {
    Ok(match kind {
        Collector::Kprobe => Box::new(Kprobe::new(context.loader, context.symbols()?, &context.probe)),
        Collector::Fgraph => Box::new(Fgraph::new(context.symbols()?)),
        Collector::Sample | Collector::Insn => bail!("{} does not tell programs apart", kind.name()),
    })
}
