//! Article A: the six rungs, what each removed, and whether that explains its gain.

mod steps;
mod user_pages;

use super::Part;
use crate::document::{Collector, Outcome};
use crate::profile::{ProcessName, Profile};
use crate::report::chart::{Chart, ChartKind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, Lab, Raced, Taken, speeds};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::run::bench::request;
use crate::util::stats;
use crate::workload::Spec;
use crate::workload::spec::{Amount, Reader, Writer};
use anyhow::Result;
use std::collections::BTreeMap;
use steps::cpu_per_kib;

/// The part.
pub struct Ladder;

/// A setting of the workload that the article climbs or steps aside to.
struct Rung {
    id: &'static str,
    name: &'static str,
    /// Whether a profile of it is wanted.
    profiled: bool,
    axes: fn() -> Spec,
}

fn vmsplice(reader: Reader) -> Spec {
    Spec { writer: Writer::Vmsplice, reader, ..Spec::default() }
}

fn huge() -> Spec {
    Spec { huge_pages: true, ..vmsplice(Reader::Splice) }
}

/// In the order of the chart.
const RUNGS: &[Rung] = &[
    Rung { id: "1", name: "1: write to read", profiled: true, axes: Spec::default },
    Rung { id: "2", name: "2: vmsplice to read", profiled: true, axes: || vmsplice(Reader::Read) },
    Rung { id: "3", name: "3: vmsplice to splice", profiled: true, axes: || vmsplice(Reader::Splice) },
    Rung {
        id: "3b",
        name: "3b: pages never touched",
        profiled: false,
        axes: || Spec { no_touch: true, ..vmsplice(Reader::Splice) },
    },
    Rung { id: "4", name: "4: huge pages", profiled: true, axes: huge },
    Rung { id: "5", name: "5: busy loop", profiled: true, axes: || Spec { busy_loop: true, ..huge() } },
];

/// Beside the ladder: options of the article's program. The rung that each is compared with, and why.
const VARIANTS: &[(&str, Rung)] = &[
    (
        "4",
        Rung {
            id: "contiguous",
            name: "4, both halves in one buffer",
            profiled: false,
            axes: || Spec { contiguous: true, ..huge() },
        },
    ),
    (
        "3",
        Rung {
            id: "contiguous-small",
            name: "3, both halves in one buffer",
            profiled: false,
            axes: || Spec { contiguous: true, ..vmsplice(Reader::Splice) },
        },
    ),
    ("4", Rung { id: "gift", name: "4, SPLICE_F_GIFT", profiled: false, axes: || Spec { gift: true, ..huge() } }),
    (
        "4",
        Rung { id: "poll", name: "4, poll before each call", profiled: false, axes: || Spec { poll: true, ..huge() } },
    ),
    (
        "3",
        Rung {
            id: "mlock",
            name: "3, locked into memory",
            profiled: false,
            axes: || Spec { mlock: true, ..vmsplice(Reader::Splice) },
        },
    ),
];

impl Part for Ladder {
    fn id(&self) -> &'static str {
        "ladder"
    }

    fn title(&self) -> &'static str {
        "The ladder: from write to busy-looping vmsplice"
    }

    fn about(&self) -> &'static str {
        "article A: the six rungs, what each removed, and whether that explains its gain"
    }

    fn run(&self, lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
        let mut out = Yield::default();
        let window = Amount::DurationNs(lab.settings.window_ns());
        let rungs = || RUNGS.iter().chain(VARIANTS.iter().map(|(_, rung)| rung));
        let contestants: Vec<Contestant> = rungs()
            .map(|rung| Contestant { id: rung.id.to_owned(), spec: Spec { amount: window, ..(rung.axes)() } })
            .collect();
        let raced = lab.race("rungs", &contestants, lab.settings.rounds())?;
        for contestant in &raced {
            out.readings.insert(format!("A.ladder.{}", contestant.id), contestant.speed());
        }
        // Readings without a fact of theirs are only shown in the tables below.
        out.readings.retain(|id, _| facts.find(id).is_some());
        out.readings.insert("A.variants.contiguous".to_owned(), beside(&raced, "contiguous", "4"));
        let profiles = profiles(lab)?;
        profiled(&mut out, facts, &profiles);
        out.charts.extend(chart(facts, &raced));
        out.tables.push(speeds_table(&raced));
        steps::explain(&mut out, &raced, &profiles);
        user_pages::user_pages(lab, &mut out)?;
        Ok(out)
    }
}

