//! A child that node ended, because it wrote more than node takes.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind};
use crate::util::text::counted;

/// `` `node a.js` ended `sh` with SIGTERM at 1.28 s, after it had read 206,329 bytes of its output: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
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
