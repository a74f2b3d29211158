//! Exact instruction profiles: several windows in a deterministic guest, counted by the QEMU plugin. Nothing is attached
//! inside the guest. Its kernel needs support for initramfs and a serial port.

use super::functions::KernelFunctions;
use crate::arch::Processor;
use crate::collect::insn::{Counted, Names, Plugin, Raw, names, parts, profile};
use crate::collect::targets;
use crate::kernel::resolve::Resolution;
use crate::kernel::symbols::Symbols;
use crate::process::Phase;
use crate::profile::{CycleModel, Moved, ProcessName, Profile, RoleShare, Unit, attribute};
use crate::result::{Attribution, Document, Ensemble, Outcome, Request, Selection, WindowCount};
use crate::roles::Skid;
use crate::util::usage::UsageError;
use crate::vm::hardware::Hardware;
use crate::vm::scratch::Scratch;
use crate::vm::{self, Accel, GuestOptions, Job, PluginArgs, qemu};
use crate::workload::cpu_counter::{CPU_INSTRUCTIONS_AFTER, CPU_INSTRUCTIONS_BEFORE};
use crate::workload::spec::Amount;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Windows of a run if their number is not given.
pub const WINDOWS: u32 = 5;

/// Numbers of CPUs on which kernels are compared: on one the processes alternate, on two they run at once.
pub const CPUS: [u32; 2] = [1, 2];

/// Run `request` in a guest and count its instructions, in `request.runs` windows (0 for one). Symbols come from the
/// guest's own list, read once per kernel, or from `vmlinux`.
///
/// # Errors
/// When the request cannot be counted exactly, or the guest, QEMU or the plugin gives no complete profile.
pub fn execute(request: &Request, options: &GuestOptions, vmlinux: Option<&Path>) -> Result<Outcome> {
    check(request, options.accel)?;
    let symbols = vmlinux.map(names::vmlinux).transpose()?;
    let scratch = Scratch::new()?;
    let so = scratch.path("plugin");
    let folder = so.parent().context("a temporary folder has a name")?;
    let spec = &request.workload;
    let windows = request.runs.max(1);
    // In the order of their markers' numbers (arch::marker), with the number of processes of each.
    let threads = [spec.pairs * spec.writers, spec.pairs * spec.readers];
    let mut plugin =
        Plugin::write(folder, qemu::version_numbers(options.kernel.processor)?, &threads, windows)?.tapered();
    // The kernel's threads that work for a ring are counted with the process that has it.
    let functions = if spec.has_ring() {
        let functions = KernelFunctions::of(options, symbols.clone())?;
        plugin = plugin.prepared(functions.births());
        Some(functions)
    } else {
        None
    };
    let options = GuestOptions {
        accel: Accel::Tcg,
        plugin: Some(PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() }),
        cpu: Hardware::of(options.kernel.processor).counted_cpu(options.cpu.clone()),
        ..options.clone()
    };
    // Without the command line. The guest reads its request from memory, and another spelling of the same request must
    // not change the count.
    let inside =
        Request { collect: Selection::List(Vec::new()), runs: windows, command: String::new(), ..request.clone() };
    let ended = AtomicBool::new(false);
    // While the guest counts a window, those before it are read.
    let (reply, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| Windows::read(&options, (functions, symbols), windows, &plugin, &ended));
        let reply = vm::run_job(&options, &Job::Count(Box::new(inside)));
        ended.store(true, Ordering::Release);
        (reply, reader.join())
    });
    let reply = reply?;
    let Ok(read) = read else { bail!("internal error: the reader of windows panicked") };
    let mut read = read?;
    let mut outcome: Outcome = reply.parse()?;
    ensure!(outcome.document.runs.len() == read.profiles.len(), "the guest ran another number of windows");
    outcome.document.command.clone_from(&request.command);
    super::enter_guest(&mut outcome, reply.emulator, &options.kernel);
    outcome.document.warnings.extend(reply.notes);
    let phases = (0..windows).map(Phase);
    let counts = phases.zip(&read.profiles).zip(&read.raws).map(|((phase, profiles), raw)| WindowCount {
        rep_bytes: Some(profile::rep_bytes(raw, &read.names)),
        ..WindowCount::of(phase, spec.block(), profiles)
    });
    let ensemble = Ensemble::new(counts.collect());
    let shown = read.raws.get(ensemble.shown).context("no window")?;
    let counted = profile::count(shown, &read.names, &PROCESSES)?;
    if windows > 1 {
        outcome.parts = read.raws.iter().map(|raw| parts::parts(raw, &read.names, &PROCESSES)).collect();
        outcome.windows = read.profiles;
    }
    outcome.document.processes = outcome.document.runs[ensemble.shown].processes.clone();
    outcome.document.symbols = std::mem::take(&mut read.roles);
    enter(&mut outcome, counted);
    // The standard model is of x86-64.
    if options.kernel.processor == Processor::X86_64 {
        super::cycles::price(&mut outcome, CycleModel::standard()?);
    }
    outcome.document.ensemble = Some(ensemble);
    outcome.document.collectors.iter_mut().for_each(|report| {
        if let Some(path) = vmlinux {
            report.notes.push(format!("symbols of {}", path.file_name().unwrap_or_default().to_string_lossy()));
        }
    });
    Ok(outcome)
}

