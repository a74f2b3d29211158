//! Several pipes at once, and several processes on one pipe: how throughput grows, and when the lock dominates.

use super::data::{ScaleAxis, ScaleData};
use crate::reproduce::parts::shared::prelude::*;
use crate::result::PipeTotals;
use crate::util::stats::{self, Ratio};
use crate::workload;
use crate::workload::axis::{Axis, Value};
use anyhow::Context as _;

/// The share of CPU time from which the lock dominates.
const DOMINATES: f64 = 0.5;

/// The id of the pipe whose writer and reader share a CPU.
const ONE_CPU: &str = "one CPU";

impl ScaleAxis {
    /// `spec` with `n` of it.
    fn of(&self, n: u32, spec: &Spec) -> Result<Spec> {
        let mut spec = spec.clone();
        let axis = Axis::find(&self.name).with_context(|| format!("unknown axis {}", self.name))?;
        axis.set(&mut spec, &Value::Number(n.into()))?;
        Ok(spec)
    }
}

/// Whether each process has its own CPU, or all are left to the scheduler. The two cannot be compared.
const PINNED: [bool; 2] = [true, false];

fn pinning(pinned: bool) -> &'static str {
    if pinned { "each process on its own CPU" } else { "left to the scheduler" }
}

/// All axes begin with one pipe between one writer and one reader, which is measured once.
fn id(axis: &ScaleAxis, n: u32, pinned: bool) -> String {
    let pin = if pinned { "pinned" } else { "unpinned" };
    if n == 1 { format!("one pipe {pin}") } else { format!("{} {n} {pin}", axis.name) }
}

/// Everything to measure on `cpus` CPUs, except the pipe on one CPU.
fn contestants(axes: &[ScaleAxis], base: &Spec, counts: &[u32], cpus: usize) -> Result<Vec<Contestant>> {
    let mut all: Vec<Contestant> = Vec::new();
    for axis in axes {
        for n in counts {
            for pinned in PINNED {
                let pin = if pinned { Pin::Auto } else { Pin::None };
                let spec = Spec { pin, ..axis.of(*n, base)? };
                // More processes than CPUs cannot have one each.
                let processes = u64::from(spec.pairs) * u64::from(spec.writers + spec.readers);
                let id = id(axis, *n, pinned);
                if (!pinned || processes <= cpus as u64) && all.iter().all(|other| other.id != id) {
                    all.push(Contestant { id, spec });
                }
            }
        }
    }
    Ok(all)
}

pub(super) fn run(lab: &Lab<'_>, _facts: &Facts) -> Result<PartOutput> {
    let data = &PartsData::get()?.scale;
    let mut out = PartOutput::default();
    let here = workload::cpus::allowed()?;
    let cpus = here.len();
    let most = u32::try_from(cpus).unwrap_or(u32::MAX).clamp(4, 64);
    let counts: Vec<u32> = (0..).map(|power| 1 << power).take_while(|n| *n <= most).collect();
    let Some(mode) = Mode::find(&data.mode) else { return Ok(out) };
    let base = Spec { amount: Amount::DurationNs(lab.settings.window_ns()), ..mode.spec() };
    let mut contestants = contestants(&data.axes, &base, &counts, cpus)?;
    if cpus > 1 {
        let cpu = workload::cpus::first(&here);
        let spec = Spec { pin: Pin::Cpus { writer: cpu, reader: cpu }, ..base };
        contestants.push(Contestant { id: ONE_CPU.to_owned(), spec });
    }
    let race = lab.race("scale", &contestants, lab.settings.rounds().min(5))?;
    let locks = lock_shares(lab, data, &contestants)?;
    out.tables.push(table(data, &race, &counts, &locks));
    out.charts.extend(chart(data, &race, &counts));
    out.findings.extend(data.axes.iter().filter_map(|axis| grown(axis, &race, &counts)));
    // Those of several processes on one pipe.
    for axis in data.axes.iter().filter(|axis| axis.name != "pairs") {
        out.findings.extend(PINNED.iter().filter_map(|pinned| dominates(axis, *pinned, &counts, &locks)));
    }
    out.findings.extend(data.axes.first().and_then(|first| apart(first, &race)));
    if cpus < 4 {
        out.notes.push(filled(&data.few_cpus, &[("cpus", counted(cpus as u64, "CPU"))]));
    }
    Ok(out)
}

