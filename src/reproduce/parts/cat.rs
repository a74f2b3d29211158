//! Article C: a cat clone, five ways, beside the machine's own cat.

mod strace;

use super::Part;
use crate::document::{ExecutedOn, KernelInfo, ProcessTotals, Processes};
use crate::report::chart::{Chart, ChartKind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, Lab, Raced, Taken};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::target::pipeline::{End, Pipeline};
use crate::workload::spec::{Amount, Reader, Writer};
use crate::workload::{self, Spec};
use anyhow::Result;

/// The part.
pub struct Cat;

/// What the article piped.
const PIPED: f64 = 10.0 * (1u64 << 30) as f64;
const GIB: u64 = 1 << 30;
const CAT: &[&str] = &["cat", "/dev/zero"];
const COMMAND: &str = "pipeprof reproduce cat";
/// `head -c` of coreutils reads and writes this much at a time.
const HEAD: u64 = 8 << 10;

/// A way to be cat: its id in the facts, its name, its writer and its buffer.
const WAYS: &[(&str, &str, Writer, u64)] = &[
    ("stdio-4K", "fgetc/fputc, 4 KiB", Writer::Stdio, 4 << 10),
    ("stdio-128K", "fgetc/fputc, 128 KiB", Writer::Stdio, 128 << 10),
    ("read-write-4K", "read/write, 4 KiB", Writer::ReadWrite, 4 << 10),
    ("read-write-128K", "read/write, 128 KiB", Writer::ReadWrite, 128 << 10),
    ("splice-128K", "splice, 128 KiB", Writer::Splice, 128 << 10),
];

/// Those that are run from a real file as well, into `head`: one that copies and one that does not have to.
const FROM_FILE: &[&str] = &["read-write-128K", "splice-128K"];
/// This program's own file: it is there wherever this runs, and in the page cache.
const FILE: &str = "/proc/self/exe";

/// A reader: its name, its call, its buffer; `head` stands beside the article's table.
const READERS: &[(&str, Reader, u64)] =
    &[("head", Reader::ReadWrite, HEAD), ("counting", Reader::Read, 128 << 10), ("dd", Reader::ReadWrite, 1 << 20)];

/// Ticks of the clock below which a sum of them says nothing: one standard deviation of 20 is 4.5.
const FEW_TICKS: f64 = 20.0;

impl Part for Cat {
    fn id(&self) -> &'static str {
        "cat"
    }

    fn title(&self) -> &'static str {
        "A cat clone, five ways"
    }

    fn about(&self) -> &'static str {
        "article C: stdio, read/write and splice as cat does it, into head and dd, beside the machine's own cat"
    }

    fn run(&self, lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
        let mut out = Yield::default();
        let contestants = contestants(lab);
        let (raced, own) = race(lab, &contestants)?;
        // Whole amounts, so that no window ends in the middle of a buffer.
        let amount = Amount::Bytes(if lab.settings.quick { GIB / 16 } else { GIB / 4 });
        let whole: Vec<Contestant> = contestants
            .iter()
            .filter(|contestant| contestant.id.ends_with(" to head") && contestant.spec.source.is_none())
            .map(|contestant| Contestant { spec: Spec { amount, ..contestant.spec.clone() }, ..contestant.clone() })
            .collect();
        let whole = lab.race("calls", &whole, 1)?;
        let tick_ns = tick_ns(lab);
        for (id, _, writer, _) in WAYS {
            let Some(entry) = raced.iter().find(|raced| raced.id == format!("{id} to head")) else { continue };
            let mut insert = |table: &str, reading: Taken<Reading>| {
                let id = format!("C.{table}.{id}");
                if facts.find(&id).is_some() {
                    out.readings.insert(id, reading);
                }
            };
            insert("real", entry.reading("s", "scaled to 10 GiB", |pair| scaled(pair, pair.window_ns)));
            let minute = Spec { amount: Amount::DurationNs(60_000_000_000), ..entry.spec.clone() };
            let longer = || workload::command::run(&minute, "--runs 3 --collect none");
            let times = |of| entry.speed().and_then(|_| ticked(&entry.pairs, of, tick_ns, entry.executed_on, longer));
            insert("user", times(USER));
            insert("sys", times(SYSTEM));
            let whole = whole.iter().find(|raced| raced.id == entry.id);
            insert("calls", whole.map_or_else(|| Err(Missing::new("no pair ran", "")), |whole| writes(whole, *writer)));
        }
        let splice = raced.iter().find(|raced| raced.id == "splice-128K to dd").map(Raced::speed);
        let splice = splice.unwrap_or_else(|| Err(Missing::new("no such pair", "")));
        out.readings.insert("C.dd.splice".into(), splice);
        own_readings(lab, &mut out, &own, tick_ns)?;
        out.tables.push(table(&raced, &own, tick_ns));
        out.charts.extend(chart(facts, &out));
        out.notes.push(format!(
            "The five ways are workloads of pipeprof in a steady window after a warm-up; the machine's own cat is a whole \
             pipeline, from the start of its programs to their end. All are pinned to the same two CPUs and alternate. A \
             reader as head reads 8 KiB and writes them to /dev/null; one as dd does so with 1 MiB, or less where the pipe \
             gives less, as dd bs=1M does. cat into dd never ends: cat is killed when its time is over. All read /dev/zero \
             but those from a file, which is this program's own, in the page cache, again and again. User and system time \
             are sampled by this kernel's clock tick ({} ms): they are sums over all pairs, and no figure below {FEW_TICKS} \
             ticks.",
            tick_ns as f64 / 1e6
        ));
        Ok(out)
    }
}

