//! The pictures of a history: a workload's roles as stacked areas, and its largest roles as lines with bands.

use crate::history::{CountSpan, History, HistoryLine, HistoryPoint};
use crate::report::chart::{AreaChart, AreaLayer, Chart, ChartKind, Point, Series, Theme};
use crate::roles::{self, RoleId};
use anyhow::Result;

/// Areas with names; all others are one.
const AREAS: usize = 11;
/// Lines: as many as a chart has colours.
const LINES: usize = 6;
const OTHERS: &str = "#c9ced6";

/// What the bands are.
fn bands(line: &HistoryLine) -> String {
    let text = if line.pipeline {
        "Each kernel was counted once."
    } else {
        "Bands: the least and the greatest of the counted windows."
    };
    text.to_owned()
}

fn labels(history: &History, line: &HistoryLine) -> Vec<String> {
    line.points.iter().map(|point| history.label(point.kernel).to_owned()).collect()
}

fn of_role(point: &HistoryPoint, role: RoleId) -> CountSpan {
    point.roles.get(&role).copied().unwrap_or_default()
}

/// Stacked areas of all roles without scheduling.
pub(super) fn areas(history: &History, line: &HistoryLine) -> Result<String> {
    let roles = largest(line, AREAS);
    let mut layers: Vec<AreaLayer> = roles
        .iter()
        .map(|role| AreaLayer {
            name: roles::by_id(*role).title.to_owned(),
            colour: roles::by_id(*role).colour,
            values: line.points.iter().map(|point| of_role(point, *role).value).collect(),
        })
        .collect();
    let named = |point: &HistoryPoint| roles.iter().map(|role| of_role(point, *role).value).sum::<f64>();
    let rest: Vec<f64> =
        line.points.iter().map(|point| (point.without_scheduling.value - named(point)).max(0.0)).collect();
    if rest.iter().any(|value| *value > 0.005) {
        layers.push(AreaLayer { name: "other roles".to_owned(), colour: OTHERS, values: rest });
    }
    AreaChart {
        title: format!("{}: instructions per KiB by role", line.title()),
        y: format!("instructions per KiB, {}, without scheduling", line.counted()),
        labels: labels(history, line),
        layers,
        spans: line.points.iter().map(|point| [point.without_scheduling.low, point.without_scheduling.high]).collect(),
        caption: bands(line),
    }
    .svg(Theme::Page)
}

/// The sum of the workload `line`, and that of the same workload on the sources alone; empty if these were not counted.
pub(super) fn sums(history: &History, line: &HistoryLine) -> Result<String> {
    let Some(alone) = history.alone(line) else { return Ok(String::new()) };
    let sum = |point: &HistoryPoint| point.without_scheduling;
    let series =
        vec![series(history, line, "the kernels as they are", &sum), series(history, alone, "source alone", &sum)];
    bands_of(line, "sums", "the source alone", ", without scheduling", series)
}

/// A line with the values `of` on each kernel.
fn series(history: &History, line: &HistoryLine, name: &str, of: &dyn Fn(&HistoryPoint) -> CountSpan) -> Series {
    let point = |(point, label): (&HistoryPoint, String)| {
        let CountSpan { value, low, high, .. } = of(point);
        Point { label, y: value, span: Some([low, high]) }
    };
    let points = line.points.iter().zip(labels(history, line)).map(point).collect();
    Series { name: name.to_owned(), points }
}

/// A chart of lines with bands.
fn bands_of(line: &HistoryLine, id: &str, title: &str, which: &str, series: Vec<Series>) -> Result<String> {
    Chart {
        id: id.to_owned(),
        title: format!("{}: {title}", line.title()),
        kind: ChartKind::Bands,
        y: format!("instructions per KiB, {}{which}", line.counted()),
        x: "kernel".to_owned(),
        series,
        caption: bands(line),
    }
    .svg(Theme::Page)
}

/// Lines of the roles that change most.
pub(super) fn lines(history: &History, line: &HistoryLine) -> Result<String> {
    let range = |role: RoleId| {
        let values = line.points.iter().map(|point| of_role(point, role).value);
        let [low, high] =
            values.fold([f64::INFINITY, 0.0], |[low, high], value| [f64::min(low, value), f64::max(high, value)]);
        high - low
    };
    let mut changing: Vec<(RoleId, f64)> = largest(line, usize::MAX)
        .into_iter()
        .map(|role| (role, range(role)))
        .filter(|(_, range)| *range > 0.0)
        .collect();
    changing.sort_by(|left, right| right.1.total_cmp(&left.1));
    changing.truncate(LINES);
    if changing.is_empty() {
        return Ok(String::new());
    }
    let of =
        |(role, _): &(RoleId, f64)| series(history, line, roles::by_id(*role).title, &|point| of_role(point, *role));
    bands_of(line, "roles", "the roles that change most", "", changing.iter().map(of).collect())
}

/// The roles that take most on any kernel, in the order of legends.
pub(super) fn largest(line: &HistoryLine, count: usize) -> Vec<RoleId> {
    let most = |role: RoleId| {
        line.points.iter().filter_map(|point| point.roles.get(&role)).map(|span| span.value).fold(0.0, f64::max)
    };
    let mut all: Vec<(RoleId, f64)> = roles::all()
        .iter()
        .filter(|role| !roles::SCHEDULING.contains(&role.id))
        .map(|role| (role.id, most(role.id)))
        .filter(|(_, most)| *most > 0.0)
        .collect();
    let mut sorted: Vec<f64> = all.iter().map(|(_, most)| *most).collect();
    sorted.sort_by(|left, right| right.total_cmp(left));
    let least = sorted.get(count.saturating_sub(1)).copied().unwrap_or(0.0);
    all.retain(|(_, most)| *most >= least);
    all.truncate(count);
    all.into_iter().map(|(role, _)| role).collect()
}