type Profiles = BTreeMap<&'static str, Taken<Outcome>>;

fn profiles(lab: &Lab<'_>) -> Result<Profiles> {
    let mut profiles = Profiles::new();
    for rung in RUNGS.iter().filter(|rung| rung.profiled) {
        profiles.insert(rung.id, sampled(lab, rung)?);
    }
    Ok(profiles)
}

/// The sampled profile of the rung called `id`; `None` of a rung that is not profiled.
///
/// # Errors
/// On interruption, or when results cannot be kept.
pub fn profile(lab: &Lab<'_>, id: &str) -> Result<Option<Taken<Outcome>>> {
    RUNGS.iter().find(|rung| rung.profiled && rung.id == id).map(|rung| sampled(lab, rung)).transpose()
}

fn sampled(lab: &Lab<'_>, rung: &Rung) -> Result<Taken<Outcome>> {
    let window = Amount::DurationNs(lab.settings.window_ns());
    let spec = Spec { amount: window, ..(rung.axes)() };
    let runs = if lab.settings.quick { 1 } else { 5 };
    let request = request(&format!("rung {}", rung.name), &spec, vec![Collector::Sample], runs);
    Ok(lab.run(&format!("profile of rung {}", rung.id), &request)?.and_then(|outcome| {
        // A collector that gave nothing says why.
        let why = outcome.document.collectors.iter().find_map(|collector| collector.reason.clone());
        if outcome.document.attribution.of(ProcessName::WRITER).is_empty() {
            let why = why.unwrap_or_else(|| "no samples were taken".to_owned());
            return Err(Missing::new(why, format!("sudo {}", request.command)));
        }
        Ok(outcome)
    }))
}

/// Speeds under the profiler, and the call graphs.
fn profiled(out: &mut Yield, facts: &Facts, profiles: &Profiles) {
    for (rung, taken) in profiles {
        let id = format!("A.ladder.{rung}.profiled");
        if facts.find(&id).is_some() {
            let reading = taken.clone().and_then(|outcome| {
                let runs = speeds(&outcome.document.runs, true);
                // Pairs alone of this very run: the race was at another time.
                let alone = speeds(&outcome.document.runs, false);
                let how = format!(
                    "median of {} fresh pairs under the sampler, {} alone between them",
                    runs.len(),
                    alone.len()
                );
                Reading::median(runs, "GiB/s", outcome.document.executed_on, &how)
                    .filter(|reading| reading.value > 0.0)
                    .map(|reading| Reading { base: (!alone.is_empty()).then_some(alone), ..reading })
                    .ok_or_else(|| Missing::new("no pair was sampled", outcome.document.command.clone()))
            });
            out.readings.insert(id, reading);
        }
        let Some(table) = facts.table(&format!("A.graph.{rung}")) else { continue };
        for fact in &table.rows {
            let reading = taken.clone().and_then(|outcome| {
                let document = &outcome.document;
                super::share_reading(
                    &sides(&outcome),
                    fact,
                    document.executed_on,
                    "writer and reader",
                    &document.command,
                )
            });
            out.readings.insert(fact.id.clone(), reading);
        }
    }
}

fn sides(outcome: &Outcome) -> Vec<&Profile> {
    let profiles = outcome.profiles.iter();
    profiles.filter(|profile| profile.collector == "sample" && profile.process != ProcessName::OTHER).collect()
}

