//! What a program that failed had said, behind the finding that it failed.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, ProcessWords, RecordedProcess};
use crate::util::text::clean;
use std::iter;

/// What those findings are about has failed.
const FAILED: [FindingKind; 3] = [FindingKind::ExitCode, FindingKind::HiddenFailure, FindingKind::Tolerated];

/// How lines begin that say nothing of the reason: advice, where it happened, what runs it.
const OF_NO_USE: [&str; 9] =
    ["Try ", "try ", "Usage", "usage", "note:", "Node.js v", "exit status", "goroutine ", "Traceback"];

/// What lines end with that say only that it ends.
const ONLY_ENDS: [&str; 2] = ["exiting now", "Exiting"];

/// What lines have that say why.
const WHY: [&str; 16] = [
    "rror",
    "xception",
    "panic",
    "annot",
    "can't",
    "not ",
    "denied",
    "o such",
    "nvalid",
    "fatal",
    "ailed",
    "efused",
    "nknown",
    "llegal",
    "issing",
    "nexpected",
];

/// A program ends so soon after the child that it failed for, ns.
const SOON: u64 = 100_000_000;

/// How questions end.
const ASKS: [char; 5] = ['?', ':', ']', ')', '>'];

/// `` ... `ls` wrote to its standard error: `ls: cannot access 'x': No such file or directory`. ``
pub(crate) fn with_words(view: &FindingView<'_>, mut finding: Finding) -> Finding {
    let of = finding.processes.first().copied();
    let Some((at, process)) = of.and_then(|at| Some((at, view.document.recorded.get(at)?))) else { return finding };
    let failed = FAILED.contains(&finding.kind) && process.exit_code.is_some() && process.signal.is_none();
    let more = match finding.kind {
        FindingKind::Crashed => wrote(view, at),
        _ if failed => Some([wrote(view, at), of_child(view, at, process)].into_iter().flatten().collect::<String>()),
        FindingKind::Held => {
            process.words.as_ref().and_then(question).map(|text| format!(" It asked: `{}`.", clean(text)))
        }
        _ => None,
    };
    finding.text.push_str(&more.unwrap_or_default());
    finding
}

/// What a process wrote to its standard error, as a sentence behind others; none if that says nothing.
pub(crate) fn wrote(view: &FindingView<'_>, at: usize) -> Option<String> {
    let message = message(view.document.recorded.get(at)?.words.as_ref()?)?;
    Some(format!(" {} wrote to its standard error: `{}`.", view.name(at), clean(message)))
}

/// What a child wrote that failed before, as `gzip` of `tar`. Of a shell, the finding names it.
fn of_child(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let failed = |(child, of): &(usize, &RecordedProcess)| {
        let before = of.end_ns <= process.end_ns && process.end_ns < of.end_ns + SOON;
        of.exit_code.is_some() && of.execs > 0 && before && view.with_starters(*child).skip(1).any(|above| above == at)
    };
    let mut children = view.document.recorded.iter().enumerate().filter(|_| !process.is_shell()).filter(failed);
    children.find_map(|(child, _)| wrote(view, child))
}

/// What it asked, and nobody has ended the line.
fn question(words: &ProcessWords) -> Option<&str> {
    let last = words.last.trim();
    (words.unfinished && last.ends_with(ASKS)).then_some(last)
}

/// The line that says why a program failed, of those that are known.
fn message(words: &ProcessWords) -> Option<&str> {
    let lines = || iter::once(words.last.as_str()).chain(words.begin.lines());
    let of_use = |line: &&str| {
        let only_ends = ONLY_ENDS.iter().any(|end| line.trim_end_matches('.').ends_with(end));
        !line.starts_with(char::is_whitespace) && !only_ends && !OF_NO_USE.iter().any(|begin| line.starts_with(begin))
    };
    let says_why = |line: &&str| of_use(line) && WHY.iter().any(|word| line.contains(word));
    lines().find(says_why).or_else(|| lines().find(of_use)).map(|line| line.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_line_without_an_end() {
        let of = |last: &str, unfinished: bool| {
            let words = ProcessWords { begin: String::new(), last: last.to_owned(), unfinished };
            question(&words).map(str::to_owned)
        };
        assert_eq!(of("Overwrite? [y/N] ", true).as_deref(), Some("Overwrite? [y/N]"));
        assert_eq!(of("Overwrite? [y/N] ", false), None);
        assert_eq!(of(" 45 % done", true), None);
    }

    #[test]
    fn the_line_that_says_why_is_chosen() {
        let of = |first: &str, last: &str| {
            let words = ProcessWords { begin: first.to_owned(), last: last.to_owned(), unfinished: false };
            message(&words).map(str::to_owned)
        };
        assert_eq!(
            of("ls: invalid option -- 'y'", "Try 'ls --help' for more information.").as_deref(),
            Some("ls: invalid option -- 'y'")
        );
        assert_eq!(of("Traceback (most recent call last):", "ValueError: x").as_deref(), Some("ValueError: x"));
        let node = "node:internal/modules:1210\n  throw err;\n\nError: Cannot find module 'x'\n    at";
        assert_eq!(of(node, "Node.js v20").as_deref(), Some("Error: Cannot find module 'x'"));
        assert_eq!(of("reading", "wrote 3 of 5").as_deref(), Some("wrote 3 of 5"));
        assert_eq!(of("Traceback (most recent call last):", "    raise").as_deref(), None);
    }
}
