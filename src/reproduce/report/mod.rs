//! The report: one view of a reproduction, rendered as a self-contained HTML page and as Markdown with its pictures
//! beside it.

mod html;
mod markdown;

use super::Reproduction;
use super::facts::{Article, Facts, Judge};
use super::parts;
use super::result::{ExtraTable, Graph, PartResult};
use super::verdict::{Line, Reading, Verdict, judge_table, number};
use crate::document::ExecutedOn;
use crate::report::chart::{Chart, Theme};
use crate::util::atomic_file;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// All that a report shows, in its order.
#[derive(Debug, Serialize)]
pub struct View<'a> {
    pub version: &'a str,
    pub command: &'a str,
    /// Parts that are missing as the reproduction ended early.
    pub unfinished: &'a [String],
    pub summary: Vec<Summary>,
    /// Over all parts.
    pub total: Summary,
    pub machine: Vec<(&'static str, String)>,
    pub articles: Vec<(&'a str, &'a Article)>,
    pub parts: Vec<PartView<'a>>,
}

/// How many verdicts of each kind.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub id: String,
    pub title: String,
    pub reproduced: usize,
    pub not_reproduced: usize,
    /// Too noisy to tell.
    pub undecided: usize,
    pub not_testable: usize,
    pub seconds: u64,
}

#[derive(Debug, Serialize)]
pub struct PartView<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub started: &'a str,
    pub key: &'a str,
    /// What makes timed figures of this part doubtful; empty where nothing does.
    pub doubt: String,
    pub findings: &'a [String],
    /// Each says in its caption which machine ours are of.
    pub charts: Vec<Chart>,
    pub tables: Vec<TableView<'a>>,
    pub extra: &'a [ExtraTable],
    pub graphs: &'a [Graph],
    pub notes: &'a [String],
}

/// One table of an article, theirs beside ours.
#[derive(Debug, Serialize)]
pub struct TableView<'a> {
    pub id: &'a str,
    pub article: &'a str,
    pub title: &'a str,
    pub unit: &'a str,
    /// How rows are judged, each criterion once.
    pub criteria: String,
    pub rows: Vec<Row>,
}

/// One fact's line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub fact: String,
    pub what: String,
    pub theirs: String,
    pub ours: String,
    /// `±2 %, n 9`; what executed it where that is not the hardware.
    pub spread: String,
    /// How it was read.
    pub how: String,
    pub verdict: &'static str,
    /// `yes`, `no`, `open`, `untestable` or `elsewhere`: for styles.
    pub class: &'static str,
    pub why: String,
    pub command: String,
}

impl Summary {
    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Reproduced => self.reproduced += 1,
            Verdict::NotReproduced => self.not_reproduced += 1,
            Verdict::Undecided => self.undecided += 1,
            Verdict::NotTestableHere => self.not_testable += 1,
            Verdict::JudgedElsewhere => {}
        }
    }
}

impl<'a> View<'a> {
    /// Judge everything.
    #[must_use]
    pub fn of(reproduction: &'a Reproduction) -> Self {
        let facts = &reproduction.facts;
        let readings = reproduction.parts.iter().flat_map(|part| part.readings.clone()).collect();
        let mut total = Summary { id: "all".into(), title: "all".into(), ..Summary::default() };
        let (mut summary, mut views) = (Vec::new(), Vec::new());
        for part in &reproduction.parts {
            let title = parts::find(&part.part).map_or(part.part.as_str(), |part| part.title());
            let mut count = Summary {
                id: part.part.clone(),
                title: title.to_owned(),
                seconds: part.seconds.round() as u64,
                ..Summary::default()
            };
            let tables = facts
                .of_part(&part.part)
                .map(|table| {
                    let lines = judge_table(facts, table, &readings);
                    for line in &lines {
                        count.count(line.verdict);
                        total.count(line.verdict);
                    }
                    let mut criteria: Vec<String> = Vec::new();
                    for fact in &table.rows {
                        let text = fact.judge.text();
                        if text != "-" && !criteria.contains(&text) {
                            criteria.push(text);
                        }
                    }
                    if table.rows.iter().any(|fact| matches!(fact.judge, Judge::Points { .. })) {
                        criteria.push("never more than half of theirs away".to_owned());
                    }
                    TableView {
                        id: &table.id,
                        article: &table.article,
                        title: &table.title,
                        unit: &table.unit,
                        criteria: criteria.join("; "),
                        rows: lines.iter().map(row).collect(),
                    }
                })
                .collect();
            total.seconds += count.seconds;
            summary.push(count);
            views.push(PartView {
                id: &part.part,
                title,
                started: &part.started,
                key: &part.key,
                doubt: doubt(part),
                findings: &part.findings,
                charts: part.charts.iter().map(|chart| captioned(chart, part)).collect(),
                tables,
                extra: &part.tables,
                graphs: &part.graphs,
                notes: &part.notes,
            });
        }
        Self {
            version: crate::util::build::version(),
            command: &reproduction.command,
            unfinished: &reproduction.unfinished,
            summary,
            total,
            machine: reproduction.parts.first().map(machine).unwrap_or_default(),
            articles: articles(facts),
            parts: views,
        }
    }
}

