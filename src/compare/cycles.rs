//! Estimated cycles next to instructions: whether both change in the same direction, whatever the weights are.

use super::dropped::Dropped;
use super::input::CompareOptions;
use super::measure::as_f64;
use super::model::{CycleChange, CycleDelta, RoleCycleDelta, Step, Word};
use crate::collect::insn::class;
use crate::profile::cycles::{FACTORS, PRICES};
use crate::profile::{ClassCounts, CycleModel, Folded, Profile, Unit};
use crate::result::Outcome;
use crate::result::code::ExecutedCode;
use crate::roles::{self, RoleId, SCHEDULING};
use crate::util::decision::{self, FLOOR};
use std::collections::BTreeMap;

/// The word for a change of instructions and the range of the change of cycles.
fn word(instructions: f64, [low, high]: [f64; 2]) -> Word {
    match () {
        () if instructions > 0.0 && low > 0.0 => Word::More,
        () if instructions < 0.0 && high < 0.0 => Word::Fewer,
        () => Word::Undecided,
    }
}

/// Part by which a role's plain count in one window may differ from its weighed one (docs/exactness.md, "Bursts").
const MOST_BY_BURSTS: f64 = 0.1;

/// What is priced, in the order of [`ClassCounts::amounts`].
type Amounts = [f64; PRICES];

/// What a column's instructions are, by class. Functions that count with their callers are moved by [`Self::align`].
#[derive(Debug, Clone)]
pub struct ClassMeasure {
    /// That of the first run.
    model: CycleModel,
    /// Amounts by role, the target's processes together.
    roles: BTreeMap<RoleId, Amounts>,
    kib: f64,
    /// Of each run with executed code: the stacks, and what is priced in one instruction of each function, on average.
    /// Documents have classes by role only; those of one function follow from its executed code, in the mix of all its
    /// calls.
    stacks: Vec<(Vec<Folded>, BTreeMap<String, Amounts>)>,
}

impl ClassMeasure {
    /// Of the runs of a column. `None` if one has no classes.
    pub fn of(runs: &[&Outcome]) -> Option<Self> {
        let model = runs.first()?.document.cycle_model.clone()?;
        let mut all = Self { model, roles: BTreeMap::new(), kib: 0.0, stacks: Vec::new() };
        for run in runs {
            for share in run.document.attribution.of_target() {
                all.add(share.role, &share.cycles.as_ref()?.classes.amounts(), 1.0);
            }
            all.kib += as_f64(run.document.processes.first().bytes) / 1024.0;
            let counted = |one: &&Profile| one.unit == Unit::Instructions && one.process.is_of_target();
            let stacks = run.profiles.iter().filter(counted).map(|one| one.stacks.clone()).collect();
            all.stacks.extend(run.code.as_ref().map(|code| (stacks, mixes(code))));
        }
        (all.kib > 0.0).then_some(all)
    }

