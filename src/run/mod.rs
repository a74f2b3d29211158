//! One request in, one outcome out, on whatever kernel this is: the host's, or a guest's when called by `/init`.
//!
//! [`measure`] runs the pairs, alternately, and gathers raw values; [`assemble`] makes the document of them; [`cost`] is
//! what each collector did to the pairs it watched. [`RunOptions`] are what a request is made of.

pub mod assemble;
pub mod bench;
pub mod cost;
pub mod exact;
pub mod gather;
pub mod measure;
mod options;

use crate::collect::Context;
use crate::collect::tracefs;
use crate::document::{Emulator, Environment, ExecutedOn, Outcome, Request, Warning};
use crate::experiment::Progress;
use crate::kernel::config;
use crate::kernel::environment::CpuTime;
use crate::kernel::tracefs::Tracefs;
use crate::vm::{self, GuestOptions, Job};
use anyhow::Result;

pub use options::RunOptions;

/// Where the run executes, and what its caller wants to hear while it does.
pub struct Setting<'a> {
    /// What executes it, and, in guests, the emulator as the host started it.
    pub executed_on: ExecutedOn,
    /// Release pairs at a round time of the clock and when the kernel has come to rest, so that timers fall at the same
    /// places of every window: what deterministic guests want.
    pub settle: bool,
    /// Called before each pair with how far the run is, and what watches the pair.
    pub progress: &'a dyn Fn(&Progress, &str),
}

/// Share of the CPUs' time that others use from which a machine is called busy.
pub const BUSY: f64 = 0.1;

/// Run `request` on this kernel.
///
/// # Errors
/// When the workload cannot run. A collector that cannot is said in the document.
pub fn execute(request: &Request, setting: &Setting<'_>) -> Result<Outcome> {
    // A guest is fresh; here, whatever this run collects, an earlier one may have been killed.
    let cleaned = match setting.executed_on {
        ExecutedOn::Hardware => Tracefs::open().map(|tracefs| tracefs::clean_up(&tracefs)).unwrap_or_default(),
        ExecutedOn::Kvm | ExecutedOn::Tcg => Vec::new(),
    };
    let context = Context::new(request.loader);
    let mut environment = Environment::now();
    let before = CpuTime::now();
    let measured = measure::all(request, setting, &context)?;
    if setting.executed_on == ExecutedOn::Tcg {
        // An emulated machine's load is that of its boot, and nobody steals from it.
        environment.load = None;
    } else {
        let span = before.zip(CpuTime::now());
        environment.steal = span.and_then(|(before, after)| after.steal_since(before));
        environment.others = span.and_then(|(before, after)| after.others_since(before));
    }
    let busy = environment.others.filter(|others| *others > BUSY);
    let mut outcome = assemble::outcome(request, setting, &context, environment, measured)?;
    let warning = |message| Warning { code: "left-behind".into(), message, action: String::new() };
    outcome.document.warnings.extend(cleaned.into_iter().map(warning));
    outcome.document.warnings.extend(busy.map(|others| Warning {
        code: "busy".into(),
        message: format!("other programs used {:.0} % of the CPUs' time during the run", others * 100.0),
        action: "run again when the machine is idle".into(),
    }));
    Ok(outcome)
}

/// What only the host knows of the guest that an outcome is from.
pub(crate) fn enter_guest(outcome: &mut Outcome, emulator: Emulator, kernel: &vm::Kernel) {
    outcome.document.environment.emulator = Some(emulator);
    if let Some(path) = &kernel.config
        && outcome.document.kernel.config.is_empty()
        && let Ok(options) = config::read_file(path)
    {
        outcome.document.kernel.config = options;
        // Not the path, which says nothing elsewhere.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        outcome.document.kernel.config_source = format!("{name}, next to the image");
    }
}

/// Run `request` in a guest.
///
/// # Errors
/// When the guest gives no outcome.
pub fn in_guest(request: &Request, options: &GuestOptions) -> Result<Outcome> {
    let reply = vm::run_job(options, &Job::Run(Box::new(request.clone())))?;
    let mut outcome: Outcome = reply.parse()?;
    enter_guest(&mut outcome, reply.emulator, &options.kernel);
    for note in reply.notes {
        outcome.document.warnings.push(Warning { code: "accelerator".into(), message: note, action: String::new() });
    }
    Ok(outcome)
}