fn table(data: &ScaleData, race: &Race, counts: &[u32], locks: &[LockShare]) -> ExtraTable {
    let mut table = data.table.table(&[("runs", counted(race.runs(), "run"))]);
    let one = |id: String, cpus: &'static str| (id, "one pipe", 1, cpus);
    let mut rows: Vec<(String, &str, u32, &str)> =
        PINNED.map(|pin| one(id(&data.axes[0], 1, pin), pinning(pin))).to_vec();
    rows.push(one(ONE_CPU.to_owned(), "both processes on one CPU"));
    for axis in &data.axes {
        for pinned in PINNED {
            let many = counts.iter().filter(|n| **n > 1);
            rows.extend(many.map(|n| (id(axis, *n, pinned), &*axis.about, *n, pinning(pinned))));
        }
    }
    let dash = || "-".to_owned();
    for (id, about, n, cpus) in rows {
        let Ok(raced) = race.get(&id) else { continue };
        let speed = match raced.measured() {
            Ok((speed, pair)) => [number(speed.value), speed.spread().unwrap_or_else(dash), per_pipe(pair)],
            Err(missing) => [dash(), missing.why, String::new()],
        };
        let lock = |process| lock_share(locks, &id, process);
        let locks = [ProcessName::WRITER, ProcessName::READER]
            .map(|process| lock(process).map_or_else(dash, |share| format!("{:.0} %", share * 100.0)));
        table.row([about.to_owned(), n.to_string(), cpus.to_owned()].into_iter().chain(speed).chain(locks));
    }
    table
}

fn per_pipe(pair: &Processes) -> String {
    if pair.pipes.len() < 2 {
        return "-".to_owned();
    }
    let speeds: Vec<f64> = pair.pipes.iter().map(PipeTotals::gib_s).collect();
    let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{} to {}", number(least), number(speeds.iter().copied().fold(0.0, f64::max)))
}

/// The lock's share of the samples of the writers or readers of a contestant.
struct LockShare {
    id: String,
    process: ProcessName,
    share: f64,
}

fn lock_share(locks: &[LockShare], id: &str, process: ProcessName) -> Option<f64> {
    locks.iter().find(|lock| lock.id == id && lock.process == process).map(|lock| lock.share)
}

/// Of all contestants with one pipe, except on one CPU.
fn lock_shares(lab: &Lab<'_>, data: &ScaleData, contestants: &[Contestant]) -> Result<Vec<LockShare>> {
    let mut locks = Vec::new();
    for Contestant { id, spec } in contestants.iter().filter(|entry| entry.spec.pairs == 1 && entry.id != ONE_CPU) {
        let request = request(id, spec, vec![Collector::Sample], if lab.settings.quick { 1 } else { 3 });
        let Ok(outcome) = lab.run(&format!("lock with {id}"), &request)? else { continue };
        for process in [ProcessName::WRITER, ProcessName::READER] {
            let shares = outcome.document.attribution.of(process);
            let locked = shares.iter().filter(|share| data.lock.contains(&share.role)).map(|share| share.share);
            if !shares.is_empty() {
                // From zero: the sum of no numbers is minus zero.
                locks.push(LockShare { id: id.clone(), process, share: locked.fold(0.0, |sum, share| sum + share) });
            }
        }
    }
    Ok(locks)
}

