//! Article C: a cat clone, five ways, compared with the installed cat.

mod strace;

use super::data::{CatData, CatWay};
use crate::reproduce::parts::shared::prelude::*;
use crate::reproduce::pipeline::{End, Pipeline};
use crate::result::{KernelInfo, ProcessTotals};
use crate::workload;
use serde::Serialize;

/// What the article piped.
const PIPED: f64 = 10.0 * (1u64 << 30) as f64;
const GIB: u64 = 1 << 30;
const CAT: [&str; 2] = ["cat", "/dev/zero"];
const COMMAND: &str = "pipeprof reproduce cat";
/// This program's own file: it exists everywhere, and is in the page cache.
const FILE: &str = "/proc/self/exe";
/// The reader whose CPU time is judged, and with which calls are counted.
const HEAD: &str = "head";

/// A sum of fewer clock ticks is too inaccurate: one standard deviation of 20 is 4.5.
const FEW_TICKS: f64 = 20.0;

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<PartOutput> {
    let data = &PartsData::get()?.cat;
    let mut out = PartOutput::default();
    let contestants = contestants(lab, data);
    let (ways, installed) = race(lab, &contestants)?;
    // Whole amounts, so that no window ends in the middle of a buffer.
    let amount = Amount::Bytes(if lab.settings.quick { GIB / 16 } else { GIB / 4 });
    let whole = contestants.iter().filter(|way| way.id.ends_with(&format!(" to {HEAD}")) && way.spec.source.is_none());
    let whole: Vec<Contestant> =
        whole.map(|way| Contestant { spec: Spec { amount, ..way.spec.clone() }, ..way.clone() }).collect();
    let whole = lab.race("calls", &whole, 1)?;
    let tick_ns = tick_ns(lab);
    for CatWay { id, axes, .. } in &data.ways {
        let of = format!("{id} to {HEAD}");
        let way = ways.get(&of);
        let minute = |way: &Raced| Spec { amount: Amount::DurationNs(60_000_000_000), ..way.spec.clone() };
        let times = |time| {
            let way = way.clone()?;
            way.speed()?;
            let longer = || workload::command::run(&minute(way), "--runs 3 --collect none");
            ticked(&way.pairs, time, tick_ns, way.executed_on, longer)
        };
        let real = way.clone().and_then(|way| way.reading("s", "scaled to 10 GiB", scaled));
        let calls = whole.get(&of).and_then(|way| writes(way, axes.writer));
        for (table, reading) in [("real", real), ("user", times(USER)), ("sys", times(SYSTEM)), ("calls", calls)] {
            let id = data.fact(table, id);
            if facts.find(&id).is_some() {
                out.readings.insert(id, reading);
            }
        }
    }
    out.readings.insert(data.fact("dd", "splice"), ways.speed("splice-128K to dd"));
    installed_readings(lab, data, &mut out, &installed, tick_ns)?;
    out.tables.push(table(data, &ways, &installed, tick_ns));
    out.charts.extend(chart(facts, data, &out));
    let tick = (tick_ns as f64 / 1e6).to_string();
    out.notes.push(filled(&data.note, &[("tick", tick), ("few", FEW_TICKS.to_string())]));
    Ok(out)
}

impl CatData {
    /// The id of a fact about one way.
    fn fact(&self, table: &str, way: &str) -> String {
        format!("{}.{table}.{way}", self.article)
    }
}

fn contestants(lab: &Lab<'_>, data: &CatData) -> Vec<Contestant> {
    let window = lab.settings.window_ns();
    let mut contestants = Vec::new();
    for NamedSpec { name, axes: read } in &data.readers {
        for CatWay { id, from_file, axes, .. } in &data.ways {
            // Twice as long where CPU time is judged, which needs ticks.
            let amount = Amount::DurationNs(if name == HEAD { 2 * window } else { window });
            let (reader, reader_buffer_size) = (read.reader, read.reader_buffer_size);
            let spec = Spec { reader, reader_buffer_size, amount, ..axes.clone() };
            let source = Some(FILE.into());
            contestants.push(Contestant { id: format!("{id} to {name}"), spec: spec.clone() });
            if name == HEAD && *from_file {
                let id = format!("{id} from a file to {name}");
                contestants.push(Contestant { id, spec: Spec { source, ..spec } });
            }
        }
    }
    contestants
}

