//! Write results for other programs: one file per format. [`samples`] is what all formats for stacks are written from,
//! and [`source`] makes it from results.
//!
//! To add a format, add a file with its [`ExportFormat`], and a line in [`FORMATS`].

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {::compare, ::kernel, ::profile, ::record, ::report, ::result, ::roles, ::sweep, ::util};

mod colour;
mod firefox;
mod format;
mod perf_script;
mod perfetto;
mod perfetto_proto;
mod perfetto_sched;
mod perfetto_stacks;
mod perfetto_threads;
mod perfetto_writer;
mod phases;
mod pprof;
pub mod proto;
mod samples;
mod source;
mod speedscope;
mod tables;
mod tables_compared;
#[cfg(test)]
mod tests;

pub use format::{ExportFormat, ExportedFiles};
pub use source::{Exported, with_stored};

use format::{KERNEL_MODULE, nanoseconds};

/// The formats, in the order of the help.
pub const FORMATS: &[ExportFormat] = &[
    // registration: one line per format
    pprof::FORMAT,
    firefox::FORMAT,
    speedscope::FORMAT,
    perf_script::FORMAT,
    perfetto::FORMAT,
    tables::FORMAT,
];

/// The files of `exported` in all of `formats`, each once, and why a format could not be written, if one could not.
pub fn all(formats: &[ExportFormat], exported: &Exported<'_>) -> (ExportedFiles, Option<anyhow::Error>) {
    let (mut files, mut problem) = (ExportedFiles::new(), None);
    for (index, format) in formats.iter().enumerate() {
        if formats[..index].iter().any(|before| before.name == format.name) {
            continue;
        }
        match format.files(exported) {
            Ok(own) => files.extend(own),
            Err(error) => problem = Some(error.context(format!("--export {}", format.name))),
        }
    }
    (files, problem)
}

/// The format with this word.
pub fn format_named(name: &str) -> Option<ExportFormat> {
    FORMATS.iter().copied().find(|format| format.name == name)
}