fn doubt(part: &PartResult) -> String {
    match part.busy {
        Some(busy) if busy > crate::run::BUSY => format!(
            "Other programs used {:.0} % of the CPUs' time when this part began: its timed figures are those of a busy machine, and their verdicts may be its. Run it again when the machine is idle.",
            busy * 100.0
        ),
        _ => String::new(),
    }
}

fn articles(facts: &Facts) -> Vec<(&str, &Article)> {
    facts.articles.iter().map(|(letter, article)| (letter.as_str(), article)).collect()
}

fn row(line: &Line) -> Row {
    let class = match line.verdict {
        Verdict::Reproduced => "yes",
        Verdict::NotReproduced => "no",
        Verdict::Undecided => "open",
        Verdict::NotTestableHere => "untestable",
        Verdict::JudgedElsewhere => "elsewhere",
    };
    Row {
        fact: line.fact.clone(),
        what: line.what.clone(),
        theirs: line.theirs.map_or_else(|| "-".to_owned(), printed),
        ours: line.ours.as_ref().map_or_else(|| "-".to_owned(), |ours| number(ours.value)),
        spread: line.ours.as_ref().map(spread).unwrap_or_default(),
        how: line.ours.as_ref().map(|ours| ours.how.clone()).unwrap_or_default(),
        verdict: line.verdict.text(),
        class,
        why: match &line.ours {
            // The column of ours says the rest.
            Some(ours) if !ours.how.is_empty() && !plain(&ours.how) => format!("{} ({})", line.why, ours.how),
            _ => line.why.clone(),
        },
        command: line.command.clone(),
    }
}

/// Whether a reading needs no words beyond its spread and its n.
fn plain(how: &str) -> bool {
    how.starts_with("median of") && !how.contains(',')
}

/// A figure of theirs with all the digits that they printed.
fn printed(value: f64) -> String {
    if value.abs() >= 10_000.0 { number(value) } else { value.to_string() }
}

fn spread(ours: &Reading) -> String {
    let mut parts = Vec::new();
    if let Some(percent) = ours.spread_percent() {
        parts.push(format!("±{percent:.1} %"));
    }
    if ours.runs.len() > 1 {
        parts.push(format!("n {}", ours.runs.len()));
    }
    match ours.executed_on {
        ExecutedOn::Hardware => {}
        ExecutedOn::Kvm => parts.push("KVM".to_owned()),
        ExecutedOn::Tcg => parts.push("emulated, exact".to_owned()),
    }
    parts.join(", ")
}

fn captioned(chart: &Chart, part: &PartResult) -> Chart {
    let environment = &part.environment;
    let cpus = (environment.cpus > 0).then(|| format!("{} CPUs", environment.cpus));
    let kernel = (!part.kernel.release.is_empty()).then(|| format!("Linux {}", part.kernel.release));
    let known = [environment.cpu_model.clone(), cpus, kernel, environment.hypervisor.clone()];
    let machine: Vec<String> = known.into_iter().flatten().collect();
    if machine.is_empty() {
        return chart.clone();
    }
    Chart { caption: format!("{} This machine: {}.", chart.caption, machine.join(", ")), ..chart.clone() }
}

