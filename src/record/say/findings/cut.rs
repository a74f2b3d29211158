//! Output that is cut: of `tee`, because the pipe behind it was closed, and of a child that node ended.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::start::command_line::operands;
use crate::result::{Finding, FindingKind};
use crate::util::text::{clean, counted};

/// `` `tee` was ended by SIGPIPE at 12.0 ms, because `head` did not read on: `all.txt` has only what was written until
/// then. `tee -p` writes on. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let mut found = Vec::new();
    for (at, process) in document.recorded.iter().enumerate() {
        if process.name != "tee" || process.signal != Some(libc::SIGPIPE.cast_unsigned()) {
            continue;
        }
        // It writes to all in turn, so the one that broke has least; standard output is its first.
        let ends = || view.writers().filter(|(_, _, end)| end.process == at);
        let broken = ends().min_by_key(|(channel, _, end)| (end.bytes, process.output != Some(*channel)));
        let Some((channel, pipe, _)) = broken else { continue };
        let readers = view.names(&pipe.readers);
        let why = match readers.is_empty() {
            true if process.output != Some(channel) => "the program in `>(...)` did not read on".to_owned(),
            true => "nobody read on".to_owned(),
            false => format!("{readers} did not read on"),
        };
        let is_file = |word: &&String| !word.starts_with('-') && !word.starts_with("/dev/fd/");
        let files = operands(&process.args).iter().filter(is_file).map(|word| format!("`{}`", clean(word)));
        let others = ends().filter(|(other, pipe, _)| *other != channel && !pipe.readers.is_empty());
        let cut: Vec<String> = files.chain(others.map(|(_, pipe, _)| view.names(&pipe.readers))).collect();
        if cut.is_empty() {
            continue;
        }
        let have = if cut.len() == 1 { "has" } else { "have" };
        let text = format!(
            "{} was ended by SIGPIPE at {}, because {why}: {} {have} only what was written until then. `tee -p` writes on.",
            view.name(at),
            after(process.end_ns),
            few(cut)
        );
        let finding = Finding::new(FindingKind::Cut, [at], text);
        found.push(Finding { channels: vec![channel], at_ns: Some(process.end_ns), ..finding });
    }
    found.extend(by_node(view));
    found
}

/// A child that node ended, because it wrote more than node takes: `` `node a.js` ended `sh` with SIGTERM at 1.28 s, after
/// 206,329 bytes of its output: ... ``
fn by_node(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, process) in view.document.recorded.iter().enumerate() {
        let sent = process.ended_by.filter(|by| *by != at && process.signal == Some(libc::SIGTERM.cast_unsigned()));
        let Some(by) = sent.filter(|by| view.document.recorded[*by].name == "node") else { continue };
        let read = process
            .output
            .and_then(|output| view.document.channels.get(output)?.readers.iter().find(|end| end.process == by));
        let Some(read) = read.filter(|end| end.bytes > 0) else { continue };
        let text = format!(
            "{} ended {} with SIGTERM at {}, after {} of its output: the rest is lost. `exec` and its like do so if there is more than \
             `maxBuffer` (1 MiB unless it is set), or after `timeout`; `spawn` reads without a limit.",
            view.name(by),
            view.name(at),
            after(process.end_ns),
            counted(read.bytes, "byte")
        );
        let finding = Finding::new(FindingKind::Cut, [at, by], text);
        found.push(Finding { bytes: Some(read.bytes), at_ns: Some(process.end_ns), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn tee(recording: &mut Document, line: &str, signal: i32) {
        let process = &mut recording.recorded[1];
        process.name = "tee".to_owned();
        process.args = line.split_whitespace().map(str::to_owned).collect();
        (process.signal, process.end_ns) = (Some(signal.cast_unsigned()), 12_000_000);
    }

    #[test]
    fn a_file_that_is_cut_is_said() {
        let text = "`tee` was ended by SIGPIPE at 12.0 ms, because `cat` did not read on: `all.txt` has only what was written \
                    until then. `tee -p` writes on.";
        assert_eq!(said(find, &|recording| tee(recording, "tee all.txt", libc::SIGPIPE)), [text]);
        assert!(said(find, &|recording| tee(recording, "tee", libc::SIGPIPE)).is_empty(), "no file");
        let other = said(find, &|recording| {
            tee(recording, "tee /dev/fd/63", libc::SIGPIPE);
            recording.recorded[1].output = Some(1);
            let mut fork = recording.channels[1].clone();
            (fork.inode, fork.writers[0].bytes) = (77, 0);
            fork.readers.clear();
            recording.channels.push(fork);
        });
        let text = "`tee` was ended by SIGPIPE at 12.0 ms, because the program in `>(...)` did not read on: `cat` has only what was \
                    written until then. `tee -p` writes on.";
        assert_eq!(other, [text]);
        assert!(said(find, &|recording| tee(recording, "tee all.txt", libc::SIGTERM)).is_empty());
    }

    #[test]
    fn a_child_that_wrote_too_much_for_node_is_said() {
        let ended = |name: &str, bytes: u64| {
            said(find, &|recording| {
                name.clone_into(&mut recording.recorded[1].name);
                let child = &mut recording.recorded[0];
                (child.signal, child.ended_by, child.output) = (Some(libc::SIGTERM.cast_unsigned()), Some(1), Some(0));
                child.end_ns = 1_280_000_000;
                recording.channels[0].readers[0].bytes = bytes;
            })
        };
        let text = "`node` ended `seq` with SIGTERM at 1.28 s, after 206,329 bytes of its output: the rest is lost.";
        assert!(ended("node", 206_329)[0].starts_with(text));
        assert!(ended("timeout", 206_329).is_empty() && ended("node", 0).is_empty());
    }
}
