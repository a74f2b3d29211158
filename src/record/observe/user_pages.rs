//! Whether the pages of a user's pipes are used up: a new pipe holds two slots then (fs/pipe.c, `too_many_pipe_buffers_soft`).

use crate::record::observe::counted::RecordedCounts;
use crate::result::{DEFAULT_SLOTS, UserPipes};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A pipe of a user without pages has at most so many slots.
pub(crate) const LEAST_SLOTS: u64 = 2;

const SOFT_LIMIT: &str = "/proc/sys/fs/pipe-user-pages-soft";

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
    let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let soft_pages: u64 = fs::read_to_string(SOFT_LIMIT).ok()?.trim().parse().ok()?;
    let pipes = pipes_of(uid);
    (soft_pages > 0 && pipes * DEFAULT_SLOTS >= soft_pages).then_some(UserPipes { uid, pipes, soft_pages })
}

/// How many pipes the processes of a user have open.
fn pipes_of(uid: u32) -> u64 {
    let is_process = |name: &Path| name.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes =
        processes.filter(|entry| is_process(&entry.path()) && entry.metadata().is_ok_and(|of| of.uid() == uid));
    let descriptors =
        processes.flat_map(|process| fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten());
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let pipes = links.filter(|link| link.as_os_str().as_encoded_bytes().starts_with(b"pipe:"));
    pipes.collect::<BTreeSet<_>>().len() as u64
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