/// From how many writers or readers the lock dominates.
fn dominates(axis: &ScaleAxis, pinned: bool, counts: &[u32], locks: &[LockShare]) -> Option<String> {
    let share = |n: u32| lock_share(locks, &id(axis, n, pinned), axis.process);
    let shares: Vec<(u32, f64)> = counts.iter().filter_map(|n| Some((*n, share(*n)?))).collect();
    // One writer and one reader are no growth.
    let (last, at_last) = shares.last().filter(|(n, _)| *n > 1)?;
    let (about, how, whose) = (&axis.about, pinning(pinned), axis.process);
    Some(match shares.iter().find(|(_, share)| *share >= DOMINATES) {
        Some((n, share)) => format!(
            "From {n} {about} ({how}), the pipe's lock dominates: {:.0} % of the {whose}s' CPU time.",
            share * 100.0
        ),
        None => format!(
            "With up to {last} {about} ({how}), the pipe's lock does not dominate: {:.0} % of the {whose}s' CPU time.",
            at_last * 100.0
        ),
    })
}

/// How often as much one speed is as another, with its interval.
fn ratio(speed: &Reading, base: &Reading) -> Option<(String, [f64; 2])> {
    let Ratio { ratio, ci95 } = stats::ratio_of_medians(&speed.runs, &base.runs, 1)?;
    let [low, high] = ci95.map(number);
    Some((format!("{} [{low}, {high}] times", number(ratio)), ci95))
}

/// How the throughput of the largest number of an axis compares with one pipe, left to the scheduler. If processes outnumber
/// CPUs, writers and readers share CPUs, which may be far faster; so it is compared with such a pipe, too.
fn grown(axis: &ScaleAxis, race: &Race, counts: &[u32]) -> Option<String> {
    let most = *counts.last()?;
    let many = race.speed(&id(axis, most, false)).ok()?;
    let (times, _) = ratio(&many, &race.speed(&id(axis, 1, false)).ok()?)?;
    let shared = race.speed(ONE_CPU).ok().and_then(|one| ratio(&many, &one));
    let shared = shared
        .map_or_else(String::new, |(times, _)| format!("; {times} as much as one pipe whose processes share one CPU"));
    Some(format!("{most} {} move {times} as much as one pipe, all left to the scheduler{shared}.", axis.about))
}

/// Whether a pipe is faster with its writer and reader on two CPUs.
fn apart(first: &ScaleAxis, race: &Race) -> Option<String> {
    let (shared, apart) = (race.speed(ONE_CPU).ok()?, race.speed(&id(first, 1, true)).ok()?);
    let (times, [low, high]) = ratio(&shared, &apart)?;
    let why = if low > 1.0 {
        "waking up the other process on another CPU costs more than working in parallel gains"
    } else if high < 1.0 {
        "working in parallel gains more than waking up the other process on another CPU costs"
    } else {
        "no clear difference"
    };
    Some(format!(
        "A pipe whose processes share one CPU moves {times} as much as one whose processes have a CPU each: {why}."
    ))
}

