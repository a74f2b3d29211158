//! Ways into the kernel: BPF, kprobes, fentry, breakpoints, counters, tracefs; each tried.

use super::{Feature, IN_A_GUEST, State};
use crate::kernel::attempt;
use crate::kernel::reach::{Live, Ways};
use crate::kernel::symbols::{Symbol, Symbols};
use crate::kernel::tracefs::Tracefs;
use crate::roles;
use std::path::Path;

pub fn detect(symbols: Option<&Symbols>, ways: &Live) -> Vec<Feature> {
    let first = |role: &str| {
        let names = roles::by_id(role)?.candidates.iter();
        names.filter_map(|name| symbols?.functions(name).into_iter().next()).next()
    };
    let write = first("pipe-write").unwrap_or(UNKNOWN);
    let pages = first("user-pages").unwrap_or(UNKNOWN);
    vec![
        bpf(attempt::bpf()),
        btf(),
        sampling(attempt::cpu_clock()),
        pmu(attempt::hardware_cycles()),
        kprobes(write.name, ways.kprobe(&write)),
        fentry(write.name, ways.fentry(&write)),
        kprobe_multi(write.name, attempt::kprobe_multi(write.name)),
        breakpoints(pages.name, if pages.address == 0 { hidden() } else { ways.breakpoint(&pages) }),
        tracefs(),
    ]
}

/// Stands for a function where symbols cannot be read.
const UNKNOWN: Symbol<'_> = Symbol { name: "vfs_write", address: 0, kind: 't', module: None };

fn hidden() -> Result<(), String> {
    Err("the address is hidden".to_owned())
}

/// A feature that is there when `tried` succeeded.
fn tried(id: &str, title: &str, found: &str, tried: Result<(), String>, lack: (State, &str, &str)) -> Feature {
    match tried {
        Ok(()) => Feature::ok(id, title, found),
        Err(reason) => Feature::ok(id, title, reason).lacking(lack.0, lack.1, lack.2),
    }
}

fn bpf(result: Result<(), String>) -> Feature {
    let mend = format!("run with sudo, on a kernel with CONFIG_BPF_SYSCALL; or {IN_A_GUEST}");
    let costs = "the collectors sample and kprobe do not work on this kernel";
    tried("bpf", "BPF programs", "can be loaded", result, (State::Missing, costs, &mend))
}

fn btf() -> Feature {
    let path = Path::new(attempt::BTF);
    let result = match std::fs::metadata(path) {
        Ok(file) => return Feature::ok("btf", "BTF", format!("{} KiB in {}", file.len() >> 10, path.display())),
        Err(error) => Err(format!("{}: {}", path.display(), error.kind())),
    };
    let mend = format!("boot a kernel with CONFIG_DEBUG_INFO_BTF; or {IN_A_GUEST}");
    let costs = "the probes' BPF programs cannot be fitted to this kernel: no kprobe (sampling goes on)";
    tried("btf", "BTF", "", result, (State::Missing, costs, &mend))
}

fn sampling(result: Result<(), String>) -> Feature {
    let mend = format!("sudo sysctl kernel.perf_event_paranoid=1, or run with sudo; or {IN_A_GUEST}");
    let costs = "no sampled stacks of the kernel";
    tried("sampling", "sampling by cpu-clock", "works, with kernel stacks", result, (State::Missing, costs, &mend))
}

fn pmu(result: Result<(), String>) -> Feature {
    let costs = "cycles and instructions are not counted, and sampling takes cpu-clock, which is blind while \
                 interrupts are off";
    let mend = "use a machine, or a virtual machine type, that has a performance counter; for exact instructions \
                without one: pipeprof run --kernel NAME --collect insn";
    tried("pmu", "hardware counters (PMU)", "cycles can be counted", result, (State::Limited, costs, mend))
}

fn kprobes(on: &str, result: Result<(), String>) -> Feature {
    let costs = "calls and times of kernel functions are not counted on this kernel";
    let mend = format!("run with sudo, on a kernel with CONFIG_KPROBE_EVENTS; or {IN_A_GUEST}");
    tried("kprobes", "kprobes", &format!("one was placed on {on}"), result, (State::Missing, costs, &mend))
}

fn fentry(on: &str, result: Result<(), String>) -> Feature {
    let costs = "nothing that pipeprof does: it counts by kprobes, which reach more functions";
    tried("fentry", "fentry", &format!("attached to {on}"), result, (State::Limited, costs, "nothing to do"))
}

fn kprobe_multi(on: &str, result: Result<(), String>) -> Feature {
    let costs = "nothing that pipeprof does: plain kprobes serve on every kernel";
    let found = format!("attached to {on}");
    tried("kprobe-multi", "kprobe.multi", &found, result, (State::Limited, costs, "nothing to do"))
}

fn breakpoints(on: &str, result: Result<(), String>) -> Feature {
    let costs = format!("calls of functions without ftrace hooks, such as {on}, are not counted on this kernel");
    let mend = format!("run with sudo, on hardware or a hypervisor that passes debug registers on; or {IN_A_GUEST}");
    let found = format!("one was set at {on}");
    tried("hardware-breakpoints", "hardware breakpoints", &found, result, (State::Limited, &costs, &mend))
}

fn tracefs() -> Feature {
    let feature = |found: String| Feature::ok("tracefs", "tracefs (function_graph)", found);
    let costs = "the collector fgraph has no call trees on this kernel";
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(error) => {
            let mend = format!("run with sudo, on a kernel with CONFIG_FTRACE; or {IN_A_GUEST}");
            return feature(format!("{error:#}")).lacking(State::Missing, costs, mend);
        }
    };
    let tracers = std::fs::read_to_string(tracefs.root().join("available_tracers")).unwrap_or_default();
    let wherever = if tracefs.is_private() { "not mounted, but can be" } else { "mounted" };
    if tracers.split_whitespace().any(|tracer| tracer == "function_graph") {
        return feature(format!("{wherever}, and has function_graph"));
    }
    let has = if tracers.trim().is_empty() { "no tracer".to_owned() } else { format!("only: {}", tracers.trim()) };
    feature(format!("{wherever}, and has {has}")).lacking(
        State::Limited,
        costs,
        format!("boot a kernel with CONFIG_FUNCTION_GRAPH_TRACER; or {IN_A_GUEST}"),
    )
}
