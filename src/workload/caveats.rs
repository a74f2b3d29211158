//! Warnings about a workload's results.

use super::Spec;
use super::spec::{Pin, Writer};
use crate::process::{ProcessTotals, Processes};
use crate::util::size;
use crate::util::warning::{Warning, WarningCode};

/// Capacity that the kernel gives a new pipe: 16 slots of a page.
const DEFAULT_PIPE: u64 = 64 << 10;

/// Warnings for differences between what `spec` requested and what happened in any of `pairs`, each kind once.
pub fn caveats_of_all<'a>(spec: &Spec, pairs: impl IntoIterator<Item = &'a Processes>) -> Vec<Warning> {
    let mut all: Vec<Warning> = Vec::new();
    for warning in pairs.into_iter().flat_map(|pair| caveats(spec, pair)) {
        // One CPU for both may be what was requested.
        let asked = warning.code == WarningCode::OneCpu && matches!(spec.pin, Pin::Cpus { .. });
        if !asked && all.iter().all(|other| other.code != warning.code) {
            all.push(warning);
        }
    }
    all
}

/// Warnings for differences between what `spec` requested and what happened in `processes`.
pub fn caveats(spec: &Spec, processes: &Processes) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: WarningCode, message: String, action: &str| {
        warnings.push(Warning { code, message, action: action.into() });
    };
    for (name, process) in processes.totals.iter() {
        if let Some(pages) = process.huge_pages.filter(|pages| pages.got < pages.asked) {
            warn(
                WarningCode::HugePagesMissing,
                format!("the {name} got {} of {} in huge pages", size::format(pages.got), size::format(pages.asked)),
                "set /sys/kernel/mm/transparent_hugepage/enabled to madvise or always, or free memory",
            );
        }
        for note in &process.notes {
            warn(WarningCode::WorkloadChanged, format!("{name}: {note}"), "");
        }
    }
    pipe(spec, processes.writer(), &mut warn);
    if let Some(first) = processes.reader().verify_errors.first() {
        warn(
            WarningCode::VerifyFailed,
            format!("--verify: {first}{}", if processes.reader().verify_errors.len() > 1 { ", and more" } else { "" }),
            "the reader received other bytes than the writer sent: discard this run's results",
        );
    }
    if let (Some(writer), Some(reader)) = (processes.writer().cpu, processes.reader().cpu)
        && writer == reader
        && processes.pipes.is_empty()
    {
        if spec.busy_loop {
            warn(
                WarningCode::Spinning,
                format!(
                    "a process in a busy loop spins on CPU {writer} until the other gets it, and this is measured too"
                ),
                "use two CPUs (in a guest --cpus 2), or a mode that sleeps",
            );
        }
        warn(
            WarningCode::OneCpu,
            format!("writer and reader shared CPU {writer}, so they never ran at the same time"),
            "use a machine (or a guest, --cpus 2) with two CPUs, or choose two with --pin",
        );
    }
    warnings
}

fn pipe(spec: &Spec, writer: &ProcessTotals, warn: &mut impl FnMut(WarningCode, String, &str)) {
    let wanted = match (spec.pipe_target(), spec.writer) {
        (Some(size), _) => size,
        (None, Writer::Vmsplice) => return,
        (None, _) => DEFAULT_PIPE,
    };
    if writer.pipe_size != 0 && writer.pipe_size < wanted {
        warn(
            WarningCode::PipeSmall,
            format!("the pipe held {} instead of {}", size::format(writer.pipe_size), size::format(wanted)),
            "this user's pipes exceed /proc/sys/fs/pipe-user-pages-soft: close some, or raise the limit as root",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::GotAsked;
    use crate::profile::ProcessName;

    #[test]
    fn what_was_not_got_is_said() {
        let mut processes = Processes::default();
        processes.of_mut(ProcessName::WRITER).pipe_size = 8192;
        processes.of_mut(ProcessName::WRITER).huge_pages = Some(GotAsked { got: 0, asked: 2 << 20 });
        processes.of_mut(ProcessName::READER).verify_errors = vec!["byte 7 of the stream: torn page".into()];
        for name in [ProcessName::WRITER, ProcessName::READER] {
            processes.of_mut(name).cpu = Some(0);
        }
        use WarningCode::{HugePagesMissing, OneCpu, PipeSmall, VerifyFailed};
        let codes: Vec<WarningCode> = caveats(&Spec::default(), &processes).into_iter().map(|w| w.code).collect();
        assert_eq!(codes, [HugePagesMissing, PipeSmall, VerifyFailed, OneCpu]);
        let busy = Spec { busy_loop: true, ..Spec::default() };
        assert!(caveats(&busy, &processes).iter().any(|warning| warning.code == WarningCode::Spinning));
        processes = Processes::default();
        processes.of_mut(ProcessName::WRITER).pipe_size = DEFAULT_PIPE;
        assert_eq!(caveats(&Spec::default(), &processes), []);
    }
}