fn contestants(lab: &Lab<'_>) -> Vec<Contestant> {
    let mut contestants = Vec::new();
    let mut add = |id: String, writer: Writer, size: u64, reader: Reader, buffer: u64, ns: u64, file: bool| {
        let spec = Spec {
            writer,
            reader,
            buffer_size: size,
            reader_buffer_size: Some(buffer),
            source: file.then(|| FILE.into()),
            amount: Amount::DurationNs(ns),
            ..Spec::default()
        };
        contestants.push(Contestant { id, spec });
    };
    let window = lab.settings.window_ns();
    for (name, reader, buffer) in READERS {
        for (id, _, writer, size) in WAYS {
            // Twice as long where time on the CPU is judged, which needs ticks.
            let ns = if *name == "head" { 2 * window } else { window };
            add(format!("{id} to {name}"), *writer, *size, *reader, *buffer, ns, false);
            if *name == "head" && FROM_FILE.contains(id) {
                add(format!("{id} from a file to {name}"), *writer, *size, *reader, *buffer, ns, true);
            }
        }
    }
    contestants
}

/// The machine's own cat: its pipelines, and what they are scaled from.
struct Own {
    /// `head` or `dd`.
    reader: &'static str,
    pairs: Taken<Vec<Processes>>,
}

/// The five ways and the machine's own cat, by turns.
fn race(lab: &Lab<'_>, contestants: &[Contestant]) -> Result<(Vec<Raced>, Vec<Own>)> {
    let (rounds, executed_on) = (lab.settings.rounds().min(5), lab.executed_on());
    let own = if executed_on == ExecutedOn::Hardware { own(lab)? } else { Vec::new() };
    let ids: Vec<&str> = contestants
        .iter()
        .map(|contestant| contestant.id.as_str())
        .chain(own.iter().map(|(_, name, _)| *name))
        .collect();
    let pipelines: Vec<Pipeline> = own.iter().map(|(_, _, pipeline)| pipeline.clone()).collect();
    let question = (contestants.to_vec(), pipelines.clone());
    let mut lanes = lab.interleaved("ways", question, &ids, rounds, &|index| match (
        contestants.get(index),
        pipelines.get(index.wrapping_sub(contestants.len())),
    ) {
        (Some(contestant), _) => lab.pair(&contestant.spec),
        (None, Some(pipeline)) => pipeline.run(),
        (None, None) => anyhow::bail!("there is no such lane"),
    })?;
    let programs = lanes.split_off(contestants.len());
    let raced: Vec<Raced> =
        contestants.iter().zip(lanes).map(|(contestant, lane)| Raced::of(contestant, lane, executed_on)).collect();
    lab.remark(&raced);
    let done = own.into_iter().zip(programs).map(|((reader, _, _), lane)| Own {
        reader,
        pairs: lane.failed.map_or(Ok(lane.pairs), |why| Err(Missing::new(why, COMMAND))),
    });
    let mut done: Vec<Own> = done.collect();
    if executed_on != ExecutedOn::Hardware {
        let missing = || Err(Missing::new("the guest has no programs but pipeprof", COMMAND));
        done = ["head", "dd"].map(|reader| Own { reader, pairs: missing() }).into();
    }
    Ok((raced, done))
}

