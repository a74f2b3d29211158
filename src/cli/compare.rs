//! `pipeprof compare`: kernels, settings or stored runs side by side.

use crate::compare::render::{self, terminal};
use crate::compare::{Against, Compared, Input, Options, compare};
use crate::report::files;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What changed in the pipe path between kernels or settings, and how far to believe it.
///
/// Give kernels and modes, and each kernel is booted and profiled in each mode; or give stored runs. Repeated flags
/// multiply: every combination is a column.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Stored runs, oldest first: a run.json or the folder of one; a folder of such folders is several boots of one
    /// column
    #[arg(value_name = "RUN", conflicts_with_all = ["kernel", "mode"])]
    runs: Vec<PathBuf>,
    /// A kernel to boot: a bzImage, a .deb, or a series or release of `pipeprof kernel list`; repeat for more
    #[arg(long, value_name = "PATH|NAME")]
    kernel: Vec<String>,
    /// A mode of `pipeprof run`; repeat for more [default: write]
    #[arg(long, value_name = "MODE")]
    mode: Vec<String>,
    /// Set each column against the one before it (and the last against the first), or each against the first
    /// [default: previous for kernels and stored runs, first for settings]
    #[arg(long, value_enum)]
    against: Option<Against>,
    /// Seed of shuffles and bootstraps
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder to make for report.html, report.md and report.json
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print report.json on stdout instead of the tables
    #[arg(long)]
    json: bool,
}

impl Args {
    /// # Errors
    /// One line that names the flag or file and the way out.
    pub fn run(self) -> Result<ExitCode> {
        ensure!(!self.runs.is_empty(), "give kernels (--kernel, twice or more) or stored runs to compare");
        let inputs = self.runs.iter().map(|path| stored(path)).collect::<Result<Vec<_>>>()?;
        if let Some(folder) = &self.output {
            fresh_folder(folder)?;
        }
        let options = Options {
            command: command_line(),
            against: self.against.unwrap_or_default(),
            seed: self.seed,
            ..Options::default()
        };
        let compared = compare(&inputs, &options)?;
        self.report(&compared)?;
        Ok(ExitCode::SUCCESS)
    }

    fn report(&self, compared: &Compared) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(&compared.comparison)?);
        } else {
            print!("{}", terminal::render(&compared.comparison, extent()));
        }
        if let Some(folder) = &self.output {
            let written = render::write_all(folder, compared)?;
            let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
            eprintln!("written: {}", names.join(", "));
        }
        Ok(())
    }
}

fn extent() -> terminal::Extent {
    terminal::Extent { width: 100, roles: 12, functions: 12 }
}

/// The command as typed, without the path of the binary.
fn command_line() -> String {
    std::iter::once("pipeprof".to_owned()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

/// Make the report's folder, which must not hold anything yet.
fn fresh_folder(folder: &Path) -> Result<()> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("-o {}: the report folder exists and is not empty: choose another, or remove it", folder.display());
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("-o {}: cannot make the folder: choose another", folder.display()))
}

/// One column from a stored run, or from a folder of several boots' runs.
fn stored(path: &Path) -> Result<Input> {
    let shown = |path: &Path| path.display().to_string();
    if path.is_dir() && !path.join(files::DOCUMENT).exists() {
        let mut folders: Vec<PathBuf> = std::fs::read_dir(path)
            .with_context(|| format!("cannot look into the folder {}", path.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|inner| inner.join(files::DOCUMENT).is_file())
            .collect();
        folders.sort();
        ensure!(!folders.is_empty(), "{}: no {} in it or in a folder below it", path.display(), files::DOCUMENT);
        let runs = folders.iter().map(|inner| Ok((shown(inner), files::load(inner)?))).collect::<Result<Vec<_>>>()?;
        return Ok(Input { label: None, runs });
    }
    Ok(Input { label: None, runs: vec![(shown(path), files::load(path)?)] })
}