/// The processes, in the order of their markers' numbers (arch::marker).
const PROCESSES: [ProcessName; 2] = [ProcessName::WRITER, ProcessName::READER];

/// How often to look for the next window's file.
const PACE: Duration = Duration::from_millis(20);

/// What the plugin counted, with names.
struct Windows {
    names: Names,
    /// The functions of each role.
    roles: Vec<Resolution>,
    raws: Vec<Raw>,
    profiles: Vec<Vec<Profile>>,
}

impl Windows {
    /// Read each of the `windows`, with the kernel's `functions` if they are known already, when the plugin has written it, but no later than when the guest has `ended`.
    fn read(
        options: &GuestOptions,
        (functions, symbols): (Option<KernelFunctions>, Option<Symbols>),
        windows: u32,
        plugin: &Plugin,
        ended: &AtomicBool,
    ) -> Result<Self> {
        let functions = functions.map_or_else(|| KernelFunctions::of(options, symbols), Ok)?;
        let program = names::Program::open(&options.init)?;
        let next = |window: u32| {
            let path = plugin.out(window);
            while !ended.load(Ordering::Acquire) && !path.exists() {
                std::thread::sleep(PACE);
            }
            Raw::read(&path).with_context(|| format!("guest {}", options.kernel.release))
        };
        let mut raws = vec![next(0)?];
        // The guest's processes are the same program at the same addresses in every window.
        let names = Names::new(functions.symbols, Some(program), &raws[0]);
        let mut profiles = vec![profile::profiles(&raws[0], &names, &PROCESSES)?];
        for window in 1..windows {
            let raw = next(window)?;
            profiles.push(profile::profiles(&raw, &names, &PROCESSES)?);
            raws.push(raw);
        }
        Ok(Self { names, roles: functions.roles, raws, profiles })
    }
}

/// Check that instructions can be counted for `request` on a guest executed by `accel`.
pub(super) fn check(request: &Request, accel: Accel) -> Result<()> {
    if matches!(&request.collect, Selection::List(list) if list.len() > 1) {
        bail!(UsageError::new(
            "--collect insn cannot be combined with other collectors, whose instructions would be counted too"
        ));
    }
    if matches!(request.workload.amount, Amount::DurationNs(_)) {
        bail!(UsageError::new("--collect insn conflicts with --duration: use --calls or --bytes"));
    }
    if accel == Accel::Kvm {
        bail!(UsageError::new("--collect insn requires --accel tcg"));
    }
    Ok(())
}

/// Add the counts to the document of the same run.
fn enter(outcome: &mut Outcome, counted: Counted) {
    let document = &mut outcome.document;
    document.unit = Unit::Instructions;
    document.attribution = attribution(document, &counted);
    for symbol in &mut document.symbols {
        let hits = counted.functions.iter().filter(|row| Some(&row.symbol) == symbol.symbol.as_ref());
        symbol.hits = Some(hits.map(|row| row.calls).sum());
    }
    document.functions = counted.functions;
    document.locks = counted.locks;
    document.collectors = vec![counted.report];
    let all: u64 = counted.profiles.iter().map(|profile| profile.stacks.total()).sum();
    let processes: Vec<ProcessName> = document.processes.totals.names().collect();
    let mut taken = |name| -> Vec<u64> {
        let of = |process: &ProcessName| document.processes.totals.get_mut(*process)?.counters.remove(name);
        processes.iter().filter_map(of).collect()
    };
    let (before, after) = (taken(CPU_INSTRUCTIONS_BEFORE), taken(CPU_INSTRUCTIONS_AFTER));
    let own = before.iter().min().zip(after.iter().max()).map(|(before, after)| after - before);
    // With several CPUs, those of the first are not all.
    if let (Some(own), 1, [report]) = (own, document.environment.cpus, &mut document.collectors[..]) {
        report.notes.push(format!(
            "the kernel's own counter shows {own} instructions, {} more than the plugin: it is read shortly before and after the window",
            i128::from(own) - i128::from(all)
        ));
    }
    outcome.profiles = counted.profiles;
    outcome.classes = counted.classes;
    outcome.code = Some(counted.code);
}

fn attribution(document: &Document, counted: &Counted) -> Attribution {
    let shares = |profile: &Profile| -> Vec<RoleShare> {
        // Others move no bytes.
        let totals = document.processes.of(profile.process);
        let moved = Moved { bytes: totals.bytes, calls: totals.calls, cpu_ns: None };
        let mut shares = attribute(&profile.stacks, Unit::Instructions, Skid::None, &moved);
        for share in &mut shares {
            let functions = counted.functions.iter();
            share.calls_per_mib = targets::calls_per_mib(share.role, functions, profile.process, totals.bytes);
            share.entered = counted.entered.get(&(profile.process, share.role)).copied();
        }
        shares
    };
    let executed = counted.profiles.iter().filter(|profile| !profile.stacks.is_empty());
    Attribution {
        collector: profile::NAME.to_owned(),
        processes: executed.map(|profile| (profile.process, shares(profile))).collect(),
        others: None,
    }
}
