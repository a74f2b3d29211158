//! Split the change between two kernels by cause, from counts of kernels that were built of parts of both.
//!
//! A corner is a set of parts that are those of the second kernel: a bit each for source, configuration and compiler. An
//! order leads from corner 0 to corner 7, and each of its three steps changes one thing. What a part contributes depends on
//! what was changed before it, so the mean over the orders is its value, and their range its uncertainty.

use super::case::CaseMeasure;
use super::dropped::Dropped;
use super::exact::PART_FLOOR;
use super::measure::{Measure, ScheduleDoubt};
use super::model::{CauseNames, CausePart, CauseResidual, CauseRow, CauseSplit, CauseValue, Cell, Section};
use super::schedule;
use crate::roles::{self, RoleId, SCHEDULING};
use crate::util::decision::{self, FLOOR, WindowOrder};
use std::collections::BTreeSet;

/// All parts are those of the second kernel.
const ALL: usize = 7;

/// The orders in which the parts change, as bits of corners. The first two are the opposite of each other.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1]];

/// The corners on the way of an order, both ends included.
fn corners(order: [usize; 3]) -> [usize; 4] {
    let mut corner = 0;
    let mut way = [0; 4];
    for (place, bit) in (1..).zip(order) {
        corner |= 1 << bit;
        way[place] = corner;
    }
    way
}

/// The corners that must be counted, ascending: those of two opposite orders, or all. `differs`: whether source,
/// configuration and compiler do; a part that does not is never changed.
pub fn needed(differs: [bool; 3], all: bool) -> Vec<usize> {
    let orders = if all { &ORDERS[..] } else { &ORDERS[..2] };
    let found: BTreeSet<usize> =
        orders.iter().flat_map(|order| corners(*order)).map(|corner| changed(corner, differs)).collect();
    found.into_iter().collect()
}

/// `corner` without the parts that do not differ.
pub fn changed(corner: usize, differs: [bool; 3]) -> usize {
    (0..3).filter(|bit| differs[*bit]).fold(0, |kept, bit| kept | (corner & (1 << bit)))
}

/// Where the counts of a split are among the columns of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseColumns {
    /// The column of each corner; the same for corners that are the same kernel, absent for those that were not built.
    pub corners: [Option<usize>; 8],
    /// The columns of the kernels that are compared.
    pub images: [usize; 2],
    pub labels: [String; 2],
    pub differing: Vec<CauseNames>,
}