/// A line per axis left to the scheduler, and one per axis of processes on their own CPUs if there are enough.
fn chart(data: &ScaleData, race: &Race, counts: &[u32]) -> Option<Chart> {
    let mut series = Vec::new();
    for pinned in [false, true] {
        for axis in &data.axes {
            let point = |n: &u32| Some(race.speed(&id(axis, *n, pinned)).ok()?.point(n.to_string()));
            let points: Vec<Point> = counts.iter().filter_map(point).collect();
            let name = match points.len() {
                0 => continue,
                // The common beginning of all axes is one point.
                1 if pinned && axis.name != data.axes[0].name => continue,
                1 if pinned => "1 pipe, pinned".to_owned(),
                _ => format!("{}{}", axis.short, if pinned { ", pinned" } else { "" }),
            };
            series.push((name, points));
        }
    }
    if series.is_empty() {
        return None;
    }
    // There are six colours.
    if let Some(speed) = race.speed(ONE_CPU).ok().filter(|_| series.len() < 6) {
        series.push(("1 pipe on one CPU".to_owned(), vec![speed.point("1")]));
    }
    Some(data.chart.chart(ChartKind::Lines, false, series, &[("runs", counted(race.runs(), "run"))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::lab::Raced;
    use crate::result::ExecutedOn;

    fn data() -> &'static ScaleData {
        &PartsData::get().unwrap().scale
    }

    fn ids(cpus: usize) -> Vec<String> {
        let all = contestants(&data().axes, &Spec::default(), &[1, 2, 4], cpus).unwrap();
        all.into_iter().map(|contestant| contestant.id).collect()
    }

    #[test]
    fn every_axis_begins_unpinned_and_only_what_fits_is_pinned() {
        let two = ids(2);
        assert_eq!(two.len(), 2 + 3 * 2, "{two:?}");
        assert_eq!(two.iter().filter(|id| !id.contains("unpinned")).collect::<Vec<_>>(), ["one pipe pinned"]);
        let eight = ids(8);
        for id in ["pairs 4 pinned", "writers 4 pinned", "readers 4 unpinned", "one pipe unpinned"] {
            assert!(eight.iter().any(|other| other == id), "{eight:?}");
        }
        assert_eq!(
            ids(4).iter().filter(|id| id.ends_with(" pinned")).count(),
            1 + 3,
            "two pairs, two writers, two readers"
        );
    }

    fn raced(id: &str, ns: u64) -> Raced {
        let pair = |ns| {
            let mut pair = Processes { window_ns: ns, ..Processes::default() };
            pair.of_mut(ProcessName::READER).bytes = 1 << 30;
            pair
        };
        let pairs = (0..3).map(|more| pair(ns + more)).collect();
        Raced { id: id.into(), spec: Spec::default(), pairs, executed_on: ExecutedOn::Hardware, failed: None }
    }

    #[test]
    fn pinned_and_unpinned_are_never_on_one_line() {
        let entries = contestants(&data().axes, &Spec::default(), &[1, 2, 4], 2).unwrap();
        let mut race = Race(entries.iter().map(|entry| raced(&entry.id, 1_000_000)).collect());
        let chart = chart(data(), &race, &[1, 2, 4]).unwrap();
        let points: Vec<usize> = chart.series.iter().map(|series| series.points.len()).collect();
        assert_eq!(points, [3, 3, 3, 1]);
        assert!(chart.series[3].name == "1 pipe, pinned");
        let text = grown(&data().axes[0], &race, &[1, 2, 4]).unwrap();
        assert!(text.starts_with("4 independent pipes move 1.00") && !text.contains("share one CPU"), "{text}");
        // Compared with a pipe whose processes share a CPU, nothing grew.
        race.0.push(raced(ONE_CPU, 250_000));
        for pipes in race.0.iter_mut().filter(|entry| entry.id == "pairs 4 unpinned") {
            *pipes = raced(&pipes.id, 250_000);
        }
        let text = grown(&data().axes[0], &race, &[1, 2, 4]).unwrap();
        assert!(text.contains("move 4.00") && text.contains("; 1.00"), "{text}");
    }

    #[test]
    fn the_readers_lock_is_the_readers() {
        let lock =
            |n: u32, process: ProcessName, share: f64| LockShare { id: id(&data().axes[2], n, false), process, share };
        let (writer, reader) = (ProcessName::WRITER, ProcessName::READER);
        let locks = [lock(1, writer, 0.9), lock(1, reader, 0.1), lock(2, writer, 0.9), lock(2, reader, 0.2)];
        let text = dominates(&data().axes[2], false, &[1, 2], &locks).unwrap();
        assert!(text.contains("2 readers on one pipe") && text.contains("20 % of the readers' CPU time"), "{text}");
        assert_eq!(dominates(&data().axes[2], true, &[1, 2], &locks), None);
    }
}
