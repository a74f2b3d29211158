//! Files that a program only copies into a pipe.

use super::{Advice, AdviceEvidence, MUCH};
use crate::record::start::command_line::operands;
use crate::report::number::percent;
use crate::result::RecordedProcess;
use crate::util::text::clean;

/// What copies its files to its output, without an option.
const COPIES: &str = "cat";

/// `` `cat` only copies `dump.sql` into a pipe, 44 % of the time: ... ``
pub(super) fn copied(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let rule = |(process, label, share): (&RecordedProcess, &str, f64)| {
        let [file] = operands(&process.args) else { return None };
        let channel = process.output.and_then(|at| evidence.recording.channels.get(at))?;
        let is_plain = process.program() == COPIES && !file.starts_with('-') && channel.kind.is_pipe();
        let why = format!(
            "`{label}` only copies `{file}` into a pipe, {} of the time: `< {file}` behind the next program has that read the file itself.",
            percent(share),
            file = clean(file)
        );
        (is_plain && share >= MUCH && channel.readers.len() == 1).then(|| Advice::new(why, None))
    };
    evidence.working().filter_map(rule).collect()
}
