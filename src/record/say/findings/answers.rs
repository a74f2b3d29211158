//! Exit codes that are no failures.

use crate::result::RecordedProcess;

/// Programs whose exit code 1 is an answer, as grep(1) and diff(1) have it, or `sort -c` and `exit 1` of awk.
const ANSWERS: [&str; 15] = [
    "grep", "egrep", "fgrep", "zgrep", "rg", "diff", "cmp", "pgrep", "jq", "sort", "awk", "mawk", "gawk", "git", "expr",
];

/// Programs whose exit code 1 is never an answer.
const FAIL_WITH_1: [&str; 12] =
    ["find", "cat", "head", "tail", "cut", "tac", "du", "stat", "zcat", "gzip", "tar", "base64"];

/// Whether this exit code is what a program answers.
pub(super) fn is_answer(process: &RecordedProcess, code: u8) -> bool {
    code == 1 && process.exit_code == Some(code) && ANSWERS.contains(&process.name.as_str())
}

/// Whether this exit code is a failure of the program, whatever it was asked.
pub(super) fn fails(process: &RecordedProcess, code: u8) -> bool {
    code > 1 || code == 1 && FAIL_WITH_1.contains(&process.name.as_str())
}
