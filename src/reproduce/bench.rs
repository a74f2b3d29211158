//! What really measures: this machine, or a guest.

use super::lab::{Bench, GuestSetup, Taken};
use super::verdict::Missing;
use crate::document::{ExecutedOn, Outcome, Processes, Request};
use crate::run;
use crate::vm::{Accel, GuestOptions};
use crate::workload::{self, Spec};
use anyhow::{Context as _, Result, bail};

/// Timed experiments on this machine, or in `guest`; exact ones in a guest of `kernel`.
pub struct Machine {
    /// Run timed experiments in here.
    pub guest: Option<GuestOptions>,
    /// What executes the guest.
    pub guest_executed_on: ExecutedOn,
    /// For exact profiles; else the reason why there is none.
    pub kernel: Taken<(String, GuestOptions)>,
}

impl Bench for Machine {
    fn pair(&self, spec: &Spec) -> Result<Processes> {
        match &self.guest {
            None => {
                let mut launched = workload::launch(spec)?;
                launched.release()?;
                launched.wait()
            }
            Some(_) => {
                let request = super::parts::request("pair", spec, Vec::new(), 1);
                let outcome = self.run(&request)?;
                outcome.document.runs.into_iter().next().map(|run| run.processes).context("the guest ran no pair")
            }
        }
    }

    fn run(&self, request: &Request) -> Result<Outcome> {
        match &self.guest {
            Some(options) => run::in_guest(request, options),
            None => {
                let setting = run::Setting { executed_on: ExecutedOn::Hardware, settle: false, progress: &|_, _| {} };
                run::execute(request, &setting)
            }
        }
    }

    fn exact(&self, request: &Request, setup: &GuestSetup) -> Result<Outcome> {
        let Ok((_, options)) = &self.kernel else { bail!("there is no kernel for exact profiles") };
        let mut options = options.clone();
        options.accel = Accel::Tcg;
        if let Some(cpus) = setup.cpus {
            options.cpus = cpus;
        }
        if setup.cpu.is_some() {
            options.cpu.clone_from(&setup.cpu);
        }
        options.append.extend(setup.append.iter().cloned());
        run::exact::execute(request, &options, None)
    }

    fn executed_on(&self) -> ExecutedOn {
        if self.guest.is_some() { self.guest_executed_on } else { ExecutedOn::Hardware }
    }

    fn setting(&self) -> String {
        let guest = self.kernel.as_ref().ok().map(|(_, options)| options).or(self.guest.as_ref());
        guest.map_or_else(String::new, differences)
    }

    fn exact_kernel(&self) -> Taken<String> {
        match &self.kernel {
            Ok((name, _)) => Ok(name.clone()),
            Err(missing) => Err(Missing::clone(missing)),
        }
    }
}

/// What of a guest is not as [`GuestOptions::of`] makes it, and may change results.
fn differences(options: &GuestOptions) -> String {
    let plain = GuestOptions::of(options.kernel.clone());
    let mut words = Vec::new();
    let mut note = |differs: bool, text: String| words.extend(differs.then_some(text));
    note(options.accel != plain.accel, format!("accel {:?}", options.accel).to_lowercase());
    note(options.cpus != plain.cpus, format!("{} CPUs", options.cpus));
    note(options.memory_mib != plain.memory_mib, format!("{} MiB", options.memory_mib));
    note(options.cpu != plain.cpu, format!("CPU {}", options.cpu.as_deref().unwrap_or_default()));
    note(options.append != plain.append, format!("kernel arguments {}", options.append.join(" ")));
    if words.is_empty() { String::new() } else { format!("guests with {}", words.join(", ")) }
}
