//! Articles A and B: memory bandwidth, and what fraction of it a pipe reaches.

use super::all_missing;
use crate::reproduce::parts::prelude::*;
use crate::util::stats::{self, Ratio};
use crate::workload::memory::loops::LoopKind;
use crate::workload::memory::{LoopOptions, LoopResult, READ_BUFFER, Report, measure};
use anyhow::anyhow;

const COMMAND: &str = "pipeprof memory";
const K16: u64 = 16 << 10;
const K32: u64 = 32 << 10;

/// The loop and the buffer of a fact. The first four figures of article B are from one program, according to the errata
/// `rep stos`, on a CPU whose vectors were disabled one after the other; see [`VECTORS`].
const LOOPS: &[(&str, &str, u64)] = &[
    ("A.memory.read", "word-read", 1 << 30),
    ("B.memory.stos", "rep-stosb", K32),
    ("B.memory.movsb32", "rep-movsb", K32),
    ("B.memory.movsb16", "rep-movsb", K16),
];

/// Facts about `rep stos` on a CPU with these vectors as its widest, and how to boot a machine without wider ones.
const VECTORS: &[(&str, &str, &str)] = &[
    ("B.memory.avx512", "AVX-512", "on such a CPU"),
    ("B.memory.avx2", "AVX2", "booted with clearcpuid=304"),
    ("B.memory.sse2", "SSE2", "booted with clearcpuid=304,avx2,avx"),
];

/// The widest vectors that the kernel reports for this CPU.
fn widest(report: &Report) -> &'static str {
    let has = |wanted: &str| report.cpu_flags.iter().any(|flag| flag == wanted);
    match (has("avx512f"), has("avx2")) {
        (true, _) => "AVX-512",
        (false, true) => "AVX2",
        (false, false) => "SSE2",
    }
}

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
    let mut out = Yield::default();
    let report = if lab.executed_on() == ExecutedOn::Hardware {
        loops(lab)?
    } else {
        Err(Missing::new("memory loops do not run in guests", COMMAND))
    };
    match report {
        Ok(report) => {
            for (id, name, bytes) in LOOPS {
                out.readings.insert((*id).to_owned(), reading(&report, name, *bytes));
            }
            read_vectors(&mut out, &report);
            out.tables.push(table(&report));
            out.charts.push(chart(&report));
            errata(&mut out, &report);
            bounds(lab, &mut out, &report)?;
        }
        Err(missing) => all_missing(&mut out.readings, facts, &["A.memory", "B.memory"], &missing),
    }
    Ok(out)
}

/// All loops, in a thread of their own: they bind it to one CPU, which later processes must not inherit.
fn loops(lab: &Lab<'_>) -> Result<Taken<Report>> {
    let runs = if lab.settings.quick { 3 } else { 11 };
    let read_bytes = if lab.settings.quick { 256 << 20 } else { READ_BUFFER };
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
    // The buffer of sequential reading is smaller in a quick reproduction.
    named().find(|measured| measured.buffer_bytes == bytes).or_else(|| named().find(|m| m.kind == LoopKind::Read))
}

fn median(report: &Report, name: &str, bytes: u64) -> Option<f64> {
    find(report, name, bytes)?.throughput.median_gib_s
}

fn reading(report: &Report, name: &str, bytes: u64) -> Taken<Reading> {
    let missing = |why: String| Missing::new(why, COMMAND);
    let measured = find(report, name, bytes).ok_or_else(|| missing(format!("unknown loop {name}")))?;
    if let Some(reason) = &measured.reason {
        return Err(missing(reason.clone()));
    }
    let how = format!("{}, {} buffer", measured.about, size::format(measured.buffer_bytes));
    Reading::median(measured.throughput.runs.clone(), "GiB/s", ExecutedOn::Hardware, &how)
        .ok_or_else(|| missing("no value".to_owned()))
}

