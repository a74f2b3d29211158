//! The cost of a probe on this kernel, measured on a system call that does almost nothing.

use super::Watched;
use super::attach;
use super::bpf::shared::{Fast, Function, PP_FAST};
use super::fentry::Fentry;
use super::follow;
use super::load_probes::{Loaded, load, tell_slots};
use super::probes::{BREAKPOINT, COUNT, ENTER, LEAVE};
use super::targets::AttachMethod;
use crate::kernel::symbols::{Symbol, Symbols};
use crate::profile::ProcessName;
use crate::result::Loader;
use anyhow::{Result, ensure};
use std::time::Instant;

/// Calls in one round.
const CALLS: u32 = 1000;
/// Number of rounds. The fastest counts, because disturbances only add time.
const ROUNDS: u32 = 5;
/// Larger corrections, as part of a function's time, are not made: the result would describe the probes more than the
/// function.
const LIMIT: f64 = 0.2;

/// The cost of the probes of one kind, in ns per call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    /// A timed call: overhead in the function's own time, between the two clock readings.
    pub inside: f64,
    /// A timed call: further overhead, in the caller's time.
    pub outside: f64,
    /// A call that is only counted: overhead in the caller's time.
    pub count: f64,
}

/// The costs of all kinds of probes; absent if they cannot be measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Costs {
    pub kprobe: Option<Cost>,
    pub fentry: Option<Cost>,
    /// A breakpoint's overhead in the caller's time, with the stacks of some hits.
    pub breakpoint: Option<f64>,
}

impl Costs {
    /// The self time of `function`, timed by `method`, without the cost of its probes and of its callees' probes. Absent if
    /// that cost is a fifth of it or more, or if a cost of the kinds of probes `used` is unknown.
    pub(crate) fn correct(&self, method: AttachMethod, function: &Function, used: &[AttachMethod]) -> Option<u64> {
        let known = |method: &AttachMethod| match method {
            AttachMethod::Kprobe => self.kprobe.is_some(),
            AttachMethod::Fentry => self.fentry.is_some(),
            AttachMethod::Breakpoint => self.breakpoint.is_some(),
            AttachMethod::None => true,
        };
        let own = match method {
            AttachMethod::Kprobe => self.kprobe,
            AttachMethod::Fentry => self.fentry,
            AttachMethod::Breakpoint | AttachMethod::None => None,
        }?;
        let correction = returns(function) as f64 * own.inside + function.overhead_ns as f64;
        let measured = function.self_ns as f64;
        (used.iter().all(known) && correction < LIMIT * measured).then(|| (measured - correction).round() as u64)
    }

    /// The costs of the kinds of probes `used`, in words.
    pub(crate) fn note(&self, used: &[AttachMethod]) -> Option<String> {
        let both = |name: &str, both: &str, cost: Cost| {
            format!(
                "{both} {:.0} ns ({:.0} of them in the function's own time), {name} alone {:.0} ns",
                cost.inside + cost.outside,
                cost.inside,
                cost.count
            )
        };
        let text = |method: AttachMethod| match method {
            AttachMethod::Fentry => self.fentry.map(|cost| both("fentry", "fentry and fexit", cost)),
            AttachMethod::Kprobe => self.kprobe.map(|cost| both("kprobe", "kprobe and kretprobe", cost)),
            AttachMethod::Breakpoint => self.breakpoint.map(|cost| format!("breakpoint {cost:.0} ns")),
            AttachMethod::None => None,
        };
        let all = [AttachMethod::Fentry, AttachMethod::Kprobe, AttachMethod::Breakpoint];
        let methods = all.into_iter().filter(|method| used.contains(method));
        let texts: Vec<String> = methods.filter_map(text).collect();
        (!texts.is_empty()).then(|| format!("probes add to a call (by this kernel's clock): {}", texts.join("; ")))
    }
}

/// The number of calls of `function` that returned.
pub(crate) fn returns(function: &Function) -> u64 {
    function.log2.iter().sum()
}

/// Measure the costs in this thread. `fentry`: if this kernel may support it.
pub(crate) fn costs(loader: Loader, symbols: &Symbols, fentry: Option<&Fentry>) -> Costs {
    // Two names of one function; type information knows one of them.
    let names = ["__do_sys_getppid", "__x64_sys_getppid"];
    let mut found: Vec<Symbol<'_>> = names.iter().flat_map(|name| symbols.functions(name)).collect();
    found.sort_by_key(|symbol| !fentry.is_some_and(|fentry| fentry.knows(symbol.name)));
    let bench = found.first().and_then(|symbol| Calibration::new(loader, *symbol).ok());
    bench.map_or_else(Costs::default, |bench| Costs {
        kprobe: bench.kprobe().ok(),
        fentry: fentry.and_then(|fentry| bench.fentry(fentry).ok()),
        breakpoint: bench.breakpoint().ok(),
    })
}

