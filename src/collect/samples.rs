//! What the BPF programs have sampled (bpf/stacks.bpf.h): of the collectors [`super::sample`] and [`super::kprobe`], and
//! of recordings.

use super::attach::{self, Attached, Clock};
use super::bpf::Object;
use super::bpf::shared::{Lost, PP_FRAMES, PP_IN_USER, PP_UNREADABLE, PrCounted, PrSample};
use super::stacks::{FileSymbols, LocatedFrame, UNKNOWN, USER, located_kernel_frames, whole_stack, without_start_up};
use super::user_code::{UserCode, UserFunctions};
use crate::kernel::features::{MOST_SAMPLES, WANTED_SAMPLES};
use crate::kernel::symbols::Symbols;
use crate::profile::{ByProcess, Folded, ProcessName};
use crate::util::text::counted;
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;

/// The clock of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingClock {
    pub clock: Clock,
    /// Hz.
    pub frequency: u64,
}

impl SamplingClock {
    /// Let `program` sample all CPUs, as often as wanted, or as the kernel allows: it lowers this limit when sampling
    /// takes too long.
    pub fn start(program: BorrowedFd<'_>) -> Result<(Self, Vec<Attached>)> {
        let most = std::fs::read_to_string(MOST_SAMPLES).ok().and_then(|text| text.trim().parse().ok());
        let frequency = WANTED_SAMPLES.min(most.unwrap_or(u64::MAX).max(1));
        let (clock, attached) = attach::sampling(program, frequency, &attach::online_cpus()?)?;
        Ok((Self { clock, frequency }, attached))
    }

    pub fn notes(self) -> Vec<String> {
        let mut notes = vec![format!("{} at {} Hz", self.clock.name(), self.frequency)];
        notes.extend((self.frequency < WANTED_SAMPLES).then(|| format!("no faster, by {MOST_SAMPLES}")));
        notes
    }
}

/// The samples of a recording, and the stacks of its samples, sleeps and waits.
#[derive(Debug, Default)]
pub struct CountedSamples {
    pub samples: Vec<(PrSample, u64)>,
    /// By key, innermost frame first.
    pub traces: HashMap<u64, Vec<u64>>,
    /// Most frames of a stack.
    pub most: usize,
    pub lost: Lost,
}

impl CountedSamples {
    /// Read them from the maps of programs that keep so many frames of a stack.
    pub fn read<const FRAMES: usize>(object: &Object) -> Result<Self> {
        let traces = object.entries::<u64, [u64; FRAMES]>("traces")?;
        let used = |frames: [u64; FRAMES]| frames.into_iter().take_while(|address| *address != 0).collect();
        let samples = object.entries::<u64, PrCounted>("samples")?;
        Ok(Self {
            samples: samples.into_iter().map(|(_, counted)| (counted.sample, counted.count)).collect(),
            traces: traces.into_iter().map(|(key, frames)| (key, used(frames))).collect(),
            most: FRAMES,
            lost: object.element("lost", 0)?,
        })
    }

    /// The frames of a stack, innermost first; none without this key.
    fn addresses(&self, key: u64) -> &[u64] {
        self.traces.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// Names the frames of samples.
pub struct SampleNames<'a> {
    counted: &'a CountedSamples,
    /// By key.
    kernel: HashMap<u64, Vec<LocatedFrame>>,
    user: Option<&'a UserFunctions>,
    /// Without what the runtimes of C and Rust execute before a program.
    is_short: bool,
}

/// Named samples.
#[derive(Debug, Default)]
pub struct FoldedSamples {
    pub stacks: BTreeMap<ProcessName, Folded>,
    pub total: u64,
    /// Those whose innermost frame has no symbol.
    pub unresolved: u64,
    pub lost: Lost,
    pub notes: Vec<String>,
}

impl<'a> SampleNames<'a> {
    pub fn new(counted: &'a CountedSamples, kernel: &Symbols, user: Option<&'a UserFunctions>) -> Self {
        let named = |(key, trace): (&u64, &Vec<u64>)| (*key, located_kernel_frames(trace, kernel));
        Self { counted, kernel: counted.traces.iter().map(named).collect(), user, is_short: false }
    }

    /// The frames of the program and of the kernel, innermost first.
    pub fn frames(&self, sample: &PrSample) -> [Vec<LocatedFrame>; 2] {
        let addresses = self.counted.addresses(sample.user_trace);
        let mut user_frames = self.user.map(|user| user.frames(sample, addresses)).unwrap_or_default();
        if self.is_short {
            without_start_up(&mut user_frames);
        }
        let unknown = || vec![LocatedFrame::of(UNKNOWN)];
        let kernel_frames = match usize::try_from(sample.trace) {
            Ok(PP_IN_USER) if user_frames.is_empty() => {
                user_frames.push(LocatedFrame::of(USER));
                Vec::new()
            }
            Ok(PP_IN_USER) => Vec::new(),
            Ok(PP_UNREADABLE) => unknown(),
            _ => self.kernel.get(&sample.trace).cloned().unwrap_or_else(unknown),
        };
        [user_frames, kernel_frames]
    }

    /// All samples of the processes whose name `process` gives.
    pub fn folded(&self, process: impl Fn(&PrSample) -> Option<ProcessName>) -> FoldedSamples {
        let mut folded = FoldedSamples { lost: self.counted.lost, ..FoldedSamples::default() };
        let [mut without_kernel, mut without_user, mut cut] = [0; 3];
        for (sample, count) in &self.counted.samples {
            let Some(name) = process(sample) else { continue };
            let [user, kernel] = self.frames(sample);
            let leaf = kernel.first().or(user.first());
            let keys = [sample.trace, sample.user_trace];
            for (sum, holds) in [
                (&mut folded.total, true),
                (&mut folded.unresolved, leaf.is_none_or(|leaf| leaf.name == UNKNOWN)),
                (&mut without_kernel, sample.trace == PP_UNREADABLE as u64),
                (&mut without_user, sample.user_trace == 0),
                (&mut cut, keys.iter().any(|key| self.counted.addresses(*key).len() == self.counted.most)),
            ] {
                *sum += if holds { *count } else { 0 };
            }
            let frames = whole_stack(name.as_str(), &user, &kernel);
            folded.stacks.entry(name).or_default().add_located(frames, *count);
        }
        let noted = [
            (without_kernel, "without a kernel stack"),
            (without_user, "without a user stack"),
            (cut, "cut at the maximum depth, so that the root may be missing"),
        ];
        let noted = noted.into_iter().filter(|(count, _)| *count > 0);
        folded.notes = noted.map(|(count, what)| format!("{} {what}", counted(count, "sample"))).collect();
        folded.notes.extend(self.user.into_iter().flat_map(UserFunctions::problems));
        folded
    }
}

/// The samples of the processes of a target, which have these names by their numbers, and their stacks in this order.
pub(super) fn of_target(
    object: &Object,
    processes: &[Option<ProcessName>],
    kernel: &Symbols,
    code: UserCode,
) -> Result<(ByProcess<Folded>, FoldedSamples)> {
    let counted = CountedSamples::read::<PP_FRAMES>(object)?;
    let user = code.finish(FileSymbols::from_symbol_tables());
    let names = SampleNames { is_short: true, ..SampleNames::new(&counted, kernel, Some(&user)) };
    let mut folded = names.folded(|sample| *processes.get(sample.who.stage as usize)?);
    let mut stacks = ByProcess::new();
    for name in processes.iter().flatten() {
        if stacks.get(*name).is_none() {
            stacks.insert(*name, folded.stacks.remove(name).unwrap_or_default());
        }
    }
    Ok((stacks, folded))
}