/// The runs of the installed cat into `head` and `dd`.
struct InstalledCat {
    head: Taken<Vec<Processes>>,
    dd: Taken<Vec<Processes>>,
}

#[derive(Clone, Serialize)]
enum RaceLane {
    Way(Contestant),
    Installed(&'static str, Pipeline),
}

/// The five ways and the installed cat, alternating.
fn race(lab: &Lab<'_>, contestants: &[Contestant]) -> Result<(Race, InstalledCat)> {
    let mut lanes: Vec<RaceLane> = contestants.iter().cloned().map(RaceLane::Way).collect();
    if lab.executed_on() == ExecutedOn::Hardware {
        lanes.extend(pipelines(lab)?);
    }
    let label = |lane: &RaceLane| match lane {
        RaceLane::Way(contestant) => contestant.id.clone(),
        RaceLane::Installed(name, _) => (*name).to_owned(),
    };
    let mut lanes = lab.alternate("ways", lanes, label, lab.settings.rounds().min(5), |lane| match lane {
        RaceLane::Way(contestant) => lab.pair(&contestant.spec),
        RaceLane::Installed(_, pipeline) => pipeline.run(),
    })?;
    let mut installed = lanes.split_off(contestants.len()).into_iter().map(|(pairs, failed)| match failed {
        None => Ok(pairs),
        Some(why) => Err(Missing::new(why, COMMAND)),
    });
    let mut next = || installed.next().unwrap_or_else(|| Err(no_programs()));
    let installed = InstalledCat { head: next(), dd: next() };
    Ok((lab.raced(contestants, lanes), installed))
}

fn no_programs() -> Missing {
    Missing::new("the guest contains no program except pipeprof", COMMAND)
}

/// `cat | head -c` and `cat | dd bs=1M` on the CPUs to which pairs are pinned.
fn pipelines(lab: &Lab<'_>) -> Result<[RaceLane; 2]> {
    let place = workload::cpus::places(&Spec::default())?;
    let of = |places: &[Option<u32>]| places.first().copied().flatten();
    let cpus = place.first().map_or([None; 2], |pair| [of(&pair.writers), of(&pair.readers)]);
    let bytes = if lab.settings.quick { GIB / 4 } else { GIB };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let pipeline = |reader: &[&str], end| Pipeline { writer: words(&CAT), reader: words(reader), cpus, end };
    let head = pipeline(&["head", "-c", &bytes.to_string()], End::Bytes(bytes));
    let dd = pipeline(&["dd", "bs=1M"], End::After(2 * lab.settings.window_ns()));
    Ok([RaceLane::Installed("cat into head", head), RaceLane::Installed("cat into dd", dd)])
}

/// Seconds for the article's 10 GiB.
fn scaled(pair: &Processes) -> Option<f64> {
    (pair.reader().bytes > 0).then(|| pair.window_ns as f64 / 1e9 / pair.reader().bytes as f64 * PIPED)
}

/// A process's time of one kind.
type CpuTimeOf = fn(&ProcessTotals) -> u64;
const USER: CpuTimeOf = |totals| totals.user_ns;
const SYSTEM: CpuTimeOf = |totals| totals.system_ns;

/// The kernel's clock tick. Without nohz_full, it divides CPU time into user and system time by ticks alone
/// (kernel/sched/cputime.c: `cputime_adjust` divides the exact sum in proportion to the ticks).
fn tick_ns(lab: &Lab<'_>) -> u64 {
    /// The slowest tick of this architecture, for a kernel that does not tell its own.
    const SLOWEST_HZ: u64 = 100;
    let config = KernelInfo::running().config;
    let here = config.get("CONFIG_HZ").filter(|_| lab.executed_on() == ExecutedOn::Hardware);
    1_000_000_000 / here.and_then(|hz| hz.parse().ok()).filter(|hz| *hz > 0).unwrap_or(SLOWEST_HZ)
}

/// The time of both processes for the article's 10 GiB, from the ticks of all `pairs` together: a single run has few.
fn ticked(
    pairs: &[Processes],
    of: CpuTimeOf,
    tick_ns: u64,
    executed_on: ExecutedOn,
    longer: impl FnOnce() -> String,
) -> Taken<Reading> {
    let ns: u64 = pairs.iter().map(|pair| of(pair.writer()) + of(pair.reader())).sum();
    let bytes: u64 = pairs.iter().map(|pair| pair.reader().bytes).sum();
    let ticks = ns as f64 / tick_ns as f64;
    let (count, length) = (counted(ticks.round() as u64, "clock tick"), tick_ns as f64 / 1e6);
    let sum = format!("{count} of {length} ms in {}", counted(pairs.len() as u64, "run"));
    if ticks < FEW_TICKS || bytes == 0 {
        return Err(Missing::new(format!("too few clock ticks: {sum}"), longer()));
    }
    let how = format!("{sum}, both processes, scaled to 10 GiB");
    Ok(Reading::single(ns as f64 / 1e9 / bytes as f64 * PIPED, "s", executed_on, &how))
}

/// The writer's write(2) calls for 1 GiB: half of its calls, because it reads once for each write. Only true without short
/// writes.
fn writes(way: &Raced, writer: Writer) -> Taken<Reading> {
    if writer == Writer::Splice {
        return Err(Missing::new("splice makes no write calls", ""));
    }
    if way.pairs.iter().any(|pair| pair.writer().short > 0) {
        return Err(Missing::new("a write was short: the calls are not half reads and half writes", COMMAND));
    }
    way.count("calls", "half of all calls: one read for each write", |pair| {
        let process = pair.writer();
        (process.bytes > 0 && process.calls > 0).then(|| process.calls as f64 / 2.0 / process.bytes as f64 * GIB as f64)
    })
}

fn installed_readings(
    lab: &Lab<'_>,
    data: &CatData,
    out: &mut PartOutput,
    installed: &InstalledCat,
    tick_ns: u64,
) -> Result<()> {
    let calls = if lab.executed_on() == ExecutedOn::Hardware {
        let cat = CAT.map(str::to_owned);
        lab.kept("calls of cat", cat.clone(), || {
            lab.say("write calls of the installed cat");
            let how = "strace -c -e trace=write cat /dev/zero | head -c 1G >/dev/null";
            Ok(strace::writes(&cat, GIB).map_err(|error| Missing::new(format!("{error:#}"), how)))
        })?
    } else {
        Err(no_programs())
    };
    let median = |pairs: &Taken<Vec<Processes>>, unit: &str, more: &str, of: &dyn Fn(&Processes) -> Option<f64>| {
        let pairs = pairs.as_ref().map_err(Clone::clone)?;
        let how = format!("median of {} of the installed cat{more}", counted(pairs.len() as u64, "run"));
        Reading::median(pairs.iter().filter_map(of).collect(), unit, ExecutedOn::Hardware, &how)
            .ok_or_else(|| Missing::new("no run succeeded", COMMAND))
    };
    let longer = || "time sh -c 'cat /dev/zero | head -c 100G >/dev/null'".to_owned();
    let times = |of| installed.head.clone().and_then(|pairs| ticked(&pairs, of, tick_ns, ExecutedOn::Hardware, longer));
    let calls = calls.map(|calls| Reading::single(calls as f64, "calls", ExecutedOn::Hardware, "strace"));
    let readings = [
        ("calls", calls),
        ("dd", median(&installed.dd, "GiB/s", "", &|pair| Some(pair.gib_s()))),
        ("real", median(&installed.head, "s", ", scaled to 10 GiB", &scaled)),
        ("user", times(USER)),
        ("sys", times(SYSTEM)),
    ];
    out.readings.extend(readings.map(|(table, reading)| (data.fact(table, "cat"), reading)));
    Ok(())
}

fn table(data: &CatData, ways: &Race, installed: &InstalledCat, tick_ns: u64) -> ExtraTable {
    let values = [("runs", counted(ways.runs(), "run")), ("few", FEW_TICKS.to_string())];
    let mut table = data.table.table(&values);
    for NamedSpec { name: reader, .. } in &data.readers {
        for CatWay { id, name, .. } in &data.ways {
            for (from, suffix) in [("", ""), (" from a file", ", from a file")] {
                let Ok(way) = ways.get(&format!("{id}{from} to {reader}")) else { continue };
                let name = format!("{name}{suffix}");
                match way.measured() {
                    Ok((speed, pair)) => {
                        let calls = pair.calls_per_mib().map(number).join(" / ");
                        let cells = cells(&way.pairs, &speed, tick_ns).into_iter().chain([calls]);
                        table.row([name, reader.clone()].into_iter().chain(cells));
                    }
                    Err(missing) => table.row([&name, reader, "-", &missing.why]),
                }
            }
        }
        let pairs = match reader.as_str() {
            "head" => &installed.head,
            "dd" => &installed.dd,
            _ => continue,
        };
        let Ok(pairs) = pairs else { continue };
        let speeds = pairs.iter().map(Processes::gib_s).collect();
        let Some(speed) = Reading::median(speeds, "GiB/s", ExecutedOn::Hardware, "") else { continue };
        let cells = cells(pairs, &speed, tick_ns).into_iter().chain(["-".to_owned()]);
        table.row(["the installed cat".to_owned(), format!("{reader} (program)")].into_iter().chain(cells));
    }
    table
}

/// Speed, spread, and the three times.
fn cells(pairs: &[Processes], speed: &Reading, tick_ns: u64) -> [String; 5] {
    let dash = || "-".to_owned();
    let time = |of| {
        let time = ticked(pairs, of, tick_ns, speed.executed_on, String::new);
        time.map_or_else(|_| dash(), |time| number(time.value))
    };
    let real = PIPED / GIB as f64 / speed.value;
    [number(speed.value), speed.spread().unwrap_or_else(dash), number(real), time(USER), time(SYSTEM)]
}

/// The label of the installed cat.
const COREUTILS: &str = "coreutils cat";

fn chart(facts: &Facts, data: &CatData, out: &PartOutput) -> Option<Chart> {
    let (mut article, mut measured, mut n) = (Vec::new(), Vec::new(), 0);
    for fact in &facts.table(&format!("{}.real", data.article))?.rows {
        let way = fact.id.rsplit('.').next().unwrap_or_default();
        let label = data.ways.iter().find(|known| known.id == way).map_or(COREUTILS, |known| &known.name);
        article.extend(fact.value.map(|y| Point { label: label.to_owned(), y, span: None }));
        if let Some(Ok(reading)) = out.readings.get(&fact.id) {
            n = n.max(reading.runs.len());
            measured.push(reading.point(label));
        }
    }
    if measured.is_empty() {
        return None;
    }
    let related = super::shared::related([&mut article, &mut measured], COREUTILS);
    let series = super::shared::both(&data.article, article, measured);
    Some(data.chart.chart(ChartKind::Bars, related, series, &[("runs", counted(n as u64, "run"))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessName;

    fn pairs(user_ms: &[u64]) -> Vec<Processes> {
        let pair = |ms: &u64| {
            let mut pair = Processes::default();
            pair.of_mut(ProcessName::WRITER).user_ns = ms * 1_000_000;
            pair.of_mut(ProcessName::READER).bytes = GIB;
            pair
        };
        user_ms.iter().map(pair).collect()
    }

    #[test]
    fn ticks_are_added_up_and_a_few_of_them_are_no_figure() {
        const TICK: u64 = 4_000_000;
        let few = ticked(&pairs(&[5, 0, 0, 0, 0]), USER, TICK, ExecutedOn::Hardware, String::new).unwrap_err();
        assert!(few.why.starts_with("too few clock ticks: 1 clock tick of 4 ms in 5 runs"), "{}", few.why);
        // 100 ms for 4 GiB.
        let enough = ticked(&pairs(&[0, 60, 0, 40]), USER, TICK, ExecutedOn::Hardware, String::new).unwrap();
        assert!((enough.value - 0.25).abs() < 1e-9 && enough.how.contains("25 clock ticks"), "{enough:?}");
        assert!(ticked(&pairs(&[0, 60, 0, 40]), SYSTEM, TICK, ExecutedOn::Hardware, String::new).is_err());
    }

    #[test]
    fn a_short_write_is_not_half_of_anything() {
        let mut pairs = pairs(&[0]);
        (pairs[0].of_mut(ProcessName::WRITER).calls, pairs[0].of_mut(ProcessName::WRITER).bytes) = (2 * 8192, GIB);
        let mut entry =
            Raced { id: "x".into(), spec: Spec::default(), pairs, executed_on: ExecutedOn::Hardware, failed: None };
        assert_eq!(writes(&entry, Writer::ReadWrite).unwrap().value, 8192.0);
        entry.pairs[0].of_mut(ProcessName::WRITER).short = 1;
        assert!(writes(&entry, Writer::ReadWrite).unwrap_err().why.contains("short"));
    }
}
