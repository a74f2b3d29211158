//! Whether the pages of a user's pipes are used up: a new pipe holds two slots then (fs/pipe.c, `too_many_pipe_buffers_soft`).

use crate::record::observe::counted::RecordedCounts;
use crate::record::start::open_files::{FileKind, open_files};
use crate::result::{DEFAULT_SLOTS, UserPipes};
use crate::util::process_stat;
use crate::util::text::read_lossy;
use std::collections::BTreeSet;

/// A pipe of a user without pages has at most so many slots.
pub(crate) const LEAST_SLOTS: u64 = 2;

/// Looks once, when the first such pipe is seen: later, others may be closed.
#[derive(Debug, Default)]
pub(crate) struct UserPages {
    looked: bool,
    pub(crate) found: Option<UserPipes>,
}

impl UserPages {
    /// Look, if one of these pipes is small.
    pub(crate) fn step(&mut self, counts: &RecordedCounts) {
        let is_small = |slots: u64| (1..=LEAST_SLOTS).contains(&slots);
        let small = counts.ends.iter().find(|(_, counts)| is_small(counts.first_slots));
        if let Some((end, _)) = small.filter(|_| !self.looked) {
            self.looked = true;
            self.found = used_up(end.who.tgid);
        }
    }
}

/// The pipes of the user of a process, if they have used up all pages.
fn used_up(pid: u32) -> Option<UserPipes> {
    let uid = user_of(pid)?;
    let soft_pages: u64 = read_lossy("/proc/sys/fs/pipe-user-pages-soft").ok()?.trim().parse().ok()?;
    let pipes = pipes_of(uid);
    (soft_pages > 0 && pipes * DEFAULT_SLOTS >= soft_pages).then_some(UserPipes { uid, pipes, soft_pages })
}

fn user_of(pid: u32) -> Option<u32> {
    Some(rustix::fs::stat(format!("/proc/{pid}")).ok()?.st_uid)
}

/// How many pipes the processes of a user have open.
fn pipes_of(uid: u32) -> u64 {
    let pids = process_stat::all().map(|(pid, _)| pid).filter(|pid| user_of(*pid) == Some(uid));
    let pipes = pids.filter_map(|pid| open_files(pid).ok()).flatten().filter_map(|file| match file.kind {
        FileKind::Pipe(pipe, None) => Some(pipe.inode),
        _ => None,
    });
    pipes.collect::<BTreeSet<u64>>().len() as u64
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_of_a_user_are_counted_once() {
        let uid = rustix::process::geteuid().as_raw();
        let kept: Vec<_> = (0..20).map(|_| std::io::pipe().unwrap()).collect();
        assert!(pipes_of(uid) >= kept.len() as u64);
        assert_eq!(pipes_of(u32::MAX - 1), 0, "no such user");
    }
}