/// `cat | head -c` and `cat | dd bs=1M` on the CPUs that pairs are pinned to.
fn own(lab: &Lab<'_>) -> Result<Vec<(&'static str, &'static str, Pipeline)>> {
    let place = workload::cpus::places(&Spec::default())?;
    let of = |places: &[Option<u32>]| places.first().copied().flatten();
    let cpus = place.first().map_or([None; 2], |pair| [of(&pair.writers), of(&pair.readers)]);
    let bytes = if lab.settings.quick { GIB / 4 } else { GIB };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let count = bytes.to_string();
    let pipeline = |reader: &[&str], end| Pipeline { writer: words(CAT), reader: words(reader), cpus, end };
    Ok(vec![
        ("head", "cat into head", pipeline(&["head", "-c", &count], End::Bytes(bytes))),
        ("dd", "cat into dd", pipeline(&["dd", "bs=1M"], End::After(2 * lab.settings.window_ns()))),
    ])
}

/// Seconds for the article's 10 GiB.
fn scaled(pair: &Processes, ns: u64) -> Option<f64> {
    (pair.reader().bytes > 0).then(|| ns as f64 / 1e9 / pair.reader().bytes as f64 * PIPED)
}

/// A process's time of one kind.
type Time = fn(&ProcessTotals) -> u64;
const USER: Time = |totals| totals.user_ns;
const SYSTEM: Time = |totals| totals.system_ns;

/// How often the kernel looks what a CPU is doing. It books time in user and kernel mode by that alone
/// (kernel/sched/cputime.c: `cputime_adjust` divides the exact sum in proportion to the ticks), unless CPUs are kept free
/// of ticks (nohz_full).
fn tick_ns(lab: &Lab<'_>) -> u64 {
    /// The slowest tick of this architecture, where the kernel does not say.
    const SLOWEST_HZ: u64 = 100;
    let config = KernelInfo::running().config;
    let here = config.get("CONFIG_HZ").filter(|_| lab.executed_on() == ExecutedOn::Hardware);
    1_000_000_000 / here.and_then(|hz| hz.parse().ok()).filter(|hz| *hz > 0).unwrap_or(SLOWEST_HZ)
}

/// The time of both processes for the article's 10 GiB, from the ticks of all `pairs` together: a single pair has few.
fn ticked(
    pairs: &[Processes],
    of: Time,
    tick_ns: u64,
    executed_on: ExecutedOn,
    longer: impl FnOnce() -> String,
) -> Taken<Reading> {
    let ns: u64 = pairs.iter().map(|pair| of(pair.writer()) + of(pair.reader())).sum();
    let bytes: u64 = pairs.iter().map(|pair| pair.reader().bytes).sum();
    let (ticks, milliseconds) = (ns as f64 / tick_ns as f64, tick_ns as f64 / 1e6);
    if ticks < FEW_TICKS || bytes == 0 {
        let why = format!("too few clock ticks: {ticks:.0} of {milliseconds} ms in {} pairs", pairs.len());
        return Err(Missing::new(why, longer()));
    }
    let how = format!(
        "{ticks:.0} clock ticks of {milliseconds} ms in {} pairs, both processes, scaled to 10 GiB",
        pairs.len()
    );
    Ok(Reading::single(ns as f64 / 1e9 / bytes as f64 * PIPED, "s", executed_on, &how))
}

