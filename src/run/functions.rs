//! The functions of a guest's kernel, which give names to counted addresses.

use crate::kernel::resolve::{self, Resolution};
use crate::kernel::symbols::{Symbols, SymbolsError};
use crate::util::progress;
use crate::vm::symbol_cache::SymbolCache;
use crate::vm::{self, Accel, GuestOptions, Job};
use anyhow::{Context as _, Result, bail};
use std::ops::Range;

/// The kernel's function that prepares the stack of a new task (arch/x86/kernel/process.c).
pub const BIRTH: &str = "copy_thread";

/// The functions of one kernel.
pub struct KernelFunctions {
    pub symbols: Symbols,
    /// Those of each role; empty if the kernel has no list of its symbols.
    pub roles: Vec<Resolution>,
}

/// What the kernel calls when it replaces a task's program (fs/exec.c; the second one before 5.8).
const EXECS: [&str; 2] = ["begin_new_exec", "flush_old_exec"];

impl KernelFunctions {
    /// From the kernel's own list, which is read once per kernel. If `symbols` are given, they are used instead.
    ///
    /// # Errors
    /// When the guest gives no list and there are no `symbols`.
    pub fn of(options: &GuestOptions, symbols: Option<Symbols>) -> Result<Self> {
        let list = list(options)?;
        let roles = resolve::from_comment(&list).unwrap_or_default();
        let symbols = match symbols {
            Some(symbols) => symbols,
            None if list.is_empty() => bail!(
                "guest {}: its symbols are not available (CONFIG_KALLSYMS is off): give its uncompressed image with --vmlinux",
                options.kernel.release
            ),
            None => parsed(&list)
                .context("cannot read the guest's symbols; give the uncompressed image of its kernel with --vmlinux")?,
        };
        Ok(Self { symbols, roles })
    }

    /// The address of the function that replaces programs, if the kernel has it.
    pub fn exec(&self) -> Option<u64> {
        EXECS.iter().find_map(|name| Some(self.symbols.functions(name).first()?.address))
    }

    /// The addresses of [`BIRTH`], if the kernel has it.
    pub fn births(&self) -> Option<Range<u64>> {
        let start = self.symbols.functions(BIRTH).first()?.address;
        // Its end is the next function.
        let end = self.symbols.iter().map(|symbol| symbol.address).filter(|address| *address > start).min()?;
        Some(start..end)
    }
}

fn parsed(list: &str) -> Result<Symbols, SymbolsError> {
    Symbols::read(list.as_bytes()).and_then(Symbols::with_addresses)
}

/// The list, from the cache or from a guest of its own.
fn list(options: &GuestOptions) -> Result<String> {
    // Without a cache, a guest is asked each time.
    let cache = SymbolCache::of(options).ok().flatten();
    let known = cache.as_ref().and_then(SymbolCache::read);
    if let Some(known) = known.filter(|list| resolve::from_comment(list).is_some()) {
        return Ok(known);
    }
    progress::step("reading the kernel's symbols");
    // One CPU is enough, so that it can start from a snapshot.
    let options = GuestOptions { accel: Accel::Tcg, plugin: None, cpus: 1, files: None, disk: None, ..options.clone() };
    let list = String::from_utf8(vm::run_job(&options, &Job::Functions)?.body).context("the guest's symbols")?;
    if let Some(Err(error)) = cache.filter(|_| parsed(&list).is_ok()).map(|cache| cache.write(&list)) {
        progress::detail(|| format!("the kernel's symbols are not cached: {error:#}"));
    }
    Ok(list)
}
