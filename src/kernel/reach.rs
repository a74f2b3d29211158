//! How a function can be probed: according to the kernel's lists, and by trying to attach.

use super::attempt;
use super::symbols::Symbol;
use crate::util::text::read_lossy;
use std::collections::HashSet;

/// The ways to count calls of a function. Each method returns `Ok`, or the reason why it does not work.
pub trait Ways {
    /// Whether a kprobe can be placed on `symbol`.
    fn kprobe(&self, symbol: &Symbol<'_>) -> Result<(), String>;
    /// Whether a BPF program can be attached to the entry of `symbol`.
    fn fentry(&self, symbol: &Symbol<'_>) -> Result<(), String>;
    /// Whether an execution breakpoint can be set at `symbol`.
    fn breakpoint(&self, symbol: &Symbol<'_>) -> Result<(), String>;
}

/// The functions that ftrace can hook, from tracefs' `available_filter_functions`.
pub(crate) fn traceable_functions(text: &str) -> HashSet<String> {
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The functions that kprobes may not probe, from debugfs' `kprobes/blacklist`: lines of `0xSTART-0xEND name`.
fn blacklisted_functions(text: &str) -> HashSet<String> {
    text.lines().filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect()
}

/// The lists of one kernel. A missing list excludes no function.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    pub(crate) traceable: Option<HashSet<String>>,
    pub blacklisted: Option<HashSet<String>>,
}

impl Listed {
    /// The running kernel's lists, as far as this user may read them.
    pub fn running() -> Self {
        let traceable = read_lossy("/sys/kernel/tracing/available_filter_functions")
            .or_else(|_| read_lossy("/sys/kernel/debug/tracing/available_filter_functions"));
        let blacklisted = read_lossy("/sys/kernel/debug/kprobes/blacklist");
        Self {
            traceable: traceable.ok().map(|list| traceable_functions(&list)),
            blacklisted: blacklisted.ok().map(|list| blacklisted_functions(&list)),
        }
    }

    /// Why the lists exclude `symbol`, if they do.
    pub fn closed(&self, symbol: &Symbol<'_>) -> Option<&'static str> {
        if self.blacklisted.as_ref().is_some_and(|list| list.contains(symbol.name)) {
            return Some("on the kernel's kprobe blacklist");
        }
        if self.traceable.as_ref().is_some_and(|list| !list.contains(symbol.name)) {
            return Some("notrace function: compiled without ftrace hooks");
        }
        None
    }
}

impl Ways for Listed {
    fn kprobe(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        self.closed(symbol).map_or(Ok(()), |reason| Err(reason.to_owned()))
    }

    fn fentry(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        if symbol.name.contains('.') {
            return Err("BTF does not describe it: the compiler changed its signature".to_owned());
        }
        self.kprobe(symbol)
    }

    fn breakpoint(&self, _symbol: &Symbol<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// The running kernel. Each method attaches a probe briefly and removes it.
#[derive(Debug)]
pub struct Live {
    listed: Listed,
    kprobe_type: Result<u32, String>,
    btf: Result<attempt::Btf, String>,
}

impl Live {
    pub fn running() -> Self {
        Self { listed: Listed::running(), kprobe_type: attempt::kprobe_type(), btf: attempt::Btf::load() }
    }

    /// The reason according to the lists, which is clearer than an error number; else `error`.
    fn explain(&self, symbol: &Symbol<'_>, error: String) -> String {
        self.listed.closed(symbol).map_or(error, str::to_owned)
    }
}

impl Ways for Live {
    fn kprobe(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        let kprobe_type = self.kprobe_type.clone()?;
        attempt::kprobe(kprobe_type, symbol.name).map_err(|error| self.explain(symbol, error))
    }

    fn fentry(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        let btf = self.btf.as_ref().map_err(Clone::clone)?;
        attempt::fentry(btf, symbol.name).map_err(|error| self.explain(symbol, error))
    }

    fn breakpoint(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        attempt::breakpoint(symbol.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_read() {
        let traceable = traceable_functions("pipe_write\nfoo [bar]\n\n");
        assert!(traceable.contains("pipe_write") && traceable.contains("foo") && traceable.len() == 2);
        let list = "0xffffffff81001030-0xffffffff81001050\tasm_exc_overflow\nnonsense\n";
        assert_eq!(blacklisted_functions(list), HashSet::from(["asm_exc_overflow".to_owned()]));
    }

    #[test]
    fn the_running_kernel_answers() {
        let live = Live::running();
        let symbol = Symbol { name: "no_such_function_anywhere", address: 0x10, kind: 't', module: None };
        assert!(live.kprobe(&symbol).is_err());
        assert!(live.fentry(&symbol).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_lists_do_not_panic(text: String) {
            let _ = (traceable_functions(&text), blacklisted_functions(&text));
        }
    }
}
