//! `report.html`: one file that needs no network. The template escapes all values except the SVGs drawn here.

use super::{chart, graphs, terminal};
use crate::compare::answer;
use crate::compare::build::Compared;
use crate::compare::details;
use crate::compare::model::{Comparison, FunctionRow, FunctionSum, Section, Step};
use crate::compare::text;
use crate::profile::ProcessName;
use crate::roles;
use crate::roles::SCHEDULING;
use crate::util::text::capitalized;
use anyhow::{Context as _, Result};
use minijinja::{Value, context};
use serde::Serialize;

/// Functions listed per direction.
const LISTED: usize = 15;

/// A section for the template.
#[derive(Serialize)]
struct SectionView<'a> {
    section: &'a Section,
    title: String,
    /// For ids.
    slug: String,
    processes: Vec<ProcessName>,
    chart: Value,
    roles: Vec<RoleLine>,
    steps: Vec<StepView<'a>>,
    plain: Vec<graphs::PackedGraph>,
}

/// One role in all columns.
#[derive(Serialize)]
struct RoleLine {
    title: String,
    colour: String,
    values: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct StepView<'a> {
    step: &'a Step,
    from: &'a str,
    to: &'a str,
    answer: String,
    details: Vec<String>,
    /// Which functions are counted with their callers.
    inlining: Option<String>,
    grew: Vec<FunctionView<'a>>,
    shrank: Vec<FunctionView<'a>>,
    sums: Vec<SumView<'a>>,
    /// Largest change of a role, for the scale of the bars.
    largest: f64,
    graphs: Vec<graphs::PackedGraph>,
}

#[derive(Serialize)]
struct FunctionView<'a> {
    name: String,
    role: &'static str,
    row: &'a FunctionRow,
}

#[derive(Serialize)]
struct SumView<'a> {
    name: String,
    row: &'a FunctionSum,
}

/// The whole page.
///
/// # Errors
/// When a graph or the template cannot be rendered.
pub fn render(compared: &Compared) -> Result<String> {
    let comparison = &compared.comparison;
    let mut views = Vec::new();
    for (index, section) in comparison.sections.iter().enumerate() {
        let chart = Value::from_safe_string(chart::stacked(comparison, section)?);
        let measures = &compared.measures[index];
        let mut steps = Vec::new();
        for step in &section.steps {
            let graphs = graphs::differential(comparison, section, step, measures)?;
            steps.push(step_view(comparison, section, step, graphs));
        }
        let plain = graphs::plain(comparison, section, measures)?;
        views.push(SectionView {
            section,
            title: section.title(),
            slug: graphs::slug(&section.title()),
            processes: section.processes(),
            chart,
            roles: role_lines(section),
            steps,
            plain,
        });
    }
    let mut environment = crate::report::html::environment()?;
    environment.add_filter("value", |number: f64| text::value(number));
    environment.add_filter("count", |number: f64| text::count(number));
    environment.add_filter("signed", |number: f64| text::signed(number));
    environment.add_function("change", |before: f64, after: f64| text::change(before, after));
    environment.add_filter("margin", |part: f64| text::margin(part));
    environment.add_filter("span", |low: f64, high: f64| text::span([low, high]));
    environment.add_filter("percent", |ratio: f64| text::percent(ratio));
    // The extension enables escaping.
    environment.add_template("report.html", include_str!("report.html")).context("report template")?;
    environment
        .get_template("report.html")
        .and_then(|template| {
            template.render(context! {
                c => comparison,
                unit => comparison.per_kib(),
                cycles_meaning => super::cycles::MEANING,
                sentences => answer::sentences(comparison), split => terminal::SPLIT, scheduling => SCHEDULING, verdict_unit => comparison.verdict_unit(),
                views => views,
            })
        })
        .context("cannot render report.html")
}

fn step_view<'a>(
    comparison: &'a Comparison,
    section: &Section,
    step: &'a Step,
    graphs: Vec<graphs::PackedGraph>,
) -> StepView<'a> {
    let (from, to) = comparison.step_labels(step);
    let pick = |sign: f64| -> Vec<FunctionView<'a>> {
        step.functions
            .iter()
            .filter(|row| row.self_delta * sign > 0.0)
            .take(LISTED)
            .map(|row| FunctionView { name: row.shown_with_inlined(), role: roles::by_id(row.role).title, row })
            .collect()
    };
    StepView {
        step,
        from,
        to,
        answer: capitalized(&answer::answer(comparison, &[(section, step)])),
        details: details::details(comparison, section, step).into_iter().chain(step.remarks.iter().cloned()).collect(),
        inlining: terminal::inlining(comparison, step),
        grew: pick(1.0),
        shrank: pick(-1.0),
        sums: step.sums.iter().take(LISTED).map(|row| SumView { name: row.shown(), row }).collect(),
        largest: step.roles.iter().map(|row| row.delta.abs()).fold(f64::MIN_POSITIVE, f64::max),
        graphs,
    }
}

fn role_lines(section: &Section) -> Vec<RoleLine> {
    chart::role_order(section)
        .into_iter()
        .filter_map(|id| {
            let value = |cell: &crate::compare::model::Cell| cell.roles.iter().find(|role| role.role == id).cloned();
            let first = section.cells.iter().flatten().find_map(value)?;
            let values = section
                .cells
                .iter()
                .map(|cell| cell.as_ref().map(|cell| value(cell).map_or(0.0, |role| role.value)))
                .collect();
            Some(RoleLine { title: first.title, colour: first.colour, values })
        })
        .collect()
}
