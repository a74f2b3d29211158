//! Exact instruction profiles: several windows in a deterministic guest, counted by the QEMU plugin. Nothing is attached
//! inside the guest. Its kernel needs support for initramfs and a serial port.

use crate::collect::insn::{Counted, Names, Plugin, Raw, names, profile};
use crate::collect::targets;
use crate::document::{Attribution, Document, Ensemble, Outcome, Request, Selection, WindowCount};
use crate::kernel::symbols::Symbols;
use crate::profile::{CycleModel, Moved, ProcessName, Profile, RoleShare, Unit, attribute};
use crate::roles::Skid;
use crate::target::Phase;
use crate::util::progress;
use crate::util::usage::UsageError;
use crate::vm::scratch::Scratch;
use crate::vm::symbol_cache::SymbolCache;
use crate::vm::{self, Accel, GuestOptions, Job, PluginArgs, qemu};
use crate::workload::spec::Amount;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;

/// Windows of a run if their number is not given.
pub(crate) const WINDOWS: u32 = 5;

/// Numbers of CPUs on which kernels are compared: on one the processes alternate, on two they run at once.
pub(crate) const CPUS: [u32; 2] = [1, 2];

/// Run `request` in a guest and count its instructions, in `request.runs` windows (0 for one). Symbols come from the
/// guest's own list, read once per kernel, or from `vmlinux`.
///
/// # Errors
/// When the request cannot be counted exactly, or the guest, QEMU or the plugin gives no complete profile.
pub fn execute(request: &Request, options: &GuestOptions, vmlinux: Option<&Path>) -> Result<Outcome> {
    check(request, options.accel)?;
    let symbols = match vmlinux {
        Some(path) => names::vmlinux(path)?,
        None => kernel_functions(options)?,
    };
    let scratch = Scratch::new()?;
    let so = scratch.path("plugin");
    let folder = so.parent().context("a temporary folder has a name")?;
    let spec = &request.workload;
    let windows = request.runs.max(1);
    // In the order of their markers' numbers (util::marker), with the number of processes of each.
    let processes = [ProcessName::WRITER, ProcessName::READER];
    let threads = [spec.pairs * spec.writers, spec.pairs * spec.readers];
    let plugin = Plugin::write(folder, qemu::version_numbers()?, &threads, windows)?;
    let options = GuestOptions {
        accel: Accel::Tcg,
        plugin: Some(PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() }),
        ..options.clone()
    };
    // Without the command line. The guest reads its request from memory, and another spelling of the same request must
    // not change the count.
    let inside =
        Request { collect: Selection::List(Vec::new()), runs: windows, command: String::new(), ..request.clone() };
    let reply = vm::run_job(&options, &Job::Run(Box::new(inside)))?;
    progress::step("resolving symbols");
    let mut outcome: Outcome = reply.parse()?;
    let raws = (0..windows)
        .map(|window| Raw::read(&plugin.out(window)).with_context(|| format!("guest {}", options.kernel.release)))
        .collect::<Result<Vec<_>>>()?;
    let program = names::Program::open(&options.init)?;
    // The guest's processes are the same program at the same addresses in every window.
    let names = Names::new(symbols, Some(program), raws.first().context("no window")?);
    let mut counted = raws.iter().map(|raw| profile::count(raw, &names, &processes)).collect::<Result<Vec<_>>>()?;
    ensure!(outcome.document.runs.len() == counted.len(), "the guest ran another number of windows");
    outcome.document.command.clone_from(&request.command);
    super::enter_guest(&mut outcome, reply.emulator, &options.kernel);
    outcome.document.warnings.extend(reply.notes);
    let phases = (0..windows).map(Phase);
    let ensemble =
        Ensemble::new(phases.zip(&counted).map(|(phase, counted)| WindowCount::of(phase, &counted.profiles)).collect());
    if windows > 1 {
        outcome.windows = counted.iter().map(|counted| counted.profiles.clone()).collect();
    }
    outcome.document.processes = outcome.document.runs[ensemble.shown].processes.clone();
    enter(&mut outcome, counted.swap_remove(ensemble.shown));
    super::cycles::price(&mut outcome, CycleModel::standard()?);
    outcome.document.ensemble = Some(ensemble);
    outcome.document.collectors.iter_mut().for_each(|report| {
        if let Some(path) = vmlinux {
            report.notes.push(format!("symbols of {}", path.file_name().unwrap_or_default().to_string_lossy()));
        }
    });
    Ok(outcome)
}

/// The functions of the guest's kernel, from the cache or from a guest of their own.
fn kernel_functions(options: &GuestOptions) -> Result<Symbols> {
    let parsed = |list: &str| Symbols::read(list.as_bytes()).and_then(Symbols::with_addresses);
    // Without a cache, a guest is asked each time.
    let cache = SymbolCache::of(options).ok().flatten();
    if let Some(Ok(known)) = cache.as_ref().and_then(SymbolCache::read).map(|list| parsed(&list)) {
        return Ok(known);
    }
    progress::step("reading the kernel's symbols");
    let options = GuestOptions { accel: Accel::Tcg, plugin: None, ..options.clone() };
    let list = String::from_utf8(vm::run_job(&options, &Job::Functions)?.body).context("the guest's symbols")?;
    if list.is_empty() {
        bail!(
            "guest {}: its symbols are not available (CONFIG_KALLSYMS is off): give its uncompressed image with --vmlinux",
            options.kernel.release
        );
    }
    let symbols = parsed(&list)
        .context("cannot read the guest's symbols; give the uncompressed image of its kernel with --vmlinux")?;
    if let Some(Err(error)) = cache.map(|cache| cache.write(&list)) {
        progress::detail(|| format!("the kernel's symbols are not cached: {error:#}"));
    }
    Ok(symbols)
}

/// Check that instructions can be counted for `request` on a guest executed by `accel`.
///
/// # Errors
/// A usage error that names the flag.
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
    }
}
