//! Functions that one compiler inlined and another did not. Comparing their weights as they are shows a change where no
//! work changed: the function is gone, and its caller grew. So the function's frames are dropped on the side that has
//! them, and its weight goes to its caller on both sides.

use super::dropped::Dropped;
use super::measure::Measure;
use super::model::Inlined;
use crate::profile::folded::is_kernel_entry;
use crate::roles::{self, RoleId, SCHEDULING};
use std::collections::{BTreeMap, BTreeSet};

/// Instructions of a call that inlining saves at most: saving and restoring registers, passing arguments, the hook of
/// ftrace, `endbr`, the return. `add_to_pipe` saved 23 between Linux 6.1 and 6.12.
const CALL_COST: f64 = 25.0;

/// Functions below this part of a run's weight are left alone.
const SMALL: f64 = 0.0005;

/// Rounds of [`found`]: a function's callee can be inlined, too.
const ROUNDS: usize = 4;

/// Candidates of one caller that are combined; the others are small.
const COMBINED: usize = 8;

/// A function that one run does not have at all was inlined there into callers with at least this part of its weight.
const EVERYWHERE: f64 = 2.0 / 3.0;

/// A caller and its callee, in canonical names.
type Edge = (String, String);

/// Weights of one run by function and call, per KiB.
#[derive(Debug, Default)]
struct CallWeights {
    /// Self weight by function, and by the role that it counts for.
    own: BTreeMap<String, BTreeMap<RoleId, f64>>,
    /// The same for a function below one caller. All calls have a row, also those without self weight.
    below: BTreeMap<Edge, BTreeMap<RoleId, f64>>,
    total: f64,
}

impl CallWeights {
    fn of(measure: &Measure, dropped: &Dropped) -> Self {
        let mut calls = Self::default();
        for (process, part) in measure.processes.of_target() {
            for (stack, weight) in part.stacks.iter() {
                let weight = measure.per_kib(process, weight);
                match dropped.shortened(stack.frames()) {
                    Some(shorter) => calls.add(shorter.into_iter(), weight),
                    None => calls.add(stack.frames(), weight),
                }
            }
        }
        calls
    }

    fn add<'a>(&mut self, stack: impl DoubleEndedIterator<Item = &'a str> + Clone, weight: f64) {
        self.total += weight;
        let mut frames = stack.clone().skip_while(|frame| !is_kernel_entry(frame)).map(roles::canonical);
        let Some(mut last) = frames.next() else { return };
        let mut below = None;
        for frame in frames {
            let edge = (last.to_owned(), frame.to_owned());
            self.below.entry(edge.clone()).or_default();
            below = Some(edge);
            last = frame;
        }
        let role = roles::of_stack(stack).0.id;
        *self.own.entry(last.to_owned()).or_default().entry(role).or_default() += weight;
        if let Some(edge) = below {
            *self.below.entry(edge).or_default().entry(role).or_default() += weight;
        }
    }

    /// Self weight of a function.
    fn own(&self, function: &str) -> f64 {
        self.own.get(function).map_or(0.0, |roles| roles.values().sum())
    }

    /// Whether any stack contains the function.
    fn has(&self, function: &str) -> bool {
        self.own.contains_key(function) || self.below.keys().any(|edge| edge.1 == function)
    }

    /// The role of most of a function's self weight.
    fn role(&self, function: &str) -> Option<RoleId> {
        largest(self.own.get(function)?)
    }

    fn callees<'a>(&'a self, caller: &'a str) -> impl Iterator<Item = &'a str> {
        let from = (caller.to_owned(), String::new());
        self.below
            .range(from..)
            .map(|(edge, _)| edge)
            .take_while(move |edge| edge.0 == caller)
            .map(|edge| edge.1.as_str())
    }
}

fn largest(roles: &BTreeMap<RoleId, f64>) -> Option<RoleId> {
    roles.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(role, _)| *role)
}

/// A function that only one run calls from a caller that both have.
#[derive(Debug, Clone, PartialEq)]
struct Candidate<'a> {
    name: &'a str,
    /// Its self weight below the caller.
    weight: f64,
    /// -1 if only the first run has it, 1 if only the second.
    sign: f64,
    /// Whether the role of its weight is the caller's.
    same_role: bool,
    /// What inlining can save, per KiB; infinite if unknown.
    saved: f64,
}

