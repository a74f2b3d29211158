//! Articles A and B: what memory allows, and what part of it a pipe reaches.

use super::{Part, all_missing};
use crate::document::ExecutedOn;
use crate::report::chart::{Chart, Kind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, Lab, Raced, Taken};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::util::size;
use crate::workload::Spec;
use crate::workload::memory::loops::Kind as LoopKind;
use crate::workload::memory::{Measured, Options, Report, measure};
use crate::workload::modes::Mode;
use crate::workload::spec::Amount;
use anyhow::{Result, anyhow};

/// The part.
pub struct Memory;

/// A fact's loop and buffer.
const LOOPS: &[(&str, &str, u64)] = &[
    ("A.memory.read", "word-read", 1 << 30),
    ("B.memory.stos", "rep-stosb", 32 << 10),
    ("B.memory.avx512", "avx512-store", 32 << 10),
    ("B.memory.avx2", "avx2-store", 32 << 10),
    ("B.memory.sse2", "sse2-store", 32 << 10),
    ("B.memory.movsb32", "rep-movsb", 32 << 10),
    ("B.memory.movsb16", "rep-movsb", 16 << 10),
];

const COMMAND: &str = "pipeprof memory";

impl Part for Memory {
    fn id(&self) -> &'static str {
        "memory"
    }

    fn title(&self) -> &'static str {
        "Memory: the upper bounds"
    }

    fn about(&self) -> &'static str {
        "articles A and B: copying, storing and reading in user space, and the share of it that a pipe reaches"
    }

    fn run(&self, lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
        let mut out = Yield::default();
        let missing = if lab.executed_on() == ExecutedOn::Hardware {
            match loops(lab)? {
                Ok(report) => {
                    read_loops(&mut out, &report);
                    out.tables.push(table(&report));
                    out.charts.push(chart(&report));
                    errata(&mut out, &report);
                    bounds(lab, &mut out, &report)?;
                    return Ok(out);
                }
                Err(missing) => missing,
            }
        } else {
            Missing::new("memory loops are not run inside guests", COMMAND)
        };
        all_missing(&mut out.readings, facts, &["A.memory", "B.memory"], &missing);
        Ok(out)
    }
}

/// All loops, in a thread of their own: they bind it to one CPU, which later pairs must not inherit.
fn loops(lab: &Lab<'_>) -> Result<Taken<Report>> {
    let runs = if lab.settings.quick { 3 } else { 11 };
    let read_bytes = if lab.settings.quick { 256 << 20 } else { crate::workload::memory::READ_BUFFER };
    lab.kept("loops", (runs, read_bytes), || {
        lab.say("loops in user space");
        let options = Options { runs, read_bytes, ..Options::default() };
        let measured = std::thread::scope(|scope| scope.spawn(|| measure(&options, &|_, _| {})).join());
        let measured = measured.map_err(|_| anyhow!("the memory loops panicked"))?;
        crate::util::cancel::check()?;
        Ok(measured.map_err(|error| Missing::new(format!("{error:#}"), COMMAND)))
    })
}

fn find<'a>(report: &'a Report, name: &str, bytes: u64) -> Option<&'a Measured> {
    let named = || report.loops.iter().filter(|measured| measured.name == name);
    // The sequential read is shorter in a quick run.
    named().find(|measured| measured.buffer_bytes == bytes).or_else(|| named().find(|m| m.kind == LoopKind::Read))
}

fn reading(measured: &Measured) -> Result<Reading, Missing> {
    let how = format!("{} of {}, median of its runs", measured.about, size::format(measured.buffer_bytes));
    match &measured.reason {
        Some(reason) => Err(Missing::new(reason.clone(), COMMAND)),
        None => Reading::median(measured.throughput.runs.clone(), "GiB/s", ExecutedOn::Hardware, &how)
            .ok_or_else(|| Missing::new("no value was taken", COMMAND)),
    }
}

fn read_loops(out: &mut Yield, report: &Report) {
    for (id, name, bytes) in LOOPS {
        let reading = find(report, name, *bytes)
            .map_or_else(|| Err(Missing::new(format!("there is no loop {name}"), COMMAND)), reading);
        out.readings.insert((*id).to_owned(), reading);
    }
}

fn table(report: &Report) -> ExtraTable {
    let note = format!(
        "GiB/s of one thread on CPU {}, median of n values with their median absolute deviation, loops by turns; a copied \
         byte counts once. Each loop's code was read back from memory and disassembled before it was believed.",
        report.cpu
    );
    let header = ["loop", "what", "buffer", "GiB/s", "MAD", "n", "the loop's own instructions"];
    let mut table = ExtraTable::new("Loops in user space", &header, note);
    for measured in &report.loops {
        let throughput = &measured.throughput;
        let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let value = measured.reason.clone().unwrap_or_else(|| or_dash(throughput.median_gib_s));
        let code: Vec<&str> = measured.code.iter().map(|line| line.trim()).collect();
        let shown = if code.is_empty() { "the C library's".to_owned() } else { cut(&code.join("; ")) };
        table.rows.push(vec![
            measured.name.clone(),
            measured.about.clone(),
            size::format(measured.buffer_bytes),
            value,
            or_dash(throughput.mad_gib_s),
            throughput.runs.len().to_string(),
            shown,
        ]);
    }
    table
}

fn cut(text: &str) -> String {
    const MOST: usize = 110;
    if text.chars().count() <= MOST { text.to_owned() } else { text.chars().take(MOST - 1).chain(['…']).collect() }
}