/// The writer's write(2) calls for 1 GiB: the other half of its calls are reads, one for each write, as long as no write
/// is short.
fn writes(entry: &Raced, writer: Writer) -> Taken<Reading> {
    if writer == Writer::Splice {
        return Err(Missing::new("splice makes no write calls", ""));
    }
    if entry.pairs.iter().any(|pair| pair.writer().short > 0) {
        return Err(Missing::new("a write was short: its calls are not half reads and half writes", COMMAND));
    }
    let of = |pair: &Processes| {
        let process = pair.writer();
        (process.bytes > 0 && process.calls > 0).then(|| process.calls as f64 / 2.0 / process.bytes as f64 * GIB as f64)
    };
    let how = "half of all calls: each write has its read";
    if entry.executed_on != ExecutedOn::Tcg {
        return entry.reading("calls", how, of);
    }
    // A count: emulation does not change what it says.
    let runs: Vec<f64> = entry.pairs.iter().filter_map(of).collect();
    Reading::median(runs, "calls", entry.executed_on, how).ok_or_else(|| Missing::new("no pair ran", ""))
}

fn own_readings(lab: &Lab<'_>, out: &mut Yield, own: &[Own], tick_ns: u64) -> Result<()> {
    let calls = if lab.executed_on() == ExecutedOn::Hardware {
        let cat: Vec<String> = CAT.iter().map(|word| (*word).to_owned()).collect();
        lab.kept("calls of cat", cat.clone(), || {
            lab.say("calls of the machine's own cat");
            let how = "strace -c -e trace=write cat /dev/zero | head -c 1G >/dev/null";
            Ok(strace::writes(&cat, GIB).map_err(|error| Missing::new(format!("{error:#}"), how)))
        })?
    } else {
        Err(Missing::new("the guest has no programs but pipeprof", COMMAND))
    };
    let calls = calls.map(|calls| Reading::single(calls as f64, "calls", ExecutedOn::Hardware, "strace"));
    out.readings.insert("C.calls.cat".into(), calls);
    for Own { reader, pairs } in own {
        let median = |unit: &str, more: &str, of: &dyn Fn(&Processes) -> Option<f64>| {
            let pairs = pairs.as_ref().map_err(Clone::clone)?;
            let how = format!("median of {} pipelines of the machine's own cat{more}", pairs.len());
            Reading::median(pairs.iter().filter_map(of).collect(), unit, ExecutedOn::Hardware, &how)
                .ok_or_else(|| Missing::new("no pipeline ran", COMMAND))
        };
        if *reader == "dd" {
            out.readings.insert("C.dd.cat".into(), median("GiB/s", "", &|pair| Some(pair.gib_s())));
            continue;
        }
        let longer = || "time sh -c 'cat /dev/zero | head -c 100G >/dev/null'".to_owned();
        let times = |of| pairs.clone().and_then(|pairs| ticked(&pairs, of, tick_ns, ExecutedOn::Hardware, longer));
        let real = median("s", ", scaled to 10 GiB", &|pair| scaled(pair, pair.window_ns));
        out.readings.insert("C.real.cat".into(), real);
        out.readings.insert("C.user.cat".into(), times(USER));
        out.readings.insert("C.sys.cat".into(), times(SYSTEM));
    }
    Ok(())
}

