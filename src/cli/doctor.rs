//! `pipeprof doctor`: what this machine supports, the impact of what is missing, and how to fix it.

use super::global;
use crate::arch::Processor;
use crate::cli::guest_args::{GuestArgs, one_cpu};
use crate::kernel::environment::Environment;
use crate::kernel::features::{self, Feature, FeatureState, Rights};
use crate::kernel::info::KernelInfo;
use crate::record;
use crate::report::terminal::{Style, hanging, paragraph};
use crate::result::{DEFAULT_SLOTS, UserPipes};
use crate::util::text::{counted, grouped};
use crate::util::{cancel, progress};
use crate::vm::kvm::NoKvm;
use crate::vm::store::KernelCache;
use crate::vm::{self, Accel, GuestOptions, Job, qemu};
use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};

/// Show what this machine supports, the impact of what is missing, and how to fix it
///
/// Each feature is tried and released again. A missing feature is not an error: the exit code is 0.
#[derive(Debug, Args)]
#[command(mut_arg("cpus", one_cpu))]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Skip QEMU and KVM
    #[arg(long)]
    no_qemu: bool,
    #[command(flatten)]
    guest: GuestArgs,
}

/// What `--json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DoctorReport {
    schema: String,
    /// `uname -r`.
    release: String,
    machine: String,
    features: Vec<Feature>,
}

impl DoctorArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let report = match self.guest.options()? {
            Some(options) => {
                let command = ["doctor", "--json", "--no-qemu"].map(str::to_owned).to_vec();
                let mut report: DoctorReport = vm::run_job(&options, &Job::Command(command))?.parse()?;
                // The guest has no file with its configuration; the host may have one next to the image.
                if let Some(config) = &options.kernel.config {
                    let found = Feature::ok("config", "kernel configuration", config.display().to_string());
                    report
                        .features
                        .iter_mut()
                        .filter(|feature| feature.id == "config")
                        .for_each(|f| *f = found.clone());
                }
                report
            }
            None => DoctorReport::here(!self.no_qemu),
        };
        global::print(self.json, &report, || report.text(Style::of_stdout()))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl DoctorReport {
    fn here(with_qemu: bool) -> Self {
        let environment = Environment::now();
        let cpu = environment.cpu_model.as_deref().unwrap_or("unknown CPU");
        let under = environment.hypervisor.map_or_else(String::new, |name| format!(", under {name}"));
        progress::step("trying the collectors");
        let mut features = features::detect();
        progress::step("trying to record a pipeline");
        features.push(recording());
        features.push(pipe_pages(record::own_pipes(), Rights::own().has_no_limit_of_pipes()));
        if with_qemu {
            features.extend(emulator());
        }
        progress::clear();
        Self {
            schema: "pipeprof.doctor/1".to_owned(),
            release: KernelInfo::running().release,
            machine: format!("{cpu}, {}{under}", counted(u64::from(environment.cpus), "CPU")),
            features,
        }
    }

    fn text(&self, style: Style) -> String {
        let mut text = format!("Linux {} on {}\n\n", self.release, self.machine);
        let title = self.features.iter().map(|feature| feature.title.len()).max().unwrap_or(0);
        for feature in &self.features {
            let state = match feature.state {
                FeatureState::Ok => "ok",
                FeatureState::Limited => "limited",
                FeatureState::Missing => "missing",
            };
            text.push_str(&hanging(&format!("{state:<8} {:<title$}  ", feature.title), &feature.found, style));
            if feature.state != FeatureState::Ok {
                text.push_str(&paragraph("    impact: ", &feature.impact, style));
                text.push_str(&paragraph("       fix: ", &feature.fix, style));
            }
        }
        let count = |state| self.features.iter().filter(|feature| feature.state == state).count();
        let (ok, limited, missing) =
            (count(FeatureState::Ok), count(FeatureState::Limited), count(FeatureState::Missing));
        let _ = writeln!(text, "\n{ok} ok, {limited} limited, {missing} missing");
        text
    }
}

