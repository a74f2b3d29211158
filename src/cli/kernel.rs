//! `pipeprof kernel`: the cache of kernels for guests.

use super::guest_args::MachineArgs;
use super::kernel_build::{BuildArgs, parse_processor};
use super::kernel_options::OptionsArgs;
use crate::arch::Processor;
use crate::util::stored_json::json_text;
use crate::util::text::{clean_lines, counted};
use crate::util::{atomic_file, cancel, progress};
use crate::vm;
use crate::vm::GuestOf as _;
use crate::vm::fetch::{self, Fetched};
use crate::vm::hardware::Hardware;
use crate::vm::image::{self, Kernel};
use crate::vm::kernel_bundle;
use crate::vm::snapshots::Snapshots;
use crate::vm::store::{CachedKernel, KernelCache};
use crate::vm::symbol_cache;
use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Manage the cache of kernels for guests
#[derive(Debug, Args)]
pub(crate) struct KernelCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch the newest Debian kernel of each series with apt, without installing it
    Fetch {
        /// Series such as 6.12, releases, or Debian package names; 6.12:arm64 for arm64
        #[arg(required = true, value_name = "SERIES")]
        series: Vec<String>,
        /// Debian flavour; cloud-amd64, for arm64 cloud-arm64, is the smallest and boots fastest
        #[arg(long, default_value = fetch::SMALLEST_FLAVOUR, value_parser = fetch::FLAVOURS)]
        flavour: String,
    },
    Build(BuildArgs),
    Options(Box<OptionsArgs>),
    /// Add kernel images, Debian kernel packages or bundles to the cache
    Add {
        /// Kernel images (bzImage, or Image of arm64), Debian kernel packages (.deb) or bundles of `pipeprof kernel bundle`
        #[arg(required = true, value_name = "PATH|DEB|TAR")]
        paths: Vec<PathBuf>,
    },
    /// Write kernels of the cache into one file, for machines without a network
    Bundle {
        /// Series such as 6.12, or releases
        #[arg(required = true, value_name = "SERIES")]
        kernels: Vec<String>,
        /// File for the bundle, a tar archive; `pipeprof kernel add` reads it
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// List the kernels in the cache
    List {
        /// List the kernels on the Debian mirror instead
        #[arg(long)]
        available: bool,
        /// Debian flavour to list with --available
        #[arg(long, default_value = fetch::SMALLEST_FLAVOUR, value_parser = fetch::FLAVOURS)]
        flavour: String,
    },
    /// Boot a kernel in a guest and print its release and version
    Boot {
        /// Kernel to boot: a bzImage, a .deb, or a series or release in the cache
        kernel: String,
        #[command(flatten)]
        machine: MachineArgs,
        /// Print the guest's console as well
        #[arg(long)]
        console: bool,
    },
    /// Print the configuration options that a kernel needs to be profiled in a guest
    ///
    /// A fragment for scripts/kconfig/merge_config.sh in a kernel tree, with a comment for each group.
    Config {
        /// Processor of the kernel: amd64 or arm64 [default: that of this machine]
        #[arg(long, value_name = "ARCH", value_parser = parse_processor)]
        arch: Option<Processor>,
    },
    /// Remove kernels and their snapshots from the cache
    Remove {
        /// Releases, or series such as 6.12; with --snapshots, also paths of images [default with --snapshots: all]
        #[arg(required_unless_present = "snapshots", value_name = "RELEASE")]
        releases: Vec<String>,
        /// Remove only the snapshots of booted guests, and keep the kernels
        #[arg(long)]
        snapshots: bool,
    },
}

