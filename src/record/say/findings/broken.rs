//! Writes after the reader had ended.

use crate::record::say::findings::exit::SOON;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::at_once;
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::{counted, grouped};

/// Fewer are how a program that ignores SIGPIPE finds out, unless its reader failed.
const MANY: u64 = 3;

/// Of so many, it does not matter how the program ended.
const SURELY: u64 = 100;

/// Of the calls.
const SHARE: f64 = 0.1;

/// `` `bash` went on after `head` had ended at 10.2 ms: 399,574 of 400,000 writes failed with EPIPE. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.writers() {
        let (lost, all) = (end.epipe, end.all_calls());
        let Some(process) = view.process(end).filter(|_| lost > 0) else { continue };
        let name = view.name(end.process);
        let ended = view.readers_ended(pipe, process.end_ns);
        let readers = view.names(&pipe.readers);
        let of_reader = |of: fn(&RecordedProcess) -> Option<u32>| {
            pipe.readers.iter().filter_map(|end| view.process(end)).find_map(of)
        };
        let killed = of_reader(|process| process.signal).and_then(|signal| at_once(Some(signal)));
        let failed = of_reader(|process| process.exit_code.map(u32::from));
        // Who ends soon, or with an error, has noticed it.
        let noticed = process.exit_code.is_some() || ended.is_some_and(|ended| process.end_ns < ended + SOON);
        let many = lost >= MANY && (lost as f64) >= SHARE * all as f64 && (lost >= SURELY || !noticed);
        let left = end.bytes.saturating_sub(pipe.readers.iter().map(|end| end.bytes).sum());
        if !many && !pipe.kind.is_pipe() && !pipe.readers.is_empty() && left > 0 {
            // Of a socket, the first one that the other side does not take succeeds.
            let text = format!(
                "{name} wrote {} to {} that nobody read, because the other side had closed it: only a later write fails (EPIPE). To \
                 look for the end of file before each write, or to wait for an answer, tells earlier.",
                counted(left, "byte"),
                view.pipe_to(pipe)
            );
            let finding = Finding::new(FindingKind::Broken, [end.process], text);
            found.push(Finding { channels: vec![at], bytes: Some(left), ..finding });
            continue;
        }
        if !many && (noticed || killed.is_none() && failed.is_none()) {
            continue;
        }
        let why = match ended {
            Some(ended) if !readers.is_empty() => {
                let how = match (killed, failed) {
                    (Some(signal), _) => format!("been killed by {signal}"),
                    (_, Some(code)) => format!("failed with exit code {code}"),
                    _ => "ended".to_owned(),
                };
                format!("after {readers} had {how} at {}", after(ended))
            }
            _ => format!("although nobody could read the {} any more", pipe.kind.noun()),
        };
        let text = format!(
            "{name} went on {why}: {} of {} writes failed with EPIPE, because it ignores SIGPIPE.",
            grouped(lost),
            grouped(all)
        );
        let finding = Finding::new(FindingKind::Broken, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(lost), of: Some(all), at_ns: ended, ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::{ChannelKind, Document};

    fn writes(recording: &mut Document, lost: u64, all: u64) {
        let end = &mut recording.channels[0].writers[0];
        (end.epipe, end.calls) = (lost, [("write".to_owned(), all)].into());
        recording.recorded[1].end_ns = 10_200_000;
    }

    #[test]
    fn most_writes_after_the_end_of_the_reader_are_said() {
        let text = "`seq` went on after `grep` had ended at 10.2 ms: 399,574 of 400,000 writes failed with EPIPE, because it \
                    ignores SIGPIPE.";
        assert_eq!(said(find, &|recording| writes(recording, 399_574, 400_000)), [text]);
        let closed = said(find, &|recording| {
            writes(recording, 500, 1000);
            recording.recorded[1].end_ns = u64::MAX;
        });
        assert!(
            closed[0].starts_with("`seq` went on although nobody could read the pipe any more: 500 of"),
            "{closed:?}"
        );
    }

    #[test]
    fn the_one_write_that_tells_a_program_is_not_said() {
        assert!(said(find, &|recording| writes(recording, 1, 2)).is_empty());
        assert!(said(find, &|recording| writes(recording, 100, 2000)).is_empty());
        let ended = said(find, &|recording| {
            writes(recording, 4, 8);
            recording.recorded[0].end_ns = 30_000_000;
        });
        assert!(ended.is_empty(), "{ended:?}");
    }

    #[test]
    fn a_few_writes_after_the_reader_had_failed_are_said() {
        let failed = |change: &dyn Fn(&mut RecordedProcess)| {
            said(find, &|recording| {
                writes(recording, 1, 200);
                change(&mut recording.recorded[1]);
            })
        };
        let killed = failed(&|reader| reader.signal = Some(libc::SIGKILL.cast_unsigned()));
        assert!(
            killed[0].starts_with("`seq` went on after `grep` had been killed by SIGKILL at 10.2 ms: 1 of 200 writes"),
            "{killed:?}"
        );
        assert!(failed(&|reader| reader.exit_code = Some(2))[0].contains("`grep` had failed with exit code 2 at"));
        assert!(failed(&|_| {}).is_empty());
        let socket = said(find, &|recording| {
            writes(recording, 1, 3);
            recording.channels[0].kind = ChannelKind::Tcp;
            recording.channels[0].readers[0].bytes = 990;
        });
        assert!(
            socket[0].starts_with("`seq` wrote 10 bytes to the TCP connection to `grep` that nobody"),
            "{socket:?}"
        );
    }
}
