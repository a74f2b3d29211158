//! Article A: the six rungs, what each removed, and whether that explains its gain.

use super::{Part, request};
use crate::document::{Collector, Outcome, Processes};
use crate::profile::{Folded, RoleShare, Side};
use crate::report::chart::{Chart, Kind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, GuestSetup, Lab, Raced, Taken, speeds};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::stacks;
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::workload::Spec;
use crate::workload::spec::{Amount, Reader, Writer};
use anyhow::Result;
use std::collections::BTreeMap;

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

/// A step of the ladder: what the article says it removes.
struct Step {
    from: &'static str,
    to: &'static str,
    argument: &'static str,
    removes: &'static [&'static str],
    /// Whether time off the CPU goes as well.
    sleep: bool,
}

const STEPS: &[Step] = &[
    Step {
        from: "1",
        to: "2",
        argument: "no copying in, no pages to allocate",
        removes: &["copy-in", "page-alloc", "page-free", "memcg-charge", "memcg-uncharge"],
        sleep: false,
    },
    Step { from: "2", to: "3", argument: "no copying out", removes: &["copy-out"], sleep: false },
    Step { from: "3", to: "4", argument: "cheaper user pages", removes: &["user-pages"], sleep: false },
    Step {
        from: "4",
        to: "5",
        argument: "no waits, no wake-ups",
        removes: &["wait", "wake-up", "scheduler", "psi", "idle", "mutex-sleep"],
        sleep: true,
    },
];

/// Per cent of the time before within which prediction and measurement are said to fit.
const FITS_POINTS: f64 = 15.0;

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
        let profiles = profiles(lab, window)?;
        profiled(&mut out, facts, &profiles);
        out.charts.extend(chart(facts, &raced));
        out.tables.push(speeds_table(&raced));
        explain(&mut out, &raced, &profiles);
        user_pages(lab, &mut out)?;
        Ok(out)
    }
}

type Profiles = BTreeMap<&'static str, Taken<Outcome>>;

fn profiles(lab: &Lab<'_>, window: Amount) -> Result<Profiles> {
    let mut profiles = Profiles::new();
    for rung in RUNGS.iter().filter(|rung| rung.profiled) {
        let spec = Spec { amount: window, ..(rung.axes)() };
        let runs = if lab.settings.quick { 1 } else { 5 };
        let request = request(&format!("rung {}", rung.name), &spec, vec![Collector::Sample], runs);
        let taken = lab.run(&format!("profile of rung {}", rung.id), &request)?.and_then(|outcome| {
            // A collector that gave nothing says why.
            let why = outcome.document.collectors.iter().find_map(|collector| collector.reason.clone());
            if outcome.document.attribution.writer.is_empty() {
                let why = why.unwrap_or_else(|| "no samples were taken".to_owned());
                return Err(Missing::new(why, format!("sudo {}", request.command)));
            }
            Ok(outcome)
        });
        profiles.insert(rung.id, taken);
    }
    Ok(profiles)
}

/// Speeds under the profiler, and the call graphs.
fn profiled(out: &mut Yield, facts: &Facts, profiles: &Profiles) {
    for (rung, taken) in profiles {
        let id = format!("A.ladder.{rung}.profiled");
        if facts.find(&id).is_some() {
            let reading = taken.clone().and_then(|outcome| {
                let runs = speeds(&outcome.document.runs, true);
                let how = format!("median of {} fresh pairs under the sampler", runs.len());
                Reading::median(runs, "GiB/s", outcome.document.executed_on, &how)
                    .filter(|reading| reading.value > 0.0)
                    .ok_or_else(|| Missing::new("no pair was sampled", outcome.document.command.clone()))
            });
            out.readings.insert(id, reading);
        }
        let Some(table) = facts.table(&format!("A.graph.{rung}")) else { continue };
        for fact in &table.rows {
            let reading = taken.clone().and_then(|outcome| {
                super::share_reading(sides(&outcome), fact, outcome.document.executed_on, "writer and reader")
                    .ok_or_else(|| Missing::new("no samples", outcome.document.command.clone()))
            });
            out.readings.insert(fact.id.clone(), reading);
        }
    }
}

