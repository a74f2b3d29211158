//! What a report shows of a reproduction: every figure with its verdict.

use super::lead::{self, ReportLead};
use crate::report::chart::Chart;
use crate::reproduce::facts::{Article, ArticleTable, Judge};
use crate::reproduce::parts;
use crate::reproduce::reproduced::{PartResult, Reproduction};
use crate::reproduce::verdict::{FigureVerdict, JudgedFact, Reading, Readings, judge_table, number};
use crate::result::ExecutedOn;
use crate::util::text::counted;

/// How to read the verdicts.
pub(super) const LEGEND: &str = "The articles used other machines, so their speeds are not a target: a speed or a time beyond the \
    tolerance is marked as another machine's. What the articles claim is judged by ratios within one machine; each table \
    names its rules. A figure is reproduced if the 95 % confidence interval (CI) of the measured value lies inside the \
    tolerance, not reproduced if it lies outside, and undecided if it straddles a bound: the measurement is too noisy. A \
    figure that is not testable needs another machine, kernel or program; its row says which. Measured values are \
    medians with their median absolute deviation (±) and the number of runs (n), unless stated otherwise.";

/// What the counts of verdicts mean, in their order: see [`counts`].
pub(super) const COUNTED: [FigureVerdict; 5] = [
    FigureVerdict::Reproduced,
    FigureVerdict::NotReproduced,
    FigureVerdict::Undecided,
    FigureVerdict::AnotherMachine,
    FigureVerdict::NotTestable,
];

/// Everything that a report shows, in its order.
#[derive(Debug)]
pub(crate) struct ReproductionView<'a> {
    pub command: &'a str,
    /// Parts that are missing because the reproduction ended early.
    pub unfinished: &'a [String],
    /// The result in one sentence.
    pub answer: String,
    /// Of all parts: see [`counts`].
    pub counts: [usize; COUNTED.len()],
    pub lead: Option<ReportLead>,
    pub machine: Vec<(&'static str, String)>,
    pub articles: Vec<(&'a str, &'a Article)>,
    pub parts: Vec<PartView<'a>>,
}

#[derive(Debug)]
pub(crate) struct PartView<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub about: &'a str,
    /// Of its figures: see [`counts`].
    pub counts: [usize; COUNTED.len()],
    pub result: &'a PartResult,
    /// What makes timed figures of this part doubtful; empty if nothing does.
    pub doubt: String,
    /// Each caption names this machine.
    pub charts: Vec<Chart>,
    pub tables: Vec<TableView<'a>>,
}

/// One table of an article, with the values of this machine.
#[derive(Debug)]
pub(crate) struct TableView<'a> {
    pub table: &'a ArticleTable,
    /// The rules of its rows, each once.
    pub rules: String,
    pub rows: Vec<JudgedFact<'a>>,
}

/// How many rows have each verdict of [`COUNTED`].
fn counts<'a>(tables: impl Iterator<Item = &'a TableView<'a>> + Clone) -> [usize; COUNTED.len()] {
    let rows = tables.flat_map(|table| &table.rows);
    COUNTED.map(|verdict| rows.clone().filter(|row| row.verdict == verdict).count())
}

impl<'a> ReproductionView<'a> {
    /// Judge everything.
    pub(crate) fn of(reproduction: &'a Reproduction) -> Self {
        let facts = &reproduction.facts;
        let readings: Readings = reproduction.parts.iter().flat_map(|part| part.found.readings.clone()).collect();
        let hypervisor = reproduction.parts.iter().find_map(|part| part.environment.hypervisor.as_deref());
        let part = |result: &'a PartResult| {
            let (title, about) = parts::find(&result.part).map_or(("", ""), |part| (part.title, part.about));
            let table = |table: &'a ArticleTable| TableView {
                table,
                rules: rules(table),
                rows: judge_table(facts, table, &readings),
            };
            let tables: Vec<TableView<'_>> = facts.of_part(&result.part).map(table).collect();
            let charts = result.found.charts.iter().map(|chart| captioned(chart, result)).collect();
            let (id, counts) = (result.part.as_str(), counts(tables.iter()));
            PartView { id, title, about, counts, result, doubt: doubt(result), charts, tables }
        };
        let parts: Vec<PartView<'_>> = reproduction.parts.iter().map(part).collect();
        let counts = counts(parts.iter().flat_map(|part| &part.tables));
        Self {
            command: &reproduction.command,
            unfinished: &reproduction.unfinished,
            answer: [busiest(reproduction), answer(counts)].concat(),
            counts,
            lead: lead::lead(facts, &readings, hypervisor),
            machine: reproduction.parts.first().map(machine).unwrap_or_default(),
            articles: facts.articles.iter().map(|(letter, article)| (letter.as_str(), article)).collect(),
            parts,
        }
    }
}

