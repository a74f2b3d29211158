//! Packed files of which a program read a part, without an error.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind};
use crate::util::text::{clean, counted, grouped};

/// How the names of packed files end.
pub(crate) const PACKED: [&str; 7] = [".gz", ".bgz", ".tgz", ".bz2", ".xz", ".zst", ".lz4"];

/// What is left is as much at least, bytes, and this part of the file: an index or padding can follow.
const LEFT: u64 = 32 << 10;
const SHARE: f64 = 0.01;

/// `` `aligner` read 3,145,728 of 7,069,530 bytes of `multi.fq.gz` and ended at 97.2 ms without an error: ... ``
pub(crate) fn part_unpacked(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let found = document.recorded.iter().enumerate().filter_map(|(at, process)| {
        let read = process.last_read.as_ref().filter(|_| process.execs > 0)?;
        let left = read.size.saturating_sub(read.bytes);
        let is_much = left >= LEFT && left as f64 >= SHARE * read.size as f64;
        let is_well = process.signal.is_none() && process.exit_code.is_none() && process.refused_writes == 0;
        if !is_much || !is_well || process.told_to_end_ns.is_some() || view.goes_on(process) && document.is_cut_off() {
            return None;
        }
        let path = clean(PACKED.iter().any(|end| read.file.ends_with(end)).then_some(&read.file)?);
        let text = format!(
            "{} read {} of {} of `{path}` and ended at {} without an error: what follows is not unpacked. A file of several members, as `bgzip` or \
             `cat a.gz b.gz` make it, needs a reader that goes on after the first one (`zcat`, `MultiGzDecoder`).",
            view.name(at),
            grouped(read.bytes),
            counted(read.size, "byte"),
            after(process.end_ns)
        );
        let finding = Finding::new(FindingKind::Cut, [at], text);
        Some(Finding { bytes: Some(left), of: Some(read.size), at_ns: Some(process.end_ns), ..finding })
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
    use crate::result::{Document, ReadFile};

    #[test]
    fn a_part_of_a_packed_file_is_said() {
        let reads = |change: &dyn Fn(&mut Document)| {
            said(part_unpacked, &|recording| {
                let process = &mut recording.recorded[0];
                (process.execs, process.end_ns) = (1, 97_200_000);
                let file = "multi.fq.gz".to_owned();
                process.last_read = Some(ReadFile { file, bytes: 3_145_728, size: 7_069_530 });
                change(recording);
            })
        };
        let text = "`seq` read 3,145,728 of 7,069,530 bytes of `multi.fq.gz` and ended at 97.2 ms without an error: what follows is not unpacked. A \
                    file of several members, as `bgzip` or `cat a.gz b.gz` make it, needs a reader that goes on after the first one (`zcat`, \
                    `MultiGzDecoder`).";
        assert_eq!(reads(&|_| {}), [text]);
        silent(
            &reads,
            &[
                &|recording| recording.recorded[0].last_read.as_mut().unwrap().bytes = 7_069_000,
                &|recording| recording.recorded[0].refused_writes = 1,
                &|recording| recording.recorded[0].exit_code = Some(1),
                &|recording| recording.recorded[0].last_read.as_mut().unwrap().file = "multi.fq".to_owned(),
            ],
        );
    }
}