fn sides(outcome: &Outcome) -> Vec<&Folded> {
    let profiles = outcome.profiles.iter();
    profiles.filter(|profile| profile.collector == "sample" && profile.side != Side::Other).map(|p| &p.stacks).collect()
}

/// CPU time of both processes per KiB, in ns.
fn cpu_per_kib(pair: &Processes, side: Side) -> f64 {
    let process = if side == Side::Writer { &pair.writer } else { &pair.reader };
    (process.user_ns + process.system_ns) as f64 / (pair.reader.bytes.max(1) as f64 / 1024.0)
}

fn wall_per_kib(pair: &Processes) -> f64 {
    pair.window_ns as f64 / (pair.reader.bytes.max(1) as f64 / 1024.0)
}

fn share_of(shares: &[RoleShare], roles: &[&str]) -> f64 {
    shares.iter().filter(|share| roles.contains(&share.role.as_str())).map(|share| share.share).sum()
}

/// ns per KiB that one rung spends in `roles`, both processes together: shares of its profile times the CPU time of
/// its pairs alone.
fn time_in(rung: &Profiled<'_>, roles: &[&str]) -> f64 {
    let shares = &rung.outcome.document.attribution;
    share_of(&shares.writer, roles) * cpu_per_kib(rung.pair, Side::Writer)
        + share_of(&shares.reader, roles) * cpu_per_kib(rung.pair, Side::Reader)
}

struct Profiled<'a> {
    pair: &'a Processes,
    outcome: &'a Outcome,
}

fn rung<'a>(raced: &'a [Raced], profiles: &'a Profiles, id: &str) -> Result<Profiled<'a>, Missing> {
    let outcome = match profiles.get(id) {
        Some(Ok(outcome)) => outcome,
        Some(Err(missing)) => return Err(missing.clone()),
        None => return Err(Missing::new(format!("rung {id} was not profiled"), "pipeprof reproduce ladder")),
    };
    let raced = raced.iter().find(|raced| raced.id == id);
    raced.map_or_else(|| Err(Missing::new("no pair", "")), |raced| raced.speed().map(|_| raced)).and_then(|raced| {
        let pair = raced.typical().ok_or_else(|| Missing::new("no pair", ""))?;
        Ok(Profiled { pair, outcome })
    })
}

