//! What the kernel and the hardware counted for this process during its window.

use crate::process::ProcessTotals;
use crate::workload::cpu_counter::{CPU_INSTRUCTIONS_AFTER, CPU_INSTRUCTIONS_BEFORE, counted, unavailable};
use perf_event::events::Hardware;
use perf_event::{Builder, Counter, Group};
use std::fs::File;
use std::os::fd::FromRawFd as _;

/// Counters for one window.
pub(crate) struct Counters {
    hardware: Result<HardwareCounters, String>,
    begin: Option<libc::rusage>,
    end: Option<libc::rusage>,
}

enum HardwareCounters {
    /// Of this process.
    Own { group: Group, members: Vec<(&'static str, Counter)> },
    /// Of the first CPU, which runs all the time, and what it had counted before and after the window.
    Shared(File, [u64; 2]),
}

impl Counters {
    /// `shared`: the descriptor of [`of_cpu`](crate::workload::cpu_counter::of_cpu), instead of counters of this process.
    pub(crate) fn new(shared: Option<Result<i32, String>>) -> Self {
        let hardware = match shared {
            // SAFETY: the controller passed its counter as this descriptor, and nothing else in this process owns it.
            Some(shared) => shared.map(|fd| HardwareCounters::Shared(unsafe { File::from_raw_fd(fd) }, [0; 2])),
            None => HardwareCounters::new(),
        };
        Self { hardware, begin: None, end: None }
    }

    pub(crate) fn begin(&mut self) {
        self.begin = Some(usage());
        let failed = match &mut self.hardware {
            Ok(hardware) => hardware.switch(true).err(),
            Err(_) => None,
        };
        if let Some(error) = failed {
            self.hardware = Err(unavailable(&error));
        }
    }

    pub(crate) fn end(&mut self) {
        if let Ok(hardware) = &mut self.hardware
            && let Err(error) = hardware.switch(false)
        {
            self.hardware = Err(unavailable(&error));
        }
        self.end = Some(usage());
    }

    /// The part of the process's totals that this module provides.
    pub(crate) fn totals(&mut self) -> ProcessTotals {
        let mut totals = ProcessTotals::default();
        if let (Some(begin), Some(end)) = (&self.begin, &self.end) {
            let count = |from: libc::c_long, to: libc::c_long| u64::try_from(to - from).unwrap_or(0);
            totals.user_ns = nanoseconds(end.ru_utime).saturating_sub(nanoseconds(begin.ru_utime));
            totals.system_ns = nanoseconds(end.ru_stime).saturating_sub(nanoseconds(begin.ru_stime));
            totals.voluntary_switches = count(begin.ru_nvcsw, end.ru_nvcsw);
            totals.involuntary_switches = count(begin.ru_nivcsw, end.ru_nivcsw);
            totals.minor_faults = count(begin.ru_minflt, end.ru_minflt);
            totals.major_faults = count(begin.ru_majflt, end.ru_majflt);
        }
        match &mut self.hardware {
            Err(reason) => totals.counters_reason = Some(reason.clone()),
            Ok(hardware) => match hardware.read() {
                Ok(counters) => totals.counters = counters.into_iter().collect(),
                Err(reason) => totals.counters_reason = Some(reason),
            },
        }
        totals
    }
}

impl HardwareCounters {
    fn new() -> Result<Self, String> {
        let attempt = || -> std::io::Result<Self> {
            let mut group = Group::new()?;
            let mut members = Vec::new();
            for (name, event) in [("cycles", Hardware::CPU_CYCLES), ("instructions", Hardware::INSTRUCTIONS)] {
                // Include the kernel, where a pipe's cycles are spent.
                let mut builder = Builder::new().group(&mut group).kind(event);
                builder.include_kernel();
                let counter = builder.build()?;
                members.push((name, counter));
            }
            Ok(Self::Own { group, members })
        };
        attempt().map_err(|error| unavailable(&error))
    }

    fn switch(&mut self, on: bool) -> std::io::Result<()> {
        match (self, on) {
            (Self::Own { group, .. }, true) => group.enable(),
            (Self::Own { group, .. }, false) => group.disable(),
            (Self::Shared(counter, values), on) => {
                values[usize::from(!on)] = counted(counter)?;
                Ok(())
            }
        }
    }

    fn read(&mut self) -> Result<Vec<(String, u64)>, String> {
        let (group, members) = match self {
            Self::Own { group, members } => (group, members),
            Self::Shared(_, [before, after]) => {
                let values = [(CPU_INSTRUCTIONS_BEFORE, *before), (CPU_INSTRUCTIONS_AFTER, *after)];
                return Ok(values.map(|(name, value)| (name.to_owned(), value)).to_vec());
            }
        };
        let counts = group.read().map_err(|error| unavailable(&error))?;
        if counts.time_running() < counts.time_enabled() {
            return Err(
                "not available: other programs used the counters too, and they ran for only part of the window".into(),
            );
        }
        Ok(members.iter().map(|(name, counter)| ((*name).to_owned(), counts[counter])).collect())
    }
}

fn usage() -> libc::rusage {
    // SAFETY: an all-zero rusage is valid, the kernel fills it, and RUSAGE_SELF cannot fail.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}

fn nanoseconds(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_usec).unwrap_or(0) * 1000
}
