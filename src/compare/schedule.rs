//! Judge two kernels at one schedule. How often processes sleep and are preempted decides more than the work of the
//! scheduler: which pages are reused, how often a mutex is taken again. The parts of each window differ in these numbers, so
//! they show what a sleep and a preemption cost in each role (docs/exactness.md, "The same schedule").

use super::exact::PART_FLOOR;
use super::measure::{Measure, ScheduleDoubt, as_f64};
use super::work::OF_PAGES;
use crate::profile::{PartWork, ProcessName, WindowPart};
use crate::roles::{RoleId, SCHEDULING};
use crate::util::regression::{Fit, Regressors};
use std::collections::{BTreeMap, BTreeSet};

/// The standard deviations of what a sleep or a preemption costs in one role, before anything is known of it.
const UNKNOWN_PRICE: f64 = 300.0;

/// What a sleep or a preemption costs in all roles together is not uncertain by more: 12 to 125 instructions were seen in
/// the functions of the pipe, 25 in the mutex.
const MOST_UNCERTAIN: f64 = 100.0;

/// What one costs that has no price: the largest that were seen.
const UNPRICED: f64 = 150.0;

/// What a sleep or a preemption adds to one role is less: 230 instructions were seen. More is the work between two switches,
/// where a call is so large that it takes several turns.
const MOST_PRICE: f64 = 300.0;

/// A role depends on the schedule if that explains so much of what its parts differ by.
const EXPLAINED: f64 = 0.5;

/// Where that was so in another kernel, it is enough that it explains as much as if each call cost the same.
const ALIKE: f64 = 1.05;

/// The price of a page is known to this part of it, that of a sleep or a preemption in a role to that. A part that ends in the
/// middle of a sleep blurs the latter.
const PAGE_PRICE: f64 = 0.01;
const SWITCH_PRICE: f64 = 0.75;

/// The price in one kernel is that of another one, with at least this standard deviation.
const OTHER_KERNEL: f64 = 20.0;

/// Quantile of the normal distribution with 0.5 % in each tail.
const Z99: f64 = 2.575_829_303_548_901;

/// Numbers of one process in a window, per KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Numbers {
    calls: f64,
    sleeps: f64,
    preemptions: f64,
    pages: f64,
}

impl Numbers {
    fn of(work: &PartWork) -> Self {
        let [calls, sleeps, preemptions, pages] = [work.calls, work.sleeps, work.preemptions, work.pages].map(as_f64);
        Self { calls, sleeps, preemptions, pages }
    }

    /// Add `others`, multiplied by `weight`.
    fn add(&mut self, weight: f64, others: Self) {
        self.calls += weight * others.calls;
        self.sleeps += weight * others.sleeps;
        self.preemptions += weight * others.preemptions;
        self.pages += weight * others.pages;
    }
}

/// [`Numbers`] of all processes of the target.
type WindowNumbers = BTreeMap<ProcessName, Numbers>;

impl Measure {
    /// The numbers of this window, its parts weighed as its instructions are; `None` if it has no parts.
    fn numbers(&self) -> Option<WindowNumbers> {
        let parts = &self.parts;
        let mut sums = WindowNumbers::new();
        let mut weights = 0.0;
        for (index, part) in parts.iter().enumerate() {
            // The weights of the plugin (store.c).
            let weight = ((2 * index + 1) as f64 * (2 * (parts.len() - index) - 1) as f64).powi(2);
            weights += weight;
            for (process, work) in part.iter() {
                sums.entry(process).or_default().add(weight, Numbers::of(work));
            }
        }
        let scale = parts.len() as f64 / weights / self.kib();
        for sum in sums.values_mut() {
            let weighed = std::mem::take(sum);
            sum.add(scale, weighed);
        }
        (!parts.is_empty()).then_some(sums)
    }
}

/// From `from` to `to`, with as many calls.
fn change(from: &WindowNumbers, to: &WindowNumbers, process: ProcessName) -> Regressors {
    let of = |numbers: &WindowNumbers| numbers.get(&process).copied().unwrap_or_default();
    let (from, to) = (of(from), of(to));
    [0.0, to.sleeps - from.sleeps, to.preemptions - from.preemptions]
}

fn row(work: &PartWork) -> Regressors {
    [work.calls, work.sleeps, work.preemptions].map(as_f64)
}

/// What the weight of each role of each process is multiplied by.
type Factors = BTreeMap<(ProcessName, RoleId), f64>;

