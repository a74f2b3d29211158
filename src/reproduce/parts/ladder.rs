//! Article A: the six rungs, what each removed, and whether that explains its gain.

mod steps;
mod user_pages;

use crate::reproduce::lab::speeds;
use crate::reproduce::parts::prelude::*;

const COMMAND: &str = "pipeprof reproduce ladder";

/// A workload of the article: a rung, or a variant of one.
struct Rung {
    id: &'static str,
    name: &'static str,
    /// The rung with which it is compared.
    base: Option<&'static str>,
    axes: fn() -> Spec,
}

const fn rung(id: &'static str, name: &'static str, base: Option<&'static str>, axes: fn() -> Spec) -> Rung {
    Rung { id, name, base, axes }
}

fn vmsplice(reader: Reader) -> Spec {
    Spec { writer: Writer::Vmsplice, reader, ..Spec::default() }
}

fn spliced() -> Spec {
    vmsplice(Reader::Splice)
}

fn huge() -> Spec {
    Spec { huge_pages: true, ..spliced() }
}

/// In the order of the chart.
const RUNGS: &[Rung] = &[
    rung("1", "1: write to read", None, Spec::default),
    rung("2", "2: vmsplice to read", Some("1"), || vmsplice(Reader::Read)),
    rung("3", "3: vmsplice to splice", Some("2"), spliced),
    rung("3b", "3b: pages never touched", Some("3"), || Spec { no_touch: true, ..spliced() }),
    rung("4", "4: huge pages", Some("3"), huge),
    rung("5", "5: busy loop", Some("4"), || Spec { busy_loop: true, ..huge() }),
];

/// Options of the article's program that are not on the ladder.
const VARIANTS: &[Rung] = &[
    rung("contiguous", "4, both halves in one buffer", Some("4"), || Spec { contiguous: true, ..huge() }),
    rung("contiguous-small", "3, both halves in one buffer", Some("3"), || Spec { contiguous: true, ..spliced() }),
    rung("gift", "4, SPLICE_F_GIFT", Some("4"), || Spec { gift: true, ..huge() }),
    rung("poll", "4, poll before each call", Some("4"), || Spec { poll: true, ..huge() }),
    rung("mlock", "3, locked into memory", Some("3"), || Spec { mlock: true, ..spliced() }),
];

/// The rungs that are profiled.
const PROFILED: [&str; 5] = ["1", "2", "3", "4", "5"];

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
    let mut out = Yield::default();
    let amount = Amount::DurationNs(lab.settings.window_ns());
    let contestants: Vec<Contestant> = RUNGS
        .iter()
        .chain(VARIANTS)
        .map(|rung| Contestant { id: rung.id.to_owned(), spec: Spec { amount, ..(rung.axes)() } })
        .collect();
    let race = lab.race("rungs", &contestants, lab.settings.rounds())?;
    for raced in &race.0 {
        // Those without a fact are only shown in a table.
        let id = format!("A.ladder.{}", raced.id);
        if facts.find(&id).is_some() {
            out.readings.insert(id, raced.speed());
        }
    }
    out.readings.insert("A.variants.contiguous".to_owned(), ratio(&race, "contiguous", "4"));
    if let Some(reading) = super::programs::fizzbuzz(lab)? {
        out.readings.insert("A.fizzbuzz".to_owned(), reading);
    }
    let mut profiles = Profiles::new();
    for rung in RUNGS.iter().filter(|rung| PROFILED.contains(&rung.id)) {
        profiles.insert(rung.id, sampled(lab, rung)?);
    }
    profiled(&mut out, facts, &profiles);
    out.charts.extend(chart(facts, &race));
    out.tables.push(speeds_table(&race));
    steps::explain(&mut out, &race, &profiles);
    let user_pages = user_pages::user_pages(lab, &mut out)?;
    out.readings.insert("A.claims.gup".to_owned(), user_pages);
    Ok(out)
}

/// The profiled rungs.
type Profiles = BTreeMap<&'static str, Taken<Outcome>>;

/// The sampled profile of the rung called `id`; `None` if the rung is not profiled.
pub(crate) fn profile(lab: &Lab<'_>, id: &str) -> Result<Option<Taken<Outcome>>> {
    let rung = RUNGS.iter().find(|rung| rung.id == id && PROFILED.contains(&id));
    rung.map(|rung| sampled(lab, rung)).transpose()
}

fn sampled(lab: &Lab<'_>, rung: &Rung) -> Result<Taken<Outcome>> {
    let spec = Spec { amount: Amount::DurationNs(lab.settings.window_ns()), ..(rung.axes)() };
    let runs = if lab.settings.quick { 1 } else { 5 };
    let request = request(&format!("rung {}", rung.name), &spec, vec![Collector::Sample], runs);
    let taken = lab.run(&format!("profile of rung {}", rung.id), &request)?;
    Ok(taken.and_then(|outcome| super::with_writer(outcome, &request)))
}