/// The split in one section, whose cells and measures are those of all columns; `None` if a corner has no count.
pub fn split(section: &Section, measures: &[Option<CaseMeasure>], columns: &CauseColumns) -> Option<CauseSplit> {
    let cell = |column: usize| section.cells.get(column)?.as_ref().filter(|cell| cell.exact.is_some());
    // The cells' roles are without functions that only one of the compilers inlined.
    let dropped = Dropped::of(section.steps.iter().flat_map(|step| &step.inlined));
    let counted = |column: usize| measures.get(column)?.as_ref()?.profile.as_deref();
    let first = columns.corners[0].and_then(counted)?;
    let aligned = |measure: &Option<CaseMeasure>| {
        let counted = measure.as_ref()?.profile.as_deref()?;
        Some(schedule::at_that_of(first, counted).as_ref().unwrap_or(counted).without(&dropped))
    };
    let profiles: Vec<Option<Measure>> = measures.iter().map(aligned).collect();
    let profile = |column: usize| profiles.get(column)?.as_ref();
    let has = |corner: usize| columns.corners[corner].is_some_and(|column| cell(column).is_some());
    let orders: Vec<[usize; 4]> =
        ORDERS.into_iter().map(corners).filter(|way| way.iter().all(|corner| has(*corner))).collect();
    if orders.is_empty() {
        return None;
    }
    let at = |corner: usize| columns.corners[corner].and_then(cell);
    at(0).and(at(ALL))?;
    let measured = |corner: usize| columns.corners[corner].and_then(profile);
    let row = |of: &dyn Fn(&Measure) -> f64, doubt: &dyn Fn(&ScheduleDoubt) -> f64, floor: f64| -> CauseRow {
        let values: [f64; 8] = std::array::from_fn(|corner| measured(corner).map_or(0.0, of));
        let windows: [Vec<f64>; 8] =
            std::array::from_fn(|corner| measured(corner).map(|profile| profile.of_windows(of)).unwrap_or_default());
        let doubts: [f64; 8] = std::array::from_fn(|corner| measured(corner).map_or(0.0, |one| doubt(&one.doubt)));
        let open = |from: usize, to: usize| {
            Some(
                decision::half_width([&windows[from], &windows[to]], WindowOrder::Any)?
                    .hypot(doubts[from])
                    .hypot(doubts[to]),
            )
        };
        parts(&orders, values, &open, floor)
    };
    let before = measured(0)?.without_scheduling();
    let total = CauseRow {
        title: "without scheduling".to_owned(),
        ..row(&Measure::without_scheduling, &|doubt| doubt.total, FLOOR * before)
    };
    let known: BTreeSet<RoleId> = columns
        .corners
        .iter()
        .flatten()
        .filter_map(|column| cell(*column))
        .flat_map(|cell| cell.roles.iter().map(|value| value.role))
        .filter(|role| !SCHEDULING.contains(role))
        .collect();
    let mut rows: Vec<CauseRow> = known
        .into_iter()
        .map(|role| {
            let about = roles::by_id(role);
            CauseRow {
                role: Some(role),
                title: about.title.to_owned(),
                colour: about.colour.to_owned(),
                ..row(
                    &|measure| measure.of_role(role),
                    &|doubt| doubt.roles.get(&role).copied().unwrap_or(0.0),
                    PART_FLOOR * before,
                )
            }
        })
        .filter(|row| row.delta != 0.0 || row.parts.iter().any(|part| part.delta != 0.0))
        .collect();
    let size = |row: &CauseRow| row.parts.iter().map(|part| part.delta.abs()).fold(row.delta.abs(), f64::max);
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.role.cmp(&b.role)));
    let differs = |side: usize, corner: usize| {
        let (image, rebuilt) = (columns.images[side], columns.corners[corner]?);
        if image == rebuilt { None } else { residual(&columns.labels[side], cell(image)?, cell(rebuilt)?) }
    };
    Some(CauseSplit {
        kernels: columns.labels.clone(),
        differing: columns.differing.clone(),
        orders: distinct(&orders, columns.corners),
        before,
        after: measured(ALL)?.without_scheduling(),
        total,
        roles: rows,
        residuals: [differs(0, 0), differs(1, ALL)],
    })
}

/// How many of the orders lead over different kernels.
fn distinct(orders: &[[usize; 4]], columns: [Option<usize>; 8]) -> usize {
    let ways = orders.iter().map(|way| {
        let mut kernels = way.map(|corner| columns[corner]).to_vec();
        kernels.dedup();
        kernels
    });
    ways.collect::<BTreeSet<_>>().len()
}

fn without_scheduling(cell: &Cell) -> f64 {
    cell.exact.as_ref().map_or(0.0, |exact| exact.without_scheduling)
}

/// The parts of one value, known at the corners of `orders`. `open`: what the windows of two corners leave open; `None` if
/// that is not known.
fn parts(orders: &[[usize; 4]], values: [f64; 8], open: &dyn Fn(usize, usize) -> Option<f64>, floor: f64) -> CauseRow {
    let mut parts = [CauseValue::default(); 3];
    let mut widest = 0.0_f64;
    for (bit, part) in parts.iter_mut().enumerate() {
        let mut steps: Vec<f64> = Vec::new();
        let mut left = 0.0_f64;
        for way in orders {
            for pair in way.windows(2).filter(|pair| pair[0] ^ pair[1] == 1 << bit) {
                let step = values[pair[1]] - values[pair[0]];
                steps.push(step);
                // With one window on a side, the whole step may be nothing.
                left = left.max(open(pair[0], pair[1]).unwrap_or(step.abs()));
            }
        }
        let smallest = steps.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = steps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = if steps.is_empty() { 0.0 } else { largest - smallest };
        widest = widest.max(range);
        #[expect(clippy::cast_precision_loss, reason = "at most six orders")]
        let delta = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
        // A part that does not differ has the same kernel on both sides of each step.
        let uncertainty = if steps.iter().all(|step| *step == 0.0) { 0.0 } else { (range / 2.0 + left).max(floor) };
        *part = CauseValue { delta, uncertainty, certain: delta.abs() > uncertainty };
    }
    CauseRow {
        role: None,
        title: String::new(),
        colour: String::new(),
        delta: values[ALL] - values[0],
        parts,
        order: widest,
    }
}

