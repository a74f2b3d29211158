//! The flags of `pipeprof run` as typed values. They come from its command line, a column of a comparison, or `check`.

use super::sizing::FindSize as _;
use super::{Setting, WindowSizing, sizing};
use crate::collect;
use crate::result::{Collector, ExecutedOn, Measurement, Outcome, Request, RunOptions, Selection};
use crate::util::progress;
use crate::util::usage::OrUsage as _;
use crate::vm::GuestOf as _;
use crate::vm::bundle::FileBundle;
use crate::vm::{Accel, GuestMachine, GuestOptions};
use crate::workload::spec::{Amount, MEMORY_SOURCE, Spec};
use anyhow::{Context as _, Result, bail};
use easy_ext::ext;
use std::path::Path;
use std::sync::Arc;

/// A short window, so that there can be many: runs differ more from each other than parts of one run do.
const AMOUNT: Amount = Amount::DurationNs(300_000_000);
/// Default in guests: emulated time passes some twenty times slower than real time.
const GUEST_AMOUNT: Amount = Amount::DurationNs(200_000_000);
/// The same if only function_graph collects, with which the kernel is twenty times slower (docs/performance.md).
const TRACED_GUEST_AMOUNT: Amount = Amount::DurationNs(50_000_000);
/// Default CPUs of a guest with collectors inside it: with one, writer and reader never wait for the same lock.
const PROFILED_CPUS: u32 = 2;

#[ext(MeasurePair)]
impl RunOptions {
    /// Whether instructions are counted, in a guest.
    pub fn exact(&self) -> bool {
        matches!(&self.collect, Some(Selection::List(list)) if list.contains(&Collector::Insn))
    }

    /// Count instructions in an emulated guest, unless another collector is given: counts are exact.
    pub fn count_by_default(&mut self) {
        if self.kernel.is_some() && self.collect.is_none() && self.machine.accel != Accel::Kvm {
            self.collect = Some(Selection::List(vec![Collector::Insn]));
        }
    }

    /// The guest; `None` for this machine.
    pub fn guest(&self) -> Result<Option<GuestOptions>> {
        self.resolved().guest(self.kernel.as_deref())
    }

    /// The machine, with the number of CPUs that these collectors get by default.
    pub fn resolved(&self) -> GuestMachine {
        let default = (self.kernel.is_some() && self.profiled()).then_some(PROFILED_CPUS);
        GuestMachine { cpus: self.machine.cpus.or(default), ..self.machine.clone() }
    }

    /// The request; `command` is for titles.
    pub fn request(&self, command: String) -> Result<Request> {
        let request = self.typed(command).or_usage()?;
        if self.exact() {
            super::exact::check(&request, self.machine.accel)?;
        }
        Ok(request)
    }

    /// Measure `request` on this machine or in the guest of these options, which become part of the result.
    pub fn measure(&self, request: &Request) -> Result<Outcome> {
        let mut outcome = self.measured(request)?;
        outcome.document.request = Some(Measurement::Pair(Box::new(self.clone())));
        Ok(outcome)
    }
}

#[ext(PairParts)]
impl RunOptions {
    /// Whether a collector inside the guest profiles runs.
    fn profiled(&self) -> bool {
        Collector::those(|facts| facts.is_automatic).any(|collector| self.collects(collector))
    }

    /// Whether `collector` is enabled, named or by default.
    fn collects(&self, collector: Collector) -> bool {
        match &self.collect {
            Some(Selection::List(list)) => list.contains(&collector),
            Some(Selection::Auto) | None => collect::auto().contains(&collector),
        }
    }

