//! Shares of call trees: ours and the articles', frames matched across kernels. Pure.

use super::facts::Fact;
use crate::kernel::roles;
use crate::profile::Folded;
use anyhow::{Context as _, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A profile that an article printed whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Printed {
    pub id: &'static str,
    pub title: &'static str,
    text: &'static str,
}

/// Article B: `zeroes`, write(2) of 32 KiB into pv, which splices. The writer.
pub const ZEROES: Printed = Printed {
    id: "zeroes",
    title: "write(2) into pv",
    text: include_str!("../../tests/data/articles/santos_zeroes_pv.folded"),
};

/// Article B: vmsplice from huge pages in a busy loop into a splicing reader. The writer.
pub const VMSPLICE: Printed = Printed {
    id: "vmsplice",
    title: "vmsplice, huge pages, busy loop",
    text: include_str!("../../tests/data/articles/santos_vmsplice.folded"),
};

impl Printed {
    /// Its stacks.
    ///
    /// # Errors
    /// Never in a build whose tests passed.
    pub fn stacks(&self) -> Result<Folded> {
        Folded::parse(self.text)
            .with_context(|| format!("the stacks of article B built into this program: {}", self.id))
    }
}

/// Per cent of all weight that `fact`'s frames are part of: each stack counts once. `None` of an empty profile.
#[must_use]
pub fn share<'a>(profiles: impl IntoIterator<Item = &'a Folded>, fact: &Fact) -> Option<f64> {
    let (mut part, mut whole) = (0u64, 0u64);
    for (stack, weight) in profiles.into_iter().flat_map(Folded::iter) {
        whole += weight;
        if holds(stack, fact) {
            part += weight;
        }
    }
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

/// Whether `stack` is one of those that `fact` counts.
#[must_use]
pub fn holds(stack: &str, fact: &Fact) -> bool {
    shown(&restored(stack), fact)
}

/// [`holds`] by the frames alone that the stack shows.
#[must_use]
pub fn shown(stack: &str, fact: &Fact) -> bool {
    let names: Vec<&str> = stack.split(';').map(roles::canonical).collect();
    let of = |wanted: &[String], from: usize| {
        names[from..].iter().position(|name| wanted.iter().any(|w| roles::canonical(w) == *name)).map(|at| from + at)
    };
    let Some(start) = (if fact.under.is_empty() { Some(0) } else { of(&fact.under, 0) }) else { return false };
    let Some(at) = of(&fact.frames, start) else { return false };
    fact.but.is_empty() || of(&fact.but, at).is_none()
}

/// The deepest frame of `stack` that is one of `names` on any kernel, as this kernel calls it.
#[must_use]
pub fn deepest<'a>(stack: &'a str, names: &[String]) -> Option<&'a str> {
    let is = |frame: &&str| names.iter().any(|name| roles::canonical(name) == roles::canonical(frame));
    stack.rsplit(';').find(is).map(roles::base_name)
}

/// Where `__wake_up_sync_key` releases the wait queue's lock by a tail call, its own frame is gone when interrupts come
/// back on.
const WAKE: &str = "__wake_up_sync_key";
const RELEASE: &str = "_raw_spin_unlock_irqrestore";

/// `stack` with the wake-up's frame put back where a tail call took it away: of what pipe_write and pipe_read do, only
/// wait queues' locks are released by `_raw_spin_unlock_irqrestore`, and the one that takes time is held to wake up the
/// other side.
#[must_use]
pub fn restored(stack: &str) -> Cow<'_, str> {
    let Some((above, below)) = stack.split_once(&format!(";{RELEASE}")) else { return Cow::Borrowed(stack) };
    let caller = roles::canonical(above.rsplit(';').next().unwrap_or(above));
    let whole_name = below.is_empty() || below.starts_with(';');
    if whole_name && matches!(caller, "pipe_write" | "pipe_read") {
        return Cow::Owned(format!("{above};{WAKE};{RELEASE}{below}"));
    }
    Cow::Borrowed(stack)
}

/// Shares, 0 to 1, of the roles in which time was spent, wherever its samples landed: what cpu-clock found only when
/// interrupts came back on was spent by the caller that had them off.
#[must_use]
pub fn spent(folded: &Folded) -> BTreeMap<&'static str, f64> {
    let total = folded.total().max(1) as f64;
    let mut shares = BTreeMap::new();
    for (stack, weight) in folded.iter() {
        *shares.entry(roles::of_stack(&restored(stack)).0.id).or_insert(0.0) += weight as f64 / total;
    }
    shares
}

/// Weight of all stacks that hold a frame called `name` on any kernel.
#[must_use]
pub fn inclusive(folded: &Folded, name: &str) -> u64 {
    let name = roles::canonical(name);
    folded.iter().filter(|(stack, _)| stack.split(';').any(|f| roles::canonical(f) == name)).map(|(_, w)| w).sum()
}

/// Weight of all stacks that end in a frame called `name` on any kernel.
#[must_use]
pub fn leaf(folded: &Folded, name: &str) -> u64 {
    let name = roles::canonical(name);
    let last = |stack: &str| stack.rsplit(';').next().map(roles::canonical) == Some(name);
    folded.iter().filter(|(stack, _)| last(stack)).map(|(_, weight)| weight).sum()
}

/// Per cent of each role.
#[must_use]
pub fn by_role(folded: &Folded, skew: roles::Skew) -> BTreeMap<&'static str, f64> {
    let total = folded.total().max(1) as f64;
    let mut shares = BTreeMap::new();
    for (stack, weight) in folded.iter() {
        *shares.entry(roles::of_stack_with(stack, skew).0.id).or_insert(0.0) += weight as f64 / total * 100.0;
    }
    shares
}