/// Which roles went with each step, whether the gain fits, and the article's claims.
fn explain(out: &mut Yield, raced: &[Raced], profiles: &Profiles) {
    let note = "ns of CPU time per KiB, writer and reader together: shares of the sampled profile times the CPU time of \
        the median pair without sampler. \"Said to go\": the part of both processes' CPU time before \
        that the profile before books to the roles which the article names; for the busy loop, the part of the elapsed time \
        by which the busier process gets shorter without them and without time off the CPU. \"Went\": the part that did. \
        They fit when they are within 15 points.";
    let header =
        ["step", "the article's argument", "largest changes by role, ns/KiB", "of", "said to go", "went", "fits"];
    let mut table = ExtraTable::new("What each rung removed", &header, note);
    for step in STEPS {
        let (before, after) = match (rung(raced, profiles, step.from), rung(raced, profiles, step.to)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(missing), _) | (_, Err(missing)) => {
                let dash = || "-".to_owned();
                let name = format!("{} to {}", step.from, step.to);
                table.rows.push(vec![
                    name,
                    step.argument.into(),
                    missing.why,
                    dash(),
                    dash(),
                    dash(),
                    "not testable".into(),
                ]);
                continue;
            }
        };
        let (said, went) = if step.sleep { elapsed(step, &before, &after) } else { cpu(step, &before, &after) };
        let fits = (said - went).abs() <= FITS_POINTS;
        table.rows.push(vec![
            format!("{} to {}", step.from, step.to),
            step.argument.to_owned(),
            changes(&before, &after),
            if step.sleep { "elapsed time" } else { "CPU time" }.to_owned(),
            format!("{said:.0} %"),
            format!("{went:.0} %"),
            if fits { "yes" } else { "no" }.to_owned(),
        ]);
        let of = if step.sleep { "elapsed time" } else { "CPU time of both processes" };
        let moved = if went >= 0.0 {
            format!("{went:.0} % of the {of} went")
        } else {
            format!("the {of} grew by {:.0} %", -went)
        };
        let fitting = match () {
            () if fits => "which fits",
            () if went > said => "more than",
            () => "less than",
        };
        out.findings.push(format!(
            "Step {} to {} ({}): {moved}, {fitting} the {said:.0} % that the profile before says would go.",
            step.from, step.to, step.argument
        ));
    }
    out.tables.push(table);
    let waits: &[&str] = &["wait", "wake-up", "scheduler", "psi", "idle"];
    let claims: [(&str, &str, &str, &[&str]); 4] = [
        ("A.claims.copy", "1", "2", &["copy-in", "copy-out"]),
        ("A.claims.nocopy", "2", "3", &["copy-in", "copy-out"]),
        ("A.claims.huge", "3", "4", &["user-pages"]),
        ("A.claims.busy", "4", "5", waits),
    ];
    for (id, from, to, roles) in claims {
        let reading = match (rung(raced, profiles, from), rung(raced, profiles, to)) {
            (Ok(before), Ok(after)) => {
                let (was, is) = (time_in(&before, roles), time_in(&after, roles));
                let how = format!("{} ns/KiB on rung {from}, {} on rung {to}", number(was), number(is));
                if was > 0.0 {
                    Ok(Reading::single(is / was, "of before", after.outcome.document.executed_on, &how))
                } else {
                    Err(Missing::new(format!("no such time was sampled on rung {from}"), "pipeprof reproduce ladder"))
                }
            }
            (Err(missing), _) | (_, Err(missing)) => Err(missing),
        };
        out.readings.insert(id.to_owned(), reading);
    }
}

/// Per cent of both processes' CPU time per KiB that the step was said to take away, and that went: the time of both
/// counts, as the pipe's lock lets only one of them work at a time; other load on the machine does not.
fn cpu(step: &Step, before: &Profiled<'_>, after: &Profiled<'_>) -> (f64, f64) {
    let both = |rung: &Profiled<'_>| cpu_per_kib(rung.pair, Side::Writer) + cpu_per_kib(rung.pair, Side::Reader);
    let was = both(before).max(f64::MIN_POSITIVE);
    (time_in(before, step.removes) / was * 100.0, (1.0 - both(after) / was) * 100.0)
}

/// The same of the elapsed time, where sleeping is what goes: said to be left is the work of the busier process.
fn elapsed(step: &Step, before: &Profiled<'_>, after: &Profiled<'_>) -> (f64, f64) {
    let shares = &before.outcome.document.attribution;
    let left =
        |side: Side, shares: &[RoleShare]| cpu_per_kib(before.pair, side) * (1.0 - share_of(shares, step.removes));
    let was = wall_per_kib(before.pair).max(f64::MIN_POSITIVE);
    let left = left(Side::Writer, &shares.writer).max(left(Side::Reader, &shares.reader)).min(was);
    ((1.0 - left / was) * 100.0, (1.0 - wall_per_kib(after.pair) / was) * 100.0)
}

