//! Article C: a cat clone, five ways, beside the machine's own cat.

use super::Part;
use crate::document::{ExecutedOn, Processes};
use crate::report::chart::{Chart, Kind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, Lab, Raced, Taken};
use crate::reproduce::pipeline;
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::util::stats;
use crate::workload::Spec;
use crate::workload::spec::{Amount, Reader, Writer};
use anyhow::Result;

/// The part.
pub struct Cat;

/// What the article piped.
const PIPED: f64 = 10.0 * (1u64 << 30) as f64;
const GIB: u64 = 1 << 30;
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

/// A reader: its name, its call, its buffer; `head` stands beside the article's table.
const READERS: &[(&str, Reader, u64)] =
    &[("head", Reader::ReadWrite, HEAD), ("counting", Reader::Read, 128 << 10), ("dd", Reader::ReadWrite, 1 << 20)];

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
        let window = Amount::DurationNs(lab.settings.window_ns());
        let mut contestants = Vec::new();
        for (reader, call, buffer) in READERS {
            for (id, _, writer, size) in WAYS {
                let spec = Spec {
                    writer: *writer,
                    reader: *call,
                    buffer_size: *size,
                    reader_buffer_size: Some(*buffer),
                    amount: window,
                    ..Spec::default()
                };
                contestants.push(Contestant { id: format!("{id} to {reader}"), spec });
            }
        }
        let raced = lab.race("ways", &contestants, lab.settings.rounds().min(5))?;
        // Whole amounts, so that no window ends in the middle of a buffer.
        let amount = Amount::Bytes(if lab.settings.quick { GIB / 16 } else { GIB / 4 });
        let whole: Vec<Contestant> = contestants
            .iter()
            .filter(|contestant| contestant.id.ends_with(" to head"))
            .map(|contestant| Contestant { spec: Spec { amount, ..contestant.spec.clone() }, ..contestant.clone() })
            .collect();
        let whole = lab.race("calls", &whole, 1)?;
        let own = own_cat(lab)?;
        for (id, _, writer, _) in WAYS {
            let Some(entry) = raced.iter().find(|raced| raced.id == format!("{id} to head")) else { continue };
            let mut insert = |table: &str, reading: Taken<Reading>| {
                let id = format!("C.{table}.{id}");
                if facts.find(&id).is_some() {
                    out.readings.insert(id, reading);
                }
            };
            insert("real", entry.reading("s", "scaled to 10 GiB", |pair| scaled(pair, pair.window_ns)));
            let user = |pair: &Processes| scaled(pair, pair.writer.user_ns + pair.reader.user_ns);
            let system = |pair: &Processes| scaled(pair, pair.writer.system_ns + pair.reader.system_ns);
            insert("user", entry.reading("s", "both processes, scaled to 10 GiB", user));
            insert("sys", entry.reading("s", "both processes, scaled to 10 GiB", system));
            let whole = whole.iter().find(|raced| raced.id == entry.id);
            insert("calls", whole.map_or_else(|| Err(Missing::new("no pair ran", "")), |whole| writes(whole, *writer)));
        }
        let splice = raced.iter().find(|raced| raced.id == "splice-128K to dd").map(Raced::speed);
        let splice = splice.unwrap_or_else(|| Err(Missing::new("no such pair", "")));
        out.readings.insert("C.dd.splice".into(), splice);
        own_readings(&mut out, &own);
        out.tables.push(table(&raced, &own));
        out.charts.extend(chart(facts, &out));
        out.notes.push(
            "The five ways are workloads of pipeprof, which read /dev/zero and are measured in a steady window; the machine's \
             own cat is a whole pipeline, from the shell's fork to the end. A reader as head reads 8 KiB and writes them \
             to /dev/null; one as dd does so with 1 MiB."
                .into(),
        );
        Ok(out)
    }
}

/// Seconds for the article's 10 GiB.
fn scaled(pair: &Processes, ns: u64) -> Option<f64> {
    (pair.reader.bytes > 0).then(|| ns as f64 / 1e9 / pair.reader.bytes as f64 * PIPED)
}

