//! The chart of stacked bars: one bar per column, one piece per role.

use crate::compare::model::{Comparison, Section};
use crate::profile::listed;
use crate::report::chart::{AreaChart, AreaLayer};
use crate::roles::{self, RoleId};
use anyhow::Result;

/// The chart of one section as an `<svg>` element; empty if there is nothing to draw.
pub(crate) fn stacked(comparison: &Comparison, section: &Section) -> Result<String> {
    let columns = comparison.columns.iter().zip(&section.cells);
    let present: Vec<_> = columns.filter_map(|(column, cell)| Some((column, cell.as_ref()?))).collect();
    // Largest role of the whole section first, so that pieces have the same order in every bar.
    let layer = |role: RoleId| AreaLayer {
        name: roles::by_id(role).title.to_owned(),
        colour: roles::by_id(role).colour,
        values: present.iter().map(|(_, cell)| cell.of_role(role)).collect(),
    };
    let layers: Vec<AreaLayer> = role_order(section).into_iter().map(layer).collect();
    if layers.iter().flat_map(|layer| &layer.values).all(|value| *value <= 0.0) {
        return Ok(String::new());
    }
    let chart = AreaChart {
        title: format!("{}: stacked bars by role; the table below has the values", section.title()),
        y: format!("{} of {}, by role", comparison.per_kib(), listed(section.processes())),
        labels: present.iter().map(|(column, _)| column.label.clone()).collect(),
        layers,
        ..AreaChart::default()
    };
    chart.bars()
}

/// Ids of the roles of a section, ordered by their largest value in any column.
pub(crate) fn role_order(section: &Section) -> Vec<RoleId> {
    let mut largest: Vec<(RoleId, f64)> = Vec::new();
    for value in section.cells.iter().flatten().flat_map(|cell| &cell.roles) {
        match largest.iter_mut().find(|(role, _)| *role == value.role) {
            Some((_, most)) => *most = most.max(value.value),
            None => largest.push((value.role, value.value)),
        }
    }
    largest.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    largest.into_iter().map(|(role, _)| role).collect()
}
