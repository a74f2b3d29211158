//! What threads do, as perf reports it to an ordinary user of their own processes (perf_event_open(2), `context_switch` and
//! `task`): each begins, executes a program, gets a CPU, loses it, and ends, with the times.

use super::attach;
use super::perf_ring::{DATA_PAGES, PerfRecord, PerfRing};
use crate::kernel::calls;
use crate::util::clock::monotonic_ns;
use crate::util::text::read_lossy;
use perf_event_open_sys::{bindings as perf, ioctls};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Pages of a ring: with its first page as much as perf_event_mlock_kb allows each CPU by default. Fewer, if that is refused.
const MOST_PAGES: usize = 128;

/// What has happened to a thread. Ids are those of this process's PID namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadEvent {
    /// A new one, which this thread of a process has made.
    Forked { parent: u32, by: u32 },
    /// Its process executes another program, whose name is this.
    Executed(String),
    /// It has a CPU from now on.
    Runs,
    /// It leaves the CPU to sleep or, if `preempted`, although it could run.
    Stops { preempted: bool },
    /// It has ended.
    Ended,
    /// Of no thread: some were lost, from now on or until now.
    Lost,
}

/// An event of a thread, and when it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedEvent {
    /// By the monotonic clock, ns.
    pub at: u64,
    pub pid: u32,
    pub tid: u32,
    pub event: ThreadEvent,
}

/// The events of some threads and of all that they start, while this exists.
#[derive(Debug)]
pub struct ThreadEvents {
    cpus: Vec<u32>,
    rings: Vec<PerfRing>,
    /// The time of the latest event of each ring.
    latest: Vec<u64>,
    /// Further events that use these rings.
    _others: Vec<OwnedFd>,
    waiting: Vec<TimedEvent>,
    /// Pages of a ring, if that is permitted.
    pages: usize,
    /// Records that were lost.
    pub lost: u64,
}

impl ThreadEvents {
    /// Of what this thread will start, from its exec on. `pages`: those of each ring, if not as many as usual.
    ///
    /// # Errors
    /// Why the kernel refuses it, and what would help.
    pub fn of_children(pages: Option<usize>) -> Result<Self, String> {
        let mut events = Self { pages: pages.unwrap_or(MOST_PAGES), ..Self::of_none()? };
        events.follow(0, true).map_err(|error| refusal(&error))?;
        // If children inherited all events, the kernel could exchange them for those of this thread when it switches between
        // the two (kernel/events/core.c, `context_equiv`): the exec of one child would enable this thread's, and those of the next
        // child never.
        let mut not_inherited = attributes(false);
        not_inherited.set_inherit(0);
        not_inherited.set_disabled(1);
        events._others.push(calls::open_event(&mut not_inherited, 0, -1).map_err(|error| refusal(&error))?);
        Ok(events)
    }

    /// Of no thread yet.
    ///
    /// # Errors
    /// If the CPUs are not known.
    pub fn of_none() -> Result<Self, String> {
        let cpus = attach::online_cpus().map_err(|error| format!("{error:#}"))?;
        Ok(Self {
            cpus,
            rings: Vec::new(),
            latest: Vec::new(),
            _others: Vec::new(),
            waiting: Vec::new(),
            pages: MOST_PAGES,
            lost: 0,
        })
    }

    /// Also of these threads, from now on.
    ///
    /// # Errors
    /// Why the kernel refuses it, and what would help.
    pub fn follow_threads(&mut self, tids: impl Iterator<Item = u32>) -> Result<(), String> {
        for tid in tids {
            match self.follow(tid, false) {
                // It has just ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                followed => followed.map_err(|error| refusal(&error))?,
            }
        }
        Ok(())
    }

    /// An inherited event has one ring for each CPU.
    fn follow(&mut self, tid: u32, after_exec: bool) -> io::Result<()> {
        let mut attributes = attributes(after_exec);
        for (place, cpu) in self.cpus.iter().enumerate() {
            let pid = i32::try_from(tid).unwrap_or(i32::MAX);
            let event = calls::open_event(&mut attributes, pid, i32::try_from(*cpu).unwrap_or(i32::MAX))?;
            match self.rings.get(place) {
                Some(ring) => {
                    // SAFETY: both descriptors are open perf events.
                    let failed = unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), ring.event().as_raw_fd()) };
                    if failed != 0 {
                        return Err(io::Error::last_os_error());
                    }
                    self._others.push(event);
                }
                None => {
                    self.rings.push(mapped(event, self.pages)?);
                    self.latest.push(0);
                }
            }
        }
        Ok(())
    }

    /// Take what the rings hold, and return it in the order of time. They have room for about 8,000 switches of a CPU.
    pub fn read(&mut self) -> &[TimedEvent] {
        let before = self.waiting.len();
        for (ring, latest) in self.rings.iter_mut().zip(&mut self.latest) {
            let is_full = ring.drain(|record| match parse(&record) {
                Some(DecodedRecord::Event(event)) => {
                    *latest = event.at;
                    self.waiting.push(event);
                }
                Some(DecodedRecord::Lost(number)) => self.lost += number,
                None => {}
            });
            if is_full {
                let lost = |at| TimedEvent { at, pid: 0, tid: 0, event: ThreadEvent::Lost };
                self.waiting.extend([lost(*latest), lost(monotonic_ns())]);
            }
        }
        // Those of one moment stay in the order of their CPU.
        let new = &mut self.waiting[before..];
        new.sort_by_key(|event| event.at);
        new
    }

    /// The events that have been read, and wait for [`Self::until`].
    pub fn waiting(&self) -> &[TimedEvent] {
        &self.waiting
    }

    /// The events until `at` in the order of time. Events of before `at` have been written by now.
    pub fn until(&mut self, at: u64) -> Vec<TimedEvent> {
        self.read();
        self.waiting.sort_by_key(|event| event.at);
        let later = self.waiting.partition_point(|event| event.at <= at);
        let rest = self.waiting.split_off(later);
        std::mem::replace(&mut self.waiting, rest)
    }
}

