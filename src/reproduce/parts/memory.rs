//! Articles A and B: what memory allows, and what part of it a pipe reaches.

use super::{Part, all_missing};
use crate::document::ExecutedOn;
use crate::report::chart::{Chart, ChartKind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, Lab, Raced, Taken};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::util::size;
use crate::util::stats::{self, Ratio};
use crate::workload::Spec;
use crate::workload::memory::loops::LoopKind;
use crate::workload::memory::{LoopOptions, LoopResult, Report, measure};
use crate::workload::modes::Mode;
use crate::workload::spec::Amount;
use anyhow::{Result, anyhow};

/// The part.
pub struct Memory;

/// A fact's loop and buffer. Article B's first four figures are one program, `rep stos` by its errata, on a CPU whose
/// vectors were taken away one after the other; see [`VECTORS`].
const LOOPS: &[(&str, &str, u64)] = &[
    ("A.memory.read", "word-read", 1 << 30),
    ("B.memory.stos", "rep-stosb", 32 << 10),
    ("B.memory.movsb32", "rep-movsb", 32 << 10),
    ("B.memory.movsb16", "rep-movsb", 16 << 10),
];

/// Facts about `rep stos` on a CPU whose widest vectors are these; how to boot a machine without the wider ones.
const VECTORS: &[(&str, Vectors, &str)] = &[
    ("B.memory.avx512", Vectors::Avx512, ""),
    ("B.memory.avx2", Vectors::Avx2, "clearcpuid=304"),
    ("B.memory.sse2", Vectors::Sse2, "clearcpuid=304,avx2,avx"),
];

/// The widest vectors that the kernel says this CPU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vectors {
    Sse2,
    Avx2,
    Avx512,
}

impl Vectors {
    fn of(report: &Report) -> Self {
        let has = |wanted: &str| report.cpu_flags.iter().any(|flag| flag == wanted);
        match (has("avx512f"), has("avx2")) {
            (true, _) => Self::Avx512,
            (false, true) => Self::Avx2,
            (false, false) => Self::Sse2,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sse2 => "SSE2",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }
}

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
                    read_vectors(&mut out, &report);
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
        let options = LoopOptions { runs, read_bytes, ..LoopOptions::default() };
        let measured = std::thread::scope(|scope| scope.spawn(|| measure(&options, &|_, _| {})).join());
        let measured = measured.map_err(|_| anyhow!("the memory loops panicked"))?;
        crate::util::cancel::check()?;
        Ok(measured.map_err(|error| Missing::new(format!("{error:#}"), COMMAND)))
    })
}

fn find<'a>(report: &'a Report, name: &str, bytes: u64) -> Option<&'a LoopResult> {
    let named = || report.loops.iter().filter(|measured| measured.name == name);
    // The sequential read is shorter in a quick run.
    named().find(|measured| measured.buffer_bytes == bytes).or_else(|| named().find(|m| m.kind == LoopKind::Read))
}

