//! Which files processes map as code: perf's records of mmap, exec and fork (perf_event_open(2)), of all processes of the
//! machine. Reading /proc/PID/maps misses processes that live shortly.

use super::attach;
use super::code_files::{FileIdentity, FileMapping};
use super::perf_ring::{DATA_PAGES, PerfRecord, PerfRing};
use crate::kernel::calls;
use anyhow::{Context as _, Result};
use perf_event_open_sys::bindings as perf;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Most events that are kept. What a busy machine starts in an hour has more.
const MOST: usize = 1 << 18;

/// A change of the code of a process. Ids are those of this process's PID namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CodeChange {
    Mapped {
        pid: u32,
        mapping: FileMapping,
    },
    /// It executes another program, whose name is this.
    Executed {
        pid: u32,
        name: Vec<u8>,
    },
    Forked {
        pid: u32,
        parent: u32,
    },
}

/// The events, while this exists.
#[derive(Debug)]
pub(crate) struct CodeMapEvents {
    rings: Vec<PerfRing>,
    /// With their times, ns.
    changes: Vec<(u64, CodeChange)>,
    lost: u64,
}

/// A kernel older than 5.12 does not give build ids.
fn open(attributes: &mut perf::perf_event_attr, cpu: i32) -> io::Result<OwnedFd> {
    attributes.set_build_id(1);
    calls::open_event(attributes, -1, cpu).or_else(|_| {
        attributes.set_build_id(0);
        calls::open_event(attributes, -1, cpu)
    })
}

impl CodeMapEvents {
    /// Begin, on all CPUs.
    pub(crate) fn start() -> Result<Self> {
        let ring = |cpu: u32| -> Result<PerfRing> {
            let mut attributes = calls::attributes(perf::PERF_TYPE_SOFTWARE);
            attributes.config = u64::from(perf::PERF_COUNT_SW_DUMMY);
            attributes.sample_type = u64::from(perf::PERF_SAMPLE_TIME);
            attributes.set_sample_id_all(1);
            attributes.set_mmap(1);
            attributes.set_mmap2(1);
            attributes.set_comm(1);
            attributes.set_comm_exec(1);
            attributes.set_task(1);
            Ok(PerfRing::new(open(&mut attributes, i32::try_from(cpu)?)?, DATA_PAGES)?)
        };
        let rings = attach::online_cpus()?.into_iter().map(ring).collect::<Result<_>>();
        Ok(Self { rings: rings.context("perf's records of mmap")?, changes: Vec::new(), lost: 0 })
    }

    /// Read what has happened, and return it in any order. The rings have room for about a thousand changes per CPU.
    pub(crate) fn step(&mut self) -> impl Iterator<Item = &CodeChange> {
        let before = self.changes.len();
        for ring in &mut self.rings {
            ring.drain(|record| match parse(&record) {
                Some(Parsed::Change(time, change)) if self.changes.len() < MOST => self.changes.push((time, change)),
                Some(Parsed::Change(..)) => self.lost += 1,
                Some(Parsed::Lost(number)) => self.lost += number,
                None => {}
            });
        }
        self.changes[before..].iter().map(|(_, change)| change)
    }

    /// All changes in the order of time, and the number of those that were lost.
    pub(crate) fn finish(mut self) -> (Vec<CodeChange>, u64) {
        let _ = self.step();
        self.changes.sort_by_key(|(time, _)| *time);
        (self.changes.into_iter().map(|(_, change)| change).collect(), self.lost)
    }
}

enum Parsed {
    Change(u64, CodeChange),
    Lost(u64),
}