fn table(raced: &[Raced], own: &[Own], tick_ns: u64) -> ExtraTable {
    let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
    let note = format!(
        "GiB/s: median of {n} fresh pairs or pipelines, all interleaved, with the median absolute deviation. Seconds for \
         10 GiB, scaled; real time of the median, user and system time of both processes and all pairs together (\"-\" \
         for fewer than {FEW_TICKS} clock ticks). Calls per MiB of writer and reader in the median pair."
    );
    let header = ["way", "reader", "GiB/s", "spread", "real, s", "user, s", "sys, s", "calls per MiB, W / R"];
    let mut table = ExtraTable::new("Five ways and three readers", &header, note);
    for (reader, _, _) in READERS {
        for (id, name, _, _) in WAYS {
            for (from, suffix) in [("", ""), (" from a file", ", from a file")] {
                let Some(entry) = raced.iter().find(|raced| raced.id == format!("{id}{from} to {reader}")) else {
                    continue;
                };
                let mut row = vec![format!("{name}{suffix}"), (*reader).to_owned()];
                match (entry.speed(), entry.typical()) {
                    (Ok(speed), Some(pair)) => {
                        row.extend(cells(&entry.pairs, &speed, tick_ns, entry.executed_on));
                        let mib = pair.reader().bytes.max(1) as f64 / f64::from(1 << 20);
                        let calls = [pair.writer().calls, pair.reader().calls].map(|calls| number(calls as f64 / mib));
                        row.push(calls.join(" / "));
                    }
                    (Err(missing), _) => row.extend(["-".to_owned(), missing.why]),
                    (Ok(_), None) => {}
                }
                row.resize(header.len(), String::new());
                table.rows.push(row);
            }
        }
        let Some(Ok(pairs)) = own.iter().find(|own| own.reader == *reader).map(|own| &own.pairs) else { continue };
        let speeds = pairs.iter().map(Processes::gib_s).collect();
        let Some(speed) = Reading::median(speeds, "GiB/s", ExecutedOn::Hardware, "") else { continue };
        let mut row = vec!["the machine's own cat".to_owned(), format!("{reader} (the program)")];
        row.extend(cells(pairs, &speed, tick_ns, ExecutedOn::Hardware));
        row.push("-".to_owned());
        table.rows.push(row);
    }
    table
}

/// Speed, spread, and the three times.
fn cells(pairs: &[Processes], speed: &Reading, tick_ns: u64, executed_on: ExecutedOn) -> [String; 5] {
    let time = |of| {
        ticked(pairs, of, tick_ns, executed_on, String::new).map_or_else(|_| "-".to_owned(), |time| number(time.value))
    };
    let real = PIPED / GIB as f64 / speed.value;
    [
        number(speed.value),
        speed.spread_percent().map_or_else(|| "-".to_owned(), |percent| format!("±{percent:.1} %")),
        number(real),
        time(USER),
        time(SYSTEM),
    ]
}

fn chart(facts: &Facts, out: &Yield) -> Option<Chart> {
    let table = facts.table("C.real")?;
    let label = |id: &str| {
        let way = id.rsplit('.').next().unwrap_or(id);
        WAYS.iter().find(|(known, ..)| *known == way).map_or("coreutils cat", |(_, name, ..)| name).to_owned()
    };
    let theirs =
        table.rows.iter().filter_map(|fact| Some(Point { label: label(&fact.id), y: fact.value?, span: None }));
    let mut n = 0;
    let ours: Vec<Point> = table
        .rows
        .iter()
        .filter_map(|fact| {
            let reading = out.readings.get(&fact.id)?.as_ref().ok()?;
            n = n.max(reading.runs.len());
            Some(Point { label: label(&fact.id), y: reading.value, span: Some(reading.range()) })
        })
        .collect();
    (!ours.is_empty()).then(|| Chart {
        id: "cat".into(),
        title: "Elapsed time for 10 GiB into head".into(),
        kind: ChartKind::Bars,
        y: "seconds, less is better".into(),
        x: String::new(),
        series: vec![
            Series { name: "article C".into(), points: theirs.collect() },
            Series { name: "this machine".into(), points: ours },
        ],
        caption: format!(
            "Ours: medians of {n}, scaled to 10 GiB; whiskers from least to greatest. Theirs: single readings, machine not \
             stated."
        ),
    })
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
        assert!(few.why.starts_with("too few clock ticks: 1 of 4 ms in 5 pairs"), "{}", few.why);
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
