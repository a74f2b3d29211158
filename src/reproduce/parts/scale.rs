//! Several pipes at once, and several processes on one pipe: how throughput grows, and when the lock dominates.

use super::Part;
use crate::document::{Collector, Processes};
use crate::profile::ProcessName;
use crate::report::chart::{Chart, ChartKind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, Lab, Raced};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::{Reading, number};
use crate::roles::RoleId;
use crate::run::bench::request;
use crate::util::stats::{self, Ratio};
use crate::workload::modes::Mode;
use crate::workload::spec::{Amount, Pin};
use crate::workload::{self, Spec};
use anyhow::Result;

/// The part.
pub struct Scale;

/// Roles of the pipe's lock.
const LOCK: &[RoleId] = &[RoleId::Mutex, RoleId::MutexSlow, RoleId::MutexSpin, RoleId::MutexSleep];
/// The share of the writers' time from which the lock is said to dominate.
const DOMINATES: f64 = 0.5;

/// The id of the pair whose ends share a CPU.
const ONE_CPU: &str = "one CPU";

/// What grows: its name, the workload with `n` of it, and whose lock is looked at.
struct Axis {
    name: &'static str,
    /// For a chart's legend.
    short: &'static str,
    about: &'static str,
    of: fn(&Spec, u32) -> Spec,
    side: ProcessName,
}

const AXES: &[Axis] = &[
    Axis {
        name: "pairs",
        short: "N pipes",
        about: "independent pipes",
        of: |spec, n| Spec { pairs: n, ..spec.clone() },
        side: ProcessName::WRITER,
    },
    Axis {
        name: "writers",
        short: "N writers",
        about: "writers on one pipe",
        of: |spec, n| Spec { writers: n, ..spec.clone() },
        side: ProcessName::WRITER,
    },
    Axis {
        name: "readers",
        short: "N readers",
        about: "readers on one pipe",
        of: |spec, n| Spec { readers: n, ..spec.clone() },
        side: ProcessName::READER,
    },
];

/// Whether every process has a CPU of its own, or all are left to the scheduler: two lines, as the one says nothing of
/// the other.
const PINNED: [bool; 2] = [true, false];

fn pinning(pinned: bool) -> &'static str {
    if pinned { "a CPU of its own each" } else { "left to the scheduler" }
}

/// One pipe between one writer and one reader is where all axes begin: it is measured once.
fn id(axis: &Axis, n: u32, pinned: bool) -> String {
    let pin = if pinned { "pinned" } else { "unpinned" };
    if n == 1 { format!("one pipe {pin}") } else { format!("{} {n} {pin}", axis.name) }
}

/// Every point of every line, once.
fn contestants(base: &Spec, counts: &[u32], cpus: usize) -> Vec<Contestant> {
    let mut all: Vec<Contestant> = Vec::new();
    for axis in AXES {
        for n in counts {
            for pinned in PINNED {
                let pin = if pinned { Pin::Auto } else { Pin::None };
                let spec = Spec { pin, ..(axis.of)(base, *n) };
                // More processes than CPUs cannot have one each.
                let processes = u64::from(spec.pairs) * u64::from(spec.writers + spec.readers);
                let id = id(axis, *n, pinned);
                if (!pinned || processes <= cpus as u64) && all.iter().all(|other| other.id != id) {
                    all.push(Contestant { id, spec });
                }
            }
        }
    }
    all
}