/// The same stacks from the system call's own function down, under one name per function whatever the kernel calls
/// it: what two programs on two kernels have in common. User code and what is on top of the system call are one
/// frame each.
#[must_use]
pub fn aligned(folded: &Folded) -> Folded {
    const TOPS: [&str; 6] =
        ["pipe_write", "pipe_read", "__do_sys_vmsplice", "__do_sys_splice", "vfs_write", "ksys_write"];
    let mut aligned = Folded::new();
    for (stack, weight) in folded.iter() {
        let names: Vec<&str> = stack.split(';').map(roles::canonical).collect();
        let top = TOPS.iter().find_map(|top| names.iter().position(|name| name == top));
        let entry = names.iter().position(|name| roles::is_kernel_entry(name));
        match (top, entry) {
            (Some(top), _) => aligned.add_frames(names[top..].iter().copied(), weight),
            (None, Some(_)) => aligned.add("(entry, exit and above)", weight),
            (None, None) => aligned.add("(user)", weight),
        }
    }
    aligned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::facts::Facts;

    #[test]
    fn the_headline_shares_follow_from_the_printed_stacks() {
        // The article rounds, and counts a symbol's self time together with its callees', as is done here.
        let facts = Facts::load().unwrap();
        for (table, printed) in [("B.profile.write", ZEROES), ("B.profile.vmsplice", VMSPLICE)] {
            let stacks = printed.stacks().unwrap();
            for fact in &facts.table(table).unwrap().rows {
                let share = share([&stacks], fact).unwrap();
                let theirs = fact.value.unwrap();
                assert!((share - theirs).abs() < 1.0, "{}: {share:.2} of the stacks, {theirs} printed", fact.id);
            }
        }
    }

    fn fact(frames: &[&str], under: &[&str], but: &[&str]) -> Fact {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Fact {
            id: String::new(),
            what: String::new(),
            value: None,
            frames: list(frames),
            under: list(under),
            but: list(but),
            caller: Vec::new(),
            judge: crate::reproduce::facts::Judge::AtMost { at_most: 1.0 },
        }
    }

    #[test]
    fn frames_count_once_and_only_where_they_stand() {
        let folded = Folded::parse(
            "w;anon_pipe_write;alloc_pages_noprof;__alloc_frozen_pages_noprof 30\n\
             w;anon_pipe_write;alloc_pages_noprof 10\n\
             r;anon_pipe_read;schedule;schedule 20\n\
             w;anon_pipe_write;schedule 40\n",
        )
        .unwrap();
        let share = |fact: Fact| share([&folded], &fact).unwrap();
        assert_eq!(share(fact(&["pipe_write"], &[], &[])), 80.0);
        assert_eq!(share(fact(&["schedule"], &[], &[])), 60.0);
        assert_eq!(share(fact(&["schedule"], &["pipe_write"], &[])), 40.0);
        assert_eq!(share(fact(&["alloc_pages"], &[], &["__alloc_pages"])), 10.0);
        assert_eq!(inclusive(&folded, "__alloc_pages"), 30);
        assert_eq!(leaf(&folded, "alloc_pages"), 10);
        assert_eq!(super::share([&Folded::new()], &fact(&["x"], &[], &[])), None);
    }

    #[test]
    fn a_wake_up_hidden_by_a_tail_call_is_put_back() {
        let entry = "w;entry_SYSCALL_64_after_hwframe";
        let whole = |text: &str| restored(&format!("{entry};{text}")).replacen(&format!("{entry};"), "", 1);
        let wake = "anon_pipe_write;__wake_up_sync_key;_raw_spin_unlock_irqrestore";
        assert_eq!(whole("anon_pipe_write;_raw_spin_unlock_irqrestore"), wake);
        assert_eq!(
            whole("pipe_read;_raw_spin_unlock_irqrestore;asm_x"),
            "pipe_read;__wake_up_sync_key;_raw_spin_unlock_irqrestore;asm_x"
        );
        for same in [wake, "pipe_wait_readable;_raw_spin_unlock_irqrestore", "pipe_write;_raw_spin_unlock_irq"] {
            assert_eq!(whole(same), same);
        }
    }

    #[test]
    fn time_with_interrupts_off_is_the_callers() {
        let entry = "w;entry_SYSCALL_64_after_hwframe";
        let folded = Folded::parse(&format!(
            "{entry};__do_sys_vmsplice;__wake_up;_raw_spin_unlock_irqrestore 60\n\
             {entry};anon_pipe_write;_raw_spin_unlock_irqrestore 20\n\
             {entry};anon_pipe_write;schedule;__schedule;finish_task_switch.isra.0 20\n"
        ))
        .unwrap();
        assert_eq!(spent(&folded), BTreeMap::from([("scheduler", 0.2), ("wake-up", 0.8)]));
        assert_eq!(by_role(&folded, roles::Skew::CpuClock), BTreeMap::from([(roles::IRQ_OFF, 100.0)]));
    }

    #[test]
    fn aligned_stacks_lose_nothing() {
        for printed in [ZEROES, VMSPLICE] {
            let stacks = printed.stacks().unwrap();
            assert_eq!(aligned(&stacks).total(), stacks.total());
        }
        let ours = Folded::parse("pipeprof;main;[kernel];x;anon_pipe_write;clear_page_erms 5\nmain 2\n").unwrap();
        assert_eq!(aligned(&ours).to_text(), "(user) 2\npipe_write;clear_page 5\n");
    }
}
