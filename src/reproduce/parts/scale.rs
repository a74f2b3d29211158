//! Several pipes at once, and several processes on one pipe: how throughput grows, and when the lock dominates.

use super::{Part, request};
use crate::document::{Collector, Processes};
use crate::report::chart::{Chart, Kind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, Lab, Raced};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::number;
use crate::util::stats::{self, Ratio};
use crate::workload::modes::Mode;
use crate::workload::spec::{Amount, Pin};
use crate::workload::{self, Spec};
use anyhow::Result;

/// The part.
pub struct Scale;

/// Roles of the pipe's lock.
const LOCK: &[&str] = &["mutex", "mutex-slow", "mutex-spin", "mutex-sleep"];
/// The share of the writers' time from which the lock is said to dominate.
const DOMINATES: f64 = 0.5;

/// The id of the pair whose ends share a CPU.
const ONE_CPU: &str = "one CPU";

/// What grows: its name, and the workload with `n` of it.
struct Axis {
    name: &'static str,
    about: &'static str,
    of: fn(&Spec, u32) -> Spec,
}

const AXES: &[Axis] = &[
    Axis { name: "pairs", about: "independent pipes", of: |spec, n| Spec { pairs: n, ..spec.clone() } },
    Axis { name: "writers", about: "writers on one pipe", of: |spec, n| Spec { writers: n, ..spec.clone() } },
    Axis { name: "readers", about: "readers on one pipe", of: |spec, n| Spec { readers: n, ..spec.clone() } },
];

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
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let most = u32::try_from(cpus).unwrap_or(u32::MAX).clamp(4, 64);
        let counts: Vec<u32> = (0..).map(|power| 1 << power).take_while(|n| *n <= most).collect();
        let Some(mode) = Mode::find("write") else { return Ok(out) };
        let base = Spec { amount: Amount::DurationNs(lab.settings.window_ns()), ..mode.spec() };
        let mut contestants = Vec::new();
        for axis in AXES {
            for n in &counts {
                let spec = (axis.of)(&base, *n);
                // More processes than CPUs cannot have one each.
                let processes = u64::from(spec.pairs) * u64::from(spec.writers + spec.readers);
                let pin = if processes <= cpus as u64 { Pin::Auto } else { Pin::None };
                contestants.push(Contestant { id: format!("{} {n}", axis.name), spec: Spec { pin, ..spec } });
            }
        }
        let here = workload::cpus::allowed()?;
        if here.len() > 1 {
            let cpu = workload::cpus::first(&here);
            let spec = Spec { pin: Pin::Cpus { writer: cpu, reader: cpu }, ..base.clone() };
            contestants.push(Contestant { id: ONE_CPU.to_owned(), spec });
        }
        let raced = lab.race("scale", &contestants, lab.settings.rounds().min(5))?;
        let locks = lock_shares(lab, &contestants)?;
        let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
        let note = format!(
            "write(2) to read(2), 256 KiB buffers. GiB/s of all pipes together: median of {n} runs with the median absolute \
             deviation; per pipe: least and greatest within the median run. The lock: share of the writers' sampled CPU time \
             in the pipe's mutex. Processes in excess of {cpus} CPUs are not pinned and share CPUs."
        );
        let header = ["what", "n", "CPUs each", "GiB/s together", "spread", "per pipe", "lock, writers"];
        let mut table = ExtraTable::new("Growing", &header, note);
        let grown = AXES.iter().flat_map(|axis| counts.iter().map(|n| (format!("{} {n}", axis.name), axis.about, *n)));
        for (id, about, n) in grown.chain([(ONE_CPU.to_owned(), "one pipe, both ends on one CPU", 1)]) {
            let Some(entry) = raced.iter().find(|raced| raced.id == id) else { continue };
            let own = match entry.spec.pin {
                Pin::None => "shared",
                Pin::Auto => "own",
                Pin::Cpus { .. } => "one for both",
            };
            let mut row = vec![about.to_owned(), n.to_string(), own.to_owned()];
            match entry.speed() {
                Ok(speed) => row.extend([
                    number(speed.value),
                    speed.spread_percent().map_or_else(|| "-".to_owned(), |percent| format!("±{percent:.1} %")),
                    entry.typical().map(per_pipe).unwrap_or_default(),
                ]),
                Err(missing) => row.extend(["-".to_owned(), missing.why, String::new()]),
            }
            let lock = locks.iter().find(|(name, _)| *name == id).and_then(|(_, share)| *share);
            row.push(lock.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)));
            table.rows.push(row);
        }
        out.tables.push(table);
        out.charts.extend(chart(&raced, &counts, n));
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

