//! `pipeprof export`: write a stored result in a format of other programs.

use super::choice_arg::export_format;
use crate::export::{ExportFormat, with_stored};
use crate::util::atomic_file;
use crate::util::streams;
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a stored result in a format of other programs
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// A folder written by `pipeprof run` or `pipeprof record`; for csv also by `compare` or `sweep`
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// Format to write
    #[arg(long = "to", value_name = "FORMAT", value_parser = export_format())]
    format: ExportFormat,
    /// Output file, `-` for standard output; for csv a folder, or `-` if there is one table [default: next to the input]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ExportArgs {
    /// Write.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let to_stdout = self.output.as_deref() == Some(Path::new("-"));
        let files = with_stored(&self.input, |stored| {
            self.format.files(stored).with_context(|| self.input.display().to_string())
        })?;
        if to_stdout && files.len() > 1 {
            let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
            let why = format!("-o -: these are {} files ({}); give a folder with -o", files.len(), names.join(", "));
            return Err(UsageError::new(why).into());
        }
        let beside = if self.input.is_dir() { self.input.clone() } else { self.input.with_file_name("") };
        let output = self.output.as_deref();
        if let Some(folder) = output.filter(|_| self.format.is_folder && !to_stdout) {
            let created = std::fs::create_dir_all(folder);
            created
                .with_context(|| format!("cannot create the folder {}; choose another with -o", folder.display()))?;
        }
        for (name, bytes) in &files {
            if to_stdout {
                streams::write_file(bytes);
                continue;
            }
            let path = match output {
                Some(folder) if self.format.is_folder => folder.join(name),
                Some(file) => file.to_owned(),
                None => beside.join(name),
            };
            atomic_file::write(&path, bytes)?;
            util::outln!("{}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}
