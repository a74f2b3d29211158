//! Estimated cycles next to instructions: whether both change in the same direction, whatever the weights are.

use super::dropped::Dropped;
use super::input::{Input, of_case};
use super::measure::as_f64;
use super::model::{CycleChange, CycleDelta, CycleWord, RoleCycleDelta, Step, Word};
use crate::collect::insn::class;
use crate::profile::cycles::{FACTORS, PRICES};
use crate::profile::{ClassCounts, CycleModel, Unit};
use crate::result::Outcome;
use crate::result::code::ExecutedCode;
use crate::roles::{self, RoleId, SCHEDULING};
use std::collections::BTreeMap;

impl CycleWord {
    #[must_use]
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Fewer => "fewer",
            Self::More => "more",
            Self::Undecided => "undecided",
        }
    }

    /// The word for a change of instructions and the range of the change of cycles.
    fn of(instructions: f64, [low, high]: [f64; 2]) -> Self {
        if instructions > 0.0 && low > 0.0 {
            Self::More
        } else if instructions < 0.0 && high < 0.0 {
            Self::Fewer
        } else {
            Self::Undecided
        }
    }
}

/// Part by which a role's plain count in one window may differ from its weighed one (docs/exactness.md, "Bursts").
const MOST_BY_BURSTS: f64 = 0.1;

/// What is priced, in the order of [`ClassCounts::amounts`].
type Amounts = [f64; PRICES];

/// Amounts by role, the target's processes together.
struct Classified<'a> {
    /// That of the run.
    model: &'a CycleModel,
    roles: BTreeMap<RoleId, Amounts>,
    kib: f64,
}

impl<'a> Classified<'a> {
    /// Functions of `dropped` count with their callers. `None` if an outcome has no classes, as documents of earlier
    /// versions.
    fn of(outcomes: &[&'a Outcome], dropped: &Dropped) -> Option<Self> {
        let model = outcomes.first()?.document.cycle_model.as_ref()?;
        let mut all = Self { model, roles: BTreeMap::new(), kib: 0.0 };
        for outcome in outcomes {
            for share in outcome.document.attribution.of_target() {
                all.add(share.role, &share.cycles.as_ref()?.classes.amounts(), 1.0);
            }
            all.kib += as_f64(outcome.document.processes.first().bytes) / 1024.0;
            all.align(outcome, dropped);
        }
        (all.kib > 0.0).then_some(all)
    }

    fn add(&mut self, role: RoleId, amounts: &Amounts, times: f64) {
        let sums = self.roles.entry(role).or_insert([0.0; PRICES]);
        sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * times);
    }

    /// Move the work of functions whose stacks have another role without the frames of `dropped`. Documents have classes
    /// by role only; those of one function follow from its executed code, in the mix of all its calls.
    fn align(&mut self, outcome: &Outcome, dropped: &Dropped) {
        let Some(code) = outcome.code.as_ref().filter(|_| !dropped.is_empty()) else { return };
        let mut mixes: BTreeMap<&str, Amounts> = BTreeMap::new();
        for profile in
            outcome.profiles.iter().filter(|one| one.unit == Unit::Instructions && one.process.is_of_target())
        {
            for (stack, weight) in profile.stacks.iter() {
                let Some(shorter) = dropped.shortened(stack.frames()) else { continue };
                let from = roles::of_stack(stack.frames()).0.id;
                let to = roles::of_stack(shorter.into_iter()).0.id;
                let leaf = stack.leaf();
                if from != to {
                    let mix = *mixes.entry(leaf).or_insert_with(|| mix(code, leaf));
                    self.add(from, &mix, -as_f64(weight));
                    self.add(to, &mix, as_f64(weight));
                }
            }
        }
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

    fn amounts(&self, wanted: impl Fn(RoleId) -> bool) -> Amounts {
        let mut sums = [0.0; PRICES];
        for (_, amounts) in self.roles.iter().filter(|(role, _)| wanted(**role)) {
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
        sums
    }
}

/// What is priced in one instruction of `function`, on average.
fn mix(code: &ExecutedCode, function: &str) -> Amounts {
    let name = roles::base_name(function);
    let mut counts = ClassCounts::default();
    for one in code.functions.iter().filter(|one| roles::base_name(&one.name) == name) {
        counts += class::of_function(code, one);
    }
    match counts.instructions() {
        0 => ClassCounts { other: 1, ..ClassCounts::default() }.amounts(),
        all => counts.amounts().map(|amount| amount / as_f64(all)),
    }
}

/// The instructions among `amounts`, of which the last is of cache lines.
fn instructions(amounts: &Amounts) -> f64 {
    amounts[..PRICES - 1].iter().sum()
}

/// The change between two columns, priced by `model`, or else by the model of the first column; `None` if one has no
/// instructions by class. `step` has its verdict and roles.
pub(crate) fn change(
    step: &Step,
    inputs: &[Input],
    (mode, cpus): (&str, Option<u32>),
    model: Option<&CycleModel>,
) -> Option<CycleChange> {
    let dropped = Dropped::of(&step.inlined);
    let [before, after] = [step.from, step.to].map(|column| of_case(&inputs[column], mode, cpus));
    let (mut before, mut after) = (Classified::of(&before, &dropped)?, Classified::of(&after, &dropped)?);
    let row = |role: RoleId| step.roles.iter().find(|row| row.role == role);
    before.scale(|role| row(role).map(|row| row.before));
    after.scale(|role| row(role).map(|row| row.after));
    let model = model.unwrap_or(before.model);
    let delta = |change: f64, certain: bool, wanted: &dyn Fn(RoleId) -> bool| {
        let per_kib = |side: &Classified<'_>| side.amounts(wanted).map(|amount| amount / side.kib);
        let (old, new) = (per_kib(&before), per_kib(&after));
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
            word: (certain && same).then(|| CycleWord::of(change, range)),
        }
    };
    let judged = matches!(step.verdict.word, Word::Fewer | Word::More);
    Some(CycleChange {
        model: model.name.clone(),
        hash: model.hash.clone(),
        without_scheduling: delta(step.verdict.delta, judged, &|role| !SCHEDULING.contains(&role)),
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
            (range, CycleWord::of(instructions, range))
        };
        let counts = |other, locked| ClassCounts { other, locked, ..ClassCounts::default() };
        assert_eq!(change(counts(100, 0), counts(200, 0)), ([20.0, 20.0], CycleWord::More));
        assert_eq!(change(counts(100, 2), counts(100, 0)), ([-36.0, -9.0], CycleWord::Fewer));
        // Fewer instructions, but a locked operation more: more cycles.
        assert_eq!(change(counts(100, 0), counts(90, 2)).1, CycleWord::Undecided);
        // 100 instructions fewer against two locked operations more: 20 cycles against 9 to 36.
        assert_eq!(change(counts(200, 0), counts(100, 2)), ([-11.0, 16.0], CycleWord::Undecided));
        assert_eq!(change(counts(5, 5), counts(5, 5)), ([0.0, 0.0], CycleWord::Undecided));
        // Weights change independently: a locked operation more, a division less.
        let traded = ClassCounts { other: 99, div: 1, ..ClassCounts::default() };
        let (range, _) = change(traded, counts(99, 1));
        assert_eq!(range, [(9.0 - 28.0) / 2.0, (36.0 - 7.0) / 2.0]);
    }
}