/// The writer's write(2) calls for 1 GiB: the other half of its calls are reads, one for each write.
fn writes(entry: &Raced, writer: Writer) -> Taken<Reading> {
    if writer == Writer::Splice {
        return Err(Missing::new("splice makes no write calls", ""));
    }
    let of = |pair: &Processes| {
        let process = &pair.writer;
        (process.bytes > 0 && process.calls > 0).then(|| process.calls as f64 / 2.0 / process.bytes as f64 * GIB as f64)
    };
    if entry.executed_on != ExecutedOn::Tcg {
        return entry.reading("calls", "half of all calls: each write has its read", of);
    }
    // A count: emulation does not change what it says.
    let runs: Vec<f64> = entry.pairs.iter().filter_map(of).collect();
    Reading::median(runs, "calls", entry.executed_on, "half of all calls")
        .ok_or_else(|| Missing::new("no pair ran", ""))
}

/// The machine's own cat: its pipelines, and its calls.
struct Own {
    head: Taken<Vec<pipeline::Times>>,
    dd: Taken<Vec<pipeline::Times>>,
    calls: Taken<u64>,
    bytes: u64,
}

fn own_cat(lab: &Lab<'_>) -> Result<Own> {
    let bytes = if lab.settings.quick { GIB / 4 } else { 4 * GIB };
    let rounds = lab.settings.rounds().min(5);
    if lab.executed_on() != ExecutedOn::Hardware {
        let missing = || Missing::new("the guest has no programs but pipeprof", "pipeprof reproduce cat");
        return Ok(Own { head: Err(missing()), dd: Err(missing()), calls: Err(missing()), bytes });
    }
    let head = vec!["head".to_owned(), "-c".to_owned(), bytes.to_string()];
    let dd = ["dd".to_owned(), "bs=1M".into(), format!("count={}", bytes >> 20), "iflag=fullblock".into()].to_vec();
    let cat = vec!["cat".to_owned(), "/dev/zero".to_owned()];
    let time = |name: &str, reader: Vec<String>| {
        lab.kept(name, (cat.clone(), reader.clone(), rounds), || {
            let mut times = Vec::new();
            for round in 0..rounds {
                lab.say(&format!("{name}: {} of {rounds}", round + 1));
                crate::util::cancel::check()?;
                match pipeline::time(&cat, &reader) {
                    Ok(time) => times.push(time),
                    Err(error) => {
                        // A terminal's Ctrl-C ends the programs as well.
                        crate::util::cancel::check()?;
                        return Ok(Err(Missing::new(format!("{error:#}"), "pipeprof reproduce cat")));
                    }
                }
            }
            Ok(Ok(times))
        })
    };
    let calls = lab.kept("calls of cat", cat.clone(), || {
        lab.say("calls of the machine's own cat");
        let how = "strace -c -e trace=write cat /dev/zero | head -c 1G >/dev/null";
        Ok(pipeline::writes(&cat, GIB).map_err(|error| Missing::new(format!("{error:#}"), how)))
    })?;
    Ok(Own { head: time("cat into head", head)?, dd: time("cat into dd", dd)?, calls, bytes })
}

fn own_readings(out: &mut Yield, own: &Own) {
    let of = |times: &Taken<Vec<pipeline::Times>>, unit: &str, how: &str, of: &dyn Fn(&pipeline::Times) -> f64| {
        let times = times.as_ref().map_err(Clone::clone)?;
        let how = format!("median of {} pipelines of the machine's own cat{how}", times.len());
        let runs = times.iter().map(of).collect();
        Reading::median(runs, unit, ExecutedOn::Hardware, &how).ok_or_else(|| Missing::new("no pipeline ran", ""))
    };
    let scale = PIPED / own.bytes as f64;
    let scaled = ", scaled to 10 GiB";
    let readings = [
        ("C.real.cat", of(&own.head, "s", scaled, &|times| times.real_s * scale)),
        ("C.user.cat", of(&own.head, "s", scaled, &|times| times.user_s * scale)),
        ("C.sys.cat", of(&own.head, "s", scaled, &|times| times.system_s * scale)),
        ("C.dd.cat", of(&own.dd, "GiB/s", "", &|times| own.bytes as f64 / GIB as f64 / times.real_s)),
        (
            "C.calls.cat",
            own.calls.clone().map(|calls| Reading::single(calls as f64, "calls", ExecutedOn::Hardware, "strace")),
        ),
    ];
    out.readings.extend(readings.map(|(id, reading)| (id.to_owned(), reading)));
}

