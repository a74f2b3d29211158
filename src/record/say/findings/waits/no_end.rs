//! Programs that write at the end of their input only, behind others that do not end.

use crate::record::say::findings::view::FindingView;
use crate::record::say::programs::{Does, does};
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::counted;

/// Options by which `tail`, `journalctl`, `docker logs` and others go on for ever; `tail -5f`.
const FOLLOWS: [&str; 5] = ["-f", "-F", "--follow", "--retry", "-m"];

/// A reader waits for this part of the window at least.
const WAITS: f64 = 0.5;

/// `` `tail -n` has read 369 bytes and prints at the end of its input only, which does not come: `tail -f` goes on for ever. ``
pub(crate) fn no_end(view: &FindingView<'_>) -> Vec<Finding> {
    if !view.document.is_cut_off() {
        return Vec::new();
    }
    let found = view.readers().find_map(|(at, pipe, end)| {
        let is_it = |of: &&RecordedProcess| does(&of.name, Does::WritesAtEnd) && of.is_one() && !follows(of);
        let reader = view.process(end).filter(is_it)?;
        let waits = end.blocked_ns as f64 >= WAITS * view.window() && end.at_end == 0 && end.bytes > 0;
        let writer = pipe.writers.iter().find(|end| view.process(end).is_some_and(follows)).filter(|_| waits)?;
        if view.writers().any(|(_, _, other)| other.process == end.process && other.bytes > 0) {
            return None;
        }
        let (name, writer_name) = (view.name(end.process), view.name(writer.process));
        let tail = if reader.name == "tail" { " `tail -n 5 -f FILE` has both in one program." } else { "" };
        let text = format!(
            "{name} has read {} and prints at the end of its input only, which does not come: {writer_name} goes on for ever. It has to end \
             (`timeout`, `head`), or something that prints as it goes has to stand there.{tail}",
            counted(end.bytes, "byte")
        );
        let finding = Finding::new(FindingKind::Held, [end.process, writer.process], text);
        Some(Finding { channels: vec![at], bytes: Some(end.bytes), ..finding })
    });
    found.into_iter().collect()
}

fn follows(process: &RecordedProcess) -> bool {
    let option = |word: &String| {
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let digits = short.is_some_and(|rest| {
            let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
            process.name == "tail" && ["f", "F"].contains(&rest)
        });
        FOLLOWS.iter().any(|known| word == known || word.starts_with(&format!("{known}="))) || digits
    };
    process.args.iter().skip(1).any(option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::Document;

    #[test]
    fn who_prints_at_an_end_that_does_not_come_is_said() {
        let waits = |change: &dyn Fn(&mut Document)| {
            said(no_end, &|recording| {
                recording.duration_ns = Some(WINDOW);
                for (at, line) in [(0, "tail -f a.log"), (1, "tail -n 5")] {
                    recording.recorded[at].name = "tail".to_owned();
                    recording.recorded[at].args = line.split(' ').map(str::to_owned).collect();
                }
                recording.channels[1].writers.clear();
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.blocked_ns, end.at_end) = (369, WINDOW, 0);
                change(recording);
            })
        };
        let text = "`tail (2)` has read 369 bytes and prints at the end of its input only, which does not come: `tail (1)` goes on for ever. It \
                    has to end (`timeout`, `head`), or something that prints as it goes has to stand there. `tail -n 5 -f FILE` has both in \
                    one program.";
        assert_eq!(waits(&|_| {}), [text]);
        silent(
            &waits,
            &[
                &|recording| recording.recorded[0].args[1] = "-n".to_owned(),
                &|recording| recording.recorded[1].args[1] = "-f".to_owned(),
                &|recording| recording.recorded[1].name = "cat".to_owned(),
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.duration_ns = None,
            ],
        );
    }
}
