//! A program that writes a file with very many small calls.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, PathWhat, RecordedStream};
use crate::util::text::{clean, counted, grouped};

/// So many calls take time, if each writes less than this.
const MANY: u64 = 10_000;
const SMALL: u64 = 512;

/// From this part of the path on, the process is worth a change.
const MUCH: f64 = 0.3;

/// `` `report` writes `a.json` with 210,000 calls of 4 bytes in the mean, and is on a CPU 80 % of the time: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let on_cpu = |at: usize| view.on_path(at, PathWhat::OnCpu);
    let is_small = |stream: &&RecordedStream| {
        stream.writes && stream.calls >= MANY && stream.bytes / stream.calls < SMALL && on_cpu(stream.process) >= MUCH
    };
    let text = |stream: &RecordedStream| {
        let text = format!(
            "{} writes `{}` with {} calls of {} in the mean, and is on a CPU {} of the time: a buffer (`BufWriter`, \
             `bufio.Writer`, `setvbuf`) writes many at once.",
            view.name(stream.process),
            clean(&stream.file),
            grouped(stream.calls),
            counted(stream.bytes.div_ceil(stream.calls), "byte"),
            percent(on_cpu(stream.process))
        );
        Finding { count: Some(stream.calls), ..Finding::new(FindingKind::SmallCalls, [stream.process], text) }
    };
    document.streams.iter().filter(is_small).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{CriticalPath, PathPart};

    fn writes(calls: u64, ns: u64) -> Vec<String> {
        said(find, &|recording| {
            let part = PathPart { process: Some(1), what: PathWhat::OnCpu, ns, ..PathPart::default() };
            recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
            let stream =
                RecordedStream { process: 1, file: "a.json".to_owned(), writes: true, ..RecordedStream::default() };
            recording.streams = vec![RecordedStream { calls, bytes: 4 * calls, ..stream }];
        })
    }

    #[test]
    fn small_writes_to_a_file_are_said() {
        let text = "`grep` writes `a.json` with 210,000 calls of 4 bytes in the mean, and is on a CPU 80 % of the time: a buffer \
                    (`BufWriter`, `bufio.Writer`, `setvbuf`) writes many at once.";
        assert_eq!(writes(210_000, WINDOW / 5 * 4), [text]);
        assert!(writes(9000, WINDOW).is_empty() && writes(210_000, WINDOW / 10).is_empty());
    }
}