fn table(raced: &[Raced], own: &Own) -> ExtraTable {
    let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
    let note = format!(
        "GiB/s: median of {n} fresh pairs, all interleaved. Seconds for 10 GiB, scaled, of the median pair, both processes. \
         Calls per MiB of writer and reader."
    );
    let header = ["way", "reader", "GiB/s", "spread", "real, s", "user, s", "sys, s", "calls per MiB, W / R"];
    let mut table = ExtraTable::new("Five ways and three readers", &header, note);
    for (reader, _, _) in READERS {
        for (id, name, _, _) in WAYS {
            let Some(entry) = raced.iter().find(|raced| raced.id == format!("{id} to {reader}")) else { continue };
            let mut row = vec![(*name).to_owned(), (*reader).to_owned()];
            match (entry.speed(), entry.typical()) {
                (Ok(speed), Some(pair)) => {
                    let seconds = |ns: u64| scaled(pair, ns).map_or_else(|| "-".to_owned(), number);
                    let mib = pair.reader.bytes.max(1) as f64 / f64::from(1 << 20);
                    row.extend([
                        number(speed.value),
                        speed.spread_percent().map_or_else(|| "-".to_owned(), |percent| format!("±{percent:.1} %")),
                        seconds(pair.window_ns),
                        seconds(pair.writer.user_ns + pair.reader.user_ns),
                        seconds(pair.writer.system_ns + pair.reader.system_ns),
                        format!(
                            "{} / {}",
                            number(pair.writer.calls as f64 / mib),
                            number(pair.reader.calls as f64 / mib)
                        ),
                    ]);
                }
                (Err(missing), _) => row.extend(["-".to_owned(), missing.why]),
                (Ok(_), None) => {}
            }
            row.resize(header.len(), String::new());
            table.rows.push(row);
        }
        let (times, name) = match *reader {
            "head" => (&own.head, "the machine's own cat"),
            "dd" => (&own.dd, "the machine's own cat"),
            _ => continue,
        };
        let Ok(times) = times else { continue };
        let median = |of: fn(&pipeline::Times) -> f64| stats::median(&times.iter().map(of).collect::<Vec<_>>());
        let real = median(|times| times.real_s).unwrap_or(f64::NAN);
        let scale = PIPED / own.bytes as f64;
        let seconds = |of: fn(&pipeline::Times) -> f64| number(median(of).unwrap_or(f64::NAN) * scale);
        table.rows.push(vec![
            name.to_owned(),
            format!("{reader} (the program)"),
            number(own.bytes as f64 / GIB as f64 / real),
            format!("n {}", times.len()),
            seconds(|times| times.real_s),
            seconds(|times| times.user_s),
            seconds(|times| times.system_s),
            "-".to_owned(),
        ]);
    }
    table
}

fn chart(facts: &Facts, out: &Yield) -> Option<Chart> {
    let table = facts.table("C.real")?;
    let label = |id: &str| {
        let way = id.rsplit('.').next().unwrap_or(id);
        WAYS.iter().find(|(known, ..)| *known == way).map_or("coreutils cat", |(_, name, ..)| name).to_owned()
    };
    let theirs =
        table.rows.iter().filter_map(|fact| Some(Point { label: label(&fact.id), y: fact.value?, span: None }));
    let ours: Vec<Point> = table
        .rows
        .iter()
        .filter_map(|fact| {
            let reading = out.readings.get(&fact.id)?.as_ref().ok()?;
            let span = reading.runs.iter().fold([reading.value; 2], |[low, high], run| [low.min(*run), high.max(*run)]);
            Some(Point { label: label(&fact.id), y: reading.value, span: Some(span) })
        })
        .collect();
    (!ours.is_empty()).then(|| Chart {
        id: "cat".into(),
        title: "Elapsed time for 10 GiB into head".into(),
        kind: Kind::Bars,
        y: "seconds, less is better".into(),
        x: String::new(),
        series: vec![
            Series { name: "article C".into(), points: theirs.collect() },
            Series { name: "this machine".into(), points: ours },
        ],
        caption: "Ours: medians, scaled to 10 GiB; whiskers from least to greatest. Theirs: single readings, machine not stated.".into(),
    })
}
