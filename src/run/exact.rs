//! Exact instruction profiles: one run in a deterministic guest, counted by the QEMU plugin. Nothing is attached
//! inside the guest. Its kernel needs support for initramfs and a serial port.

use crate::collect::insn::{Counted, Names, Plugin, Raw, names, profile};
use crate::collect::targets;
use crate::document::{Attribution, Document, Outcome, Request, Selection};
use crate::kernel::symbols::Symbols;
use crate::profile::{Moved, ProcessName, Profile, RoleShare, Unit, attribute};
use crate::roles::Skid;
use crate::util::progress;
use crate::util::usage::UsageError;
use crate::vm::job::CountAnswer;
use crate::vm::scratch::Scratch;
use crate::vm::{self, Accel, GuestOptions, Job, PluginArgs, qemu};
use crate::workload::spec::Amount;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Run `request` in a guest and count its instructions. Symbols come from the guest's own list, or from `vmlinux`.
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
    // In the order of their markers' numbers (util::marker), with the number of processes of each.
    let processes = [ProcessName::WRITER, ProcessName::READER];
    let windows = [spec.pairs * spec.writers, spec.pairs * spec.readers];
    let plugin = Plugin::write(folder, qemu::version_numbers()?, &windows)?;
    let options = GuestOptions {
        accel: Accel::Tcg,
        plugin: Some(PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() }),
        ..options.clone()
    };
    // Without the command line. The guest reads its request from memory, and another spelling of the same request must
    // not change the count.
    let inside = Request { collect: Selection::List(Vec::new()), runs: 1, command: String::new(), ..request.clone() };
    let job = Job::Count { request: Box::new(inside), symbols: symbols.is_none() };
    let reply = vm::run_job(&options, &job)?;
    progress::step("resolving symbols");
    let answer: CountAnswer = reply.parse()?;
    let raw = Raw::read(&plugin.out).with_context(|| format!("guest {}", options.kernel.release))?;
    let symbols = match (symbols, answer.symbols) {
        (Some(symbols), _) => symbols,
        (None, Some(list)) => guest_symbols(&list)?,
        (None, None) => bail!(
            "guest {}: its symbols are not available (CONFIG_KALLSYMS is off): give its uncompressed image with --vmlinux",
            options.kernel.release
        ),
    };
    let program = names::Program::open(&options.init)?;
    let counted = profile::count(&raw, &Names::new(symbols, Some(program), &raw), &processes)?;
    let mut outcome = answer.outcome;
    outcome.document.command.clone_from(&request.command);
    super::enter_guest(&mut outcome, reply.emulator, &options.kernel);
    enter(&mut outcome, counted);
    outcome.document.collectors.iter_mut().for_each(|report| {
        if let Some(path) = vmlinux {
            report.notes.push(format!("symbols of {}", path.file_name().unwrap_or_default().to_string_lossy()));
        }
    });
    Ok(outcome)
}

fn guest_symbols(list: &str) -> Result<Symbols> {
    let symbols = Symbols::read(list.as_bytes()).and_then(Symbols::with_addresses);
    symbols.context("cannot read the guest's symbols; give the uncompressed image of its kernel with --vmlinux")
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
    document.collectors = vec![counted.report];
    outcome.profiles = counted.profiles;
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
        }
        shares
    };
    let executed = counted.profiles.iter().filter(|profile| !profile.stacks.is_empty());
    Attribution {
        collector: profile::NAME.to_owned(),
        processes: executed.map(|profile| (profile.process, shares(profile))).collect(),
    }
}
