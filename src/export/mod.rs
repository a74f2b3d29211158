//! Write results for other programs: one file per format. [`samples`] is what all formats for stacks are written from,
//! and [`source`] makes it from results.
//!
//! To add a format, add a file with its [`ExportFormat`], and a line in [`FORMATS`].

mod colour;
mod firefox;
mod perf_script;
mod phases;
mod pprof;
pub(crate) mod proto;
mod samples;
mod source;
mod speedscope;
mod tables;
mod tables_compared;
#[cfg(test)]
mod tests;

pub(crate) use source::{Exported, ExportedRecording, StoredResult};

use anyhow::Result;

/// The formats, in the order of the help.
const FORMATS: &[ExportFormat] = &[
    // registration: one line per format
    pprof::FORMAT,
    firefox::FORMAT,
    speedscope::FORMAT,
    perf_script::FORMAT,
    tables::FORMAT,
];

/// What other programs call the kernel's code.
const KERNEL_MODULE: &str = "[kernel.kallsyms]";

/// File names and contents.
pub(crate) type ExportedFiles = Vec<(String, Vec<u8>)>;

/// A format of other programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExportFormat {
    /// The word on the command line.
    name: &'static str,
    /// One line for the help.
    about: &'static str,
    files: fn(&Exported<'_>) -> Result<ExportedFiles>,
    /// Whether it consists of several files.
    pub is_folder: bool,
}

impl ExportFormat {
    /// The files of `exported` in this format, by name.
    pub(crate) fn files(self, exported: &Exported<'_>) -> Result<ExportedFiles> {
        (self.files)(exported)
    }
}

/// The files of `exported` in all of `formats`, each once, and why a format could not be written, if one could not.
pub(crate) fn all(formats: &[ExportFormat], exported: &Exported<'_>) -> (ExportedFiles, Option<anyhow::Error>) {
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

impl clap::ValueEnum for ExportFormat {
    fn value_variants<'a>() -> &'a [Self] {
        FORMATS
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name).help(self.about))
    }
}

/// A time in RFC 3339 as nanoseconds since 1970.
fn nanoseconds(time: &str) -> Option<i64> {
    let time = time::OffsetDateTime::parse(time, &time::format_description::well_known::Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos()).ok()
}
