//! What a found item changes, in the words and figures of a comparison of the kernels before and after it.

use crate::compare::Comparison;
use crate::compare::model::{RolePart, Section, Step, section_title};
use crate::report::number;
use crate::roles::{RoleId, SCHEDULING};
use crate::util::decision::FLOOR;
use serde::Serialize;

/// The change of one mode, per KiB without scheduling.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The mode, with the number of CPUs if there are several.
    pub case: String,
    pub before: f64,
    pub after: f64,
    /// Half the width of the change's interval; absent if it is not known.
    pub uncertainty: Option<f64>,
    /// Roles that certainly changed, largest first.
    pub roles: Vec<RolePart>,
}

impl Effect {
    /// The change of instructions per KiB.
    pub fn delta(&self) -> f64 {
        self.after - self.before
    }

    /// The change in percent of the value before, with its uncertainty: `+7.8 % (±0.1 %)`.
    pub fn percent(&self) -> String {
        let half = number::in_parentheses(self.uncertainty.map(|half| half / self.before));
        format!("{}{half}", number::change(self.after / self.before))
    }

    /// The changes between the two columns of `comparison`, by mode.
    pub fn of(comparison: &Comparison) -> Vec<Self> {
        comparison.sections.iter().filter_map(Self::of_section).collect()
    }

    fn of_section(section: &Section) -> Option<Self> {
        let step = section.steps.first()?;
        let value = |column: usize| Some(section.cells.get(column)?.as_ref()?.exact.as_ref()?.without_scheduling);
        let before = value(step.from)?;
        let mut roles: Vec<RolePart> = step
            .roles
            .iter()
            .filter(|row| row.certain && row.delta != 0.0 && !SCHEDULING.contains(&row.role))
            .map(|row| RolePart { role: row.role, title: row.title.clone(), delta: row.delta })
            .collect();
        roles.sort_by(|a, b| b.delta.abs().total_cmp(&a.delta.abs()));
        Some(Self {
            case: section_title(&section.mode, section.cpus),
            before,
            after: value(step.to)?,
            uncertainty: step.verdict.uncertainty.map(|half| half * before),
            roles,
        })
    }
}

/// What was skipped, and why.
#[derive(Debug, Clone, Serialize)]
pub struct Untestable {
    /// A commit, or a configuration.
    pub what: String,
    pub why: String,
}

/// What counts as an effect.
#[derive(Debug, Clone, Copy)]
pub struct Threshold {
    /// As a part of what the whole takes without scheduling.
    pub smallest: f64,
    /// Only this role is looked at, in parts of itself.
    pub role: Option<RoleId>,
}

impl Threshold {
    /// Windows of one kernel differ by up to [`FLOOR`], so nothing smaller is looked for.
    pub fn new(smallest: f64, role: Option<RoleId>) -> Self {
        Self { smallest: smallest.max(FLOOR), role }
    }

    /// Whether a mode of `comparison`, which has two columns, certainly changes by more: in total or in a role, so that
    /// roles that change in opposite directions are found.
    pub fn is_reached(self, comparison: &Comparison) -> bool {
        comparison.sections.iter().any(|section| {
            let before = section.cells.first().and_then(Option::as_ref);
            let whole = before.and_then(|cell| cell.exact.as_ref()).map_or(0.0, |exact| exact.without_scheduling);
            section.steps.first().is_some_and(|step| self.is_reached_in(step, whole))
        })
    }

    fn is_reached_in(self, step: &Step, whole: f64) -> bool {
        let Self { smallest, .. } = self;
        let is_real = step.verdict.word.direction().is_some() && (step.verdict.ratio - 1.0).abs() > smallest;
        let of_role = |role: &RoleId| self.role.is_none_or(|wanted| wanted == *role) && !SCHEDULING.contains(role);
        let is_large = |delta: f64, before: f64| match self.role {
            Some(_) => before == 0.0 || delta.abs() > smallest * before,
            None => delta.abs() > smallest * whole,
        };
        (is_real && self.role.is_none())
            || step.roles.iter().any(|row| row.certain && of_role(&row.role) && is_large(row.delta, row.before))
    }
}