/// The system call, and programs to probe it with, as slot 0.
struct Calibration<'a> {
    symbol: Symbol<'a>,
    loaded: Loaded,
    /// Nanoseconds per call without a probe.
    alone: f64,
}

/// What a kind of probe adds to the call.
struct Probed {
    /// Nanoseconds per call.
    whole: f64,
    /// Nanoseconds per call between the two clock readings.
    inside: f64,
}

impl<'a> Calibration<'a> {
    fn new(loader: Loader, symbol: Symbol<'a>) -> Result<Self> {
        let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let watched = Watched::one(ProcessName::OTHER, thread);
        let mut loaded = load(loader, |cookies| follow::settings(&watched, cookies), 1)?;
        tell_slots(&mut loaded.object, std::iter::once(symbol.address))?;
        Ok(Self { symbol, loaded, alone: fastest_round() })
    }

    fn function(&self) -> Result<Function> {
        let [own, ..] = self.loaded.object.variables::<[Fast; PP_FAST]>()?;
        Ok(own.functions[0])
    }

    /// Measure with `attached`, and detach it.
    fn measure<T>(&self, attached: T) -> Result<Probed> {
        let before = self.function()?;
        let probed = fastest_round();
        drop(attached);
        let after = self.function()?;
        ensure!(after.calls > before.calls, "the calibration's probe was not hit");
        let timed = (returns(&after) - returns(&before)).max(1) as f64;
        let whole = (probed - self.alone).max(0.0);
        Ok(Probed { whole, inside: ((after.total_ns - before.total_ns) as f64 / timed).min(whole) })
    }

    fn kprobe(&self) -> Result<Cost> {
        let attach = |program: &str| {
            let (name, address) = (self.symbol.name, self.symbol.address);
            let entry = self.loaded.cookies.then_some(0).filter(|_| program != LEAVE);
            attach::kprobe(self.loaded.object.program(program)?, name, address, program == LEAVE, entry)
        };
        let count = self.measure(attach(COUNT)?)?;
        Ok(Cost::of(&count, &self.measure((attach(LEAVE)?, attach(ENTER)?))?))
    }

    fn fentry(&self, fentry: &Fentry) -> Result<Cost> {
        let attach = |timed| fentry.attach(&self.loaded.object, self.symbol.name, 0, timed);
        let count = self.measure(attach(false)?)?;
        // Where returns cannot be probed, calls are only counted.
        Ok(attach(true)
            .and_then(|pair| self.measure(pair))
            .map_or_else(|_| Cost::of(&count, &count), |pair| Cost::of(&count, &pair)))
    }

    fn breakpoint(&self) -> Result<f64> {
        let program = self.loaded.object.program(BREAKPOINT)?;
        Ok(self.measure(attach::breakpoint(program, self.symbol.address, &attach::online_cpus()?)?)?.whole)
    }
}

impl Cost {
    fn of(count: &Probed, pair: &Probed) -> Self {
        Self { inside: pair.inside, outside: pair.whole - pair.inside, count: count.whole }
    }
}

/// Nanoseconds per call in the fastest round.
fn fastest_round() -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: getppid has no preconditions.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(returns: u64, overhead_ns: u64, self_ns: u64) -> Function {
        let mut function = Function { overhead_ns, self_ns, ..bytemuck::Zeroable::zeroed() };
        function.log2[3] = returns;
        function
    }

    #[test]
    fn small_costs_are_taken_off_large_ones_are_not() {
        let cost = Cost { inside: 10.0, outside: 20.0, count: 5.0 };
        let costs = Costs { kprobe: Some(cost), ..Costs::default() };
        let correct = |function: &Function| costs.correct(AttachMethod::Kprobe, function, &[AttachMethod::Kprobe]);
        assert_eq!(correct(&function(10, 100, 10_000)), Some(9_800));
        assert_eq!(correct(&function(10, 100, 1_000)), None);
        assert_eq!(correct(&function(10, 0, 500)), None);
        assert_eq!(correct(&function(0, 0, 0)), None);
        let unknown = [AttachMethod::Kprobe, AttachMethod::Breakpoint];
        assert_eq!(costs.correct(AttachMethod::Kprobe, &function(10, 100, 10_000), &unknown), None, "an unknown part");
        assert_eq!(costs.correct(AttachMethod::Fentry, &function(10, 100, 10_000), &[AttachMethod::Fentry]), None);
    }
}