fn chart(report: &Report) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let mut n = 0;
    for measured in &report.loops {
        let Some(y) = measured.throughput.median_gib_s else { continue };
        let name = format!("{} buffer", size::format(measured.buffer_bytes));
        let runs = &measured.throughput.runs;
        n = runs.len();
        let span = runs.iter().fold([y, y], |[low, high], run| [low.min(*run), high.max(*run)]);
        let point = Point { label: measured.name.clone(), y, span: Some(span) };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name, points: vec![point] }),
        }
    }
    Chart {
        id: "memory".into(),
        title: "Loops in user space".into(),
        kind: Kind::Bars,
        y: "GiB/s".into(),
        x: String::new(),
        series,
        caption: format!("One thread of this machine; median of {n} values, whiskers from least to greatest."),
    }
}

/// Which claims of article B stand after its errata, on this machine.
fn errata(out: &mut Yield, report: &Report) {
    let value = |name: &str, bytes: u64| find(report, name, bytes)?.throughput.median_gib_s;
    let note = "Judged by the medians above; a difference under 10 % is called none.";
    let header = ["claim of article B", "here", "stands"];
    let mut table = ExtraTable::new("The errata of article B: which claims stand", &header, note);
    let mut claim = |what: &str, values: [Option<f64>; 2], words: &str, holds: &dyn Fn(f64) -> bool| {
        let (here, stands) = match values {
            [Some(a), Some(b)] => {
                let verdict = if holds(a / b) { "yes" } else { "no" };
                (format!("{} against {} GiB/s {words}: {} times", number(a), number(b), number(a / b)), verdict)
            }
            _ => ("not testable here: the CPU lacks one of the two".to_owned(), "-"),
        };
        table.rows.push(vec![what.to_owned(), here, stands.to_owned()]);
    };
    const K16: u64 = 16 << 10;
    const K32: u64 = 32 << 10;
    claim(
        "What was taken for copying at 167 GB/s was storing (rep stos): storing is faster than copying",
        [value("rep-stosb", K32), value("rep-movsb", K32)],
        "storing against copying 32 KiB",
        &|ratio| ratio > 1.1,
    );
    claim(
        "rep movsb of two 32 KiB buffers is slowed by a first-level cache that holds only one: two of 16 KiB are faster",
        [value("rep-movsb", K16), value("rep-movsb", K32)],
        "with 16 against 32 KiB",
        &|ratio| ratio > 1.1,
    );
    claim(
        "With 16 KiB buffers copying comes close to storing (153 of 167)",
        [value("rep-movsb", K16), value("rep-stosb", K32)],
        "copying against storing",
        &|ratio| ratio > 0.8,
    );
    claim(
        "The width of vectors does not matter to rep stos's speed: AVX-512 stores are no faster than SSE2's",
        [value("avx512-store", K32), value("sse2-store", K32)],
        "AVX-512 against SSE2",
        &|ratio| (ratio - 1.0).abs() < 0.1,
    );
    claim(
        "memcpy is as fast as the best loop for this CPU (rep movsb where it has ERMS)",
        [value("memcpy", K16), value("rep-movsb", K16)],
        "memcpy against rep movsb, 16 KiB",
        &|ratio| (ratio - 1.0).abs() < 0.1,
    );
    out.tables.push(table);
}

/// Pipes as a share of what memory allows.
fn bounds(lab: &Lab<'_>, out: &mut Yield, report: &Report) -> Result<()> {
    let window = Amount::DurationNs(lab.settings.window_ns());
    let modes = ["write", "vmsplice", "vmsplice-huge", "vmsplice-huge-busy"];
    let contestants: Vec<Contestant> = modes
        .iter()
        .filter_map(|name| Mode::find(name))
        .map(|mode| Contestant { id: mode.name.to_owned(), spec: Spec { amount: window, ..mode.spec() } })
        .collect();
    let raced = lab.race("pipes", &contestants, lab.settings.rounds().min(5))?;
    let copy = find(report, "memcpy", 32 << 10).and_then(|measured| measured.throughput.median_gib_s);
    let read = find(report, "word-read", 1 << 30).and_then(|measured| measured.throughput.median_gib_s);
    let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
    let note = format!(
        "GiB/s: medians of {n} fresh pairs beside the loops above. vmsplice and splice move references to pages, not \
         bytes: they may be faster than any copy."
    );
    let header = ["pipe", "GiB/s", "of memcpy, 32 KiB, one thread", "of sequential reading"];
    let mut table = ExtraTable::new("Pipes beside what memory allows", &header, note);
    let share =
        |speed: f64, of: Option<f64>| of.map_or_else(|| "-".to_owned(), |of| format!("{:.0} %", speed / of * 100.0));
    for entry in &raced {
        let Ok(speed) = Raced::speed(entry) else { continue };
        table.rows.push(vec![
            entry.id.clone(),
            number(speed.value),
            share(speed.value, copy),
            share(speed.value, read),
        ]);
        if let (Some(copy), "write") = (copy, entry.id.as_str()) {
            out.findings.push(format!(
                "write(2) to read(2) moves {} GiB/s, {:.0} % of what one thread copies within its cache by memcpy ({} GiB/s); \
                 the pipe copies every byte twice.",
                number(speed.value),
                speed.value / copy * 100.0,
                number(copy)
            ));
        }
    }
    out.tables.push(table);
    Ok(())
}
