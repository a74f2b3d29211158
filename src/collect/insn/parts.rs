//! What each part of a window executed, by process and role, and how often its processes called, slept, were preempted, and
//! allocated or freed a page.

use super::contexts::{Contexts, entries, functions_of};
use super::names::Names;
use super::raw::{Raw, Root};
use crate::profile::{ByProcess, PartWork, ProcessName, WindowPart};
use crate::roles::{self, RoleId};

/// What a count adds to, once for each time.
#[derive(Clone, Copy)]
enum Adds {
    Call,
    Sleep,
    Preemption,
    Page(i64),
    Instructions(RoleId, u64),
}

/// The parts of `raw`, which identifies `processes` by number.
pub fn parts(raw: &Raw, names: &Names, processes: &[ProcessName]) -> Vec<WindowPart> {
    if raw.parts.is_empty() {
        return Vec::new();
    }
    let mut contexts = Contexts::new(raw, names);
    let mut adds: Vec<(usize, usize, Adds)> = Vec::new();
    for entry in entries(&mut contexts) {
        if matches!(entry.role, RoleId::PageAlloc | RoleId::PageFree) {
            adds.push((entry.count, entry.place, Adds::Page(entry.times)));
        }
    }
    for (index, count) in raw.counts.iter().enumerate() {
        let (Some(Root::Process(place) | Root::Unattributed(place)), Some(block)) =
            (raw.root(count.node), raw.blocks.get(count.block as usize))
        else {
            continue;
        };
        for (from, executed, _) in functions_of(count, &contexts.last_frames(count.node, count.block)) {
            let Some((address, _)) = block.instructions().nth(from.into()) else { continue };
            let role = contexts.role(count.node, Some(address));
            adds.push((index, place, Adds::Instructions(role, executed)));
            let function = names.function(address);
            if from >= count.from && function.start == Some(address) {
                match roles::base_name(&function.name) {
                    "do_syscall_64" | "do_el0_svc" => adds.push((index, place, Adds::Call)),
                    "__schedule" if contexts.preempts(count.node) => adds.push((index, place, Adds::Preemption)),
                    "__schedule" => adds.push((index, place, Adds::Sleep)),
                    _ => {}
                }
            }
        }
    }
    let part = |counts: &Vec<u32>| {
        let mut work = vec![PartWork::default(); processes.len()];
        let mut pages = vec![0; processes.len()];
        for (index, place, adds) in &adds {
            let (Some(times), Some(work)) = (counts.get(*index).copied().map(u64::from), work.get_mut(*place)) else {
                continue;
            };
            match adds {
                Adds::Call => work.calls += times,
                Adds::Sleep => work.sleeps += times,
                Adds::Preemption => work.preemptions += times,
                Adds::Page(sign) => pages[*place] += sign * i64::from(counts[*index]),
                Adds::Instructions(role, each) if times > 0 => *work.roles.entry(*role).or_default() += each * times,
                Adds::Instructions(..) => {}
            }
        }
        let pages = pages.into_iter().map(|pages| u64::try_from(pages).unwrap_or(0));
        let work = work.into_iter().zip(pages).map(|(work, pages)| PartWork { pages, ..work });
        processes.iter().copied().zip(work).collect::<ByProcess<PartWork>>()
    };
    raw.parts.iter().map(part).collect()
}
