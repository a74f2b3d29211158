//! Execute one request and return its outcome, on the host or, called by `/init`, in a guest.
//!
//! [`measure`] executes the runs alternately and gathers raw values. [`assemble`] makes the document, and [`cost`]
//! computes the cost of each collector, and [`cycles`] prices counted instructions. [`RunOptions`] make a request.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {
    ::arch, ::collect, ::experiment, ::kernel, ::process, ::profile, ::result, ::roles, ::util, ::vm, ::workload,
};

pub mod assemble;
pub mod bench;
pub mod cost;
pub mod cycles;
pub mod exact;
mod functions;
pub mod gather;
pub mod measure;
mod options;
mod setting;
mod sizing;

use crate::collect::Context;
use crate::collect::tracefs;
use crate::kernel::config;
use crate::kernel::environment::CpuTime;
use crate::kernel::tracefs::Tracefs;
use crate::result::{Emulator, Environment, ExecutedOn, Outcome, Request, Warning};
use crate::util::warning::WarningCode;
use crate::vm::{GuestOptions, Job};
use anyhow::Result;

pub use crate::result::{RunOptions, WindowSizing};
pub use functions::{BIRTH, KernelFunctions};
pub use gather::Gathered;
pub use options::MeasurePair;
pub use options::{MEMORY_SHARE, sent_source};
pub use setting::Setting;

/// A machine is busy if others use at least this share of the CPUs' time.
pub const BUSY: f64 = 0.1;

/// Run `request` on this kernel.
///
/// # Errors
/// When the workload cannot run. Failures of collectors are recorded in the document.
pub fn execute(request: &Request, setting: &Setting<'_>) -> Result<Outcome> {
    execute_with(request, setting, &Context::new(request.loader, request.probe.clone()))
}

/// Run `request` on this kernel for a host that counts its instructions. The host knows the functions of the kernel, so
/// they are not read: in an emulated guest that takes longer than several windows. The workload runs once before the first
/// window.
///
/// # Errors
/// As [`execute`].
pub fn execute_counted(request: &Request, setting: &Setting<'_>) -> Result<Outcome> {
    workload::rehearse(&request.workload)?;
    let mut request = request.clone();
    request.workload.counted = true;
    execute_with(&request, setting, &Context::unread(request.loader, request.probe.clone()))
}

fn execute_with(request: &Request, setting: &Setting<'_>, context: &Context) -> Result<Outcome> {
    // On a host, an earlier run may have been killed; a guest is always fresh.
    let cleaned = match setting.is_fresh() {
        false => Tracefs::open().map(|tracefs| tracefs::clean_up(&tracefs)).unwrap_or_default(),
        true => Vec::new(),
    };
    let mut environment = Environment::now();
    let before = CpuTime::now();
    let measured = measure::all(request, setting, context)?;
    if setting.executed_on == ExecutedOn::Tcg {
        // An emulated machine's load comes from its boot, and it has no steal time.
        environment.load = None;
    } else {
        let span = before.zip(CpuTime::now());
        environment.steal = span.and_then(|(before, after)| after.steal_since(before));
        environment.others = span.and_then(|(before, after)| after.others_since(before));
    }
    let busy = environment.others.filter(|others| *others > BUSY);
    let mut outcome = assemble::outcome(request, setting, context, environment, measured)?;
    let warning = |message| Warning { code: WarningCode::LeftBehind, message, action: String::new() };
    outcome.document.warnings.extend(cleaned.into_iter().map(warning));
    outcome.document.warnings.extend(busy.map(|others| Warning {
        code: WarningCode::Busy,
        message: format!("other programs used {:.0} % of the CPUs' time during the run", others * 100.0),
        action: "run again when the machine is idle".into(),
    }));
    Ok(outcome)
}

/// Facts about the guest that only the host knows.
pub(crate) fn enter_guest(outcome: &mut Outcome, emulator: Emulator, kernel: &vm::Kernel) {
    outcome.document.environment.emulator = Some(emulator);
    if let Some(path) = &kernel.config
        && outcome.document.kernel.config.is_empty()
        && let Ok(options) = config::read_file(path)
    {
        outcome.document.kernel.config = options;
        // The name, because the path has no meaning on other machines.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        outcome.document.kernel.config_source = format!("{name}, next to the image");
    }
}

/// Run `request` in a guest.
pub fn in_guest(request: &Request, options: &GuestOptions) -> Result<Outcome> {
    let reply = vm::run_job(options, &Job::Run(Box::new(request.clone())))?;
    let mut outcome: Outcome = reply.parse()?;
    enter_guest(&mut outcome, reply.emulator, &options.kernel);
    outcome.document.warnings.extend(reply.notes);
    Ok(outcome)
}