/// `rebuilt` compared with the kernel itself.
fn residual(label: &str, image: &Cell, rebuilt: &Cell) -> Option<CauseResidual> {
    let of = |role: RoleId| rebuilt.of_role(role) - image.of_role(role);
    let all = image.roles.iter().chain(&rebuilt.roles).filter(|value| !SCHEDULING.contains(&value.role));
    let largest = all.max_by(|a, b| of(a.role).abs().total_cmp(&of(b.role).abs()))?;
    Some(CauseResidual {
        label: label.to_owned(),
        image: without_scheduling(image),
        rebuilt: without_scheduling(rebuilt),
        role: largest.title.clone(),
        role_delta: of(largest.role),
    })
}

/// In words: `source -6.9 %, configuration +7.8 %, compiler -6.4 %`.
pub(crate) fn parts_in_words(split: &CauseSplit) -> String {
    let of_part = |part: CausePart, value: &CauseValue| {
        split.differing.iter().find(|names| names.part == part)?;
        let percent = |value: f64| format!("{:.1} %", 100.0 * value / split.before);
        let change = if value.certain {
            format!("{:+.1} %", 100.0 * value.delta / split.before)
        } else {
            format!("within its uncertainty of {}", percent(value.uncertainty))
        };
        Some(format!("{} {change}", part.name()))
    };
    let parts: Vec<String> =
        CausePart::ALL.into_iter().zip(&split.total.parts).filter_map(|(part, value)| of_part(part, value)).collect();
    if parts.is_empty() { "source, configuration and compiler are the same".to_owned() } else { parts.join(", ") }
}

/// What source and compiler are: ` (source 6.12.118 -> 7.2.13, gcc 14.2.0 -> gcc 16.2.0)`; empty if they are the same.
pub fn names(split: &CauseSplit) -> String {
    let named: Vec<String> = split
        .differing
        .iter()
        .filter_map(|CauseNames { part, before, after }| match part {
            CausePart::Source => Some(format!("source {before} -> {after}")),
            CausePart::Compiler => Some(format!("{before} -> {after}")),
            // A configuration is named as the kernel that it is of.
            CausePart::Configuration => None,
        })
        .collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_orders_need_six_kernels_and_all_need_eight() {
        assert_eq!(needed([true; 3], false), [0, 1, 3, 4, 6, 7]);
        assert_eq!(needed([true; 3], true), [0, 1, 2, 3, 4, 5, 6, 7]);
        // The compiler is the same: source and configuration in both orders.
        assert_eq!(needed([true, true, false], false), [0, 1, 2, 3]);
        assert_eq!(needed([false, false, true], false), [0, 4]);
        assert_eq!(needed([false; 3], true), [0]);
    }

    #[test]
    fn parts_add_up_to_the_change_in_every_order() {
        // 100, with -10 of the source, +20 of the configuration, -5 of the compiler, and -3 of source and compiler together.
        let value = |corner: usize| {
            let has = |bit: usize| f64::from(u8::from(corner & (1 << bit) != 0));
            100.0 - 10.0 * has(0) + 20.0 * has(1) - 5.0 * has(2) - 3.0 * has(0) * has(2)
        };
        let values: [f64; 8] = std::array::from_fn(value);
        let two: Vec<[usize; 4]> = ORDERS[..2].iter().map(|order| corners(*order)).collect();
        let all: Vec<[usize; 4]> = ORDERS.into_iter().map(corners).collect();
        for orders in [two, all] {
            let row = parts(&orders, values, &|_, _| Some(0.0), 0.1);
            let deltas = row.parts.map(|part| part.delta);
            assert_eq!((row.delta, deltas), (2.0, [-11.5, 20.0, -6.5]));
            assert_eq!((row.order, row.parts[0].uncertainty, row.parts[1].uncertainty), (3.0, 1.5, 0.1));
            assert!(row.parts.iter().all(|part| part.certain));
        }
    }

    #[test]
    fn a_part_within_its_uncertainty_is_not_certain() {
        let orders = [corners(ORDERS[0])];
        let mut values = [100.0; 8];
        values[7] = 100.2;
        let row = parts(&orders, values, &|_, _| Some(0.3), 0.1);
        assert_eq!(row.parts.map(|part| part.certain), [false; 3]);
        // The same kernel on both sides: known to be nothing.
        assert_eq!(row.parts[0].uncertainty, 0.0);
        assert!((row.parts[2].uncertainty - 0.3).abs() < 1e-9);
        // With a single window nothing is certain.
        values[7] = 150.0;
        assert!(!parts(&orders, values, &|_, _| None, 0.1).parts[2].certain);
    }
}
