//! Who reads back from a FIFO what it wrote for others.

use crate::record::say::findings::view::FindingView;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedEnd};
use crate::util::text::{counted, grouped};

/// `` `a.py` reads back 594 of the 891 bytes that went into the FIFO, which `b.py` was to get: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let fifos = view.document.channels.iter().enumerate().filter(|(_, fifo)| fifo.kind == ChannelKind::Fifo);
    let found = fifos.filter_map(|(at, fifo)| {
        let writes = |end: &RecordedEnd| fifo.writers.iter().any(|writer| writer.process == end.process && writer.bytes > 0);
        let is_own = |end: &&RecordedEnd| writes(end) && end.bytes > 0 && view.is_one(end.process);
        let own = fifo.readers.iter().find(is_own)?;
        // Who takes from it what it puts there, as the jobs of `make` do, shares it on purpose.
        let (others, sharing): (Vec<&RecordedEnd>, Vec<&RecordedEnd>) =
            fifo.readers.iter().filter(|end| end.process != own.process).partition(|end| !writes(end));
        if others.is_empty() || !sharing.is_empty() {
            return None;
        }
        let (name, readers) = (view.name(own.process), view.names(others));
        let text = format!(
            "{name} reads back {} of the {} that went into the FIFO, which {readers} was to get: each byte goes to one reader only. \
             Who opens a FIFO for both (O_RDWR) has a read end itself; to write, O_WRONLY is enough.",
            grouped(own.bytes),
            counted(fifo.written(), "byte"),
        );
        let finding = Finding::new(FindingKind::Taken, [own.process], text);
        Some(Finding { channels: vec![at], bytes: Some(own.bytes), of: Some(fifo.written()), ..finding })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
    use crate::result::Document;

    #[test]
    fn what_a_writer_reads_back_is_said() {
        let back = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let fifo = &mut recording.channels[0];
                fifo.kind = ChannelKind::Fifo;
                fifo.writers[0].bytes = 891;
                let own = RecordedEnd { process: fifo.writers[0].process, bytes: 594, ..RecordedEnd::default() };
                fifo.readers.push(own);
                change(recording);
            })
        };
        let text = "`seq` reads back 594 of the 891 bytes that went into the FIFO, which `grep` was to get: each byte goes to one reader \
                    only. Who opens a FIFO for both (O_RDWR) has a read end itself; to write, O_WRONLY is enough.";
        assert_eq!(back(&|_| {}), [text]);
        silent(
            &back,
            &[
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
                &|recording| drop(recording.channels[0].readers.pop()),
                &|recording| drop(recording.channels[0].readers.remove(0)),
                &|recording| {
                    let fifo = &mut recording.channels[0];
                    fifo.writers.push(RecordedEnd {
                        process: fifo.readers[0].process,
                        bytes: 1,
                        ..RecordedEnd::default()
                    });
                },
            ],
        );
    }
}