fn per_pipe(pair: &Processes) -> String {
    if pair.pairs.len() < 2 {
        return "-".to_owned();
    }
    let speeds: Vec<f64> = pair.pairs.iter().map(crate::document::PairTotals::gib_s).collect();
    let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{} to {}", number(least), number(speeds.iter().copied().fold(0.0, f64::max)))
}

/// The lock's share of the writers' samples, for several writers and readers on one pipe.
fn lock_shares(lab: &Lab<'_>, contestants: &[Contestant]) -> Result<Vec<(String, Option<f64>)>> {
    let mut shares = Vec::new();
    for contestant in contestants {
        if contestant.id.starts_with("pairs") && contestant.id != "pairs 1" || contestant.id == ONE_CPU {
            continue;
        }
        let runs = if lab.settings.quick { 1 } else { 3 };
        let request = request(&contestant.id, &contestant.spec, vec![Collector::Sample], runs);
        let taken = lab.run(&format!("lock with {}", contestant.id), &request)?;
        let writer = taken.as_ref().map(|outcome| &outcome.document.attribution.writer).ok();
        let share = writer.filter(|shares| !shares.is_empty()).map(|shares| {
            shares.iter().filter(|share| LOCK.contains(&share.role.as_str())).map(|share| share.share).sum()
        });
        shares.push((contestant.id.clone(), share));
    }
    Ok(shares)
}

fn dominates(out: &mut Yield, counts: &[u32], locks: &[(String, Option<f64>)]) {
    for axis in AXES.iter().filter(|axis| axis.name != "pairs") {
        let shares: Vec<(u32, f64)> = counts
            .iter()
            .filter_map(|n| Some((*n, locks.iter().find(|(id, _)| *id == format!("{} {n}", axis.name))?.1?)))
            .collect();
        let Some((last, at_last)) = shares.last() else { continue };
        let text = match shares.iter().find(|(_, share)| *share >= DOMINATES) {
            Some((n, share)) => format!(
                "With {n} {} the pipe's lock takes {:.0} % of the writers' CPU time: from there it dominates.",
                axis.about,
                share * 100.0
            ),
            None => format!(
                "The pipe's lock does not dominate with up to {last} {}: {:.0} % of the writers' CPU time.",
                axis.about,
                at_last * 100.0
            ),
        };
        out.findings.push(text);
    }
}

/// What it does to a pipe that its ends are on two CPUs.
fn apart(raced: &[Raced]) -> Option<String> {
    let speeds = |id: &str| raced.iter().find(|raced| raced.id == id)?.speed().ok();
    let (together, apart) = (speeds(ONE_CPU)?, speeds("pairs 1")?);
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

fn chart(raced: &[Raced], counts: &[u32], n: usize) -> Option<Chart> {
    let series: Vec<Series> = AXES
        .iter()
        .map(|axis| {
            let points = counts.iter().filter_map(|count| {
                let entry = raced.iter().find(|raced| raced.id == format!("{} {count}", axis.name))?;
                let speed = entry.speed().ok()?;
                let span = speed.runs.iter().fold([speed.value; 2], |[low, high], run| [low.min(*run), high.max(*run)]);
                Some(Point { label: count.to_string(), y: speed.value, span: Some(span) })
            });
            Series { name: axis.about.to_owned(), points: points.collect() }
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    if series.is_empty() {
        return None;
    }
    Some(Chart {
        id: "scale".into(),
        title: "Throughput with more pipes, writers or readers".into(),
        kind: Kind::Lines,
        y: "GiB/s, all pipes together".into(),
        x: "how many".into(),
        series,
        caption: format!("write(2) to read(2) on this machine; median of {n} runs, bars from least to greatest."),
    })
}