/// Numbers of calls per KiB of one run, by canonical name; empty for runs without executed code.
type Entered = BTreeMap<String, f64>;

/// Two runs whose inlining is aligned.
pub struct Aligned {
    pub before: Measure,
    pub after: Measure,
    pub inlined: Vec<Inlined>,
}

/// Two measures with inlining aligned. `None` if nothing was inlined on one side only.
pub fn aligned(measures: [&Measure; 2]) -> Option<Aligned> {
    let inlined = inlined_between(measures);
    let dropped = Dropped::of(&inlined);
    if dropped.is_empty() {
        return None;
    }
    let [before, after] = measures.map(|measure| measure.without(&dropped));
    Some(Aligned { before, after, inlined })
}

/// The functions that one of two counted runs inlined.
pub fn inlined_between(measures: [&Measure; 2]) -> Vec<Inlined> {
    if std::ptr::eq(measures[0], measures[1]) {
        return Vec::new();
    }
    let entered = measures.map(|measure| &measure.entered);
    let mut inlined: Vec<Inlined> = Vec::new();
    for _ in 0..ROUNDS {
        let dropped = Dropped::of(&inlined);
        let found = found(&measures.map(|measure| CallWeights::of(measure, &dropped)), entered);
        if found.is_empty() {
            break;
        }
        inlined.extend(found);
    }
    inlined
}

/// All functions that one of the two runs inlined into a caller.
fn found(calls: &[CallWeights; 2], entered: [&Entered; 2]) -> Vec<Inlined> {
    let least = SMALL * calls[0].total.max(calls[1].total);
    let mut found: Vec<Inlined> = Vec::new();
    let callers: BTreeSet<&str> =
        calls.iter().flat_map(|calls| calls.below.keys()).map(|edge| edge.0.as_str()).collect();
    for caller in callers {
        let (Some(old), Some(new)) = (calls[0].role(caller), calls[1].role(caller)) else { continue };
        // The work of these depends on the schedule, and never is a cause.
        if [old, new].iter().any(|role| SCHEDULING.contains(role)) {
            continue;
        }
        // How often a caller is called may change, above all that of the scheduler: its weights are compared per call.
        let rates = entered.map(|entered| entered.get(caller).copied().filter(|rate| *rate > 0.0));
        let scale = match rates {
            [Some(old), Some(new)] => old / new,
            _ => 1.0,
        };
        let mut candidates = Vec::new();
        candidates.extend(only(calls, caller, 0, old, 1.0, entered[0]));
        candidates.extend(only(calls, caller, 1, new, scale, entered[1]));
        candidates.retain(|candidate: &Candidate| candidate.weight >= least);
        candidates.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.name.cmp(b.name)));
        candidates.truncate(COMBINED);
        let change = calls[1].own(caller) * scale - calls[0].own(caller);
        for candidate in explains(change, &candidates) {
            found.push(Inlined {
                function: candidate.name.to_owned(),
                caller: caller.to_owned(),
                before: candidate.sign > 0.0,
                weight: candidate.weight,
            });
        }
    }
    let found_edges: BTreeSet<Edge> = found.iter().map(|one| (one.caller.clone(), one.function.clone())).collect();
    found.retain(|one| {
        let side = usize::from(one.before);
        let everywhere = || inlined_part(calls, side, one, &found_edges, least) >= EVERYWHERE;
        calls[1 - side].has(&one.function) || everywhere()
    });
    // One step at a time: a caller that is itself inlined is looked at again in the next round.
    let inlined: BTreeSet<String> = found.iter().map(|one| one.function.clone()).collect();
    found.retain(|one| !inlined.contains(&one.caller));
    found
}

/// The part of the weight of `one`'s function in run `side`, below callers that both runs have, that `found` explains.
fn inlined_part(calls: &[CallWeights; 2], side: usize, one: &Inlined, found: &BTreeSet<Edge>, least: f64) -> f64 {
    let both = |caller: &str| {
        let roles = [0, 1].map(|side| calls[side].role(caller));
        roles.iter().all(|role| role.is_some_and(|role| !SCHEDULING.contains(&role)))
    };
    let mut sums = [0.0; 2];
    for (edge, roles) in calls[side].below.iter().filter(|(edge, _)| edge.1 == one.function) {
        let weight: f64 = roles.values().sum();
        if weight >= least && edge.0 != edge.1 && both(&edge.0) {
            sums[0] += weight;
            sums[1] += if found.contains(edge) { weight } else { 0.0 };
        }
    }
    if sums[0] > 0.0 { sums[1] / sums[0] } else { 1.0 }
}

