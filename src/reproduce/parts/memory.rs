//! Articles A and B: memory bandwidth, and what fraction of it a pipe reaches.

use super::data::{MemoryData, NamedLoop, VectorFact};
use super::shared::all_missing;
use crate::reproduce::memory::loops::LoopKind;
use crate::reproduce::memory::{LoopOptions, LoopResult, READ_BUFFER, Report, measure};
use crate::reproduce::parts::shared::prelude::*;
use anyhow::anyhow;

const COMMAND: &str = "pipeprof memory";
const K16: u64 = 16 << 10;
const K32: u64 = 32 << 10;

/// The widest vectors that the kernel reports for this CPU.
fn widest(report: &Report) -> &'static str {
    let has = |wanted: &str| report.cpu_flags.iter().any(|flag| flag == wanted);
    match (has("avx512f"), has("avx2")) {
        (true, _) => "AVX-512",
        (false, true) => "AVX2",
        (false, false) => "SSE2",
    }
}

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<PartOutput> {
    let data = &PartsData::get()?.memory;
    let mut out = PartOutput::default();
    let report = if lab.executed_on() == ExecutedOn::Hardware {
        loops(lab)?
    } else {
        Err(Missing::new("memory loops do not run in guests", COMMAND))
    };
    match report {
        Ok(report) => {
            for entry in &data.loops {
                out.readings.insert(entry.fact.clone(), reading(&report, &entry.name, entry.bytes));
            }
            read_vectors(data, &mut out, &report);
            out.tables.push(table(data, &report));
            out.charts.push(chart(data, &report));
            out.tables.push(errata(data, &report));
            bounds(lab, data, &mut out, &report)?;
        }
        Err(missing) => all_missing(&mut out.readings, facts, &data.tables, &missing),
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
fn read_vectors(data: &MemoryData, out: &mut PartOutput, report: &Report) {
    let here = widest(report);
    for VectorFact { fact, widest: vectors, boot } in &data.vectors {
        let taken = if vectors == here {
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
        out.readings.insert(fact.clone(), taken);
    }
}

fn table(data: &MemoryData, report: &Report) -> ExtraTable {
    let mut table = data.measured.table(&[("cpu", report.cpu.to_string())]);
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

fn chart(data: &MemoryData, report: &Report) -> Chart {
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
    data.chart.chart(ChartKind::Bars, false, series, &[("runs", counted(n as u64, "value"))])
}

/// Which claims of article B hold after its errata, on this machine.
fn errata(data: &MemoryData, report: &Report) -> ExtraTable {
    let mut table = data.errata.table(&[]);
    for claim in &data.claims {
        let of = |entry: &NamedLoop| find(report, &entry.name, entry.bytes).map(|measured| &measured.throughput);
        let [a, b] = claim.loops.each_ref().map(of);
        let ratio = a.zip(b).and_then(|(a, b)| {
            let medians = [a.median_gib_s?, b.median_gib_s?];
            Some((medians, stats::ratio_of_medians(&a.runs, &b.runs, 1)?))
        });
        let (measured, holds) = match ratio {
            Some((medians, ratio)) => {
                let [a, b] = [0, 1].map(|index| {
                    let NamedLoop { name, bytes, .. } = &claim.loops[index];
                    format!("{name} {}: {} GiB/s", size::format(*bytes), number(medians[index]))
                });
                let [low, high] = ratio.ci95.map(number);
                let text = format!("{a}; {b}; ratio {} [{low}, {high}]", number(ratio.ratio));
                let holds = claim.above.is_none_or(|above| ratio.ci95[0] > above)
                    && claim.least.is_none_or(|least| ratio.ratio >= least);
                (text, if holds { "yes" } else { "no" })
            }
            None => ("not testable: one of the loops did not run".to_owned(), "-"),
        };
        table.row([&*claim.text, &claim.article, &measured, holds]);
    }
    let speeds = ["rep-stosb", "avx512-store", "avx2-store", "sse2-store"]
        .map(|name| (name, median(report, name, K16).map_or_else(|| "-".to_owned(), number)));
    let claim = &data.untestable;
    table.row([&*claim.text, &claim.article, &filled(&claim.measured, &speeds), "-"]);
    table
}

/// Pipes as a fraction of the memory bandwidth.
fn bounds(lab: &Lab<'_>, data: &MemoryData, out: &mut PartOutput, report: &Report) -> Result<()> {
    let amount = Amount::DurationNs(lab.settings.window_ns());
    let modes = data.modes.iter().filter_map(|name| Mode::find(name));
    let contestants: Vec<Contestant> =
        modes.map(|mode| Contestant { id: mode.name.to_owned(), spec: Spec { amount, ..mode.spec() } }).collect();
    let race = lab.race("pipes", &contestants, lab.settings.rounds().min(5))?;
    let (copy, read) = (median(report, "memcpy", K32), median(report, "word-read", 1 << 30));
    let mut table = data.pipes.table(&[("runs", counted(race.runs(), "run"))]);
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
    use crate::result::Throughput;

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
        let table = errata(&PartsData::get().unwrap().memory, &report(&[]));
        let stands: Vec<&str> = table.rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(stands, ["yes", "yes", "yes", "-"]);
        assert!(table.rows[0][2].contains("rep-stosb 16K"), "{:?}", table.rows[0]);
    }

    #[test]
    fn a_claim_that_does_not_hold_falls() {
        let mut report = report(&[]);
        report.loops[2].throughput = report.loops[0].throughput.clone();
        report.loops[3].throughput = report.loops[0].throughput.clone();
        let table = errata(&PartsData::get().unwrap().memory, &report);
        let stands: Vec<&str> = table.rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(stands, ["no", "no", "yes", "-"]);
    }

    #[test]
    fn vectors_that_the_cpu_has_decide_which_figure_is_ours() {
        for (flags, ours) in [(&["avx512f", "avx2"][..], "avx512"), (&["avx2"], "avx2"), (&["erms"], "sse2")] {
            let (data, mut out) = (&PartsData::get().unwrap().memory, PartOutput::default());
            read_vectors(data, &mut out, &report(flags));
            for VectorFact { fact, .. } in &data.vectors {
                assert_eq!(out.readings[fact].is_ok(), fact.ends_with(ours), "{fact} {flags:?}");
            }
        }
    }
}