/// `rep stos` with the vectors of this CPU. The article's figures are not from vector stores.
fn read_vectors(out: &mut Yield, report: &Report) {
    let here = widest(report);
    for (id, vectors, boot) in VECTORS {
        let taken = if *vectors == here {
            reading(report, "rep-stosb", K32).map(|reading| Reading {
                how: format!(
                    "rep stosb, like the article's loop, on a CPU with {here}: same value as in the first row"
                ),
                ..reading
            })
        } else {
            let why = format!("the article ran rep stos on a CPU with at most {vectors}; this CPU has {here}");
            Err(Missing::new(why, format!("{COMMAND} # {boot}")))
        };
        out.readings.insert((*id).to_owned(), taken);
    }
}

fn table(report: &Report) -> ExtraTable {
    let note = format!(
        "GiB/s of one thread on CPU {}: median of n values, with the median absolute deviation (MAD); the loops alternate. A \
         copied byte counts once. The code of each loop was read back from memory and disassembled, except memcpy, which the \
         C library chooses for this CPU. The table shows the innermost loop; pipeprof memory --code shows all of the code.",
        report.cpu
    );
    let header = "loop | what | buffer | GiB/s | MAD | n | innermost loop";
    let mut table = ExtraTable::new("Loops in user space", header, note);
    let mut shown: Vec<&str> = Vec::new();
    for measured in &report.loops {
        let throughput = &measured.throughput;
        let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let code = match () {
            () if measured.inner.is_empty() => "in the C library, not disassembled".to_owned(),
            () if shown.contains(&measured.name.as_str()) => "the same".to_owned(),
            () => measured.inner.join("; "),
        };
        shown.push(&measured.name);
        table.row([
            measured.name.clone(),
            measured.about.clone(),
            size::format(measured.buffer_bytes),
            measured.reason.clone().unwrap_or_else(|| or_dash(throughput.median_gib_s)),
            or_dash(throughput.mad_gib_s),
            throughput.runs.len().to_string(),
            code,
        ]);
    }
    table
}

fn chart(report: &Report) -> Chart {
    let mut series: Vec<(String, Vec<Point>)> = Vec::new();
    let mut n = 0;
    for measured in &report.loops {
        let Ok(reading) = reading(report, &measured.name, measured.buffer_bytes) else { continue };
        let name = format!("{} buffer", size::format(measured.buffer_bytes));
        n = reading.runs.len();
        let point = reading.point(&measured.name);
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name, vec![point])),
        }
    }
    let caption = format!("One thread; median of {}, whiskers from minimum to maximum.", counted(n as u64, "value"));
    super::chart(ChartKind::Bars, ["memory", "Loops in user space"], ["GiB/s", ""], series, caption)
}

/// What a claim says about the ratio of two loops.
type RatioClaim = fn(Ratio) -> bool;
/// The first is faster: the interval lies above 1.02, like the least effect of a verdict.
const FASTER: RatioClaim = |ratio| ratio.ci95[0] > 1.02;
/// The first is nearly as fast: at least nine tenths, like the article's 153 of 167.
const CLOSE: RatioClaim = |ratio| ratio.ratio >= 0.9;