    fn add(&mut self, role: RoleId, amounts: &Amounts, times: f64) {
        let sums = self.roles.entry(role).or_insert([0.0; PRICES]);
        sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * times);
    }

    /// Move the work of functions whose stacks have another role without the frames of `dropped`.
    fn align(&self, dropped: &Dropped) -> Self {
        let mut aligned =
            Self { model: self.model.clone(), roles: self.roles.clone(), kib: self.kib, stacks: Vec::new() };
        if dropped.is_empty() {
            return aligned;
        }
        for (folded, mixes) in &self.stacks {
            for (stack, weight) in folded.iter().flat_map(Folded::iter) {
                let Some(shorter) = dropped.shortened(stack.frames()) else { continue };
                let roles = [roles::of_stack(stack.frames()).0.id, roles::of_stack(shorter.into_iter()).0.id];
                if roles[0] != roles[1] {
                    let mix = mixes.get(roles::base_name(stack.leaf())).copied().unwrap_or_else(unknown);
                    aligned.add(roles[0], &mix, -as_f64(weight));
                    aligned.add(roles[1], &mix, as_f64(weight));
                }
            }
        }
        aligned
    }

    /// Scale each role to its instructions per KiB in the comparison, which come from a weighed window: classes are known of
    /// plain counts only, and differ from it by bursts. Another difference has another cause, and stays.
    fn scale(&mut self, per_kib: impl Fn(RoleId) -> Option<f64>) {
        for (role, amounts) in &mut self.roles {
            let own = instructions(amounts) / self.kib;
            let factor = per_kib(*role).map_or(1.0, |wanted| wanted / own);
            if (factor - 1.0).abs() <= MOST_BY_BURSTS {
                amounts.iter_mut().for_each(|amount| *amount *= factor);
            }
        }
    }

    /// What is priced in the roles that are wanted, per KiB.
    fn per_kib(&self, wanted: impl Fn(RoleId) -> bool) -> Amounts {
        let mut sums = [0.0; PRICES];
        for (_, amounts) in self.roles.iter().filter(|(role, _)| wanted(**role)) {
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
        sums.map(|amount| amount / self.kib)
    }
}

/// What is priced in one instruction of which nothing is known.
fn unknown() -> Amounts {
    ClassCounts { other: 1, ..ClassCounts::default() }.amounts()
}

/// What is priced in one instruction of each function that was executed, on average, by its base name.
fn mixes(code: &ExecutedCode) -> BTreeMap<String, Amounts> {
    let mut sums: BTreeMap<&str, ClassCounts> = BTreeMap::new();
    for function in &code.functions {
        *sums.entry(roles::base_name(&function.name)).or_default() += class::of_function(code, function);
    }
    let executed = sums.into_iter().filter(|(_, counts)| counts.instructions() > 0);
    let mix = |counts: ClassCounts| counts.amounts().map(|amount| amount / as_f64(counts.instructions()));
    executed.map(|(name, counts)| (name.to_owned(), mix(counts))).collect()
}

/// The instructions among `amounts`, of which the last is of cache lines.
fn instructions(amounts: &Amounts) -> f64 {
    amounts[..PRICES - 1].iter().sum()
}

/// The change between two columns, priced by the model of `options`, or else by that of the first column; `None` if one has
/// no instructions by class. `step` has its verdict and roles.
pub fn change(step: &Step, classes: [Option<&ClassMeasure>; 2], options: &CompareOptions) -> Option<CycleChange> {
    let dropped = Dropped::of(&step.inlined);
    let [mut before, mut after] = [classes[0]?, classes[1]?].map(|classes| classes.align(&dropped));
    let row = |role: RoleId| step.roles.iter().find(|row| row.role == role);
    before.scale(|role| row(role).map(|row| row.before));
    after.scale(|role| row(role).map(|row| row.after));
    let model = options.cycle_model.as_ref().unwrap_or(&before.model);
    let delta = |change: f64, certain: bool, wanted: &dyn Fn(RoleId) -> bool| {
        let (old, new) = (before.per_kib(wanted), after.per_kib(wanted));
        let range = range(model, &old, &new);
        let own = instructions(&new) - instructions(&old);
        // Small roles are not scaled, which shows in their sum.
        let same = (own - change).abs() < 1e-3 * (1.0 + instructions(&old));
        CycleDelta {
            // As in the step's roles, also where the sums of fractions are not exactly those.
            instructions: if same { change } else { own },
            before: model.cycles_of(&old, 1.0),
            after: model.cycles_of(&new, 1.0),
            range,
            word: (certain && same).then(|| word(change, range)),
        }
    };
    let judged = matches!(step.verdict.word, Word::Fewer | Word::More);
    let unscheduled = |role: RoleId| !SCHEDULING.contains(&role);
    let without_scheduling = delta(step.verdict.delta, judged, &unscheduled);
    let part = part(model, &before.per_kib(unscheduled), &after.per_kib(unscheduled));
    // Classes that belong to other instructions decide nothing.
    let is_known = without_scheduling.instructions == step.verdict.delta && step.unequal.is_empty();
    let interval = if is_known { part } else { [f64::NAN; 2] };
    Some(CycleChange {
        model: model.name.clone(),
        hash: model.hash.clone(),
        without_scheduling,
        part,
        word: Word::of_counts(decision::decide(interval, FLOOR, options.margin)),
        roles: step
            .roles
            .iter()
            .map(|row| RoleCycleDelta {
                role: row.role,
                title: row.title.clone(),
                change: delta(row.delta, row.certain, &|role| role == row.role),
            })
            .collect(),
    })
}