fn attributes(after_exec: bool) -> perf::perf_event_attr {
    let mut attributes = calls::attributes(perf::PERF_TYPE_SOFTWARE);
    attributes.config = u64::from(perf::PERF_COUNT_SW_DUMMY);
    let sample = perf::PERF_SAMPLE_TID | perf::PERF_SAMPLE_TIME;
    attributes.sample_type = u64::from(sample);
    attributes.set_sample_id_all(1);
    attributes.set_inherit(1);
    attributes.set_task(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_context_switch(1);
    // Events of what the kernel does are for those who may see it.
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    attributes.set_use_clockid(1);
    attributes.clockid = libc::CLOCK_MONOTONIC;
    attributes.set_disabled(after_exec.into());
    attributes.set_enable_on_exec(after_exec.into());
    attributes
}

fn mapped(event: OwnedFd, mut pages: usize) -> io::Result<PerfRing> {
    loop {
        match PerfRing::new(event.try_clone()?, pages) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && pages > DATA_PAGES => pages /= 2,
            ring => return ring,
        }
    }
}

fn refusal(error: &io::Error) -> String {
    let level = read_lossy("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match (error.raw_os_error(), level.trim()) {
        (Some(libc::EACCES | libc::EPERM), level) if level.parse::<i64>().is_ok_and(|level| level > 2) => format!(
            "perf events are not permitted, because kernel.perf_event_paranoid is {level}: \
             run `sudo sysctl kernel.perf_event_paranoid=2`"
        ),
        (Some(libc::EACCES | libc::EPERM), "") => "this kernel has no perf events".to_owned(),
        (Some(libc::EACCES | libc::EPERM), level) => format!(
            "perf events are not permitted, although kernel.perf_event_paranoid is {level}: a container forbids \
             perf_event_open, or the processes are another user's"
        ),
        (Some(libc::ENOSYS | libc::ENOENT), _) => "this kernel has no perf events".to_owned(),
        (Some(libc::EMFILE), _) => {
            "too many threads for perf events of each on each CPU: raise the number of open files (`ulimit -n`)"
                .to_owned()
        }
        _ => format!("perf events cannot be opened: {error}"),
    }
}

enum DecodedRecord {
    Event(TimedEvent),
    Lost(u64),
}

