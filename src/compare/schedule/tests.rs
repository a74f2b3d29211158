use super::*;
use crate::compare::exact::{is_certain_role, verdict};
use crate::compare::model::Word;
use crate::process::{Phase, Processes};
use crate::profile::{Folded, Profile, Unit};
use crate::result::{Attribution, Document, Ensemble, MeasuredTarget, Outcome, PairRecord, ProcessTotals, WindowCount};
use crate::roles::Skid;
use crate::workload::Spec;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// Calls of each process in a part, 4 KiB each, and parts of a window.
const CALLS: u64 = 32;
const PARTS: u64 = 128;

/// A kernel as 6.12 is with buffers of 4 KiB, and how its processes are scheduled.
#[derive(Clone, Copy)]
struct Modelled {
    /// The fewest and the most preemptions of the writer in a part, which sleeps once or twice.
    preemptions: [u64; 2],
    /// Instructions for each freed page in addition.
    planted: u64,
    /// Pages that are reused after each switch.
    reused: u64,
    /// With more switches in a part, turns are so short that only each second one of these reuses pages.
    long_turns: u64,
    /// Pages that the writer allocates in one call.
    bulk: u64,
    /// Each call takes several turns, so that a part has as much of the reader's work as it has switches.
    large_calls: bool,
}

const PLAIN: Modelled =
    Modelled { preemptions: [3, 7], planted: 0, reused: 1, long_turns: u64::MAX, bulk: 1, large_calls: false };

/// The stacks of the roles of the writer and the reader.
const STACKS: [&[(RoleId, &str)]; 2] = [
    &[
        (RoleId::PageAlloc, "ksys_write;vfs_write;pipe_write;__alloc_pages"),
        (RoleId::MemcgCharge, "ksys_write;vfs_write;pipe_write;__alloc_pages;__memcg_kmem_charge_page"),
        (RoleId::Mutex, "ksys_write;vfs_write;pipe_write;mutex_lock"),
        (RoleId::PipeWrite, "ksys_write;vfs_write;pipe_write"),
        (RoleId::CopyIn, "ksys_write;vfs_write;pipe_write;copy_page_from_iter"),
        (RoleId::Timestamps, "ksys_write;vfs_write;pipe_write;file_update_time"),
    ],
    &[
        (RoleId::PageFree, "ksys_read;vfs_read;pipe_read;free_unref_page"),
        (RoleId::MemcgUncharge, "ksys_read;vfs_read;pipe_read;__mem_cgroup_uncharge"),
        (RoleId::Mutex, "ksys_read;vfs_read;pipe_read;mutex_lock"),
        (RoleId::PipeRead, "ksys_read;vfs_read;pipe_read"),
        (RoleId::CopyOut, "ksys_read;vfs_read;pipe_read;copy_page_to_iter"),
    ],
];

fn part(kernel: Modelled, random: &mut SmallRng) -> WindowPart {
    let sleeps = random.random_range(1..=2);
    let preemptions = random.random_range(kernel.preemptions[0]..=kernel.preemptions[1]);
    let switches = sleeps + preemptions;
    let long = switches.min(kernel.long_turns);
    let pages = CALLS - (kernel.reused * (long + (switches - long) / 2)).min(CALLS);
    // Time stamps change with the tick, whatever the processes do.
    let tick = 250 * random.random_range(0..=1);
    let writer = [
        (RoleId::PageAlloc, 613 * pages),
        (RoleId::MemcgCharge, 290 * pages),
        (RoleId::Mutex, 25 * (CALLS + sleeps)),
        (RoleId::PipeWrite, 162 * CALLS + 120 * sleeps),
        (RoleId::CopyIn, 130 * CALLS),
        (RoleId::Timestamps, 107 * CALLS + tick),
    ];
    let reader = [
        (RoleId::PageFree, 331 * pages),
        (RoleId::MemcgUncharge, 369 * pages),
        (RoleId::Mutex, 25 * (CALLS + switches)),
        (RoleId::PipeRead, 120 * CALLS + 90 * switches + kernel.planted * pages),
        (RoleId::CopyOut, 132 * CALLS),
    ];
    let writer = PartWork { calls: CALLS, sleeps, preemptions, pages: pages / kernel.bulk, roles: writer.into() };
    let reader = PartWork { calls: CALLS, sleeps: switches, preemptions: 0, pages, roles: reader.into() };
    [(ProcessName::WRITER, writer), (ProcessName::READER, reader)].into_iter().collect()
}