/// Whether `pipeprof record` works here.
fn recording() -> Feature {
    let feature = |found: &str| Feature::ok("record", "recording of pipelines", found);
    let options = "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_SYSCALL";
    let kernel = || Rights::kernel_with(Rights::own().may_trace(), options);
    let fix = Rights::own().refused().map_or_else(kernel, str::to_owned);
    match record::try_recorder() {
        Ok(()) => feature("its BPF programs can be attached"),
        Err(error) => {
            let impact = match record::try_thread_events() {
                Ok(()) => {
                    "pipeprof record uses perf's events of threads and looks into /proc: calls and bytes are not seen"
                        .to_owned()
                }
                Err(why) => format!(
                    "pipeprof record only looks into /proc: shares have a margin, and calls and bytes are not seen ({why})"
                ),
            };
            feature(&format!("{error:#}")).limited(FeatureState::Missing, &impact, fix)
        }
    }
}

/// How much of the pages of pipes this user has used.
fn pipe_pages(own: Option<(UserPipes, bool)>, is_free: bool) -> Feature {
    let feature = |found: String| Feature::ok("pipe-pages", "pages of pipes", found);
    let Some((UserPipes { uid, pipes, soft_pages, .. }, used_up)) = own else {
        return feature("no limit (fs.pipe-user-pages-soft)".to_owned());
    };
    let used = format!(
        "about {} of {} used by {} of user {uid} (fs.pipe-user-pages-soft)",
        grouped(pipes * DEFAULT_SLOTS),
        grouped(soft_pages),
        counted(pipes, "pipe")
    );
    if is_free {
        return feature(format!("{used}; this process has no limit"));
    }
    if !used_up {
        return feature(used);
    }
    feature(used).limited(
        FeatureState::Limited,
        "new pipes of this user hold 8 KiB instead of 64 KiB, or less: more sleeps for the same data",
        format!(
            "close pipes that are not used, or sudo sysctl fs.pipe-user-pages-soft={}",
            soft_pages.saturating_mul(4)
        ),
    )
}

/// QEMU, its features, and whether KVM boots a kernel.
fn emulator() -> Vec<Feature> {
    let version = match qemu::version(Processor::HERE) {
        Ok(version) => version,
        Err(error) => {
            let missing = Feature::ok("qemu", "QEMU", format!("{error:#}")).limited(
                FeatureState::Missing,
                "guests are not available: no --kernel, no exact instruction counts, no comparison of kernels",
                "sudo apt install qemu-system-x86",
            );
            return vec![missing];
        }
    };
    vec![Feature::ok("qemu", "QEMU", version), plugins(), turns(), kernels(), kvm(), arm64()]
}

/// Whether QEMU loads what makes its guests the same each time.
fn turns() -> Feature {
    let feature = |found: &str| Feature::ok("qemu-turns", "QEMU threads", found);
    if vm::turns::can_be_loaded(Processor::HERE) {
        return feature("take turns (guests are the same each time, also on a busy machine)");
    }
    feature("they do not take turns").limited(
        FeatureState::Limited,
        "guests may differ from their repeats while the machine is busy; each such result says so",
        vm::guest::FIX_OF_TURNS,
    )
}

fn plugins() -> Feature {
    let feature = |found: &str| Feature::ok("qemu-plugins", "QEMU plugins", found);
    let help = Command::new(qemu::program(Processor::HERE)).arg("--help").stdin(Stdio::null()).output();
    let listed = help.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("\n-plugin "));
    if listed {
        return feature("supported (exact instruction counts work)");
    }
    feature("this QEMU was built without --enable-plugins").limited(
        FeatureState::Missing,
        "exact instruction counts (--collect insn) are not available",
        "sudo apt install qemu-system-x86 (Debian builds it with plugins), or name another QEMU in PIPEPROF_QEMU",
    )
}

fn cached() -> Vec<vm::store::CachedKernel> {
    KernelCache::open().and_then(|store| store.list()).unwrap_or_default()
}

fn kernels() -> Feature {
    let releases: Vec<_> = cached().into_iter().map(|entry| entry.release).collect();
    if !releases.is_empty() {
        return Feature::ok("guest-kernels", "kernels for guests", releases.join(", "));
    }
    Feature::ok("guest-kernels", "kernels for guests", "the cache is empty").limited(
        FeatureState::Limited,
        "--kernel accepts paths only, not names such as 6.12",
        "pipeprof kernel fetch 5.10 6.1 6.12 7.2",
    )
}