/// The callees of `caller` that only run `side` has, and that may be inlined in the other.
fn only<'a>(
    calls: &'a [CallWeights; 2],
    caller: &'a str,
    side: usize,
    role: RoleId,
    scale: f64,
    entered: &Entered,
) -> Vec<Candidate<'a>> {
    let (own, other) = (&calls[side], &calls[1 - side]);
    let theirs: BTreeSet<&str> = other.callees(caller).collect();
    let mine: BTreeSet<&str> = own.callees(caller).collect();
    // Where the other run has another function between the two, that one is inlined here, not this one there.
    let between: BTreeSet<&str> =
        theirs.iter().filter(|callee| !mine.contains(*callee)).flat_map(|callee| other.callees(callee)).collect();
    let candidate = |name: &&'a str| {
        let below = own.below.get(&(caller.to_owned(), (*name).to_owned()))?;
        let own_role = largest(below)?;
        let weight: f64 = below.values().sum();
        // The other run calls it from elsewhere instead.
        let moved = other.own(name) - (own.own(name) - weight) > weight / 2.0;
        let renamed = || theirs.iter().any(|other| !mine.contains(other) && super::functions::alike(name, other));
        if *name == caller || SCHEDULING.contains(&own_role) || moved || between.contains(name) || renamed() {
            return None;
        }
        // At most as often as everywhere.
        let saved = entered.get(*name).map_or(f64::INFINITY, |calls| calls * CALL_COST * scale);
        let sign = if side == 0 { -1.0 } else { 1.0 };
        Some(Candidate { name, weight: weight * scale, sign, same_role: own_role == role, saved })
    };
    mine.iter().filter(|name| !theirs.contains(*name)).filter_map(candidate).collect()
}