impl KernelCommand {
    pub(super) fn run(self) -> Result<ExitCode> {
        if let Action::Config { arch } = self.action {
            util::out!("{}", Hardware::of(arch.unwrap_or(Processor::HERE)).needed_options());
            return Ok(ExitCode::SUCCESS);
        }
        cancel::install()?;
        let store = KernelCache::open()?;
        match self.action {
            Action::Fetch { series, flavour } => {
                for (wish, fetched) in fetch::fetch(&store, &series, &flavour, &progress::note)? {
                    let entry = match fetched {
                        Fetched::New(entry) => entry,
                        Fetched::Kept(entry) => {
                            progress::note(&format!("{wish}: the newest kernel is already cached"));
                            entry
                        }
                        Fetched::Stale(entry, why) => {
                            progress::note(&format!(
                                "{wish}: keeping the cached kernel; cannot fetch a newer one: {why}"
                            ));
                            entry
                        }
                    };
                    print(&entry);
                }
            }
            Action::Build(args) => print(&args.run(&store)?),
            Action::Options(args) => args.run(&store)?,
            Action::Add { paths } => {
                for path in paths {
                    if kernel_bundle::is_bundle(&path) {
                        kernel_bundle::add(&store, &path)?.iter().for_each(print);
                        continue;
                    }
                    let origin = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
                    let config =
                        image::release_of(&path).ok().and_then(|(release, _)| image::config_beside(&path, &release));
                    print(&store.add(&path, &origin.display().to_string(), None, config.as_deref(), None)?);
                }
            }
            Action::Bundle { kernels, output } => {
                let mut entries: Vec<CachedKernel> = Vec::new();
                for name in kernels {
                    let entry = store.find(&name)?.with_context(|| {
                        format!(
                            "{name} is not in the cache: add it with `pipeprof kernel fetch` or `pipeprof kernel add`"
                        )
                    })?;
                    if !entries.contains(&entry) {
                        entries.push(entry);
                    }
                }
                atomic_file::write_with(&output, |file| kernel_bundle::write(&entries, file))?;
                entries.iter().for_each(print);
            }
            Action::List { available: true, flavour } => {
                for package in fetch::available(&store, &flavour, &progress::note)? {
                    util::outln!("{:<34} {:<24} {}", package.release, package.version, package.name);
                }
            }
            Action::List { .. } => {
                let list = store.list()?;
                if store.is_empty()? {
                    progress::note(&format!(
                        "no kernels in {}; fetch one with `pipeprof kernel fetch 6.12`",
                        store.root().display()
                    ));
                }
                let snapshots = Snapshots::open()?;
                for entry in &list {
                    let kept = match snapshots.of_release(&entry.release) {
                        (0, _) => String::new(),
                        (count, bytes) => format!("  ({})", described(count, bytes)),
                    };
                    util::outln!("{}{kept}", line(entry));
                }
            }
            Action::Boot { kernel, machine, console } => {
                let begun = Instant::now();
                // The kernel is an argument here, not the value of --kernel.
                let options = machine.machine().options(&kernel).map_err(|error| {
                    match format!("{error:#}").strip_prefix("--kernel ") {
                        Some(text) => anyhow!("{text}"),
                        None => error,
                    }
                })?;
                // This shows the boot.
                let options = vm::GuestOptions { snapshot: false, ..options };
                let reply = vm::run_job(&options, &vm::Job::Facts);
                progress::clear();
                let reply = reply?;
                if console {
                    util::err!("{}", clean_lines(&reply.console));
                }
                let facts: vm::job::GuestFacts = reply.parse()?;
                util::outln!("{}", json_text(&facts)?);
                reply.notes.iter().for_each(|note| progress::note(&note.message));
                progress::note(&format!("booted and replied in {:.1} s", begun.elapsed().as_secs_f64()));
            }
            // Printed above, without the cache.
            Action::Config { .. } => {}
            Action::Remove { releases, snapshots: true } => {
                let snapshots = Snapshots::open()?;
                if releases.is_empty() {
                    let (count, bytes) = snapshots.remove(None)?;
                    symbol_cache::remove_all()?;
                    util::outln!("removed {}", described(count, bytes));
                }
                for name in releases {
                    // A kernel that is not in the cache may have snapshots.
                    let release = Kernel::find(&name).map_or(name, |kernel| kernel.release);
                    let (count, bytes) = snapshots.remove(Some(&release))?;
                    util::outln!("removed {} of {release}", described(count, bytes));
                }
            }
            Action::Remove { releases, snapshots: false } => {
                for release in releases {
                    for release in store.remove(&release)? {
                        Snapshots::open()?.remove(Some(&release))?;
                        util::outln!("removed {release}");
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(entry: &CachedKernel) {
    util::outln!("{}", line(entry));
}

fn line(entry: &CachedKernel) -> String {
    let name = entry.name().map(|name| format!("  {name}")).unwrap_or_default();
    let processor = entry.processor.debian();
    format!("{:<34} {:<24} {processor:<5} {}{name}", entry.release, entry.version, entry.kernel().image.display())
}

/// `2 snapshots, 302 MiB`.
fn described(count: usize, bytes: u64) -> String {
    format!("{}, {} MiB", counted(count as u64, "snapshot"), bytes >> 20)
}
