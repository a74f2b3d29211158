//! Data that one program compresses and the next one decompresses at once.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, RecordedProcess};

/// Programs that compress unless an option has `d` in it, and those that only decompress, by format.
const FORMATS: [[&[&str]; 2]; 5] = [
    [&["gzip", "pigz"], &["gunzip", "unpigz", "zcat"]],
    [&["bzip2", "pbzip2", "lbzip2"], &["bunzip2", "bzcat"]],
    [&["xz", "pixz"], &["unxz", "xzcat"]],
    [&["zstd", "zstdmt", "pzstd"], &["unzstd", "zstdcat"]],
    [&["lz4"], &["unlz4", "lz4cat"]],
];

/// Of the CPU time of all, both take so much.
const MUCH: f64 = 0.1;

/// `` `gzip -c` compresses what `gzip -dc` decompresses at once: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let all: u64 = view.document.recorded.iter().map(|process| process.cpu_ns).sum();
    let mut found = Vec::new();
    for (at, channel) in view.document.channels.iter().enumerate() {
        let ([from], [to]) = (&channel.writers[..], &channel.readers[..]) else { continue };
        let Some((writer, reader)) = view.process(from).zip(view.process(to)) else { continue };
        let is_same = work(writer)
            .zip(work(reader))
            .is_some_and(|([packed, no], [same, yes])| packed == same && no == 0 && yes == 1 && from.bytes > 0);
        let share = (writer.cpu_ns + reader.cpu_ns) as f64 / all.max(1) as f64;
        if is_same && share >= MUCH && channel.kind.is_pipe() {
            let text = format!(
                "{} compresses what {} decompresses at once: both together take {} of the CPU time, and the pipe needs neither.",
                view.name(from.process),
                view.name(to.process),
                percent(share)
            );
            let finding = Finding::new(FindingKind::Undone, [from.process, to.process], text);
            found.push(Finding { channels: vec![at], ..finding });
        }
    }
    found
}

/// The format of what a process compresses (0) or decompresses (1).
fn work(process: &RecordedProcess) -> Option<[usize; 2]> {
    let known = |names: &[&str]| names.contains(&process.name.as_str());
    let unpacks = |word: &String| {
        word.starts_with("--d")
            || word.starts_with("--uncompress")
            || !word.starts_with("--") && word.starts_with('-') && word.contains('d')
    };
    let (at, [packs, _]) = (0..).zip(FORMATS).find(|(_, [packs, unpacks])| known(packs) || known(unpacks))?;
    // `-t` and `-l` do neither.
    let other = process.args.iter().any(|word| ["-t", "-l", "--test", "--list"].contains(&word.as_str()));
    let is_known = process.pids.len() == 1 && !process.args.is_empty() && !other;
    let unpacks = !known(packs) || process.args.iter().skip(1).any(unpacks);
    is_known.then_some([at, usize::from(unpacks)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;

    #[test]
    fn what_is_compressed_for_nothing_is_said() {
        let pair = |lines: [&str; 2]| {
            said(find, &|recording| {
                for (process, line) in recording.recorded.iter_mut().zip(lines) {
                    process.args = line.split_whitespace().map(str::to_owned).collect();
                    process.name.clone_from(&process.args[0]);
                    process.cpu_ns = 100;
                }
            })
        };
        let text = " decompresses at once: both together take 100 % of the CPU time, and the pipe needs neither.";
        let gzip = pair(["gzip -1", "gzip -dc"]);
        assert!(gzip.len() == 1 && gzip[0].starts_with("`gzip") && gzip[0].ends_with(text), "{gzip:?}");
        assert_eq!(pair(["xz -T2", "xzcat"]).len(), 1);
        for lines in [["gzip -dc", "gzip -9"], ["gzip -c", "xz -d"], ["gzip -c", "gzip -t"], ["cat", "gzip -d"]] {
            assert!(pair(lines).is_empty(), "{lines:?}");
        }
    }
}