impl Part for Scale {
    fn id(&self) -> &'static str {
        "scale"
    }

    fn title(&self) -> &'static str {
        "Scale: many pipes, many writers, many readers"
    }

    fn about(&self) -> &'static str {
        "article B: N pipes at once, N writers or readers on one; where the lock starts to dominate"
    }

    fn run(&self, lab: &Lab<'_>, _facts: &Facts) -> Result<Yield> {
        let mut out = Yield::default();
        let here = workload::cpus::allowed()?;
        let cpus = here.len();
        let most = u32::try_from(cpus).unwrap_or(u32::MAX).clamp(4, 64);
        let counts: Vec<u32> = (0..).map(|power| 1 << power).take_while(|n| *n <= most).collect();
        let Some(mode) = Mode::find("write") else { return Ok(out) };
        let base = Spec { amount: Amount::DurationNs(lab.settings.window_ns()), ..mode.spec() };
        let mut contestants = contestants(&base, &counts, cpus);
        if cpus > 1 {
            let cpu = workload::cpus::first(&here);
            let spec = Spec { pin: Pin::Cpus { writer: cpu, reader: cpu }, ..base };
            contestants.push(Contestant { id: ONE_CPU.to_owned(), spec });
        }
        let raced = lab.race("scale", &contestants, lab.settings.rounds().min(5))?;
        let locks = lock_shares(lab, &contestants)?;
        out.tables.push(table(&raced, &counts, &locks));
        out.charts.extend(chart(&raced, &counts));
        out.findings.extend(AXES.iter().filter_map(|axis| grown(axis, &raced, &counts)));
        dominates(&mut out, &counts, &locks);
        out.findings.extend(apart(&raced));
        if cpus < 4 {
            out.notes.push(format!(
                "This machine has {cpus} CPUs, one pair's worth: with more pairs, writers or readers they share CPUs, so that \
                 growth here is that of a full machine. On one with 8 CPUs or more: pipeprof reproduce scale."
            ));
        }
        Ok(out)
    }
}

fn table(raced: &[Raced], counts: &[u32], locks: &[Lock]) -> ExtraTable {
    let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
    let note = format!(
        "write(2) to read(2), 256 KiB buffers. GiB/s of all pipes together: median of {n} runs with the median absolute \
         deviation; per pipe: least and greatest within the median run. The lock: share of that side's sampled CPU time \
         in the pipe's mutex. Rows are comparable where their CPUs are: more processes than CPUs cannot have one each."
    );
    let header = ["what", "n", "CPUs", "GiB/s together", "spread", "per pipe", "lock, writers", "lock, readers"];
    let mut table = ExtraTable::new("Growing", &header, note);
    let mut rows: Vec<(String, &str, u32, &str)> = Vec::new();
    for pinned in PINNED {
        rows.push((id(&AXES[0], 1, pinned), "one pipe", 1, pinning(pinned)));
    }
    rows.push((ONE_CPU.to_owned(), "one pipe", 1, "one for both ends"));
    for axis in AXES {
        for pinned in PINNED {
            let many = counts.iter().filter(|n| **n > 1);
            rows.extend(many.map(|n| (id(axis, *n, pinned), axis.about, *n, pinning(pinned))));
        }
    }
    for (id, about, n, cpus) in rows {
        let Some(entry) = raced.iter().find(|raced| raced.id == id) else { continue };
        let mut row = vec![about.to_owned(), n.to_string(), cpus.to_owned()];
        match entry.speed() {
            Ok(speed) => row.extend([
                number(speed.value),
                speed.spread_percent().map_or_else(|| "-".to_owned(), |percent| format!("±{percent:.1} %")),
                entry.typical().map(per_pipe).unwrap_or_default(),
            ]),
            Err(missing) => row.extend(["-".to_owned(), missing.why, String::new()]),
        }
        let lock = locks.iter().find(|lock| lock.id == id);
        for share in [lock.and_then(|lock| lock.writers), lock.and_then(|lock| lock.readers)] {
            row.push(share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)));
        }
        table.rows.push(row);
    }
    table
}

fn per_pipe(pair: &Processes) -> String {
    if pair.pipes.len() < 2 {
        return "-".to_owned();
    }
    let speeds: Vec<f64> = pair.pipes.iter().map(crate::document::PipeTotals::gib_s).collect();
    let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{} to {}", number(least), number(speeds.iter().copied().fold(0.0, f64::max)))
}

/// The lock's share of each side's samples; `None` where there are none.
struct Lock {
    id: String,
    writers: Option<f64>,
    readers: Option<f64>,
}

impl Lock {
    fn of(&self, side: ProcessName) -> Option<f64> {
        if side == ProcessName::READER { self.readers } else { self.writers }
    }
}