/// What a schedule costs one kernel.
struct Prices {
    /// Of each role by process; and those with sleeps and preemptions, if these explain too little to be believed.
    roles: BTreeMap<(ProcessName, RoleId), (Fit, Option<Fit>)>,
    /// Processes whose parts do not show what a sleep or a preemption costs.
    unpriced: BTreeSet<ProcessName>,
    /// How many pages are allocated, by the process whose calls, sleeps and preemptions say it best.
    pages: Option<(ProcessName, Fit)>,
    /// The same in the other kernel.
    other_pages: Option<(ProcessName, Fit)>,
}

/// By how many pages another schedule changes what is allocated, per KiB.
#[derive(Debug, Clone, Copy, Default)]
struct MovedPages {
    /// Between those by the prices of both kernels.
    pages: f64,
    /// By how much these differ: neither is the price of the turns between.
    apart: f64,
    /// The standard deviation.
    deviation: f64,
}

impl Prices {
    /// From the parts of `windows`. `before`: prices in another kernel, for what does not vary in these parts.
    fn of(windows: &[Measure], before: Option<&Self>) -> Self {
        let parts: Vec<&WindowPart> = windows.iter().flat_map(|window| &window.parts).collect();
        let processes: BTreeSet<ProcessName> = parts.iter().flat_map(|part| part.names()).collect();
        let other_pages = before.and_then(|prices| prices.pages);
        let mut prices = Self { roles: BTreeMap::new(), unpriced: BTreeSet::new(), pages: None, other_pages };
        let mut least = f64::INFINITY;
        for process in processes {
            let works: Vec<&PartWork> = parts.iter().filter_map(|part| part.get(process)).collect();
            let rows: Vec<Regressors> = works.iter().map(|work| row(work)).collect();
            let roles: BTreeSet<RoleId> = works.iter().flat_map(|work| work.roles.keys().copied()).collect();
            // As if no role depended on the schedule.
            let mut each_call = BTreeMap::new();
            for role in roles.into_iter().filter(|role| !SCHEDULING.contains(role) && !OF_PAGES.contains(role)) {
                let values: Vec<f64> =
                    works.iter().map(|work| as_f64(work.roles.get(&role).copied().unwrap_or(0))).collect();
                let priced = before.filter(|prices| !prices.unpriced.contains(&process));
                let other = priced.and_then(|prices| prices.roles.get(&(process, role)));
                let [sleep, preemption] = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|one| match other {
                    Some((fit, doubted)) => {
                        let [price, deviation] = doubted.as_ref().unwrap_or(fit).effect(one);
                        let (price, less) =
                            if doubted.is_some() { (0.0, price) } else { (price, SWITCH_PRICE * price) };
                        [price, deviation.hypot(less).hypot(OTHER_KERNEL).min(UNKNOWN_PRICE)]
                    }
                    None => [0.0, UNKNOWN_PRICE],
                });
                let known = [[0.0, 1e9], sleep, preemption];
                // The same in each call.
                let alone = [[0.0, 1e9], [0.0, 1e-9], [0.0, 1e-9]];
                let fits = [known, alone].map(|known| Fit::new(&rows, &values, known, 1.0));
                if let [Some(fit), Some(alone)] = fits {
                    let is_known = matches!(other, Some((_, None))) && fit.residue <= ALIKE * alone.residue;
                    let explains = fit.residue < (1.0 - EXPLAINED) * alone.residue || is_known;
                    let prices_of_switches = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|one| fit.effect(one)[0]);
                    if explains && prices_of_switches.iter().any(|price| price.abs() > MOST_PRICE) {
                        prices.unpriced.insert(process);
                    }
                    let fits = if explains { (fit, None) } else { (alone, Some(fit)) };
                    prices.roles.insert((process, role), fits);
                    each_call.insert((process, role), (alone, None));
                }
            }
            if prices.unpriced.contains(&process) {
                prices.roles.extend(each_call);
            }
            let pages: Vec<f64> = works.iter().map(|work| as_f64(work.pages)).collect();
            let sum = |of: &dyn Fn(&PartWork) -> u64| as_f64(works.iter().map(|work| of(work)).sum());
            let switches = sum(&|work| work.sleeps + work.preemptions);
            if sum(&|work| work.pages) > 0.0 && switches > 0.0 {
                // As if each switch let the pipe reuse as many.
                let each = -(sum(&|work| work.calls) - sum(&|work| work.pages)).max(0.0) / switches;
                let guess = [each / 2.0, each.abs() / 2.0 + 0.01];
                let fit = Fit::new(&rows, &pages, [[0.0, 1e9], guess, guess], 0.05);
                if let Some(fit) = fit.filter(|fit| fit.residue < least) {
                    least = fit.residue;
                    prices.pages = Some((process, fit));
                }
            }
        }
        prices
    }

    /// The pages that `change` of a process's calls, sleeps and preemptions allocates or saves. A switch lets a pipe reuse as many
    /// pages as the turn before it has left, so its price is the mean over turns that may be of another length in the other
    /// kernel: what either price says is possible.
    fn moved_pages(&self, change: &dyn Fn(ProcessName) -> Regressors) -> Option<MovedPages> {
        let (process, fit) = self.pages.as_ref()?;
        let [own, deviation] = fit.effect(change(*process));
        let other = self.other_pages.as_ref().map_or(own, |(other, priced)| {
            let [_, sleeps, preemptions] = change(*other);
            let [calls, ..] = change(*process);
            fit.effect([calls, 0.0, 0.0])[0] + priced.effect([0.0, sleeps, preemptions])[0]
        });
        Some(MovedPages { pages: own.midpoint(other), apart: (own - other).abs(), deviation })
    }

    /// `window` at the schedule `to`: what each role of each process is multiplied by.
    fn factors(&self, window: &Measure, to: &WindowNumbers) -> Option<Factors> {
        let from = window.numbers()?;
        // A process that lags behind the first has not done the calls of the last part, which counts less.
        let first = window.processes.names().next();
        let change = |process| {
            // The last call of a reader finds the end.
            let last = u64::from(first != Some(process));
            let calls = window.processes.get(process).map_or(0.0, |part| as_f64(part.calls.saturating_sub(last)));
            let calls = calls / window.kib();
            let [_, sleeps, preemptions] = change(&from, to, process);
            [calls - from.get(&process).map_or(calls, |numbers| numbers.calls), sleeps, preemptions]
        };
        let own_pages = |process| from.get(&process).map_or(0.0, |numbers| numbers.pages);
        let moved = self.moved_pages(&change).map(|moved| moved.pages);
        let pages = self.pages.as_ref().zip(moved).map(|((process, _), moved)| (own_pages(*process), moved));
        let mut factors = BTreeMap::new();
        for (process, part) in window.processes.of_target() {
            for role in part.roles.keys() {
                let factor = match pages.filter(|_| OF_PAGES.contains(role)) {
                    Some((counted, moved)) => {
                        // Who allocates many pages in one call has fewer than who frees them one by one.
                        let own = own_pages(process);
                        let alike = counted <= MOST_UNLIKE * own && own <= MOST_UNLIKE * counted;
                        (counted + moved) / if alike { own } else { counted }
                    }
                    None => {
                        let price = self.roles.get(&(process, *role));
                        let more = price.map_or(0.0, |(fit, _)| fit.effect(change(process))[0]);
                        1.0 + more / window.role(process, *role)
                    }
                };
                factors.insert((process, *role), if factor.is_finite() { factor.max(0.0) } else { 1.0 });
            }
        }
        Some(factors)
    }

    /// What is not known of `windows` at the schedule `to`.
    fn doubt(&self, windows: &[Measure], to: &WindowNumbers) -> Option<ScheduleDoubt> {
        let from = mean(windows)?;
        let most = |process| {
            let [_, sleeps, preemptions] = change(&from, to, process);
            let each = if self.unpriced.contains(&process) { UNPRICED } else { MOST_UNCERTAIN };
            each * sleeps.hypot(preemptions)
        };
        let mut doubt = ScheduleDoubt::default();
        // Of prices, which each process has at most so far; and of what was moved.
        let mut squares: BTreeMap<ProcessName, f64> = BTreeMap::new();
        let mut total = (PART_FLOOR * windows.first()?.without_scheduling()).powi(2);
        for ((process, role), (fit, doubted)) in &self.roles {
            let [moved, deviation] = fit.effect(change(&from, to, *process));
            let [other, more] = doubted.map_or([0.0; 2], |fit| fit.effect(change(&from, to, *process)));
            let (price, by) = (Z99 * deviation.max(more), (SWITCH_PRICE * moved).hypot(other));
            *squares.entry(*process).or_default() += price.powi(2);
            total += by.powi(2);
            let open = if self.unpriced.contains(process) { most(*process) } else { 0.0 };
            let sum = doubt.roles.entry(*role).or_default();
            *sum = sum.hypot(price).hypot(by).hypot(open);
        }
        for (process, square) in squares {
            let is_unknown = self.unpriced.contains(&process) || square.sqrt() > most(process);
            doubt.unknown |= is_unknown;
            total += if is_unknown { most(process).powi(2) } else { square };
        }
        let moved = self.moved_pages(&|process| change(&from, to, process)).unwrap_or_default();
        let half = (Z99 * moved.deviation).hypot(PAGE_PRICE * moved.pages) + moved.apart;
        let mut of_pages = 0.0;
        for role in OF_PAGES {
            let (mut value, mut numbers) = (0.0, 0.0);
            for window in windows {
                value += window.of_role(role);
                // A page is allocated by one process and freed by one.
                let all = window.numbers().unwrap_or_default();
                numbers += all.values().map(|numbers| numbers.pages).fold(0.0, f64::max);
            }
            let each = if numbers > 0.0 { value / numbers } else { 0.0 };
            doubt.roles.insert(role, each * half);
            of_pages += each * half;
        }
        doubt.total = total.sqrt().hypot(of_pages);
        Some(doubt)
    }
}