/// A record that matters here. All of them end with the time, because of `sample_id_all`.
fn parse(record: &PerfRecord) -> Option<Parsed> {
    let (body, time) = record.body.split_last_chunk::<8>()?;
    let time = u64::from_le_bytes(*time);
    let word = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let text = |at: usize| Some(body.get(at..)?.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
    let change = match record.kind {
        // id, number
        perf::PERF_RECORD_LOST => return Some(Parsed::Lost(long(8)?)),
        // pid, tid, name
        perf::PERF_RECORD_COMM if u32::from(record.misc) & perf::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            CodeChange::Executed { pid: word(0)?, name: text(8)? }
        }
        // pid, ppid, tid, ptid, time; also for new threads
        perf::PERF_RECORD_FORK => {
            let (pid, parent) = (word(0)?, word(4)?);
            (pid != parent).then_some(CodeChange::Forked { pid, parent })?
        }
        // pid, tid, address, length, offset, build id or device and inode, protection, flags, name
        perf::PERF_RECORD_MMAP2 => {
            let name = text(64)?;
            // Not of a file: [vdso], //anon.
            (name.starts_with(b"/") && !name.starts_with(b"//")).then_some(())?;
            let (start, length) = (long(8)?, long(16)?);
            let file = if u32::from(record.misc) & perf::PERF_RECORD_MISC_MMAP_BUILD_ID == 0 {
                FileIdentity::Inode { major: word(32)?, minor: word(36)?, inode: long(40)? }
            } else {
                FileIdentity::BuildId(body.get(36..)?.get(..usize::from(*body.get(32)?))?.to_vec())
            };
            let mapping = FileMapping {
                start,
                end: start.saturating_add(length),
                offset: long(24)?,
                path: PathBuf::from(OsStr::from_bytes(&name)),
                file,
            };
            CodeChange::Mapped { pid: word(0)?, mapping }
        }
        _ => return None,
    };
    Some(Parsed::Change(time, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root: make test"]
    fn a_program_and_its_libraries_are_seen() {
        let mut events = CodeMapEvents::start().unwrap();
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        let _ = events.step();
        let (changes, lost) = events.finish();
        let pid = child.id();
        let own: Vec<&CodeChange> = changes
            .iter()
            .filter(|change| match change {
                CodeChange::Mapped { pid: of, .. }
                | CodeChange::Executed { pid: of, .. }
                | CodeChange::Forked { pid: of, .. } => *of == pid,
            })
            .collect();
        let place = |wanted: &dyn Fn(&CodeChange) -> bool| own.iter().position(|change| wanted(change));
        let executed = place(&|change| matches!(change, CodeChange::Executed { name, .. } if name == b"true"));
        let mapped =
            place(&|change| matches!(change, CodeChange::Mapped { mapping, .. } if mapping.path.ends_with("bin/true")));
        let library = place(&|change| {
            matches!(change, CodeChange::Mapped { mapping, .. }
                if mapping.path.to_string_lossy().contains("libc") && mapping.end > mapping.start)
        });
        assert!(executed.is_some() && executed < mapped && mapped < library, "{own:?}");
        assert_eq!(lost, 0);
    }

    #[test]
    fn damaged_records_are_left_out() {
        let record = |kind, misc, body: &[u8]| PerfRecord { kind, misc, body: body.to_vec() };
        for kind in [perf::PERF_RECORD_LOST, perf::PERF_RECORD_COMM, perf::PERF_RECORD_FORK, perf::PERF_RECORD_MMAP2] {
            for length in 0..80 {
                let exec = u16::try_from(perf::PERF_RECORD_MISC_COMM_EXEC).unwrap();
                let _ = parse(&record(kind, exec, &vec![0xff; length]));
            }
        }
        let mut body = vec![0; 64];
        body[0] = 7;
        body.extend(b"//anon\0\0");
        body.extend(5u64.to_le_bytes());
        assert!(parse(&record(perf::PERF_RECORD_MMAP2, 0, &body)).is_none());
        body[64..72].copy_from_slice(b"/a/b\0\0\0\0");
        let Some(Parsed::Change(5, CodeChange::Mapped { pid: 7, mapping })) =
            parse(&record(perf::PERF_RECORD_MMAP2, 0, &body))
        else {
            panic!("not parsed");
        };
        assert_eq!(mapping.path, PathBuf::from("/a/b"));
    }
}