/// Speeds of profiled runs, and the call graphs.
fn profiled(out: &mut Yield, facts: &Facts, profiles: &Profiles) {
    for (rung, taken) in profiles {
        let id = format!("A.ladder.{rung}.profiled");
        if facts.find(&id).is_some() {
            out.readings.insert(id, taken.clone().and_then(|outcome| profiled_speed(&outcome)));
        }
        for fact in facts.table(&format!("A.graph.{rung}")).iter().flat_map(|table| &table.rows) {
            let reading = taken.clone().and_then(|outcome| {
                let document = &outcome.document;
                let mut both = Folded::new();
                let of_target = |profile: &&Profile| profile.process != ProcessName::OTHER;
                for profile in outcome.profiles.iter().filter(|p| p.collector == "sample").filter(of_target) {
                    both.merge(&profile.stacks);
                }
                let (skid, command) = (stacks::skid(document), &document.command);
                super::share_reading(&both, skid, fact, document.executed_on, "writer and reader", command)
            });
            out.readings.insert(fact.id.clone(), reading);
        }
    }
}

/// The speed of the profiled runs, relative to the unprofiled runs of the same experiment.
fn profiled_speed(outcome: &Outcome) -> Taken<Reading> {
    let document = &outcome.document;
    let (runs, base) = (speeds(&document.runs, true), speeds(&document.runs, false));
    let how =
        format!("median of {}, alternating with {} unprofiled", counted(runs.len() as u64, "profiled run"), base.len());
    Reading::median(runs, "GiB/s", document.executed_on, &how)
        .filter(|reading| reading.value > 0.0)
        .map(|reading| Reading { base: (!base.is_empty()).then_some(base), ..reading })
        .ok_or_else(|| Missing::new("no profiled run", document.command.clone()))
}

/// The speed of one contestant relative to another's.
fn ratio(race: &Race, id: &str, base: &str) -> Taken<Reading> {
    let (measured, base_speed) = (race.speed(id)?, race.speed(base)?);
    let ratio = stats::ratio_of_medians(&measured.runs, &base_speed.runs, 1)
        .ok_or_else(|| Missing::new(format!("rung {base} moved no bytes"), COMMAND))?;
    let runs = counted(measured.runs.len() as u64, "run");
    let how = format!("{} and {} GiB/s, {runs} each", number(measured.value), number(base_speed.value));
    let reading = Reading::single(ratio.ratio, &format!("ratio to rung {base}"), measured.executed_on, &how);
    Ok(Reading { interval: Some(ratio.ci95), ..reading })
}

fn speeds_table(race: &Race) -> ExtraTable {
    let note = format!(
        "GiB/s at the reader: median, minimum and maximum of {}, all rungs alternating. CPU time (user and system time of both \
         processes) and calls are those of the median run.",
        counted(race.runs(), "run")
    );
    let header = "rung | GiB/s | minimum to maximum | compared with | ratio | CPU time, ns/KiB | \
        calls per MiB, writer / reader";
    let mut table = ExtraTable::new("Rungs and variants on this machine", header, note);
    for rung in RUNGS.iter().chain(VARIANTS) {
        match race.get(rung.id).and_then(|raced| raced.measured()) {
            Ok((speed, pair)) => {
                let ratio = rung.base.and_then(|base| Some(speed.value / race.speed(base).ok()?.value));
                let cpu = cpu_per_kib(pair, ProcessName::WRITER) + cpu_per_kib(pair, ProcessName::READER);
                table.row([
                    rung.name.to_owned(),
                    number(speed.value),
                    speed.range().map(number).join(" to "),
                    rung.base.map_or_else(|| "-".to_owned(), |base| format!("rung {base}")),
                    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} ×", number(ratio))),
                    number(cpu),
                    calls_per_mib(pair).map(number).join(" / "),
                ]);
            }
            Err(missing) => table.row([rung.name, "-", &missing.why]),
        }
    }
    table
}

fn chart(facts: &Facts, race: &Race) -> Option<Chart> {
    let (mut article, mut measured) = (Vec::new(), Vec::new());
    for rung in RUNGS {
        let value = facts.find(&format!("A.ladder.{}", rung.id)).and_then(|(_, fact)| fact.value);
        article.extend(value.map(|y| Point { label: rung.name.to_owned(), y, span: None }));
        measured.extend(race.speed(rung.id).map(|speed| speed.point(rung.name)));
    }
    let unit = super::related([&mut article, &mut measured], RUNGS[0].name, "times the speed of rung 1");
    if measured.is_empty() {
        return None;
    }
    let caption = format!(
        "Measured: median of {}, whiskers from minimum to maximum. Article: single values on {}.",
        counted(race.runs(), "run"),
        facts.articles.get("A")?.machine
    );
    let series = super::both("A", article, measured);
    Some(super::chart(ChartKind::Bars, ["ladder", "The six rungs"], [unit.unwrap_or("GiB/s"), ""], series, caption))
}