    fn typed(&self, command: String) -> Result<Request> {
        let guest = self.kernel.is_some();
        if !guest && self.exact() {
            bail!("--collect insn requires a guest: add --kernel, such as --kernel 6.12");
        }
        self.machine.check(guest)?;
        if !self.memcg && !guest {
            bail!("--no-memcg requires a guest: add --kernel, such as --kernel 6.12");
        }
        if self.vmlinux.is_some() && !self.exact() {
            bail!("--vmlinux requires --collect insn");
        }
        if self.cycle_model.is_some() && !self.exact() {
            bail!("--cycle-model requires --collect insn");
        }
        if self.probe.is_some() && !self.collects(Collector::Kprobe) {
            bail!("--probe requires the kprobe collector: add it to --collect, or leave out --probe");
        }
        if self.sizing != WindowSizing::default() && (!self.exact() || self.workload.amount.is_some()) {
            bail!("--precision and --window-limit require --collect insn, and conflict with --bytes and --calls");
        }
        if !self.stop.is_none() && self.exact() {
            bail!("--until and --max-time conflict with --collect insn: use --runs for the number of windows");
        }
        let (mode, mut workload) = self.workload.spec()?;
        if let Some(source) = sent_source(&workload).filter(|_| guest) {
            let file = std::path::absolute(source).ok().filter(|file| file.metadata().is_ok_and(|kind| kind.is_file()));
            let Some(file) = file else {
                bail!("--source {}: there is no such file to send to the guest", source.display());
            };
            workload.source = Some(file);
        }
        let chosen = self.workload.amount.is_some();
        if !chosen {
            workload.amount = match (guest, self.exact()) {
                (true, true) => sizing::first(&workload, self.machine.cpus()),
                (true, false) => match &self.collect {
                    Some(Selection::List(list)) if list[..] == [Collector::Fgraph] => TRACED_GUEST_AMOUNT,
                    _ => GUEST_AMOUNT,
                },
                (false, _) => AMOUNT,
            };
        }
        let runs = match (guest, chosen || self.stop.until.is_some()) {
            // The guest decides: it knows whether it is emulated.
            (true, _) if self.exact() => super::exact::WINDOWS,
            (true, _) => 0,
            (false, true) => super::measure::LEAST,
            (false, false) => 20,
        };
        Ok(Request {
            mode,
            workload,
            collect: self.collect.clone().unwrap_or(Selection::Auto),
            loader: self.loader,
            probe: self.probe.clone().unwrap_or_default(),
            runs: self.runs.unwrap_or(runs),
            stop: self.stop,
            seed: self.seed,
            memcg: self.memcg,
            command,
        })
    }

    fn measured(&self, request: &Request) -> Result<Outcome> {
        let mut guest = self.guest()?;
        if let Some((options, source)) = guest.as_mut().zip(sent_source(&request.workload)) {
            options.files = Some(Arc::new(archive(source, options.memory_mib)?));
        }
        match guest {
            Some(options) if self.exact() => {
                // Before the guest runs: a faulty model is of no use.
                let model = self.cycle_model.as_deref().map(super::cycles::model).transpose()?;
                let count = |amount| {
                    let mut request = request.clone();
                    request.workload.amount = amount;
                    super::exact::execute(&request, &options, self.vmlinux.as_deref())
                };
                let mut outcome = match (self.workload.amount, request.workload.amount) {
                    (None, Amount::Bytes(first)) => self.sizing.counted(first, count)?,
                    (_, amount) => count(amount)?,
                };
                match model {
                    Some(model) => super::cycles::price(&mut outcome, model),
                    None => super::cycles::note_missing(&mut outcome),
                }
                Ok(outcome)
            }
            Some(options) => super::in_guest(request, &options),
            None => {
                let setting = Setting {
                    executed_on: ExecutedOn::here(),
                    settle: false,
                    progress: &|at, what| progress::step(&format!("measuring {} ({what})", at.next_text())),
                };
                super::execute(request, &setting)
            }
        }
    }
}

/// The file of this machine that a writer in a guest is to read.
pub fn sent_source(workload: &Spec) -> Option<&Path> {
    let source = workload.source.as_deref()?;
    (!source.starts_with("/dev") && source.as_os_str() != MEMORY_SOURCE).then_some(source)
}

/// The part of a guest's memory that files may have: they are in memory twice while they are unpacked.
pub const MEMORY_SHARE: u64 = 4;

/// The archive of a guest with this memory that brings `source` at the same path.
fn archive(source: &Path, memory_mib: u64) -> Result<Vec<u8>> {
    let mut bundle = FileBundle::default();
    bundle.file(source, source).with_context(|| format!("--source {}", source.display()))?;
    let enough = (bundle.bytes() * MEMORY_SHARE).div_ceil(1 << 20);
    if enough > memory_mib {
        bail!("--source {}: the guest's memory has no room for it: give --memory {enough}M", source.display());
    }
    bundle.pack()
}
