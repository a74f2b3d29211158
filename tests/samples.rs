//! Samples of cpu-clock compared with exact shares of the same workload, in emulated guests.

use crate::common::{self, request, spec};
use pipeprof::profile::{Folded, Moved, ProcessName, Profile, RoleShare, Unit, attribute};
use pipeprof::result::code::{ExecutedFunction, ExecutedInstruction};
use pipeprof::result::{Collector, Outcome};
use pipeprof::roles::{RoleId, SCHEDULING, Skid};
use pipeprof::run::exact;
use pipeprof::vm::{Job, run_job};
use pipeprof::workload::spec::{Amount, Spec};
use std::collections::BTreeMap;

/// One workload, counted exactly and sampled.
struct Both {
    counted: Outcome,
    sampled: Outcome,
}

impl Both {
    fn of(series: &str, mode: &str, counted_calls: u64, sampled_calls: u64) -> Self {
        let options = common::guest(series);
        let workload = spec(mode, counted_calls);
        let counted = exact::execute(&request(workload.clone(), vec![Collector::Insn]), &options, None);
        let more = Spec { amount: Amount::Calls(sampled_calls), ..workload };
        let job = Job::Run(Box::new(request(more, vec![Collector::Sample])));
        let sampled = run_job(&options, &job).expect("a guest").parse().expect("an outcome");
        Self { counted: counted.expect("counts"), sampled }
    }

    fn samples(&self, process: ProcessName) -> &Folded {
        stacks(&self.sampled, process)
    }

    /// The exact stacks, weighted by time. In such a guest each iteration of a `rep` instruction takes as long as an
    /// instruction, so iterations count with their function.
    fn exact(&self, process: ProcessName) -> Folded {
        let longer = self.longer(process);
        let mut weighted = Folded::new();
        for (stack, count) in stacks(&self.counted, process).iter() {
            let leaf = stack.leaf();
            weighted.add(stack.to_string(), (count as f64 * longer.get(leaf).copied().unwrap_or(1.0)).round() as u64);
        }
        weighted
    }

    /// By how much the iterations make each function's time longer.
    fn longer(&self, process: ProcessName) -> BTreeMap<&str, f64> {
        let code = self.counted.code.as_ref().expect("the code");
        let factor = |function: &ExecutedFunction| {
            let sum = |pick: fn(&ExecutedInstruction) -> &[u64]| -> f64 {
                function.instructions.iter().map(|instruction| code.of(pick(instruction), Some(process)) as f64).sum()
            };
            let (counts, iterations) = (sum(|i| &i.counts), sum(|i| &i.iterations));
            if counts > 0.0 { (counts + iterations) / counts } else { 1.0 }
        };
        code.functions.iter().map(|function| (function.name.as_str(), factor(function))).collect()
    }
}

fn stacks(outcome: &Outcome, process: ProcessName) -> &Folded {
    let of = |profile: &&Profile| profile.process == process;
    &outcome.profiles.iter().find(of).expect("a profile of each process").stacks
}

/// Share of `stacks` that is below `frame`.
fn share(stacks: &Folded, frame: &str) -> f64 {
    let below = stacks.iter().filter(|(stack, _)| stack.frames().any(|this| this == frame));
    below.map(|(_, weight)| weight as f64).sum::<f64>() / stacks.total() as f64
}

/// Shares by role.
fn shares(stacks: &Folded, skid: Skid) -> BTreeMap<RoleId, f64> {
    attribute(stacks, Unit::Samples, skid, &Moved::default()).into_iter().map(|row| (row.role, row.share)).collect()
}

/// The shares of roles in what does not depend on the schedule, which is another one in each guest.
fn judged(mut shares: BTreeMap<RoleId, f64>) -> BTreeMap<RoleId, f64> {
    shares.retain(|role, _| !SCHEDULING.contains(role));
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= all);
    shares
}

/// The part of roles that depend on the schedule.
fn scheduled(shares: &BTreeMap<RoleId, f64>) -> f64 {
    shares.iter().filter(|(role, _)| SCHEDULING.contains(role)).map(|(_, share)| share).sum()
}

/// Shares by role as they would be with the schedule of the exact run, whose part of scheduling is `part`: with samples
/// taken where interrupts came back on in a row of their own, and with these attributed to their callers.
fn with_schedule_of(part: f64, rows: &[RoleShare]) -> [BTreeMap<Option<RoleId>, f64>; 2] {
    let own = scheduled(&rows.iter().map(|row| (row.role, row.share)).collect());
    let mut sums = [BTreeMap::new(), BTreeMap::new()];
    for row in rows {
        let weight = if SCHEDULING.contains(&row.role) { part / own } else { (1.0 - part) / (1.0 - own) };
        let off = row.interrupts_off_share();
        *sums[0].entry(Some(row.role)).or_default() += weight * (row.share - off);
        *sums[0].entry(None).or_default() += weight * off;
        *sums[1].entry(Some(row.role)).or_default() += weight * row.share;
    }
    sums
}

/// Total-variation distance in points: the part that must move from one role to another to make the shares equal.
fn distance<R: Ord>(a: &BTreeMap<R, f64>, b: &BTreeMap<R, f64>) -> f64 {
    let roles = a.keys().chain(b.keys()).collect::<std::collections::BTreeSet<_>>();
    let of = |shares: &BTreeMap<R, f64>, role: &R| shares.get(role).copied().unwrap_or(0.0);
    50.0 * roles.into_iter().map(|role| (of(a, role) - of(b, role)).abs()).sum::<f64>()
}

