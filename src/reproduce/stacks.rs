//! Shares of call trees of this machine and of the articles; frames are matched across kernels. Pure.

use super::facts::{ArticleTable, Fact, Judge};
use crate::profile::{Attributor, CallStack, Folded, attribution};
use crate::result::{Collector, CollectorReport, Document};
use crate::roles::{self, RoleId, Skid};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;

/// The writer's stacks that article B published as `id`, a profile of `parts.toml`.
pub fn published(id: &str) -> Result<Folded> {
    let text = match id {
        "zeroes" => include_str!("articles/santos_zeroes_pv.folded"),
        "vmsplice" => include_str!("articles/santos_vmsplice.folded"),
        _ => bail!("no stacks are built in as {id}"),
    };
    Folded::parse(text).with_context(|| format!("invalid built-in stacks: {id}"))
}

/// Weight of all stacks with `fact`'s frames; each stack counts once. Frames that tail calls hide are restored in samples of
/// cpu-clock.
pub fn weight(profile: &Folded, skid: Skid, fact: &Fact) -> u64 {
    let attributor = Attributor::new(profile, skid);
    profile.iter().filter(|(stack, _)| holds(attributor.restored(stack.frames()), fact)).map(|(_, weight)| weight).sum()
}

/// Whether `fact` counts the stack of these frames.
fn holds(frames: Vec<&str>, fact: &Fact) -> bool {
    let names: Vec<&str> = frames.into_iter().map(roles::canonical).collect();
    let of = |wanted: &[String], from: usize| {
        names[from..].iter().position(|name| wanted.iter().any(|w| roles::canonical(w) == *name)).map(|at| from + at)
    };
    let Some(start) = (if fact.under.is_empty() { Some(0) } else { of(&fact.under, 0) }) else { return false };
    let Some(at) = of(&fact.frames, start) else { return false };
    fact.but.is_empty() || of(&fact.but, at).is_none()
}

/// The deepest frame of `stack` that is one of `names` on any kernel, by its name on this kernel.
pub fn deepest<'a>(stack: CallStack<'a>, names: &[String]) -> Option<&'a str> {
    let is = |frame: &&str| names.iter().any(|name| roles::canonical(name) == roles::canonical(frame));
    stack.frames().rev().find(is).map(roles::base_name)
}

/// Share of each role, 0 to 1.
pub fn shares(folded: &Folded, skid: Skid) -> BTreeMap<RoleId, f64> {
    let total = folded.total().max(1) as f64;
    let weights = attribution::by_role(folded, skid);
    weights.into_iter().map(|(role, weight)| (role, weight as f64 / total)).collect()
}

/// Weight of all stacks with a frame called `name` on any kernel: the function's total.
pub fn total(folded: &Folded, name: &str) -> u64 {
    let name = roles::canonical(name);
    folded.iter().filter(|(stack, _)| stack.frames().any(|f| roles::canonical(f) == name)).map(|(_, w)| w).sum()
}

/// Weight of all stacks that end in a frame called `name` on any kernel: the function's self weight.
pub fn own(folded: &Folded, name: &str) -> u64 {
    let name = roles::canonical(name);
    folded.iter().filter(|(stack, _)| roles::canonical(stack.leaf()) == name).map(|(_, weight)| weight).sum()
}

/// The skid of the samples of a run.
pub fn skid(document: &Document) -> Skid {
    let of = |report: &CollectorReport| report.skid.filter(|_| report.name == Collector::Sample);
    document.collectors.iter().find_map(of).unwrap_or_default()
}

/// The stack of what an article's graph does not list.
pub(crate) const UNLISTED: &str = "(not listed)";

/// Whether a row repeats another one.
pub fn again(fact: &Fact) -> bool {
    matches!(fact.judge, Judge::SameAs { .. })
}

/// The stacks of a call graph of which an article lists frames with their shares, in hundredths of a per cent: the weight of
/// each frame is its share without those listed below it.
pub fn listed(table: &ArticleTable) -> Folded {
    let rows = || table.rows.iter().filter(|row| !again(row));
    let weight = |share: f64| (share.max(0.0) * 100.0).round() as u64;
    let mut folded = Folded::new();
    let mut total = 0;
    for row in rows() {
        let below: f64 = rows().filter(|other| other.parent == row.id).filter_map(|other| other.value).sum();
        let mut path: Vec<&str> = Vec::new();
        let mut at = Some(row);
        while let Some(fact) = at {
            path.extend(fact.frames.first().map(String::as_str));
            at = rows().find(|other| other.id == fact.parent);
            // The outermost frame is libc's, and it calls the kernel.
            if at.is_none() {
                path.insert(path.len() - 1, "entry_SYSCALL_64_after_hwframe");
            }
        }
        path.reverse();
        let own = weight(row.value.unwrap_or_default() - below);
        total += own;
        folded.add_frames(path, own);
    }
    folded.add(UNLISTED, weight(100.0).saturating_sub(total));
    folded
}

/// The `frames` of a stack, root first, down to the deepest one that is a leaf of `table`: the article's share of that
/// frame includes its callees.
pub(crate) fn as_listed<'a>(
    frames: impl Iterator<Item = &'a str>,
    attributor: Attributor,
    table: &ArticleTable,
) -> Vec<&'a str> {
    let mut frames = attributor.restored(frames);
    let ends = |name: &str| {
        table.rows.iter().filter(|row| !again(row)).any(|row| {
            let named = row.frames.iter().any(|frame| roles::canonical(frame) == roles::canonical(name));
            named && !table.rows.iter().any(|below| below.parent == row.id)
        })
    };
    let end = frames.iter().rposition(|name| ends(name)).map_or(frames.len(), |at| at + 1);
    frames.truncate(end);
    frames
}

