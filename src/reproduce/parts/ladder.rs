//! Article A: the six rungs, what each removed, and whether that explains its gain.

pub(super) mod rungs;
mod steps;
mod user_pages;

use super::data::{LadderData, RungRatio};
use crate::reproduce::lab::speeds;
use crate::reproduce::parts::shared::prelude::*;
use rungs::{COMMAND, Profiles, sampled};

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<PartOutput> {
    let data = &PartsData::get()?.ladder;
    let mut out = PartOutput::default();
    let amount = Amount::DurationNs(lab.settings.window_ns());
    let rungs = data.rungs.iter().chain(&data.variants);
    let contestants: Vec<Contestant> =
        rungs.map(|rung| Contestant { id: rung.id.clone(), spec: Spec { amount, ..rung.axes.clone() } }).collect();
    let race = lab.race("rungs", &contestants, lab.settings.rounds())?;
    for raced in &race.0 {
        // Those without a fact are only shown in a table.
        let id = format!("{}.ladder.{}", data.article, raced.id);
        if facts.find(&id).is_some() {
            out.readings.insert(id, raced.speed());
        }
    }
    out.readings.insert(data.ratio.fact.clone(), ratio(&race, &data.ratio));
    if let Some(reading) = super::programs::fizzbuzz(lab)? {
        out.readings.insert(format!("{}.fizzbuzz", data.article), reading);
    }
    let mut profiles = Profiles::new();
    for rung in data.rungs.iter().filter(|rung| rung.profiled) {
        profiles.insert(&rung.id, sampled(lab, rung)?);
    }
    profiled(&mut out, facts, &data.article, &profiles);
    out.charts.extend(chart(facts, data, &race));
    out.tables.push(speeds_table(data, &race));
    steps::explain(&mut out, data, &race, &profiles);
    let user_pages = user_pages::user_pages(lab, &data.user_pages, &mut out)?;
    out.readings.insert(data.user_pages.fact.clone(), user_pages);
    Ok(out)
}

/// Speeds of profiled runs, and the call graphs.
fn profiled(out: &mut PartOutput, facts: &Facts, article: &str, profiles: &Profiles) {
    for (rung, taken) in profiles {
        let id = format!("{article}.ladder.{rung}.profiled");
        if facts.find(&id).is_some() {
            out.readings.insert(id, taken.clone().and_then(|outcome| profiled_speed(&outcome)));
        }
        for fact in facts.table(&format!("{article}.graph.{rung}")).iter().flat_map(|table| &table.rows) {
            let reading = taken.clone().and_then(|outcome| {
                let document = &outcome.document;
                let mut both = Folded::new();
                let of_target = |profile: &&Profile| profile.process != ProcessName::OTHER;
                for profile in outcome.profiles.iter().filter(|p| p.collector == "sample").filter(of_target) {
                    both.merge(&profile.stacks);
                }
                let (skid, command) = (stacks::skid(document), &document.command);
                super::shared::share_reading(&both, skid, fact, document.executed_on, "writer and reader", command)
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
fn ratio(race: &Race, RungRatio { of: id, to: base, .. }: &RungRatio) -> Taken<Reading> {
    let (measured, base_speed) = (race.speed(id)?, race.speed(base)?);
    let ratio = stats::ratio_of_medians(&measured.runs, &base_speed.runs, 1)
        .ok_or_else(|| Missing::new(format!("rung {base} moved no bytes"), COMMAND))?;
    let runs = counted(measured.runs.len() as u64, "run");
    let how = format!("{} and {} GiB/s, {runs} each", number(measured.value), number(base_speed.value));
    let reading = Reading::single(ratio.ratio, &format!("ratio to rung {base}"), measured.executed_on, &how);
    Ok(Reading { interval: Some(ratio.ci95), ..reading })
}

fn speeds_table(data: &LadderData, race: &Race) -> ExtraTable {
    let mut table = data.speeds.table(&[("runs", counted(race.runs(), "run"))]);
    for rung in data.rungs.iter().chain(&data.variants) {
        match race.get(&rung.id).and_then(|raced| raced.measured()) {
            Ok((speed, pair)) => {
                let ratio = rung.base.as_deref().and_then(|base| Some(speed.value / race.speed(base).ok()?.value));
                let cpu = pair.cpu_per_kib(ProcessName::WRITER) + pair.cpu_per_kib(ProcessName::READER);
                table.row([
                    rung.name.clone(),
                    number(speed.value),
                    speed.range().map(number).join(" to "),
                    rung.base.as_deref().map_or_else(|| "-".to_owned(), |base| format!("rung {base}")),
                    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} ×", number(ratio))),
                    number(cpu),
                    pair.calls_per_mib().map(number).join(" / "),
                ]);
            }
            Err(missing) => table.row([&*rung.name, "-", &missing.why]),
        }
    }
    table
}

fn chart(facts: &Facts, data: &LadderData, race: &Race) -> Option<Chart> {
    let (mut article, mut measured) = (Vec::new(), Vec::new());
    for rung in &data.rungs {
        let value = facts.find(&format!("{}.ladder.{}", data.article, rung.id)).and_then(|(_, fact)| fact.value);
        article.extend(value.map(|y| Point { label: rung.name.clone(), y, span: None }));
        measured.extend(race.speed(&rung.id).map(|speed| speed.point(&*rung.name)));
    }
    let related = super::shared::related([&mut article, &mut measured], &data.rungs.first()?.name);
    if measured.is_empty() {
        return None;
    }
    let machine = facts.articles.get(&data.article)?.machine.clone();
    let values = [("runs", counted(race.runs(), "run")), ("machine", machine)];
    Some(data.chart.chart(ChartKind::Bars, related, super::shared::both(&data.article, article, measured), &values))
}