/// The parts of a window.
fn window(kernel: Modelled, random: &mut SmallRng) -> Vec<WindowPart> {
    let mut parts: Vec<WindowPart> = (0..PARTS).map(|_| part(kernel, random)).collect();
    if kernel.large_calls {
        let switches = |part: &WindowPart| part.get(ProcessName::READER).map_or(0, |work| work.sleeps);
        let (all, mut done) = (parts.iter().map(switches).sum::<u64>(), 0);
        for part in &mut parts {
            let copied = |done| CALLS * PARTS * done / all;
            let from = copied(done);
            done += switches(part);
            part.get_or_default(ProcessName::READER).roles.insert(RoleId::CopyOut, 132 * (copied(done) - from));
        }
    }
    parts
}

/// The weight of the profile of a window: what all parts would be if they were as the weighed mean.
fn weighed(parts: &[WindowPart], of: impl Fn(&WindowPart) -> u64) -> u64 {
    let weight = |index: usize| ((2 * index + 1) as f64 * (2 * (parts.len() - index) - 1) as f64).powi(2);
    let sum: f64 = parts.iter().enumerate().map(|(index, part)| weight(index) * as_f64(of(part))).sum();
    let weights: f64 = (0..parts.len()).map(weight).sum();
    (sum / weights * parts.len() as f64).round() as u64
}

fn measure(kernel: Modelled, seed: u64) -> Measure {
    let mut random = SmallRng::seed_from_u64(seed);
    let parts: Vec<Vec<WindowPart>> = (0..5).map(|_| window(kernel, &mut random)).collect();
    let names = [ProcessName::WRITER, ProcessName::READER];
    let profile = |parts: &[WindowPart], process: usize| {
        let mut stacks = Folded::new();
        for (role, stack) in STACKS[process] {
            let weight = weighed(parts, |part| part.get(names[process]).unwrap().roles[role]);
            stacks.add(format!("entry_SYSCALL_64_after_hwframe;do_syscall_64;{stack}"), weight);
        }
        let collector = "insn".to_owned();
        Profile { process: names[process], collector, unit: Unit::Instructions, skid: Skid::None, stacks }
    };
    let windows: Vec<Vec<Profile>> = parts.iter().map(|parts| vec![profile(parts, 0), profile(parts, 1)]).collect();
    let totals = |calls| ProcessTotals { bytes: 4096 * CALLS * PARTS, calls, ..ProcessTotals::default() };
    // The reader's last call finds the end.
    let processes = Processes::of_pair(totals(CALLS * PARTS), totals(CALLS * PARTS + 1), 0);
    let count = |profiles: &Vec<Profile>| WindowCount::of(Phase(0), 1, profiles);
    let document = Document {
        target: MeasuredTarget::Pair { workload: Spec::default() },
        unit: Unit::Instructions,
        attribution: Attribution { collector: "insn".to_owned(), ..Attribution::default() },
        ensemble: Some(Ensemble::new(windows.iter().map(count).collect())),
        runs: vec![PairRecord { processes: processes.clone(), ..PairRecord::default() }; windows.len()],
        processes,
        ..Document::default()
    };
    Measure::of(&[&Outcome { document, windows, parts, ..Outcome::default() }], usize::MAX).unwrap()
}

/// Pages per KiB that `measure` frees.
fn pages(measure: &Measure) -> f64 {
    measure.numbers().unwrap()[&ProcessName::READER].pages
}

#[test]
fn planted_work_is_found_at_another_schedule() {
    let plain = measure(PLAIN, 1);
    for (preemptions, planted) in [([3, 7], 44), ([2, 6], 44), ([0, 3], 202), ([5, 12], 44), ([0, 3], 0), ([1, 6], 8)] {
        let other = measure(Modelled { preemptions, planted, ..PLAIN }, 2);
        let truth = as_f64(planted) * pages(&plain);
        let [before, after] = equal([&plain, &other]).unwrap();
        let found = verdict(&before, &after, 0.01);
        let half = found.uncertainty.unwrap() * found.before;
        let said = format!("{preemptions:?}: {truth} planted, {found:?}");
        assert!((found.delta - truth).abs() <= half && half < 0.006 * found.before, "{said}");
        assert!(
            if truth > 0.01 * found.before { found.word == Word::More } else { found.word == Word::Same },
            "{said}"
        );
        for role in after.roles().into_iter().filter(|role| *role != RoleId::PipeRead) {
            assert!(!is_certain_role(&before, &after, role), "{said}: {role:?}");
        }
        assert_eq!(is_certain_role(&before, &after, RoleId::PipeRead), planted > 0, "{said}");
        // As counted, it is another change, and roles that nobody touched are certain.
        let counted = verdict(&plain, &other, 0.01);
        if preemptions != PLAIN.preemptions {
            assert!(
                (counted.delta - truth).abs() > counted.uncertainty.unwrap() * counted.before,
                "{said}: {counted:?}"
            );
            assert!(is_certain_role(&plain, &other, RoleId::PageAlloc), "{said}");
        }
    }
}