/// For one pipe, and several writers and readers on it.
fn lock_shares(lab: &Lab<'_>, contestants: &[Contestant]) -> Result<Vec<Lock>> {
    let mut locks = Vec::new();
    for contestant in contestants.iter().filter(|contestant| contestant.spec.pairs == 1 && contestant.id != ONE_CPU) {
        let runs = if lab.settings.quick { 1 } else { 3 };
        let request = request(&contestant.id, &contestant.spec, vec![Collector::Sample], runs);
        let taken = lab.run(&format!("lock with {}", contestant.id), &request)?;
        let attribution = taken.as_ref().map(|outcome| &outcome.document.attribution).ok();
        let share = |process: ProcessName| {
            let shares = attribution.map(|attribution| attribution.of(process)).filter(|shares| !shares.is_empty())?;
            // From zero: the sum of no numbers is minus zero.
            let locked = shares.iter().filter(|share| LOCK.contains(&share.role)).map(|share| share.share);
            Some(locked.fold(0.0, |sum, share| sum + share))
        };
        locks.push(Lock {
            id: contestant.id.clone(),
            writers: share(ProcessName::WRITER),
            readers: share(ProcessName::READER),
        });
    }
    Ok(locks)
}

fn dominates(out: &mut Yield, counts: &[u32], locks: &[Lock]) {
    for axis in AXES.iter().filter(|axis| axis.name != "pairs") {
        for pinned in PINNED {
            let share = |n: u32| locks.iter().find(|lock| lock.id == id(axis, n, pinned))?.of(axis.side);
            let shares: Vec<(u32, f64)> = counts.iter().filter_map(|n| Some((*n, share(*n)?))).collect();
            // One writer and one reader alone are no growth.
            let Some((last, at_last)) = shares.last().filter(|(n, _)| *n > 1) else { continue };
            let (how, whose) = (pinning(pinned), axis.side.as_str());
            let text = match shares.iter().find(|(_, share)| *share >= DOMINATES) {
                Some((n, share)) => format!(
                    "With {n} {} ({how}) the pipe's lock takes {:.0} % of the {whose}s' CPU time: from there it dominates.",
                    axis.about,
                    share * 100.0
                ),
                None => format!(
                    "The pipe's lock does not dominate with up to {last} {} ({how}): {:.0} % of the {whose}s' CPU time.",
                    axis.about,
                    at_last * 100.0
                ),
            };
            out.findings.push(text);
        }
    }
}

/// How much more the most of an axis move than one pipe does, all left to the scheduler. Where processes outnumber CPUs,
/// pipes have their ends on one CPU by turns, which may be far faster than apart: beside one such pipe they are seen right.
fn grown(axis: &Axis, raced: &[Raced], counts: &[u32]) -> Option<String> {
    let most = *counts.last()?;
    let speed = |id: &str| raced.iter().find(|raced| raced.id == id)?.speed().ok();
    let many = speed(&id(axis, most, false))?;
    let times = |one: &Reading| {
        let Ratio { ratio, ci95: [low, high] } = stats::ratio_of_medians(&many.runs, &one.runs, 1)?;
        Some(format!("{} [{}, {}] times", number(ratio), number(low), number(high)))
    };
    let apart = times(&speed(&id(axis, 1, false))?)?;
    let together = speed(ONE_CPU).and_then(|one| times(&one)).map_or_else(String::new, |times| {
        format!("; {times} what one pipe does whose ends take turns on one CPU, as they have to where CPUs are few")
    });
    Some(format!(
        "{most} {} move {apart} what one writer and one reader on one pipe do, all left to the scheduler{together}.",
        axis.about
    ))
}

/// What it does to a pipe that its ends are on two CPUs.
fn apart(raced: &[Raced]) -> Option<String> {
    let speeds = |id: &str| raced.iter().find(|raced| raced.id == id)?.speed().ok();
    let (together, apart) = (speeds(ONE_CPU)?, speeds(&id(&AXES[0], 1, true))?);
    let Ratio { ratio, ci95: [low, high] } = stats::ratio_of_medians(&together.runs, &apart.runs, 1)?;
    let moved = format!(
        "A pipe whose ends take turns on one CPU moves {} [{}, {}] times what it moves with an end on each of two CPUs",
        number(ratio),
        number(low),
        number(high)
    );
    Some(if low > 1.0 {
        format!("{moved}: waking the other end across CPUs costs more here than working at the same time gains.")
    } else if high < 1.0 {
        format!("{moved}: working at the same time gains more here than waking the other end across CPUs costs.")
    } else {
        format!("{moved}: no clear difference.")
    })
}