/// The three roles that changed most.
fn changes(before: &Profiled<'_>, after: &Profiled<'_>) -> String {
    let mut changes: Vec<(f64, &str)> = crate::kernel::roles::all()
        .iter()
        .map(|role| (time_in(after, &[role.id]) - time_in(before, &[role.id]), role.title))
        .collect();
    changes.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let text: Vec<String> = changes
        .iter()
        .take(3)
        .filter(|(change, _)| change.abs() > 0.05)
        .map(|(change, title)| format!("{title} {}{}", if *change < 0.0 { "−" } else { "+" }, number(change.abs())))
        .collect();
    text.join(", ")
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
                let least = reading.runs.iter().copied().fold(f64::INFINITY, f64::min);
                let most = reading.runs.iter().copied().fold(0.0, f64::max);
                let base = beside(rung.id);
                let ratio = base.and_then(speed).map(|base| reading.value / base.value);
                let mib = pair.reader.bytes.max(1) as f64 / f64::from(1 << 20);
                row.extend([
                    number(reading.value),
                    format!("{} to {}", number(least), number(most)),
                    base.map_or_else(|| "-".to_owned(), |base| format!("rung {base}")),
                    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} ×", number(ratio))),
                    number(cpu_per_kib(pair, Side::Writer) + cpu_per_kib(pair, Side::Reader)),
                    format!("{} / {}", number(pair.writer.calls as f64 / mib), number(pair.reader.calls as f64 / mib)),
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
        let least = reading.runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = reading.runs.iter().copied().fold(0.0, f64::max);
        n = reading.runs.len();
        ours.push(Point { label: rung.name.to_owned(), y: reading.value, span: Some([least, most]) });
    }
    if ours.is_empty() {
        return None;
    }
    Some(Chart {
        id: "ladder".into(),
        title: "The six rungs".into(),
        kind: Kind::Bars,
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

/// What getting one user page costs, for pages of both sizes: from exact profiles.
fn user_pages(lab: &Lab<'_>, out: &mut Yield) -> Result<()> {
    const NAMES: [&str; 2] = ["iov_iter_get_pages2", "internal_get_user_pages_fast"];
    let note = "Instructions per 4 KiB page of the buffer, callees included, counted exactly in the guest by the \
        instruction collector (emulated: instructions are not time). The article read this off a kernel built with \
        CONFIG_GUP_TEST.";
    let header = ["pages", NAMES[0], NAMES[1], "huge pages got"];
    let mut table = ExtraTable::new("Getting user pages: instructions per 4 KiB page", &header, note);
    if lab.settings.quick {
        let missing = Missing::new("left out by --quick: counted in guests", "pipeprof reproduce ladder");
        out.readings.insert("A.claims.gup".to_owned(), Err(missing));
        return Ok(());
    }
    let mut costs = Vec::new();
    let mut missing = None;
    for (name, huge_pages) in [("4 KiB", false), ("2 MiB", true)] {
        let spec = Spec { huge_pages, amount: Amount::Calls(512), warmup_bytes: 4 << 20, ..vmsplice(Reader::Splice) };
        let request = request(&format!("user pages of {name}"), &spec, vec![Collector::Insn], 1);
        match lab.exact(&format!("user pages of {name}"), &request, &GuestSetup::default())? {
            Ok(outcome) => {
                let writer = &outcome.document.processes.writer;
                let profile = outcome.profiles.iter().find(|p| p.side == Side::Writer && p.collector == "insn");
                let pages = writer.bytes as f64 / 4096.0;
                let per_page =
                    |name: &str| profile.map_or(0.0, |profile| stacks::inclusive(&profile.stacks, name) as f64 / pages);
                costs.push(per_page(NAMES[0]));
                let huge =
                    writer.huge_pages.map_or_else(|| "-".to_owned(), |h| format!("{} of {} bytes", h.got, h.asked));
                table.rows.push(vec![name.to_owned(), number(per_page(NAMES[0])), number(per_page(NAMES[1])), huge]);
            }
            Err(why) => missing = Some(why),
        }
    }
    let reading = match (&costs[..], missing) {
        ([small, huge], _) if *small > 0.0 => {
            let how = format!("{} instructions per page of 4 KiB, {} of 2 MiB", number(*small), number(*huge));
            Ok(Reading::single(huge / small, "of before", crate::document::ExecutedOn::Tcg, &how))
        }
        (_, Some(missing)) => Err(missing),
        _ => Err(Missing::new("the profile has no such function", "pipeprof reproduce ladder")),
    };
    if reading.is_ok() {
        out.tables.push(table);
    }
    out.readings.insert("A.claims.gup".to_owned(), reading);
    Ok(())
}