/// Why the figures may be doubted: other programs used the CPUs. Empty if they did not.
fn busiest(reproduction: &Reproduction) -> String {
    let busy = reproduction.parts.iter().filter_map(|part| part.busy).fold(0.0, f64::max);
    if busy <= crate::run::BUSY {
        return String::new();
    }
    format!("Other programs used up to {:.0} % of the CPUs' time: repeat this on an idle machine. ", 100.0 * busy)
}

/// The result in two sentences, of the counts of all parts.
fn answer(counts: [usize; COUNTED.len()]) -> String {
    let [reproduced, not_reproduced, undecided, another_machine, not_testable] = counts;
    let judged = reproduced + not_reproduced + undecided;
    format!(
        "{reproduced} of {judged} claims and figures of the articles are reproduced, {not_reproduced} are not, and \
         {undecided} are undecided. {another_machine} more are speeds and times of another machine, which is no \
         contradiction, and {not_testable} cannot be tested here."
    )
}

fn rules(table: &ArticleTable) -> String {
    let mut rules: Vec<String> = Vec::new();
    for text in table.rows.iter().filter_map(|fact| fact.judge.text()) {
        if !rules.contains(&text) {
            rules.push(text);
        }
    }
    if table.rows.iter().any(|fact| matches!(fact.judge, Judge::Points { .. })) {
        rules.push("all shares within half of the article's share".to_owned());
    }
    match rules.len() {
        0 => String::new(),
        1 => format!("Rule: {}.", rules[0]),
        _ => format!("Rules, by row: {}.", rules.join("; ")),
    }
}

fn doubt(part: &PartResult) -> String {
    match part.busy {
        Some(busy) if busy > crate::run::BUSY => format!(
            "Other programs used {:.0} % of the CPU time during this part, which may affect its timings and verdicts. \
             Repeat it on an idle machine.",
            busy * 100.0
        ),
        _ => String::new(),
    }
}

/// An article's figure keeps all digits that it has there.
pub(super) fn article(judged: &JudgedFact<'_>) -> String {
    let printed = |value: f64| if value.abs() >= 10_000.0 { number(value) } else { value.to_string() };
    judged.fact.value.map_or_else(|| "-".to_owned(), printed)
}

pub(super) fn measured(judged: &JudgedFact<'_>) -> String {
    judged.measured.as_ref().map_or_else(|| "-".to_owned(), |measured| number(measured.value))
}

/// What was compared, and how the measured value was obtained.
pub(super) fn reason(judged: &JudgedFact<'_>) -> String {
    let how = judged.measured.as_ref().map_or("", |measured| measured.how.as_str());
    // The column of measured values says the rest.
    let plain = how.is_empty() || how.starts_with("median of") && !how.contains(',');
    if plain { judged.why.clone() } else { format!("{}; {how}", judged.why) }
}

/// `±2 %, n 9`; what executed it if that was not the hardware.
pub(super) fn spread(measured: &Reading) -> String {
    let runs = measured.runs.len();
    let executed_on = match measured.executed_on {
        ExecutedOn::Hardware => None,
        ExecutedOn::Kvm => Some("KVM".to_owned()),
        ExecutedOn::Tcg => Some("emulated, exact".to_owned()),
    };
    let parts = [measured.spread(), (runs > 1).then(|| format!("n {runs}")), executed_on];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn captioned(chart: &Chart, part: &PartResult) -> Chart {
    let environment = &part.environment;
    let cpus = (environment.cpus > 0).then(|| counted(u64::from(environment.cpus), "CPU"));
    let kernel = (!part.kernel.release.is_empty()).then(|| format!("Linux {}", part.kernel.release));
    let known = [environment.cpu_model.clone(), cpus, kernel, environment.hypervisor.clone()];
    let machine: Vec<String> = known.into_iter().flatten().collect();
    if machine.is_empty() {
        return chart.clone();
    }
    Chart { caption: format!("{} This machine: {}.", chart.caption, machine.join(", ")), ..chart.clone() }
}

/// What is known of this machine.
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
    add("CPU time of other programs", part.busy.map(|busy| format!("{:.0} %", busy * 100.0)));
    lines.retain(|(_, value)| !value.is_empty());
    lines
}