/// The smallest and the largest change of cycles over all combinations of halved and doubled weights. The cycles are
/// linear in each weight, so the extremes are at the ends.
fn range(model: &CycleModel, before: &Amounts, after: &Amounts) -> [f64; 2] {
    let mut range = [0.0; 2];
    for ((index, (before, after)), price) in before.iter().zip(after).enumerate().zip(model.prices()) {
        // The first is `other`, whose weight is the unit of the others.
        let factors = if index == 0 { [1.0; 2] } else { FACTORS };
        let ends = factors.map(|factor| factor * price * (after - before));
        range[0] += ends[0].min(ends[1]);
        range[1] += ends[0].max(ends[1]);
    }
    range
}

/// The same as a part of the cycles before. A quotient of linear functions is monotonic in each weight.
fn part(model: &CycleModel, before: &Amounts, after: &Amounts) -> [f64; 2] {
    let prices = model.prices();
    let cycles = |amounts: &Amounts, combination: usize| -> f64 {
        let parts = prices.iter().zip(amounts).enumerate();
        let factor = |class: usize| if class == 0 { 1.0 } else { FACTORS[combination >> (class - 1) & 1] };
        parts.map(|(class, (price, amount))| factor(class) * price * amount).sum()
    };
    let change = |combination| match [before, after].map(|amounts| cycles(amounts, combination)) {
        [old, new] if old > 0.0 => new / old - 1.0,
        _ => 0.0,
    };
    (0..1 << (PRICES - 1))
        .map(change)
        .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], part| [low.min(part), high.max(part)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_that_differ_and_ranges_with_zero_are_undecided() {
        let model = CycleModel::standard().unwrap();
        let per_kib = |counts: &ClassCounts| counts.amounts().map(|amount| amount / 2.0);
        let change = |before: ClassCounts, after: ClassCounts| {
            let range = range(&model, &per_kib(&before), &per_kib(&after));
            let instructions = (after.instructions() as f64 - before.instructions() as f64) / 2.0;
            (range, word(instructions, range))
        };
        let counts = |other, locked| ClassCounts { other, locked, ..ClassCounts::default() };
        assert_eq!(change(counts(100, 0), counts(200, 0)), ([20.0, 20.0], Word::More));
        assert_eq!(change(counts(100, 2), counts(100, 0)), ([-36.0, -9.0], Word::Fewer));
        // Fewer instructions, but a locked operation more: more cycles.
        assert_eq!(change(counts(100, 0), counts(90, 2)).1, Word::Undecided);
        // 100 instructions fewer against two locked operations more: 20 cycles against 9 to 36.
        assert_eq!(change(counts(200, 0), counts(100, 2)), ([-11.0, 16.0], Word::Undecided));
        assert_eq!(change(counts(5, 5), counts(5, 5)), ([0.0, 0.0], Word::Undecided));
        // Weights change independently: a locked operation more, a division less.
        let traded = ClassCounts { other: 99, div: 1, ..ClassCounts::default() };
        let (range, _) = change(traded, counts(99, 1));
        assert_eq!(range, [(9.0 - 28.0) / 2.0, (36.0 - 7.0) / 2.0]);
    }
}