fn point(label: String, speed: &Reading) -> Point {
    Point { label, y: speed.value, span: Some(speed.range()) }
}

/// A line per axis left to the scheduler, and one per axis of processes on CPUs of their own where there are enough.
fn chart(raced: &[Raced], counts: &[u32]) -> Option<Chart> {
    let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
    let mut series = Vec::new();
    for pinned in [false, true] {
        for axis in AXES {
            let points = counts.iter().filter_map(|count| {
                let speed = raced.iter().find(|raced| raced.id == id(axis, *count, pinned))?.speed().ok()?;
                Some(point(count.to_string(), &speed))
            });
            let points: Vec<Point> = points.collect();
            match points.len() {
                0 => {}
                // What all axes begin with, and no growth: one point for all.
                1 if pinned && axis.name != AXES[0].name => {}
                1 if pinned => series.push(Series { name: "1 pipe, pinned".into(), points }),
                _ => series
                    .push(Series { name: format!("{}{}", axis.short, if pinned { ", pinned" } else { "" }), points }),
            }
        }
    }
    if series.is_empty() {
        return None;
    }
    // One line more than there are colours could not be told apart.
    if let Some(speed) = raced.iter().find(|raced| raced.id == ONE_CPU).and_then(|raced| raced.speed().ok())
        && series.len() < 6
    {
        let points = vec![point("1".to_owned(), &speed)];
        series.push(Series { name: "1 pipe on one CPU".into(), points });
    }
    Some(Chart {
        id: "scale".into(),
        title: "Throughput with more pipes, writers or readers".into(),
        kind: ChartKind::Lines,
        y: "GiB/s, all pipes together".into(),
        x: "how many".into(),
        series,
        caption: format!(
            "write(2) to read(2) on this machine; median of {n} runs, bars from least to greatest. Processes are left to the \
             scheduler unless they are said to be pinned, each to a CPU of its own; between the two nothing grew."
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(cpus: usize) -> Vec<String> {
        contestants(&Spec::default(), &[1, 2, 4], cpus).into_iter().map(|contestant| contestant.id).collect()
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
        let executed_on = crate::document::ExecutedOn::Hardware;
        Raced { id: id.into(), spec: Spec::default(), pairs, executed_on, failed: None }
    }

    #[test]
    fn pinned_and_unpinned_are_never_on_one_line() {
        let entries = contestants(&Spec::default(), &[1, 2, 4], 2)
            .into_iter()
            .map(|c| raced(&c.id, 1_000_000))
            .collect::<Vec<_>>();
        let chart = chart(&entries, &[1, 2, 4]).unwrap();
        let points: Vec<usize> = chart.series.iter().map(|series| series.points.len()).collect();
        assert_eq!(points, [3, 3, 3, 1]);
        assert!(chart.series[3].name == "1 pipe, pinned");
        let text = grown(&AXES[0], &entries, &[1, 2, 4]).unwrap();
        assert!(text.starts_with("4 independent pipes move 1.00") && !text.contains("take turns"), "{text}");
        // Beside a pipe whose ends share a CPU, growth of 4 is none.
        let mut entries = entries;
        entries.push(raced(ONE_CPU, 250_000));
        for pipes in entries.iter_mut().filter(|entry| entry.id == "pairs 4 unpinned") {
            *pipes = raced(&pipes.id, 250_000);
        }
        let text = grown(&AXES[0], &entries, &[1, 2, 4]).unwrap();
        assert!(text.contains("move 4.00") && text.contains("; 1.00"), "{text}");
    }

    #[test]
    fn the_readers_lock_is_the_readers() {
        let lock = |n: u32, writers: f64, readers: f64| Lock {
            id: id(&AXES[2], n, false),
            writers: Some(writers),
            readers: Some(readers),
        };
        let mut out = Yield::default();
        dominates(&mut out, &[1, 2], &[lock(1, 0.9, 0.1), lock(2, 0.9, 0.2)]);
        let readers: Vec<&String> = out.findings.iter().filter(|text| text.contains("readers on one pipe")).collect();
        assert!(readers.len() == 1 && readers[0].contains("20 % of the readers' CPU time"), "{:?}", out.findings);
    }
}