/// Processes whose numbers of pages differ by more do not count the same: one allocates or frees several in a call.
pub(super) const MOST_UNLIKE: f64 = 2.0;

/// The mean numbers of `windows`.
fn mean(windows: &[Measure]) -> Option<WindowNumbers> {
    let mut mean = WindowNumbers::new();
    let part = 1.0 / windows.len().max(1) as f64;
    for window in windows {
        for (process, numbers) in window.numbers()? {
            mean.entry(process).or_default().add(part, numbers);
        }
    }
    Some(mean)
}

/// `measure` and its windows as they would be at the schedule `to`, unless they differ from it by next to nothing. `other`: a
/// kernel with other prices, for what does not vary in the parts of `measure`.
fn at(measure: &Measure, other: Option<&Measure>, to: &WindowNumbers) -> Option<Measure> {
    let other = other.map(|other| Prices::of(&other.windows, None));
    let prices = Prices::of(&measure.windows, other.as_ref());
    let all: Vec<&Measure> = std::iter::once(measure).chain(&measure.windows).collect();
    let factors: Vec<_> = all.iter().map(|window| prices.factors(window, to)).collect::<Option<_>>()?;
    let mut doubt = prices.doubt(&measure.windows, to)?;
    let least = PART_FLOOR * measure.without_scheduling();
    let moved = |window: &Measure, factors: &Factors| {
        let moved = |((process, role), factor): (&(ProcessName, RoleId), &f64)| {
            (*role, (window.role(*process, *role) * (factor - 1.0)).abs())
        };
        factors.iter().map(moved).collect::<Vec<(RoleId, f64)>>()
    };
    let sum = |(window, factors): (&&Measure, _)| moved(window, factors).iter().map(|(_, by)| by).sum::<f64>();
    let is_same = all.iter().zip(&factors).map(sum).all(|sum| sum <= least);
    let mut scaled = if is_same {
        measure.clone()
    } else {
        let mut scaled = all.iter().zip(&factors).map(|(window, factors)| window.scaled(factors));
        let shown = scaled.next()?;
        doubt.moved = moved(measure, &factors[0]).iter().filter(|(_, by)| *by > least).map(|(role, _)| *role).collect();
        Measure { windows: scaled.collect(), ..shown }
    };
    scaled.doubt = doubt;
    Some(scaled)
}

/// `measure` as it would be at the schedule of `reference`; `None` if the schedule of one is not known.
pub fn at_that_of(reference: &Measure, measure: &Measure) -> Option<Measure> {
    let other = Some(reference).filter(|reference| !std::ptr::eq(*reference, measure));
    at(measure, other, &reference.numbers()?)
}

/// Two measures at the schedule of the first; `None` if the schedule of one is not known, or if their windows are the same.
pub fn equal([before, after]: [&Measure; 2]) -> Option<[Measure; 2]> {
    if std::ptr::eq(before, after) || before.windows == after.windows {
        return None;
    }
    Some([at_that_of(before, before)?, at_that_of(before, after)?])
}

#[cfg(test)]
mod tests;