fn reading(measured: &LoopResult) -> Result<Reading, Missing> {
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

/// `rep stos` beside the vectors that the CPU has: the article's figures, which are not of vector stores.
fn read_vectors(out: &mut Yield, report: &Report) {
    let here = Vectors::of(report);
    for (id, vectors, boot) in VECTORS {
        let taken = match find(report, "rep-stosb", 32 << 10) {
            Some(measured) if *vectors == here => reading(measured).map(|reading| Reading {
                how: format!(
                    "rep stosb, as theirs by the errata, on a CPU with {}: the very figure of the first row",
                    here.name()
                ),
                ..reading
            }),
            _ => {
                let why = format!(
                    "theirs is rep stos on a CPU with no more than {}; this one has {}, and the explicit vector stores below \
                     are no rep stos",
                    vectors.name(),
                    here.name()
                );
                let boot = if boot.is_empty() { "on such a CPU".to_owned() } else { format!("booted with {boot}") };
                Err(Missing::new(why, format!("{COMMAND} # {boot}")))
            }
        };
        out.readings.insert((*id).to_owned(), taken);
    }
}

fn table(report: &Report) -> ExtraTable {
    let note = format!(
        "GiB/s of one thread on CPU {}, median of n values with their median absolute deviation, loops by turns; a copied \
         byte counts once. Each loop's code was read back from memory and disassembled before it was believed, but for \
         memcpy, a function of the C library, which chooses its code for this CPU. Shown is the innermost loop; pipeprof \
         memory --code shows all.",
        report.cpu
    );
    let header = ["loop", "what", "buffer", "GiB/s", "MAD", "n", "its innermost loop"];
    let mut table = ExtraTable::new("Loops in user space", &header, note);
    let mut shown: Vec<&str> = Vec::new();
    for measured in &report.loops {
        let throughput = &measured.throughput;
        let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let value = measured.reason.clone().unwrap_or_else(|| or_dash(throughput.median_gib_s));
        let code = match () {
            () if measured.inner.is_empty() => "the C library's, not disassembled".to_owned(),
            () if shown.contains(&measured.name.as_str()) => "the same".to_owned(),
            () => measured.inner.join("; "),
        };
        shown.push(&measured.name);
        table.rows.push(vec![
            measured.name.clone(),
            measured.about.clone(),
            size::format(measured.buffer_bytes),
            value,
            or_dash(throughput.mad_gib_s),
            throughput.runs.len().to_string(),
            code,
        ]);
    }
    table
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
        kind: ChartKind::Bars,
        y: "GiB/s".into(),
        x: String::new(),
        series,
        caption: format!("One thread of this machine; median of {n} values, whiskers from least to greatest."),
    }
}

/// What a claim says of the ratio of two loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// The first is faster.
    Faster,
    /// The first reaches nine tenths of the second or more: theirs is 153 of 167.
    Close,
}

impl Says {
    /// The differences that are no difference, of the article's own 9 %.
    const CLOSE: f64 = 0.9;
    /// As verdicts have it: less is none.
    const EFFECT: f64 = 1.02;

    fn holds(self, ratio: Ratio) -> bool {
        match self {
            Self::Faster => ratio.ci95[0] > Self::EFFECT,
            Self::Close => ratio.ratio >= Self::CLOSE,
        }
    }
}

/// Which claims of article B stand after its errata, on this machine.
fn errata(out: &mut Yield, report: &Report) {
    const K16: u64 = 16 << 10;
    const K32: u64 = 32 << 10;
    let note = "Ratios of medians with their 95 % intervals. Faster: by 2 % beyond doubt; close: nine tenths or more. 16 KiB \
                buffers, two of which the first-level cache holds, but where the claim is about a cache that does not.";
    let header = ["claim of article B", "theirs", "here", "stands"];
    let mut table = ExtraTable::new("The errata of article B: which claims stand", &header, note);
    let mut claim = |what: &str, theirs: &str, loops: [(&str, u64); 2], says: Says| {
        let [first, second] = loops.map(|(name, bytes)| find(report, name, bytes).map(|m| &m.throughput));
        let ratio = first
            .zip(second)
            .and_then(|(a, b)| Some((a.median_gib_s?, b.median_gib_s?, stats::ratio_of_medians(&a.runs, &b.runs, 1)?)));
        let name = |(name, bytes): (&str, u64)| format!("{name} of {}", size::format(bytes));
        let (here, stands) = match ratio {
            Some((a, b, ratio)) => {
                let [low, high] = ratio.ci95.map(number);
                let text = format!(
                    "{} {} GiB/s, {} {}: {} [{low}, {high}] times",
                    name(loops[0]),
                    number(a),
                    name(loops[1]),
                    number(b),
                    number(ratio.ratio)
                );
                (text, if says.holds(ratio) { "yes" } else { "no" })
            }
            None => ("not testable here: one of the two did not run".to_owned(), "-"),
        };
        table.rows.push(vec![what.to_owned(), theirs.to_owned(), here, stands.to_owned()]);
    };
    claim(
        "What was taken for copying was storing, and storing is faster than copying, both within the first-level cache",
        "167 against 153 GB/s",
        [("rep-stosb", K16), ("rep-movsb", K16)],
        Says::Faster,
    );
    claim(
        "rep movsb of two 32 KiB buffers is slowed by a first-level cache that does not hold both: two of 16 KiB are faster",
        "153 against 80 GB/s",
        [("rep-movsb", K16), ("rep-movsb", K32)],
        Says::Faster,
    );
    claim(
        "With 16 KiB buffers copying comes close to storing",
        "153 of 167 GB/s",
        [("rep-movsb", K16), ("rep-stosb", K16)],
        Says::Close,
    );
    table.rows.push(vectors_claim(report, K16));
    out.tables.push(table);
}