/// Whether guests may have kernels of arm64.
fn arm64() -> Feature {
    let processor = Processor::Aarch64;
    let feature = |found: String| Feature::ok("guests-arm64", "guests of arm64", found);
    let limited = |found: String, fix: String| {
        let impact = "kernels of arm64 (--kernel 6.12:arm64) cannot be booted";
        feature(found).limited(FeatureState::Limited, impact, fix)
    };
    let init = vm::hardware::binary_for(processor);
    match qemu::version(processor) {
        Err(error) => {
            let package = vm::hardware::Hardware::of(processor).package;
            limited(format!("{error:#}"), format!("sudo apt install {package}"))
        }
        Ok(_) if !init.exists() => limited(
            format!("{} does not exist", init.display()),
            "make build-arm64, or set PIPEPROF_AARCH64 to the path of pipeprof built for arm64".to_owned(),
        ),
        Ok(version) => feature(version),
    }
}

fn kvm() -> Feature {
    let feature = |found: String| Feature::ok("kvm", "KVM", found);
    let impact =
        "guests are emulated: slower, and without throughput; exact instruction and call counts do not need KVM";
    let limited = |found: String, fix: &str| feature(found).limited(FeatureState::Limited, impact, fix);
    let version = qemu::version(Processor::HERE).unwrap_or_default();
    if let Err(reason) = vm::kvm::usable(&version) {
        let fix = if matches!(reason, NoKvm::NotPermitted) {
            "sudo adduser $USER kvm, then log in again"
        } else {
            "enable virtualisation in the firmware; in a virtual machine, enable nested KVM on its host"
        };
        return limited(reason.to_string(), fix);
    }
    let Some(entry) = cached().into_iter().find(|entry| entry.processor == Processor::HERE) else {
        return limited(
            "/dev/kvm exists but was not tried: no kernel to boot is cached".to_owned(),
            "pipeprof kernel fetch 6.12, then pipeprof doctor",
        );
    };
    let limit = vm::kvm::LIMIT;
    progress::step(&format!("trying KVM: booting {} for at most {} s", entry.release, limit.as_secs()));
    let options = GuestOptions {
        // Not Auto: a boot in emulation would take longer, and says nothing about KVM.
        accel: Accel::Kvm,
        // If KVM does not work, nothing else is to be made.
        snapshot: false,
        boot_limit: limit,
        time_limit: limit,
        ..GuestOptions::of(entry.kernel())
    };
    match vm::run_job(&options, &Job::Echo("doctor".to_owned())) {
        Ok(reply) => feature(format!("boots {}", reply.release)),
        Err(error) => {
            let first = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            limited(first, "in a virtual machine, enable nested KVM on its host")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_pipes_are_limited_once_they_are_used_up() {
        let user = |pipes| UserPipes { uid: 1000, pipes, soft_pages: 16_384, ..UserPipes::default() };
        let pages = |own| pipe_pages(own, false);
        let few = pages(Some((user(3), false)));
        assert_eq!(few.found, "about 48 of 16,384 used by 3 pipes of user 1000 (fs.pipe-user-pages-soft)");
        assert_eq!((few.state, pages(None).state), (FeatureState::Ok, FeatureState::Ok));
        let all = pages(Some((user(1100), true)));
        assert!(all.state == FeatureState::Limited && all.fix.ends_with("fs.pipe-user-pages-soft=65536"), "{all:?}");
    }

    #[test]
    fn a_missing_feature_is_printed_with_impact_and_fix() {
        let report = DoctorReport {
            schema: "pipeprof.doctor/1".to_owned(),
            release: "6.1".to_owned(),
            machine: "x".to_owned(),
            features: vec![
                Feature::ok("btf", "BTF", "there"),
                Feature::ok("pmu", "PMU", "none").limited(FeatureState::Missing, "no cycles", "buy one"),
            ],
        };
        let text = report.text(Style::PLAIN);
        assert!(
            text.contains("ok       BTF  there\nmissing  PMU  none\n    impact: no cycles\n       fix: buy one\n"),
            "{text}"
        );
        assert!(text.ends_with("1 ok, 0 limited, 1 missing\n"));
    }
}