/// This machine, as far as it is known.
fn machine(part: &PartResult) -> Vec<(&'static str, String)> {
    let environment = &part.environment;
    let mut lines = vec![("kernel", part.kernel.release.clone())];
    let mut add = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    add("CPU", environment.cpu_model.clone());
    add("CPUs", (environment.cpus > 0).then(|| environment.cpus.to_string()));
    add("memory", environment.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))));
    add("hypervisor", environment.hypervisor.clone());
    add("transparent huge pages", environment.transparent_huge_pages.clone());
    add("governor", environment.governor.clone());
    add("mitigations", environment.mitigations.get("mitigations").cloned());
    add("CPU flags for copying", (!environment.cpu_flags.is_empty()).then(|| environment.cpu_flags.join(" ")));
    add("other programs' CPU time when it began", part.busy.map(|busy| format!("{:.0} %", busy * 100.0)));
    lines.retain(|(_, value)| !value.is_empty());
    lines
}

/// Write `report.html`, `report.md`, the charts and the graphs into `folder`; hands over the page's path.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write(reproduction: &Reproduction, folder: &Path) -> Result<PathBuf> {
    let view = View::of(reproduction);
    for (name, pictures) in [("charts", charts(&view)?), ("graphs", graphs(&view))] {
        if pictures.is_empty() {
            continue;
        }
        let below = folder.join(name);
        std::fs::create_dir_all(&below)
            .with_context(|| format!("cannot make the folder {}: choose another with -o", below.display()))?;
        for (id, svg) in pictures {
            atomic_file::write(&below.join(format!("{id}.svg")), svg.as_bytes())?;
        }
    }
    atomic_file::write(&folder.join("report.md"), markdown::render(&view).as_bytes())?;
    let page = folder.join("report.html");
    atomic_file::write(&page, html::render(&view)?.as_bytes())?;
    Ok(page)
}

fn charts(view: &View<'_>) -> Result<Vec<(String, String)>> {
    let charts = view.parts.iter().flat_map(|part| &part.charts);
    charts.map(|chart| Ok((chart.id.clone(), chart.svg(Theme::File)?))).collect()
}

fn graphs(view: &View<'_>) -> Vec<(String, String)> {
    view.parts.iter().flat_map(|part| part.graphs).map(|graph| (graph.id.clone(), graph.svg.clone())).collect()
}

/// The answer on the terminal.
#[must_use]
pub fn terminal(reproduction: &Reproduction) -> String {
    let view = View::of(reproduction);
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header(["part", "reproduced", "not reproduced", "undecided here", "not testable here", "seconds"]);
    let total = (view.summary.len() > 1).then_some(&view.total);
    for summary in view.summary.iter().chain(total) {
        table.add_row([
            summary.id.clone(),
            summary.reproduced.to_string(),
            summary.not_reproduced.to_string(),
            summary.undecided.to_string(),
            summary.not_testable.to_string(),
            summary.seconds.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    let mut text = format!("{table}\n");
    for (class, heading) in [("no", "Not reproduced"), ("open", "Undecided here, too noisy")] {
        let lines = listed(&view, class);
        if !lines.is_empty() {
            text.push_str(&format!("\n{heading}:\n{}\n", lines.join("\n")));
        }
    }
    text
}

/// The lines of one verdict, each with its figures.
fn listed(view: &View<'_>, class: &str) -> Vec<String> {
    let rows = view.parts.iter().flat_map(|part| &part.tables);
    rows.flat_map(|table| table.rows.iter().map(move |row| (table.unit, row)))
        .filter(|(_, row)| row.class == class)
        .map(|(unit, row)| {
            format!("  {}: theirs {} {unit}, ours {} {unit}; {}", row.fact, row.theirs, row.ours, row.why)
        })
        .collect()
}

#[cfg(test)]
mod tests;