/// The article's loop has no vectors; those that have, and which it did not measure, are shown beside it.
fn vectors_claim(report: &Report, bytes: u64) -> Vec<String> {
    let speed = |name: &str| {
        let median = find(report, name, bytes).and_then(|measured| measured.throughput.median_gib_s);
        median.map_or_else(|| "-".to_owned(), number)
    };
    vec![
        "The same speed with AVX-512, AVX2 and SSE2 only".to_owned(),
        "167 GB/s each, of rep stos".to_owned(),
        format!(
            "not testable here: takes kernels booted with clearcpuid. rep stos, which has no vectors, stores {} GiB/s; explicit \
             stores, which the article did not measure, {} by 64 bytes, {} by 32, {} by 16",
            speed("rep-stosb"),
            speed("avx512-store"),
            speed("avx2-store"),
            speed("sse2-store")
        ),
        "-".to_owned(),
    ]
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
                "write(2) to read(2) moves {} GiB/s, {:.0} % of what one thread copies by memcpy, 32 KiB at a time ({} GiB/s); \
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Throughput;

    fn report(flags: &[&str]) -> Report {
        let measured = |name: &str, kib: u64, gib_s: f64| LoopResult {
            name: name.into(),
            about: name.into(),
            kind: LoopKind::Store,
            buffer_bytes: kib << 10,
            reason: None,
            code: Vec::new(),
            inner: Vec::new(),
            throughput: Throughput {
                runs: vec![gib_s * 0.999, gib_s, gib_s * 1.001],
                median_gib_s: Some(gib_s),
                ..Throughput::default()
            },
        };
        Report {
            schema: String::new(),
            version: String::new(),
            cpu_model: None,
            cpu: 0,
            cpu_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            loops: vec![
                measured("rep-stosb", 16, 167.0),
                measured("rep-stosb", 32, 167.0),
                measured("rep-movsb", 16, 153.0),
                measured("rep-movsb", 32, 80.0),
            ],
        }
    }

    #[test]
    fn their_own_figures_make_their_claims_stand() {
        let mut out = Yield::default();
        errata(&mut out, &report(&[]));
        let stands: Vec<&str> = out.tables[0].rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(stands, ["yes", "yes", "yes", "-"]);
        assert!(out.tables[0].rows[0][2].contains("rep-stosb of 16K"), "{:?}", out.tables[0].rows[0]);
    }

    #[test]
    fn a_claim_that_does_not_hold_falls() {
        let mut report = report(&[]);
        report.loops[2].throughput = report.loops[0].throughput.clone();
        report.loops[3].throughput = report.loops[0].throughput.clone();
        let mut out = Yield::default();
        errata(&mut out, &report);
        let stands: Vec<&str> = out.tables[0].rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(stands, ["no", "no", "yes", "-"]);
    }

    #[test]
    fn vectors_that_the_cpu_has_decide_which_figure_is_ours() {
        for (flags, ours) in [(&["avx512f", "avx2"][..], "avx512"), (&["avx2"], "avx2"), (&["erms"], "sse2")] {
            let mut out = Yield::default();
            read_vectors(&mut out, &report(flags));
            for (id, _, _) in VECTORS {
                assert_eq!(out.readings[*id].is_ok(), id.ends_with(ours), "{id} {flags:?}");
            }
        }
    }
}
