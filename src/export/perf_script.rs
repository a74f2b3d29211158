//! `perf-script`: the text that `perf script` prints, which many programs read.

use super::samples::{SampledFrame, Samples};
use super::{ExportFormat, KERNEL_MODULE};
use std::fmt::Write as _;

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "perf-script",
    about: "Text as perf script prints it, for inferno-collapse-perf and stackcollapse-perf.pl",
    files: |exported| Ok(vec![("perf-script.txt".to_owned(), text(&exported.samples()?).into_bytes())]),
    is_folder: false,
};

/// perf's name for code in an unknown file, and for an unknown function.
const UNKNOWN: &str = "[unknown]";

/// One event per sample and kind of value, whose period is the weight. Readers take the first kind of event.
fn text(samples: &Samples) -> String {
    let mut text = String::new();
    let heading = [("captured on", &samples.started), ("os release", &samples.release), ("cmdline", &samples.title)];
    for (what, value) in heading {
        let _ = writeln!(text, "# {what} : {value}");
    }
    let mut microseconds = 0u64;
    for (index, kind) in samples.values.iter().enumerate() {
        for (process, of) in samples.processes.iter().enumerate() {
            for (sample, weight) in samples.of(process, index) {
                microseconds += 1;
                let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
                let (name, pid) = (command(&of.name), of.pid);
                let _ = writeln!(text, "{name} {pid} [000] {seconds}.{rest:06}: {weight:>10} {}: ", kind.name);
                for (depth, (_, frame)) in samples.frames_of(sample).rev().enumerate() {
                    // Those of callers are return addresses in perf's text, which follow the call.
                    let after = u64::from(depth > 0 && frame.is_instruction);
                    let address = frame.address.map_or(0, |address| address.wrapping_add(after));
                    // Where in its function an instruction is, is not known.
                    let offset = if frame.is_instruction { "" } else { "+0x0" };
                    let _ = writeln!(text, "\t{address:16x} {}{offset} ({})", function(frame), module(frame));
                }
                text.push('\n');
            }
        }
    }
    text
}

/// A process's name. Readers look for the first number on the line, which is the process id.
fn command(name: &str) -> String {
    let mark = if name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/') { "_" } else { "" };
    format!("{mark}{name}")
}

/// Readers skip names that begin with a parenthesis.
fn function(frame: &SampledFrame) -> String {
    let mark = if frame.name.is_empty() || frame.name.starts_with('(') { "_" } else { "" };
    format!("{mark}{}", frame.name)
}

fn module(frame: &SampledFrame) -> &str {
    // Readers name an unknown function after its file, and take the last word, between parentheses, for the file.
    let is_one_word = |module: &&str| !module.contains(|c: char| c.is_whitespace() || matches!(c, '(' | ')'));
    let known = frame.module.as_deref().filter(|_| frame.name != UNKNOWN).filter(is_one_word);
    known.unwrap_or(if frame.is_kernel && frame.name != UNKNOWN { KERNEL_MODULE } else { UNKNOWN })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gallery, odd};
    use super::*;
    use crate::Exported;
    use crate::profile::Folded;
    use crate::report::flamegraph::together;
    use crate::result::Outcome;
    use inferno::collapse::Collapse as _;
    use inferno::collapse::perf::{Folder, Options};

    /// The folded stacks that inferno makes of the events of one kind.
    fn collapsed(outcome: &Outcome, kind: Option<&str>) -> Folded {
        let text = text(&Exported::Result(outcome).samples().unwrap());
        let mut options = Options::default();
        options.event_filter = kind.map(str::to_owned);
        let mut folded = Vec::new();
        Folder::from(options).collapse(text.as_bytes(), &mut folded).unwrap();
        Folded::parse(&String::from_utf8(folded).unwrap()).unwrap()
    }

    fn stored(outcome: &Outcome, collector: &str) -> Folded {
        let profiles = outcome.profiles.iter().filter(|profile| profile.collector == collector);
        together(profiles.map(|profile| (profile.process.as_str(), &profile.stacks)))
    }

    #[test]
    fn inferno_gives_back_the_folded_stacks() {
        for (run, collector) in [("6.1-write", "sample"), ("7.2-write-exact", "insn")] {
            let outcome = gallery(run);
            assert_eq!(collapsed(&outcome, None), stored(&outcome, collector), "{run}");
        }
        let outcome = gallery("7.2-write-exact");
        assert_eq!(collapsed(&outcome, Some("estimated_cycles")), stored(&outcome, "cycles"));
    }

    #[test]
    fn odd_names_do_not_break_the_format() {
        let folded = collapsed(&odd(), None);
        assert_eq!((folded.len(), folded.total()), (2, 9));
        assert_eq!(command("123"), "_123");
        let frame = |name: &str| SampledFrame { name: name.to_owned(), ..SampledFrame::default() };
        assert_eq!(function(&frame("(deleted)")), "_(deleted)");
    }
}
