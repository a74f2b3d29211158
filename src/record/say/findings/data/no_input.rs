//! Programs that `xargs` started, and which read their standard input.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind};

/// What gives what it starts /dev/null as its input.
const XARGS: &str = "xargs";

/// `` `python3 ydiff` read the end of its standard input at once and wrote nothing: `xargs` gives it /dev/null there. ... ``
pub(crate) fn no_input(view: &FindingView<'_>) -> Vec<Finding> {
    let all = &view.document.recorded;
    let found = all.iter().enumerate().filter_map(|(at, process)| {
        let by = process.started_by.filter(|by| all.get(*by).is_some_and(|of| of.name == XARGS))?;
        // Its last end was that of descriptor 0.
        let read_it = process.ended == Some(0) && process.input.is_none() && process.execs > 0;
        if !read_it || process.effects > 0 || process.exit_code.is_some() || process.signal.is_some() || process.is_shell() {
            return None;
        }
        let text = format!(
            "{name} read the end of its standard input and wrote nothing: {} gives what it starts /dev/null there, and its own input as \
             arguments. What is to read the input of {} needs a file in its place (`xargs -a FILE`), or no `xargs`.",
            view.name(by),
            view.name(by),
            name = view.name(at)
        );
        Some(Finding::new(FindingKind::Taken, [at, by], text))
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
    use crate::result::Document;

    #[test]
    fn who_reads_nothing_below_xargs_is_said() {
        let reads = |change: &dyn Fn(&mut Document)| {
            said(no_input, &|recording| {
                recording.recorded[1].name = "xargs".to_owned();
                let process = &mut recording.recorded[2];
                (process.started_by, process.ended, process.ends, process.execs) = (Some(1), Some(0), 1, 1);
                (process.effects, process.input) = (0, None);
                change(recording);
            })
        };
        let text = "`cat` read the end of its standard input and wrote nothing: `xargs` gives what it starts /dev/null there, and its own input as \
                    arguments. What is to read the input of `xargs` needs a file in its place (`xargs -a FILE`), or no `xargs`.";
        assert_eq!(reads(&|_| {}), [text]);
        silent(
            &reads,
            &[
                &|recording| recording.recorded[1].name = "bash".to_owned(),
                &|recording| recording.recorded[2].ended = Some(3),
                &|recording| recording.recorded[2].effects = 1,
                &|recording| recording.recorded[2].exit_code = Some(1),
            ],
        );
    }
}