/// The distance, in points, that `n` independent samples of `exact` have on average: the mean absolute deviation of a
/// normal distribution with each share's variance.
fn of_chance(exact: &BTreeMap<RoleId, f64>, n: f64) -> f64 {
    50.0 * exact.values().map(|p| (2.0 * p * (1.0 - p) / (std::f64::consts::PI * n)).sqrt()).sum::<f64>()
}

/// The samples whose stacks are whole, and the share of the others: a sample in a thunk for indirect
/// calls may have no callers in the kernel, because the thunk changes the stack in a way that the kernel's unwinder cannot
/// follow.
fn whole(samples: &Folded) -> (Folded, f64) {
    let is_broken = |leaf: &str, entered: bool| leaf.starts_with("__x86_indirect_thunk") && !entered;
    let mut whole = Folded::new();
    for (stack, count) in samples.iter() {
        let entered = stack.frames().any(|frame| frame.starts_with("entry_SYSCALL_64"));
        if !is_broken(stack.leaf(), entered) {
            whole.add(stack.to_string(), count);
        }
    }
    let broken = 1.0 - whole.total() as f64 / samples.total() as f64;
    (whole, broken)
}

/// Frames whose instructions all run with interrupts on. Samples due while they are off are taken elsewhere.
const FRAMES: [(ProcessName, &str); 7] = [
    (ProcessName::WRITER, "pipe_write"),
    (ProcessName::WRITER, "__alloc_pages"),
    (ProcessName::WRITER, "copy_page_from_iter"),
    (ProcessName::WRITER, "__memcg_kmem_charge_page"),
    (ProcessName::READER, "pipe_read"),
    (ProcessName::READER, "__folio_put"),
    (ProcessName::READER, "__mem_cgroup_uncharge"),
];

/// Frames that are only printed: part of their instructions run with interrupts off.
const PARTLY_OFF: [(ProcessName, &str); 7] = [
    (ProcessName::WRITER, "get_page_from_freelist"),
    (ProcessName::WRITER, "__wake_up_common_lock"),
    (ProcessName::WRITER, "memcg_account_kmem"),
    (ProcessName::WRITER, "__schedule"),
    (ProcessName::READER, "copy_page_to_iter"),
    (ProcessName::READER, "free_unref_page"),
    (ProcessName::READER, "__schedule"),
];

/// `--nocapture` prints the table of docs/exactness.md.
fn frames_agree(both: &Both) {
    for (process, frame) in FRAMES.into_iter().chain(PARTLY_OFF) {
        let samples = both.samples(process);
        let n = samples.total() as f64;
        assert!(n > 1000.0, "{n} samples of the {process}");
        let (seen, exact) = (share(samples, frame), share(&both.exact(process), frame));
        let error = (exact * (1.0 - exact) / n).sqrt();
        let z = (seen - exact) / error;
        println!("| {process} | `{frame}` | {:.1} % | {:.1} % | {z:.1} |", 100.0 * exact, 100.0 * seen);
        if PARTLY_OFF.contains(&(process, frame)) {
            continue;
        }
        // Four standard errors, plus one point for code below these frames that runs with interrupts off.
        assert!(
            (seen - exact).abs() < 4.0 * error + 0.01,
            "{process} {frame}: {exact:.4} exact, {seen:.4} of {n} samples"
        );
    }
}

/// Samples agree with exact shares: to make them equal, at most `limit` points have to move, and at most `least` of those
/// that do not depend on the schedule. `--nocapture` prints the table of docs/method.md.
fn roles_agree(series: &str, mode: &str, both: &Both, limit: f64, least: f64) {
    for process in [ProcessName::WRITER, ProcessName::READER] {
        let (samples, broken) = whole(both.samples(process));
        let samples = &samples;
        let exact = shares(&both.exact(process), Skid::None);
        let with = shares(samples, Skid::CpuClock);
        let rows = attribute(samples, Unit::Samples, Skid::CpuClock, &Moved::default());
        let by_role = exact.iter().map(|(role, share)| (Some(*role), *share)).collect();
        let [own_row, caller] = with_schedule_of(scheduled(&exact), &rows).map(|shares| distance(&shares, &by_role));
        let all = distance(&with, &exact);
        let n = samples.total() as f64 * (1.0 - scheduled(&with));
        let (with, exact) = (judged(with), judged(exact));
        let (left, chance) = (distance(&with, &exact), of_chance(&exact, n));
        println!(
            "| {series} | {mode} | {process} | {n:.0} | {own_row:.1} | {caller:.1} | {all:.1} | {left:.1} | {chance:.1} |"
        );
        let case = format!("{series} {mode} {process}");
        println!("{case}: {:.1} % without callers", 100.0 * broken);
        assert!(broken < 0.05, "{case}: {broken:.3} of the samples have no callers in the kernel");
        assert!(caller < 0.5 * own_row, "{case}: {caller:.1} points, {own_row:.1} without attribution");
        assert!(all < limit, "{case}: {all:.1} points");
        assert!(left < least, "{case}: {left:.1} points, {chance:.1} of them by chance");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn samples_of_write_agree_with_exact_shares() {
    let both = Both::of("6.1", "write", 400, 8_000);
    frames_agree(&both);
    roles_agree("6.1", "write", &both, 8.0, 6.0);
    roles_agree("6.12", "write", &Both::of("6.12", "write", 400, 8_000), 8.0, 6.0);
}

#[test]
#[ignore = "boots guests: make test"]
fn samples_of_vmsplice_agree_with_exact_shares() {
    for series in ["6.1", "6.12"] {
        // At first the writer of 6.12 may sleep in every tenth call, later in one of a thousand: count long enough. Of fewer
        // samples of the reader than 2,000, chance alone moves its distance by more than a point.
        roles_agree(series, "vmsplice", &Both::of(series, "vmsplice", 10_000, 150_000), 18.0, 12.0);
    }
}
