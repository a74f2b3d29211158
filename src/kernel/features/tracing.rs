//! Facilities for observing the kernel, each tried: BPF, kprobes, fentry, breakpoints, counters, tracefs.

use super::{Feature, FeatureState, IN_A_GUEST, Rights};
use crate::kernel::attempt;
use crate::kernel::reach::{Live, Ways};
use crate::kernel::symbols::{Symbol, Symbols};
use crate::kernel::tracefs::Tracefs;
use crate::roles::{self, RoleId};
use std::path::Path;

pub(crate) fn detect(symbols: Option<&Symbols>, ways: &Live, rights: Rights) -> Vec<Feature> {
    let first = |role: RoleId| {
        let mut names = roles::by_id(role).candidates.iter();
        names.find_map(|name| symbols?.functions(name).into_iter().next())
    };
    let write = first(RoleId::PipeWrite).unwrap_or(UNKNOWN);
    let pages = first(RoleId::UserPages).unwrap_or(UNKNOWN);
    vec![
        bpf(attempt::bpf(), rights),
        btf(),
        sampling(attempt::cpu_clock(), rights),
        pmu(attempt::hardware_cycles()),
        kprobes(write.name, ways.kprobe(&write), rights),
        fentry(write.name, ways.fentry(&write), rights),
        kprobe_multi(write.name, attempt::kprobe_multi(write.name)),
        breakpoints(pages.name, if pages.address == 0 { hidden() } else { ways.breakpoint(&pages) }, rights),
        tracefs(rights),
    ]
}

/// Used when symbols cannot be read.
const UNKNOWN: Symbol<'_> = Symbol { name: "vfs_write", address: 0, kind: 't', module: None };

fn hidden() -> Result<(), String> {
    Err("kernel addresses are hidden".to_owned())
}

/// A feature that works if `tried` succeeded.
fn tried(
    id: &str,
    title: &str,
    found: &str,
    tried: Result<(), String>,
    missing: (FeatureState, &str, &str),
) -> Feature {
    match tried {
        Ok(()) => Feature::ok(id, title, found),
        Err(reason) => Feature::ok(id, title, reason).limited(missing.0, missing.1, missing.2),
    }
}

fn bpf(result: Result<(), String>, rights: Rights) -> Feature {
    let kernel = || Rights::kernel_with(rights.may_trace(), "CONFIG_BPF_SYSCALL");
    let fix = rights.refused().map_or_else(kernel, str::to_owned);
    let impact = "the sample and kprobe collectors do not work on this kernel";
    tried("bpf", "BPF programs", "can be loaded", result, (FeatureState::Missing, impact, &fix))
}

fn btf() -> Feature {
    let path = Path::new(attempt::BTF);
    let result = match std::fs::metadata(path) {
        Ok(file) => return Feature::ok("btf", "BTF", format!("{} KiB in {}", file.len() >> 10, path.display())),
        Err(error) => Err(format!("{}: {}", path.display(), error.kind())),
    };
    let fix = format!("boot a kernel with CONFIG_DEBUG_INFO_BTF; or {IN_A_GUEST}");
    let impact = "the kprobe collector does not work: its BPF programs need the kernel's types (sampling works)";
    tried("btf", "BTF", "", result, (FeatureState::Missing, impact, &fix))
}

fn sampling(result: Result<(), String>, rights: Rights) -> Feature {
    let fix = if rights.may_trace() {
        format!("use a kernel with CONFIG_PERF_EVENTS; or {IN_A_GUEST}")
    } else {
        format!("{}; or run with sudo; or {IN_A_GUEST}", super::privilege::setcap())
    };
    let impact = "kernel stacks cannot be sampled";
    tried("sampling", "sampling by cpu-clock", "samples kernel stacks", result, (FeatureState::Missing, impact, &fix))
}

fn pmu(result: Result<(), String>) -> Feature {
    let impact = "cycles and instructions are not counted, and sampling uses cpu-clock, which takes no samples while \
                 interrupts are off";
    let fix = "use a machine or VM type with performance counters; for exact instruction counts without them: \
                pipeprof run --kernel NAME --collect insn";
    tried("pmu", "hardware counters (PMU)", "cycles can be counted", result, (FeatureState::Limited, impact, fix))
}

fn kprobes(on: &str, result: Result<(), String>, rights: Rights) -> Feature {
    let impact = "the kprobe collector does not work: no call counts or times of kernel functions";
    let fix = Rights::kernel_with(rights.may_trace(), "CONFIG_KPROBE_EVENTS");
    tried("kprobes", "kprobes", &format!("placed one on {on}"), result, (FeatureState::Missing, impact, &fix))
}

/// What attaches fentry to a function of the kernel. arm64 has it since a later version than x86-64.
const FENTRY: &str = "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS";

fn fentry(on: &str, result: Result<(), String>, rights: Rights) -> Feature {
    let has_types = Path::new(attempt::BTF).exists();
    let impact = "the kprobe collector uses kprobes, which cost two to three times as much per call";
    let options = if has_types { FENTRY.to_owned() } else { format!("BTF and {FENTRY}") };
    let fix = Rights::kernel_with(rights.may_trace(), &options);
    tried("fentry", "fentry", &format!("attached to {on}"), result, (FeatureState::Limited, impact, &fix))
}

fn kprobe_multi(on: &str, result: Result<(), String>) -> Feature {
    let impact = "none: pipeprof uses fentry, or plain kprobes";
    let found = format!("attached to {on}");
    tried("kprobe-multi", "kprobe.multi", &found, result, (FeatureState::Limited, impact, "nothing to do"))
}

fn breakpoints(on: &str, result: Result<(), String>, rights: Rights) -> Feature {
    let impact = format!("calls of functions without ftrace hooks, such as {on}, are not counted on this kernel");
    let sudo = if rights.is_root() { "use" } else { "run with sudo, on" };
    let fix = format!("{sudo} hardware or a hypervisor that passes debug registers on; or {IN_A_GUEST}");
    let found = format!("set one at {on}");
    tried("hardware-breakpoints", "hardware breakpoints", &found, result, (FeatureState::Limited, &impact, &fix))
}

fn tracefs(rights: Rights) -> Feature {
    let feature = |found: String| Feature::ok("tracefs", "tracefs (function_graph)", found);
    let impact = "the fgraph collector (call trees) does not work on this kernel";
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(error) => {
            let fix = Rights::kernel_with(rights.is_root(), "CONFIG_FTRACE");
            return feature(format!("{error:#}")).limited(FeatureState::Missing, impact, fix);
        }
    };
    let tracers = std::fs::read_to_string(tracefs.root().join("available_tracers")).unwrap_or_default();
    let wherever = if tracefs.is_private() { "not mounted, but mountable" } else { "mounted" };
    if tracers.split_whitespace().any(|tracer| tracer == "function_graph") {
        return feature(format!("{wherever}, with function_graph"));
    }
    let has = if tracers.trim().is_empty() {
        "no tracers".to_owned()
    } else {
        format!("only these tracers: {}", tracers.trim())
    };
    feature(format!("{wherever}, with {has}")).limited(
        FeatureState::Limited,
        impact,
        format!("boot a kernel with CONFIG_FUNCTION_GRAPH_TRACER; or {IN_A_GUEST}"),
    )
}
