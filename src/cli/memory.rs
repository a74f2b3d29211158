//! `pipeprof memory`: memory bandwidth of this machine.

use super::global;
use crate::report::number::{number, span};
use crate::report::table::{Table, TableCell};
use crate::report::terminal::Style;
use crate::reproduce::memory::{LoopOptions, READ_BUFFER, Report, loops::LoopKind, measure};
use crate::util::styled_text::StyledText;
use crate::util::{cancel, size};
use anyhow::Result;
use std::process::ExitCode;

/// Measure memory bandwidth: copies, stores and reads in user space
///
/// The results are upper bounds for the throughput of a pipe. All loops except the C library's memcpy are in assembly.
/// Their code is disassembled from memory to verify it (--code prints it).
#[derive(Debug, clap::Args)]
pub(crate) struct MemoryArgs {
    /// Number of measurements of each loop
    #[arg(long, value_name = "N", default_value_t = LoopOptions::default().runs)]
    runs: u32,
    /// CPU to run on, by number [default: chosen by topology]
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Use 2 MiB pages for the buffers
    #[arg(long)]
    huge_pages: bool,
    /// Buffer size for the reads [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value_t = READ_BUFFER, hide_default_value = true)]
    read_size: u64,
    /// Print the disassembled code of each loop
    #[arg(long)]
    code: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl MemoryArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install()?;
        let options =
            LoopOptions { runs: self.runs, cpu: self.cpu, huge_pages: self.huge_pages, read_bytes: self.read_size };
        let report = measure(&options, &|done, all| {
            crate::util::progress::step(&format!("memory: {done} of {all}"));
        })?;
        crate::util::progress::clear();
        global::print(self.json, &report, || text(&report, self.code))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn text(report: &Report, code: bool) -> StyledText {
    use std::fmt::Write;
    let mut out = StyledText::default();
    let model = report.cpu_model.as_deref().unwrap_or("unknown CPU model");
    let _ = writeln!(out, "{model}, CPU {}, {}; one thread", report.cpu, report.cpu_flags.join(" "));
    for (kind, heading) in [
        (LoopKind::Copy, "Copying one buffer to another (each copied byte counts once)"),
        (LoopKind::Store, "Storing to one buffer"),
        (LoopKind::Read, "Reading one buffer from end to end"),
    ] {
        let loops = report.loops.iter().filter(|measured| measured.kind == kind);
        let table = Table::of(heading, loops)
            .column("loop", |measured| &measured.name[..])
            .column("buffer", |measured| TableCell::Figure(size::format(measured.buffer_bytes)))
            .column("GiB/s", |measured| measured.throughput.median_gib_s)
            .column("95 % CI", |measured| measured.throughput.ci95.map(|ends| TableCell::Figure(span(ends, number))))
            .column("GB/s", |measured| Some(measured.throughput.median_gib_s? * f64::from(1 << 30) / 1e9))
            .column("n", |measured| measured.throughput.runs.len() as u64)
            .column("method", |measured| measured.reason.as_deref().unwrap_or(&measured.about))
            .done();
        out.push_str("\n");
        out.append(&table.text(Style::of_stdout()));
    }
    if code {
        let mut printed = std::collections::BTreeSet::new();
        for measured in report.loops.iter().filter(|m| !m.code.is_empty()) {
            if printed.insert(&measured.name) {
                let _ = writeln!(out, "\n{}:\n{}", measured.name, measured.code.join("\n"));
            }
        }
    }
    out
}
