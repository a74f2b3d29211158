//! Lines that are longer than a terminal takes.

use crate::record::say::findings::view::FindingView;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedEnd};
use crate::util::text::{counted, grouped};

/// What a line of a terminal in canonical mode can hold, and its end (`N_TTY_BUF_SIZE`, drivers/tty/n_tty.c). Without this
/// mode, the buffer never has so much at once.
const LONGEST: u64 = 4096;

/// `` The terminal cut what was typed at 4,095 bytes in a line: `a` read 4,096 of 6,001 bytes. ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let mut found = Vec::new();
    for (at, channel) in document.channels.iter().enumerate() {
        // What is shown has an odd number.
        let is_typed = channel.kind == ChannelKind::Pty && channel.inode % 2 == 0;
        if !is_typed || document.skipped > 0 || document.is_excerpt() {
            continue;
        }
        let sum = |ends: &[RecordedEnd]| ends.iter().map(|end| end.bytes).sum::<u64>();
        let (typed, read) = (sum(&channel.writers), sum(&channel.readers));
        let whole = LONGEST.ilog2() as usize;
        let lines = |end: &RecordedEnd| end.log2_sizes.get(whole).copied().unwrap_or(0);
        let [reader] = &channel.readers[..] else { continue };
        // Some was typed and never read in lines as long as they can be.
        if typed <= read || lines(reader) == 0 || lines(reader) * LONGEST > read {
            continue;
        }
        let text = format!(
            "The terminal cut lines at {} bytes: {} read {} of {} that were typed. In canonical mode, a line can have no more; \
             `stty -icanon` takes longer ones.",
            grouped(LONGEST - 1),
            view.name(reader.process),
            grouped(read),
            counted(typed, "byte")
        );
        let finding = Finding::new(FindingKind::LineCut, [reader.process], text);
        found.push(Finding { channels: vec![at], bytes: Some(typed - read), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    #[test]
    fn a_line_that_is_too_long_for_a_terminal_is_said() {
        let typed = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let channel = &mut recording.channels[0];
                (channel.kind, channel.inode) = (ChannelKind::Pty, 4);
                channel.writers[0].bytes = 6001;
                channel.readers[0].bytes = 4096;
                channel.readers[0].log2_sizes = [vec![0; 12], vec![1]].concat();
                change(recording);
            })
        };
        let text = "The terminal cut lines at 4,095 bytes: `grep` read 4,096 of 6,001 bytes that were typed. In canonical mode, a \
                    line can have no more; `stty -icanon` takes longer ones.";
        assert_eq!(typed(&|_| {}), [text]);
        assert!(typed(&|recording| recording.channels[0].inode = 5).is_empty(), "what is shown");
        assert!(typed(&|recording| recording.channels[0].kind = ChannelKind::Pipe).is_empty());
        assert!(typed(&|recording| recording.channels[0].readers[0].log2_sizes = vec![0, 9]).is_empty(), "short lines");
        assert!(typed(&|recording| recording.channels[0].writers[0].bytes = 4096).is_empty(), "all was read");
    }
}
