//! Measure single runs, whole requests and exact profiles, on this machine or in a guest. Tests replace it.

use super::{Setting, exact, execute, in_guest};
use crate::experiment::StopRule;
use crate::process::Running as _;
use crate::result::{Collector, ExecutedOn, Loader, Outcome, Probe, Processes, Request, Selection};
use crate::vm::{Accel, GuestOptions};
use crate::workload::{self, Spec};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

/// The reason of a missing result, and a fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub why: String,
    /// A command for a machine that supports it.
    pub command: String,
}

impl Missing {
    pub fn new(why: impl Into<String>, command: impl Into<String>) -> Self {
        Self { why: why.into(), command: command.into() }
    }
}

/// A result, or the reason why this machine has none and how to get it elsewhere.
pub type Taken<T> = Result<T, Missing>;

/// How guests of exact profiles differ from the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSetup {
    pub cpus: Option<u32>,
    pub cpu: Option<String>,
    pub append: Vec<String>,
}

/// Measures; replaced in tests.
pub trait Bench {
    /// One unprofiled run.
    fn pair(&self, spec: &Spec) -> Result<Processes>;

    /// A whole run with collectors.
    fn run(&self, request: &Request) -> Result<Outcome>;

    /// An exact profile in a guest.
    fn exact(&self, request: &Request, setup: &GuestSetup) -> Result<Outcome>;

    /// What executes pairs and runs.
    fn executed_on(&self) -> ExecutedOn;

    /// Options of its guests that are not defaults, in words; may be empty. Results depend on it.
    fn setting(&self) -> String {
        String::new()
    }

    /// The guest kernel of exact profiles, as named.
    ///
    /// # Errors
    /// Why the kernel is not available.
    fn exact_kernel(&self) -> Taken<String>;
}

/// A request for `spec`.
pub fn request(name: &str, spec: &Spec, collect: Vec<Collector>, runs: u32) -> Request {
    let collectors: Vec<&str> = collect.iter().map(|collector| collector.name()).collect();
    let list = if collectors.is_empty() { "none".to_owned() } else { collectors.join(",") };
    Request {
        mode: name.to_owned(),
        workload: spec.clone(),
        collect: Selection::List(collect),
        loader: Loader::default(),
        probe: Probe::default(),
        runs,
        stop: StopRule::default(),
        seed: 1,
        memcg: true,
        command: workload::command::run(spec, &format!("--runs {runs} --collect {list}")),
    }
}

/// Times on this machine or in `guest`, exact counts in a guest with `kernel`.
pub struct Machine {
    /// Run timed experiments in here.
    pub guest: Option<GuestOptions>,
    /// What executes the guest.
    pub guest_executed_on: ExecutedOn,
    /// For exact profiles, or the reason why it is missing.
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
                let request = request("pair", spec, Vec::new(), 1);
                let outcome = self.run(&request)?;
                outcome.document.runs.into_iter().next().map(|run| run.processes).context("the guest reported no run")
            }
        }
    }

    fn run(&self, request: &Request) -> Result<Outcome> {
        match &self.guest {
            Some(options) => in_guest(request, options),
            None => {
                let setting = Setting { executed_on: ExecutedOn::here(), settle: false, progress: &|_, _| {} };
                execute(request, &setting)
            }
        }
    }

    fn exact(&self, request: &Request, setup: &GuestSetup) -> Result<Outcome> {
        let Ok((_, options)) = &self.kernel else { bail!("no kernel for exact counts was given") };
        let mut options = options.clone();
        options.accel = Accel::Tcg;
        if let Some(cpus) = setup.cpus {
            options.cpus = cpus;
        }
        if setup.cpu.is_some() {
            options.cpu.clone_from(&setup.cpu);
        }
        options.append.extend(setup.append.iter().cloned());
        exact::execute(request, &options, None)
    }

    fn executed_on(&self) -> ExecutedOn {
        if self.guest.is_some() { self.guest_executed_on } else { ExecutedOn::here() }
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

/// A guest's options that differ from [`GuestOptions::of`] and may change results.
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

/// A bench for tests: pairs come from a function of their number, from 0, and their workload; runs and guests fail.
#[cfg(any(test, feature = "testing"))]
pub struct MockBench<F> {
    pub pair: F,
    /// How many pairs and runs were asked for.
    pub pairs: std::cell::Cell<usize>,
    pub runs: std::cell::Cell<usize>,
    pub setting: String,
}

#[cfg(any(test, feature = "testing"))]
impl<F: Fn(usize, &Spec) -> Result<Processes>> MockBench<F> {
    pub fn new(pair: F) -> Self {
        Self { pair, pairs: Default::default(), runs: Default::default(), setting: String::new() }
    }
}

#[cfg(any(test, feature = "testing"))]
impl<F: Fn(usize, &Spec) -> Result<Processes>> Bench for MockBench<F> {
    fn pair(&self, spec: &Spec) -> Result<Processes> {
        let number = self.pairs.replace(self.pairs.get() + 1);
        (self.pair)(number, spec)
    }
    fn run(&self, _: &Request) -> Result<Outcome> {
        self.runs.set(self.runs.get() + 1);
        bail!("no runs")
    }
    fn exact(&self, _: &Request, _: &GuestSetup) -> Result<Outcome> {
        bail!("no guests")
    }
    fn executed_on(&self) -> ExecutedOn {
        ExecutedOn::Hardware
    }
    fn setting(&self) -> String {
        self.setting.clone()
    }
    fn exact_kernel(&self) -> Taken<String> {
        Err(Missing::new("no kernel", ""))
    }
}