/// A record that matters here. All of them end with process, thread and time, because of `sample_id_all`.
fn parse(record: &PerfRecord) -> Option<DecodedRecord> {
    let (body, of) = record.body.split_last_chunk::<16>()?;
    let number = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (own, at) = ([number(of, 0)?, number(of, 4)?], long(of, 8)?);
    let misc = u32::from(record.misc);
    let ([pid, tid], event) = match record.kind {
        // id, number
        perf::PERF_RECORD_LOST => return Some(DecodedRecord::Lost(long(body, 8)?)),
        // pid, ppid, tid, ptid, time
        perf::PERF_RECORD_FORK => {
            let (parent, by) = (number(body, 4)?, number(body, 12)?);
            ([number(body, 0)?, number(body, 8)?], ThreadEvent::Forked { parent, by })
        }
        perf::PERF_RECORD_EXIT => ([number(body, 0)?, number(body, 8)?], ThreadEvent::Ended),
        // pid, tid, name
        perf::PERF_RECORD_COMM if misc & perf::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            let name = body.get(8..)?.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            ([number(body, 0)?, number(body, 4)?], ThreadEvent::Executed(name))
        }
        perf::PERF_RECORD_SWITCH if misc & perf::PERF_RECORD_MISC_SWITCH_OUT == 0 => (own, ThreadEvent::Runs),
        perf::PERF_RECORD_SWITCH => {
            (own, ThreadEvent::Stops { preempted: misc & perf::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0 })
        }
        _ => return None,
    };
    Some(DecodedRecord::Event(TimedEvent { at, pid, tid, event }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as perf_event_open(2) describes it, of thread 8 of process 7 at 900 ns.
    fn record(kind: u32, misc: u32, words: &[u32], text: &[u8]) -> PerfRecord {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend(text);
        body.extend([7_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat());
        body.extend(900_u64.to_le_bytes());
        PerfRecord { kind, misc: misc as u16, body }
    }

    fn event(record: &PerfRecord) -> Option<(u32, u32, ThreadEvent)> {
        match parse(record) {
            Some(DecodedRecord::Event(event)) => {
                assert_eq!(event.at, 900);
                Some((event.pid, event.tid, event.event))
            }
            _ => None,
        }
    }

    #[test]
    fn records_are_decoded() {
        let stops = |preempted| Some((7, 8, ThreadEvent::Stops { preempted }));
        let [out, preempt] = [perf::PERF_RECORD_MISC_SWITCH_OUT, perf::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT];
        assert_eq!(event(&record(perf::PERF_RECORD_SWITCH, 0, &[], b"")), Some((7, 8, ThreadEvent::Runs)));
        assert_eq!(event(&record(perf::PERF_RECORD_SWITCH, out, &[], b"")), stops(false));
        assert_eq!(event(&record(perf::PERF_RECORD_SWITCH, out | preempt, &[], b"")), stops(true));
        let words = [20, 7, 21, 8, 900, 0];
        let forked = ThreadEvent::Forked { parent: 7, by: 8 };
        assert_eq!(event(&record(perf::PERF_RECORD_FORK, 0, &words, b"")), Some((20, 21, forked)));
        assert_eq!(event(&record(perf::PERF_RECORD_EXIT, 0, &words, b"")), Some((20, 21, ThreadEvent::Ended)));
        let name = record(perf::PERF_RECORD_COMM, perf::PERF_RECORD_MISC_COMM_EXEC, &[20, 21], b"gzip\0\0\0\0");
        assert_eq!(event(&name), Some((20, 21, ThreadEvent::Executed("gzip".to_owned()))));
        // A thread has named itself.
        assert_eq!(event(&PerfRecord { misc: 0, ..name }), None);
        let lost = parse(&record(perf::PERF_RECORD_LOST, 0, &[1, 0, 12, 0], b""));
        assert!(matches!(lost, Some(DecodedRecord::Lost(12))));
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_left_out() {
        for kind in 0..24 {
            for length in 0..40 {
                let body = vec![0; length];
                let _ = parse(&PerfRecord { kind, misc: u16::MAX, body });
            }
        }
        assert!(parse(&record(perf::PERF_RECORD_FORK, 0, &[20, 7, 21], b"")).is_none());
    }

    /// One may look at oneself up to `perf_event_paranoid` 2; root always.
    #[test]
    #[ignore = "needs perf events: make test"]
    fn a_child_is_seen_from_its_exec_to_its_end() {
        let mut events = ThreadEvents::of_children(None).unwrap();
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 0.02; true"]).spawn().unwrap();
        child.wait().unwrap();
        let seen = events.until(u64::MAX);
        assert_eq!(events.lost, 0);
        let of = |pid: u32| seen.iter().filter(move |event| event.pid == pid).map(|event| event.event.clone());
        let shell: Vec<ThreadEvent> = of(child.id()).collect();
        assert_eq!(shell.first(), Some(&ThreadEvent::Executed("sh".to_owned())), "{seen:#?}");
        assert!(shell.contains(&ThreadEvent::Stops { preempted: false }), "{seen:#?}");
        assert_eq!(shell.last(), Some(&ThreadEvent::Ended), "{seen:#?}");
        let is_sleep = |event: &&TimedEvent| event.event == ThreadEvent::Executed("sleep".to_owned());
        let sleep = seen.iter().find(is_sleep).unwrap().pid;
        let forked = ThreadEvent::Forked { parent: child.id(), by: child.id() };
        assert_eq!(of(sleep).next(), Some(forked), "{seen:#?}");
        assert!(seen.is_sorted_by_key(|event| event.at), "{seen:#?}");
        // Nothing of this process itself.
        assert_eq!(of(std::process::id()).count(), 0, "{seen:#?}");
    }

    #[test]
    #[ignore = "needs perf events: make test"]
    fn children_in_a_row_are_all_seen() {
        let mut events = ThreadEvents::of_children(None).unwrap();
        let spawn = |_| std::process::Command::new("true").spawn().unwrap();
        let mut children: Vec<std::process::Child> = (0..100).map(spawn).collect();
        for child in &mut children {
            child.wait().unwrap();
        }
        let seen = events.until(u64::MAX);
        let executed = ThreadEvent::Executed("true".to_owned());
        let is_seen =
            |child: &std::process::Child| seen.iter().any(|event| event.pid == child.id() && event.event == executed);
        assert_eq!(children.iter().filter(|child| is_seen(child)).count(), 100);
    }
}