/// Those of `candidates` that explain the caller's `change` of self weight: inlined, their weight is the caller's, less
/// the cost of the calls. Functions that vanished with their work explain nothing.
fn explains<'a>(change: f64, candidates: &'a [Candidate<'a>]) -> Vec<&'a Candidate<'a>> {
    let subset = |mask: usize| candidates.iter().enumerate().filter(move |(n, _)| mask >> n & 1 == 1).map(|(_, c)| c);
    let mut best: (f64, usize) = (0.0, 0);
    for mask in 1..1usize << candidates.len() {
        let sum: f64 = subset(mask).map(|candidate| candidate.weight).sum();
        let moved: f64 = subset(mask).map(|candidate| candidate.weight * candidate.sign).sum();
        let saved: f64 = subset(mask).map(|candidate| candidate.saved).sum();
        let rest = (change + moved).abs();
        let gain = change.abs() + sum - rest;
        let one_way = subset(mask).all(|candidate| candidate.sign * change < 0.0);
        let plausible = match one_way {
            true => gain >= 0.5 * sum && rest <= (0.4 * sum).max(saved.min(0.75 * sum)),
            // One function inlined, another no longer: only within a role, where a mistake moves nothing.
            false => subset(mask).all(|candidate| candidate.same_role) && gain >= 1.05 * sum && rest <= 0.4 * sum,
        };
        if plausible && gain > best.0 {
            best = (gain, mask);
        }
    }
    subset(best.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Folded;

    const CALL: &str = "entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_vmsplice";

    fn calls(stacks: &[(&str, u64)]) -> CallWeights {
        let mut calls = CallWeights::default();
        for (stack, weight) in stacks {
            calls.add(format!("{CALL}{stack}").split(';'), *weight as f64);
        }
        calls
    }

    fn inlined(before: &[(&str, u64)], after: &[(&str, u64)], entered: &[(&str, f64)]) -> Vec<(String, String, bool)> {
        let entered: Entered = entered.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect();
        let found = found(&[calls(before), calls(after)], [&entered, &entered]);
        found.into_iter().map(|one| (one.caller, one.function, one.before)).collect()
    }

    #[test]
    fn a_helper_whose_weight_is_now_its_caller_s_was_inlined() {
        // Linux 6.1 and 6.12, in instructions per 4 KiB: no work changed but that of the call.
        let before = [("", 33), (";add_to_pipe", 40), (";iov_iter_get_pages2", 100)];
        let after = [("", 50), (";iov_iter_get_pages2", 100)];
        let found = [("__do_sys_vmsplice".to_owned(), "add_to_pipe".to_owned(), false)];
        assert_eq!(inlined(&before, &after, &[("add_to_pipe", 1.0)]), found);
        let found = [("__do_sys_vmsplice".to_owned(), "add_to_pipe".to_owned(), true)];
        assert_eq!(inlined(&after, &before, &[("add_to_pipe", 1.0)]), found);
    }

    #[test]
    fn work_that_is_gone_was_not_inlined() {
        let before = [("", 33), (";file_update_time", 40)];
        for own in [33, 30, 36, 41] {
            assert_eq!(inlined(&before, &[("", own)], &[("file_update_time", 1.0)]), [], "{own}");
        }
        // A long function that vanishes while its caller gets a little longer.
        let before = [("", 1000), (";file_update_time", 4000)];
        assert_eq!(inlined(&before, &[("", 2200)], &[("file_update_time", 1.0)]), []);
        // Work that another function of another role does now.
        let after = [("", 33), (";copy_page_from_iter", 40)];
        assert_eq!(inlined(&[("", 33), (";add_to_pipe", 40)], &after, &[]), []);
    }

    #[test]
    fn callees_of_an_inlined_function_are_aligned_too() {
        let mut stacks = Folded::new();
        stacks.add(format!("{CALL};add_to_pipe.part.0;get_page;try_get_folio"), 5);
        let pair = |caller: &str, function: &str| Inlined {
            function: function.to_owned(),
            caller: caller.to_owned(),
            before: true,
            weight: 1.0,
        };
        let dropped = Dropped::of(&[pair("__do_sys_vmsplice", "add_to_pipe"), pair("get_page", "try_get_folio")]);
        let (stack, _) = stacks.iter().next().unwrap();
        assert_eq!(dropped.shortened(stack.frames()).unwrap().join(";"), format!("{CALL};get_page"));
        assert_eq!(dropped.shortened(CALL.split(';')), None);
        // Only below this caller, and only in the kernel.
        assert_eq!(
            dropped.shortened(["__x64_sys_vmsplice", "add_to_pipe", "entry_SYSCALL_64_after_hwframe"].into_iter()),
            None
        );
        // A callee that the inlining side calls itself is not a candidate.
        let before = [("", 33), (";add_to_pipe", 40), (";add_to_pipe;get_page", 30)];
        let after = [("", 60), (";get_page", 30)];
        let found = inlined(&before, &after, &[("add_to_pipe", 1.0), ("get_page", 1.0)]);
        assert_eq!(found, [("__do_sys_vmsplice".to_owned(), "add_to_pipe".to_owned(), false)]);
    }

    #[test]
    fn a_function_that_another_caller_calls_now_was_not_inlined() {
        let before = [("", 33), (";add_to_pipe", 40), (";iter_to_pipe", 10)];
        let after = [("", 63), (";iter_to_pipe;add_to_pipe", 40), (";iter_to_pipe", 10)];
        assert_eq!(inlined(&before, &after, &[("add_to_pipe", 1.0)]), []);
    }

    #[test]
    fn a_helper_that_one_run_does_not_have_was_inlined_everywhere_or_nowhere() {
        // PREEMPT_RT calls migrate_disable in many places. That one caller is shorter there means nothing.
        let before = [("", 33), (";add_to_pipe", 60), (";iov_iter_get_pages2", 100)];
        let after = [
            ("", 33),
            (";add_to_pipe", 40),
            (";add_to_pipe;migrate_disable", 20),
            (";iov_iter_get_pages2", 100),
            (";iov_iter_get_pages2;migrate_disable", 20),
        ];
        assert_eq!(inlined(&before, &after, &[("migrate_disable", 2.0)]), []);
        // Where all callers are longer, it was inlined.
        let before = [("", 33), (";add_to_pipe", 60), (";iov_iter_get_pages2", 120)];
        assert_eq!(inlined(&before, &after, &[("migrate_disable", 2.0)]).len(), 2);
    }

    #[test]
    fn a_rename_is_not_inlining() {
        let before = [("", 33), (";check_pipe_buf_fair", 40)];
        let after = [("", 33), (";check_pipe_buf", 38)];
        assert_eq!(inlined(&before, &after, &[]), []);
    }
}
