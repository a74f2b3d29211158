//! What is no text and went through a terminal, which changes it.

use crate::record::say::findings::data::part_unpacked::PACKED;
use crate::record::say::findings::view::FindingView;
use crate::result::{ChannelKind, Finding, FindingKind};
use crate::util::text::{counted, grouped};

/// Programs that write archives or packed data, by their names or, of `busybox`, those of its applets.
const WRITE_BYTES: [&str; 10] = ["tar", "cpio", "gzip", "pigz", "bzip2", "xz", "zstd", "lz4", "dd", "ffmpeg"];

/// How the names of other files than packed ones end that are no text.
const BYTES: [&str; 8] = [".tar", ".zip", ".png", ".jpg", ".pdf", ".bam", ".iso", ".img"];

/// Less is a message.
const LEAST: u64 = 4096;

/// `` `busybox tar` writes to a terminal, which puts a carriage return before each newline: ... ``
pub(crate) fn through_terminal(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, terminal, end)| {
        let ([writer], [reader]) = (&terminal.writers[..], &terminal.readers[..]) else { return None };
        let process = view.process(end).filter(|_| terminal.kind == ChannelKind::Pty && !terminal.is_typed())?;
        let is_packed = |word: &String| PACKED.iter().chain(&BYTES).any(|end| word.ends_with(end));
        let writes_bytes =
            WRITE_BYTES.contains(&process.program()) || process.args.iter().skip(1).any(is_packed);
        let more = reader.bytes.checked_sub(writer.bytes).filter(|more| *more > 0 && writer.bytes >= LEAST && writes_bytes)?;
        let text = format!(
            "{} wrote {} to a terminal, of which {} came out: it puts a carriage return before each newline, {} in all, which \
             damages what is no text. Without a terminal (no `-t` of `docker run` or `ssh`), or after `stty raw`, it stays as it is.",
            view.name(end.process),
            counted(writer.bytes, "byte"),
            grouped(reader.bytes),
            grouped(more)
        );
        let finding = Finding::new(FindingKind::LineCut, [end.process], text);
        Some(Finding { channels: vec![at], bytes: Some(more), ..finding })
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
    use crate::result::Document;

    #[test]
    fn an_archive_through_a_terminal_is_said() {
        let written = |change: &dyn Fn(&mut Document)| {
            said(through_terminal, &|recording| {
                recording.recorded[0].name = "tar".to_owned();
                let channel = &mut recording.channels[0];
                (channel.kind, channel.inode) = (ChannelKind::Pty, 3);
                (channel.writers[0].bytes, channel.readers[0].bytes) = (66_360_832, 67_204_032);
                change(recording);
            })
        };
        let text = "`tar` wrote 66,360,832 bytes to a terminal, of which 67,204,032 came out: it puts a carriage return before each newline, \
                    843,200 in all, which damages what is no text. Without a terminal (no `-t` of `docker run` or `ssh`), or after `stty raw`, it \
                    stays as it is.";
        assert_eq!(written(&|_| {}), [text]);
        silent(
            &written,
            &[
                &|recording| recording.recorded[0].name = "make".to_owned(),
                &|recording| recording.channels[0].readers[0].bytes = 66_360_832,
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
            ],
        );
    }
}
