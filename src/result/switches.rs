//! When the threads of a recording had no CPU, and who ended that: `record --switches`. Stored next to the document.

use super::defaults::is_default;
use super::path::PathWhat;
use crate::util::gzip_json;
use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use serde::{Deserialize, Serialize};

/// The name of the file.
pub const SWITCHES: &str = "switches.json.gz";

/// Waits that are stored. Of more, the first ones are.
pub const MOST_WAITS: usize = 300_000;

/// What each thread did, from the begin of the window on. Between two waits it is on a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// In the order of their begin. A thread that executes another program is another one from then on.
    pub threads: Vec<StoredThread>,
    /// In the order of their end.
    pub waits: Vec<ThreadWait>,
    /// Until then all waits are stored, ns.
    pub until_ns: u64,
    /// Waits after that, which are not stored.
    pub left_out: u64,
    /// Switches and wake-ups that could not be recorded: the thread then seems to be on a CPU.
    pub lost: u64,
}

/// A thread, while it executes one program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredThread {
    /// Index in `recorded`.
    pub process: usize,
    pub tid: u32,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// On which CPU it was at its begin, if it was on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Whether the thread has ended then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_ended: bool,
}

/// A time without a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadWait {
    /// Index in `threads`.
    pub thread: usize,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// What it waited for until it was woken: [`PathWhat::ForCpu`] if it was preempted, or had not run yet.
    #[serde(flatten)]
    pub what: PathWhat,
    /// Index in `channels`, if it waited at one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<usize>,
    /// From then on it only waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_ns: Option<u64>,
    /// Index in `threads`: who woke it, if that is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<usize>,
    /// Of the wait for a CPU: its cgroup had used up its quota of CPU time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub throttled_ns: u64,
    /// The process that had the CPU before; 0 if it was idle, or that is not known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: u32,
    /// Its name as in /proc/PID/comm, if it is known: of waits of 0.1 ms and more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_name: Option<String>,
    /// On which CPU it ran then; absent if it did not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

impl ThreadWait {
    /// When it only waited for a CPU from.
    pub fn runnable_ns(&self) -> u64 {
        match self.what {
            PathWhat::ForCpu => self.begin_ns,
            _ => self.woken_ns.unwrap_or(self.end_ns).clamp(self.begin_ns, self.end_ns),
        }
    }
}

impl Switches {
    /// Each thread with its waits, in the order of time.
    pub fn by_thread(&self) -> impl Iterator<Item = (&StoredThread, Vec<&ThreadWait>)> {
        let mut waits: Vec<Vec<&ThreadWait>> = vec![Vec::new(); self.threads.len()];
        self.waits.iter().for_each(|wait| waits[wait.thread].push(wait));
        self.threads.iter().zip(waits)
    }

    /// Their file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        gzip_json::to_bytes(self, Compression::default()).context("cannot write the switches")
    }

    /// Read the file of a document with so many processes and channels.
    ///
    /// # Errors
    /// A damaged file, or that of another document.
    pub fn from_bytes(bytes: &[u8], processes: usize, channels: usize) -> Result<Self> {
        let read: Self = gzip_json::from_bytes(bytes, "switches of threads")?;
        read.check(processes, channels)?;
        Ok(read)
    }

    /// Whether they can be those of a document with so many processes and channels, and fit together.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, processes: usize, channels: usize) -> Result<()> {
        let threads = self.threads.len();
        ensure!(
            self.threads.iter().all(|thread| thread.process < processes && thread.begin_ns <= thread.end_ns),
            "a thread is of no process of the recording, or ends before it begins"
        );
        let mut last = vec![0; threads];
        for wait in &self.waits {
            let known = |index: Option<usize>, count: usize| index.is_none_or(|index| index < count);
            let fits = wait.thread < threads
                && wait.begin_ns <= wait.end_ns
                && last[wait.thread] <= wait.begin_ns
                && known(wait.channel, channels)
                && known(wait.woken_by, threads);
            ensure!(fits, "a wait from {} ns on does not fit", wait.begin_ns);
            last[wait.thread] = wait.end_ns;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wait(thread: usize, begin_ns: u64, end_ns: u64) -> ThreadWait {
        ThreadWait { thread, begin_ns, end_ns, what: PathWhat::PipeFull, ..ThreadWait::default() }
    }

    /// One thread with these waits.
    fn of(waits: Vec<ThreadWait>) -> Switches {
        let thread = StoredThread { end_ns: 100, ..StoredThread::default() };
        Switches { threads: vec![thread], waits, ..Switches::default() }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(of(vec![wait(0, 10, 20), wait(0, 20, 40)]).check(1, 0).is_ok());
        for bad in [
            of(vec![wait(0, 10, 20), wait(0, 19, 40)]),
            of(vec![wait(0, 10, 9)]),
            of(vec![wait(1, 10, 20)]),
            of(vec![ThreadWait { channel: Some(0), ..wait(0, 10, 20) }]),
            of(vec![ThreadWait { woken_by: Some(1), ..wait(0, 10, 20) }]),
        ] {
            assert!(bad.check(1, 0).is_err(), "{bad:?}");
        }
        assert!(of(Vec::new()).check(0, 0).is_err() && Switches::from_bytes(b"x", 1, 0).is_err());
    }

    #[test]
    fn a_wait_for_a_cpu_begins_at_the_wake_up() {
        let slept = wait(0, 10, 50);
        assert_eq!(slept.runnable_ns(), 50);
        assert_eq!(ThreadWait { woken_ns: Some(30), ..slept.clone() }.runnable_ns(), 30);
        assert_eq!(ThreadWait { what: PathWhat::ForCpu, ..slept }.runnable_ns(), 10);
    }

    proptest! {
        #[test]
        fn what_is_written_of_switches_is_read(
            waits in prop::collection::vec((0_u64..50, 0_u64..50, any::<Option<u64>>(), any::<Option<String>>()), 0..9),
            left_out: u64,
        ) {
            let mut at = 0;
            let waits = waits.into_iter().map(|(before, lasts, woken_ns, before_name)| {
                let begin_ns = at + before;
                at = begin_ns + lasts;
                ThreadWait { woken_ns, before_name, channel: Some(1), woken_by: Some(0), ..wait(0, begin_ns, at) }
            });
            let switches = Switches { left_out, ..of(waits.collect()) };
            let bytes = switches.to_bytes().unwrap();
            prop_assert_eq!(Switches::from_bytes(&bytes, 1, 2).unwrap(), switches);
        }
    }
}