/// A loop and its buffer.
type NamedLoop = (&'static str, u64);

/// The claims of article B about loops: text, the article's figures, the two loops, what is claimed.
const CLAIMS: &[(&str, &str, [NamedLoop; 2], RatioClaim)] = &[
    (
        "The measured copying was storing; storing is faster than copying, both within the first-level cache",
        "167 and 153 GB/s",
        [("rep-stosb", K16), ("rep-movsb", K16)],
        FASTER,
    ),
    (
        "The first-level cache does not hold two 32 KiB buffers: rep movsb is faster with two of 16 KiB",
        "153 and 80 GB/s",
        [("rep-movsb", K16), ("rep-movsb", K32)],
        FASTER,
    ),
    (
        "With 16 KiB buffers, copying is nearly as fast as storing",
        "153 of 167 GB/s",
        [("rep-movsb", K16), ("rep-stosb", K16)],
        CLOSE,
    ),
];

/// Which claims of article B hold after its errata, on this machine.
fn errata(out: &mut Yield, report: &Report) {
    let note = "Ratios of medians with their 95 % CI. Faster: the CI lies above 1.02. Nearly as fast: the ratio is at least 0.9. \
        Buffers are 16 KiB, because the first-level cache holds two of them, except where the claim is about larger ones.";
    let mut table = ExtraTable::new(
        "Errata of article B: which claims hold",
        "claim of article B | article | measured | holds",
        note,
    );
    for (what, article, loops, claim) in CLAIMS {
        let [a, b] = loops.map(|(name, bytes)| find(report, name, bytes).map(|measured| &measured.throughput));
        let ratio = a.zip(b).and_then(|(a, b)| {
            let medians = [a.median_gib_s?, b.median_gib_s?];
            Some((medians, stats::ratio_of_medians(&a.runs, &b.runs, 1)?))
        });
        let (measured, holds) = match ratio {
            Some((medians, ratio)) => {
                let [a, b] = [0, 1].map(|index| {
                    let (name, bytes) = loops[index];
                    format!("{name} {}: {} GiB/s", size::format(bytes), number(medians[index]))
                });
                let [low, high] = ratio.ci95.map(number);
                let text = format!("{a}; {b}; ratio {} [{low}, {high}]", number(ratio.ratio));
                (text, if claim(ratio) { "yes" } else { "no" })
            }
            None => ("not testable: one of the loops did not run".to_owned(), "-"),
        };
        table.row([*what, *article, &measured, holds]);
    }
    // The article's loop has no vectors; loops that have are shown for comparison.
    let speed = |name: &str| median(report, name, K16).map_or_else(|| "-".to_owned(), number);
    let vectors = format!(
        "not testable: needs kernels booted with clearcpuid. rep stos, which uses no vectors, stores {} GiB/s; explicit stores, \
         which the article did not measure: {} with 64 bytes, {} with 32, {} with 16",
        speed("rep-stosb"),
        speed("avx512-store"),
        speed("avx2-store"),
        speed("sse2-store")
    );
    table.row(["The same speed with AVX-512, AVX2 and SSE2 only", "167 GB/s each, by rep stos", &vectors, "-"]);
    out.tables.push(table);
}

/// Pipes as a fraction of the memory bandwidth.
fn bounds(lab: &Lab<'_>, out: &mut Yield, report: &Report) -> Result<()> {
    let amount = Amount::DurationNs(lab.settings.window_ns());
    let modes = ["write", "vmsplice", "vmsplice-huge", "vmsplice-huge-busy"].iter().filter_map(|name| Mode::find(name));
    let contestants: Vec<Contestant> =
        modes.map(|mode| Contestant { id: mode.name.to_owned(), spec: Spec { amount, ..mode.spec() } }).collect();
    let race = lab.race("pipes", &contestants, lab.settings.rounds().min(5))?;
    let (copy, read) = (median(report, "memcpy", K32), median(report, "word-read", 1 << 30));
    let note = format!(
        "GiB/s: median of {}, compared with the loops above. vmsplice and splice move references to pages instead of bytes, so \
         they can be faster than any copy.",
        counted(race.runs(), "run")
    );
    let header = "pipe | GiB/s | relative to memcpy (32 KiB, one thread) | relative to sequential reading";
    let mut table = ExtraTable::new("Pipes compared with memory bandwidth", header, note);
    for raced in &race.0 {
        let Ok(Reading { value, .. }) = raced.speed() else { continue };
        let relative = |to: Option<f64>| to.map_or_else(|| "-".to_owned(), |to| format!("{:.0} %", value / to * 100.0));
        table.row([raced.id.clone(), number(value), relative(copy), relative(read)]);
        if let (Some(speed), "write") = (copy, raced.id.as_str()) {
            out.findings.push(format!(
                "write(2) to read(2) moves {} GiB/s, {} of what one thread copies with memcpy, 32 KiB at a time ({} GiB/s). The \
                 pipe copies every byte twice.",
                number(value),
                relative(copy),
                number(speed)
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
        assert!(out.tables[0].rows[0][2].contains("rep-stosb 16K"), "{:?}", out.tables[0].rows[0]);
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
