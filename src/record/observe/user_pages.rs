//! Whether the pages of a user's pipes are used up: a new pipe holds two slots then (fs/pipe.c, `too_many_pipe_buffers_soft`).

use crate::record::observe::counted::RecordedCounts;
use crate::record::start::container;
use crate::record::start::open_files::{FileKind, open_files};
use crate::result::{DEFAULT_SLOTS, PipeHolder, UserPipes};
use crate::util::process_stat::{self, ProcessStat};
use crate::util::text::read_lossy;
use rustix::pipe::fcntl_getpipe_size;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A pipe of a user without pages has at most so many slots.
pub(crate) const LEAST_SLOTS: u64 = 2;

/// Processes with most pipes that are named.
const NAMED: usize = 3;

/// Looks once, when the first such pipe is seen: later, others may be closed.
#[derive(Debug, Default)]
pub(crate) struct UserPages {
    looked: bool,
    pub(crate) found: Option<UserPipes>,
}

impl UserPages {
    /// Look, if new pipes of this process are small, and so those of what it starts.
    pub(crate) fn look_at_new(&mut self) {
        if !self.looked && new_slots().is_some_and(|slots| slots <= LEAST_SLOTS) {
            self.looked = true;
            self.found = own();
        }
    }

    /// Look, if one of these pipes is small. `here`: the id of a process in this PID namespace.
    pub(crate) fn step(&mut self, counts: &RecordedCounts, here: impl Fn(u32) -> u32) {
        let is_small = |slots: u64| (1..=LEAST_SLOTS).contains(&slots);
        let small = counts.ends.iter().find(|(_, counts)| is_small(counts.first_slots));
        if let Some((end, _)) = small.filter(|_| !self.looked) {
            self.looked = true;
            self.found = user_of(here(end.who.tgid)).and_then(of_user).filter(is_used_up);
        }
    }
}

/// What the pipes of this user have used up, as far as they can be seen. `None` without a limit.
pub(crate) fn own() -> Option<UserPipes> {
    of_user(rustix::process::geteuid().as_raw())
}

/// Whether the pipes use up all pages. Those that are larger than usual are not known, but a new one tells it.
pub(crate) fn is_used_up(user: &UserPipes) -> bool {
    let is_own = user.uid == rustix::process::geteuid().as_raw();
    user.pipes * DEFAULT_SLOTS >= user.soft_pages || is_own && new_slots().is_some_and(|slots| slots <= LEAST_SLOTS)
}

/// The slots of a new pipe of this process.
fn new_slots() -> Option<u64> {
    let (reader, _writer) = std::io::pipe().ok()?;
    Some(fcntl_getpipe_size(&reader).ok()? as u64 / rustix::param::page_size() as u64)
}

fn of_user(uid: u32) -> Option<UserPipes> {
    let soft_pages: u64 = read_lossy("/proc/sys/fs/pipe-user-pages-soft").ok()?.trim().parse().ok()?;
    let (pipes, holders) = pipes_of(uid);
    (soft_pages > 0).then_some(UserPipes { uid, pipes, soft_pages, holders })
}

fn user_of(pid: u32) -> Option<u32> {
    Some(rustix::fs::stat(format!("/proc/{pid}")).ok()?.st_uid)
}

/// How many pipes the processes of a user have open, and those that have most.
fn pipes_of(uid: u32) -> (u64, Vec<PipeHolder>) {
    let mut all = BTreeSet::new();
    let mut of_processes: Vec<(u64, u32)> = Vec::new();
    for pid in process_stat::ids().filter(|pid| user_of(*pid) == Some(uid)) {
        let pipes = open_files(pid).into_iter().flatten().filter_map(|file| match file.kind {
            FileKind::Pipe(pipe, None) => Some(pipe.inode),
            _ => None,
        });
        let own: BTreeSet<u64> = pipes.collect();
        of_processes.push((own.len() as u64, pid));
        all.extend(own);
    }
    of_processes.sort_unstable_by_key(|(pipes, pid)| (Reverse(*pipes), *pid));
    let holder = |(pipes, pid): (u64, u32)| {
        let name = ProcessStat::of(pid)?.name;
        Some(PipeHolder { pid, name, container: container::of_process(pid), pipes })
    };
    let most = of_processes.into_iter().filter(|(pipes, _)| *pipes > 0).take(NAMED);
    (all.len() as u64, most.filter_map(holder).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_of_a_user_are_counted_once() {
        let uid = rustix::process::geteuid().as_raw();
        let kept: Vec<_> = (0..20).map(|_| std::io::pipe().unwrap()).collect();
        let (pipes, holders) = pipes_of(uid);
        assert!(pipes >= kept.len() as u64);
        assert!(holders.len() <= NAMED && holders.is_sorted_by_key(|holder| Reverse(holder.pipes)), "{holders:?}");
        assert!(holders[0].pipes >= kept.len() as u64, "{holders:?}");
        assert_eq!(pipes_of(u32::MAX - 1), (0, Vec::new()), "no such user");
    }

    #[test]
    fn pages_are_used_up_by_many_pipes() {
        let user = |pipes| UserPipes { uid: u32::MAX - 1, pipes, soft_pages: 16_384, holders: Vec::new() };
        assert!(!is_used_up(&user(1023)) && is_used_up(&user(1024)));
    }
}