#[test]
fn a_kernel_that_reuses_no_page_does_more_work_at_the_same_schedule() {
    let plain = measure(PLAIN, 1);
    let never = measure(Modelled { reused: 0, preemptions: [1, 4], ..PLAIN }, 2);
    let [before, after] = equal([&plain, &never]).unwrap();
    let found = verdict(&before, &after, 0.01);
    let truth = (0.25 - pages(&plain)) * (613.0 + 290.0 + 331.0 + 369.0);
    assert!((found.delta - truth).abs() < found.uncertainty.unwrap() * found.before, "{truth}: {found:?}");
    assert!(is_certain_role(&before, &after, RoleId::PageAlloc), "{found:?}");
}

#[test]
fn pages_that_are_allocated_at_once_are_freed_one_by_one() {
    // As splice from /dev/zero on 6.12.
    let [plain, other] =
        [([3, 7], 1), ([1, 4], 2)].map(|(preemptions, seed)| measure(Modelled { preemptions, bulk: 8, ..PLAIN }, seed));
    let [before, after] = equal([&plain, &other]).unwrap();
    for role in [RoleId::PageFree, RoleId::MemcgUncharge, RoleId::PageAlloc] {
        for (equal, counted) in [(&before, &plain), (&after, &other)] {
            let ratio = equal.of_role(role) / counted.of_role(role);
            assert!((0.5..2.0).contains(&ratio), "{role:?}: {ratio}");
        }
    }
}

#[test]
fn turns_of_another_length_are_no_change_of_the_kernel() {
    // As 7.2 with preempt=lazy and preempt=full: the same code, and other turns.
    let [short, long] = [[7, 14], [1, 4]].map(|preemptions| Modelled { preemptions, long_turns: 5, ..PLAIN });
    for (from, to) in [(short, long), (long, short)] {
        let [before, after] = equal([&measure(from, 1), &measure(to, 2)]).unwrap();
        let found = verdict(&before, &after, 0.01);
        assert!(found.word.direction().is_none(), "{found:?}");
        assert!((found.ratio - 1.0).abs() <= found.uncertainty.unwrap(), "{found:?}");
        for role in after.roles() {
            assert!(!is_certain_role(&before, &after, role), "{role:?}: {found:?}");
        }
    }
}

#[test]
fn the_work_between_two_switches_is_not_their_price() {
    // As vmsplice of 256 KiB on 6.12 with preempt=none and preempt=full.
    let [few, many] =
        [[1, 3], [3, 7]].map(|preemptions| Modelled { preemptions, large_calls: true, reused: 0, ..PLAIN });
    let [before, after] = equal([&measure(few, 1), &measure(many, 2)]).unwrap();
    let found = verdict(&before, &after, 0.01);
    assert!(found.word.direction().is_none(), "{found:?}");
    assert!((found.ratio - 1.0).abs() <= found.uncertainty.unwrap() && after.doubt.unknown, "{found:?}");
    for role in after.roles() {
        assert!(!is_certain_role(&before, &after, role), "{role:?}: {found:?}");
    }
}

#[test]
fn what_does_not_vary_has_no_price() {
    // Preempted before, and never asleep more often than twice in a part; afterwards always as often.
    let regular = |preemptions: u64| measure(Modelled { preemptions: [preemptions; 2], reused: 0, ..PLAIN }, 1);
    let [_, after] = equal([&regular(4), &regular(8)]).unwrap();
    // The sleeps of the reader follow the preemptions, and have no price, either.
    assert!(after.doubt.unknown && after.doubt.total > 0.5, "{:?}", after.doubt);
    let [_, after] = equal([&measure(PLAIN, 1), &regular(8)]).unwrap();
    let known = after.doubt.roles[&RoleId::CopyIn];
    assert!(known < 2.0, "its price is that of the other kernel: {:?}", after.doubt);
}

#[test]
fn equal_windows_and_unknown_schedules_are_left_as_they_are() {
    let plain = measure(PLAIN, 1);
    assert!(equal([&plain, &plain.clone()]).is_none());
    let unknown = Measure { parts: Vec::new(), ..plain.clone() };
    assert!(equal([&unknown, &measure(PLAIN, 2)]).is_none());
    // The same schedule, by chance a little different: nothing to move.
    let [_, after] = equal([&plain, &measure(PLAIN, 3)]).unwrap();
    assert_eq!(verdict(&plain, &after, 0.01).word, Word::Same);
}