/// One contestant's speed over another's.
fn beside(raced: &[Raced], id: &str, base: &str) -> Taken<Reading> {
    let speed = |id: &str| {
        let entry = raced.iter().find(|raced| raced.id == id);
        entry.map_or_else(|| Err(Missing::new("it was not run", "pipeprof reproduce ladder")), Raced::speed)
    };
    let (ours, base_of) = (speed(id)?, speed(base)?);
    let ratio = stats::ratio_of_medians(&ours.runs, &base_of.runs, 1)
        .ok_or_else(|| Missing::new(format!("rung {base} moved nothing"), "pipeprof reproduce ladder"))?;
    let how =
        format!("{} over {} GiB/s, {} fresh pairs each", number(ours.value), number(base_of.value), ours.runs.len());
    let reading = Reading::single(ratio.ratio, &format!("times rung {base}"), ours.executed_on, &how);
    Ok(Reading { interval: Some(ratio.ci95), ..reading })
}

fn speeds_table(raced: &[Raced]) -> ExtraTable {
    let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
    let note = format!(
        "GiB/s at the reader: median, least and greatest of {n} fresh pairs, all rungs interleaved; user and system time \
         of both processes and their calls in the median pair"
    );
    let header = ["rung", "GiB/s", "least to greatest", "beside", "ratio", "CPU time, ns/KiB", "calls per MiB, W / R"];
    let mut table = ExtraTable::new("Rungs and variants on this machine", &header, note);
    let speed = |id: &str| raced.iter().find(|raced| raced.id == id)?.speed().ok();
    let beside = |id: &str| -> Option<&'static str> {
        match id {
            "2" => Some("1"),
            "3" => Some("2"),
            "3b" | "4" => Some("3"),
            "5" => Some("4"),
            _ => VARIANTS.iter().find(|(_, rung)| rung.id == id).map(|(base, _)| *base),
        }
    };
    for rung in RUNGS.iter().chain(VARIANTS.iter().map(|(_, rung)| rung)) {
        let Some(entry) = raced.iter().find(|raced| raced.id == rung.id) else { continue };
        let mut row = vec![rung.name.to_owned()];
        match (entry.speed(), entry.typical()) {
            (Ok(reading), Some(pair)) => {
                let [least, most] = reading.range();
                let base = beside(rung.id);
                let ratio = base.and_then(speed).map(|base| reading.value / base.value);
                let mib = pair.reader().bytes.max(1) as f64 / f64::from(1 << 20);
                row.extend([
                    number(reading.value),
                    format!("{} to {}", number(least), number(most)),
                    base.map_or_else(|| "-".to_owned(), |base| format!("rung {base}")),
                    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} ×", number(ratio))),
                    number(cpu_per_kib(pair, ProcessName::WRITER) + cpu_per_kib(pair, ProcessName::READER)),
                    format!(
                        "{} / {}",
                        number(pair.writer().calls as f64 / mib),
                        number(pair.reader().calls as f64 / mib)
                    ),
                ]);
            }
            (Err(missing), _) => row.extend(["-".to_owned(), missing.why]),
            (Ok(_), None) => row.push("-".to_owned()),
        }
        row.resize(header.len(), String::new());
        table.rows.push(row);
    }
    table
}

fn chart(facts: &Facts, raced: &[Raced]) -> Option<Chart> {
    let article = facts.articles.get("A")?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    let mut n = 0;
    for rung in RUNGS {
        let value = facts.find(&format!("A.ladder.{}", rung.id)).and_then(|(_, fact)| fact.value);
        theirs.extend(value.map(|y| Point { label: rung.name.to_owned(), y, span: None }));
        let Some(Ok(reading)) = raced.iter().find(|raced| raced.id == rung.id).map(Raced::speed) else { continue };
        n = reading.runs.len();
        ours.push(Point { label: rung.name.to_owned(), y: reading.value, span: Some(reading.range()) });
    }
    if ours.is_empty() {
        return None;
    }
    Some(Chart {
        id: "ladder".into(),
        title: "The six rungs".into(),
        kind: ChartKind::Bars,
        y: "GiB/s".into(),
        x: String::new(),
        series: vec![
            Series { name: "article A".into(), points: theirs },
            Series { name: "this machine".into(), points: ours },
        ],
        caption: format!(
            "Ours: median of {n} fresh pairs, whiskers from least to greatest. Theirs: single readings on {}.",
            article.machine
        ),
    })
}