/// The same stacks from the function of the system call down, with one name per function for all kernels: what two programs
/// on two kernels have in common. User code is one frame, and so is everything above the system call's function.
pub fn aligned(folded: &Folded) -> Folded {
    const TOPS: [&str; 6] =
        ["pipe_write", "pipe_read", "__do_sys_vmsplice", "__do_sys_splice", "vfs_write", "ksys_write"];
    let mut aligned = Folded::new();
    for (stack, weight) in folded.iter() {
        let names: Vec<&str> = stack.frames().map(roles::canonical).collect();
        let top = TOPS.iter().find_map(|top| names.iter().position(|name| name == top));
        let entry = names.iter().position(|name| roles::is_kernel_entry(name));
        match (top, entry) {
            (Some(top), _) => aligned.add_frames(names[top..].iter().copied(), weight),
            (None, Some(_)) => aligned.add("(system call entry and exit)", weight),
            (None, None) => aligned.add("(user)", weight),
        }
    }
    aligned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::facts::Facts;
    use crate::reproduce::parts::data::PartsData;

    #[test]
    fn the_headline_shares_follow_from_the_printed_stacks() {
        // The article rounds, and its shares include callees, as here.
        let facts = Facts::load().unwrap();
        for profile in &PartsData::get().unwrap().profiles.published {
            let stacks = published(&profile.id).unwrap();
            for fact in &facts.table(&profile.table).unwrap().rows {
                let share = share(&stacks, Skid::None, fact);
                let theirs = fact.value.unwrap();
                assert!((share - theirs).abs() < 1.0, "{}: {share:.2} of the stacks, {theirs} printed", fact.id);
            }
        }
    }

    /// Percentage of the stacks that `fact` counts.
    fn share(folded: &Folded, skid: Skid, fact: &Fact) -> f64 {
        weight(folded, skid, fact) as f64 / folded.total() as f64 * 100.0
    }

    fn fact(frames: &[&str], under: &[&str], but: &[&str]) -> Fact {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Fact {
            id: String::new(),
            what: String::new(),
            name: None,
            value: None,
            frames: list(frames),
            under: list(under),
            but: list(but),
            caller: Vec::new(),
            parent: String::new(),
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
        let share = |fact: Fact| share(&folded, Skid::CpuClock, &fact);
        assert_eq!(share(fact(&["pipe_write"], &[], &[])), 80.0);
        assert_eq!(share(fact(&["schedule"], &[], &[])), 60.0);
        assert_eq!(share(fact(&["schedule"], &["pipe_write"], &[])), 40.0);
        assert_eq!(share(fact(&["alloc_pages"], &[], &["__alloc_pages"])), 10.0);
        assert_eq!(total(&folded, "__alloc_pages"), 30);
        assert_eq!(own(&folded, "alloc_pages"), 10);
        assert_eq!(weight(&Folded::new(), Skid::None, &fact(&["x"], &[], &[])), 0);
    }

    #[test]
    fn what_an_article_folded_into_a_frame_is_part_of_it() {
        let facts = Facts::load().unwrap();
        let table = facts.table("A.graph.4").unwrap();
        let entry = ["w", "entry_SYSCALL_64_after_hwframe", "__do_sys_vmsplice"];
        let none = Attributor::new(&Folded::new(), Skid::None);
        let cut =
            |text: &str| as_listed(entry.into_iter().chain(text.split(';')), none, table)[entry.len()..].join(";");
        assert_eq!(cut("__mutex_lock.constprop.0;mutex_spin_on_owner"), "__mutex_lock.constprop.0");
        assert_eq!(cut("wait_for_space;pipe_wait_writable;schedule"), "wait_for_space;pipe_wait_writable");
        assert_eq!(cut("kill_fasync;x"), "kill_fasync;x");
        // A frame that is listed twice has what is listed below it all the same.
        let table = facts.table("A.graph.3").unwrap();
        let pages = "w;iov_iter_get_pages2;gup_fast_fallback;x";
        assert_eq!(as_listed(pages.split(';'), none, table).join(";"), pages);
    }

    #[test]
    fn listed_shares_are_stacks() {
        let facts = Facts::load().unwrap();
        let stacks = listed(facts.table("A.graph.1").unwrap());
        assert_eq!(stacks.total(), 10_000);
        let roles = shares(&stacks, Skid::None);
        let of = |role: RoleId| (roles[&role] * 10_000.0).round() / 100.0;
        assert_eq!(
            (of(RoleId::CopyIn), of(RoleId::PageAlloc), of(RoleId::WakeUp), of(RoleId::Wait)),
            (24.08, 12.5, 2.98, 0.66)
        );
        for id in ["A.graph.1", "A.graph.3", "A.graph.4"] {
            let table = facts.table(id).unwrap();
            let stacks = listed(table);
            for fact in table.rows.iter().filter(|fact| !again(fact)) {
                let (share, theirs) = (share(&stacks, Skid::None, fact), fact.value.unwrap());
                // __alloc_pages is called by alloc_pages, which the article lists apart.
                assert!((share - theirs).abs() < 0.02, "{}: {share} of the stacks, {theirs} listed", fact.id);
            }
        }
    }

    #[test]
    fn aligned_stacks_lose_nothing() {
        for profile in &PartsData::get().unwrap().profiles.published {
            let stacks = published(&profile.id).unwrap();
            assert_eq!(aligned(&stacks).total(), stacks.total());
        }
        let ours = Folded::parse("pipeprof;main;[kernel];x;anon_pipe_write;clear_page_erms 5\nmain 2\n").unwrap();
        assert_eq!(aligned(&ours).to_text(), "(user) 2\npipe_write;clear_page 5\n");
    }
}
