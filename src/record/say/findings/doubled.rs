//! Output that is there twice, because a process forked while it was in its buffer.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind};
use crate::util::text::{counted, grouped};

/// `` `main` and 3 children that it forked wrote the same 24 bytes first to the pipe to `cat`: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let channels = view.document.channels.iter().enumerate();
    let doubled = channels.filter_map(|(at, channel)| Some((at, channel, channel.doubled?)));
    let text = |(at, channel, doubled): (usize, &crate::result::RecordedChannel, crate::result::DoubledBuffer)| {
        let children = if doubled.children == 1 {
            "a child that it forked".to_owned()
        } else {
            format!("{} children that it forked", grouped(doubled.children))
        };
        let text = format!(
            "{} and {children} began with the same {} in {}: what is in a buffer at a `fork` is written by both. To flush it \
             before (`fflush`), or to end the child with `_exit`, writes it once.",
            view.name(doubled.process),
            counted(doubled.bytes, "byte"),
            view.pipe_to(channel)
        );
        let finding = Finding::new(FindingKind::Doubled, [doubled.process], text);
        Finding { channels: vec![at], bytes: Some(doubled.bytes), count: Some(doubled.children), ..finding }
    };
    doubled.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::DoubledBuffer;

    #[test]
    fn a_buffer_that_was_forked_is_said() {
        let text = "`seq` and 3 children that it forked began with the same 24 bytes in the pipe to `grep`: what is in a buffer at a \
                    `fork` is written by both. To flush it before (`fflush`), or to end the child with `_exit`, writes it once.";
        let doubled = said(find, &|recording| {
            recording.channels[0].doubled = Some(DoubledBuffer { process: 0, children: 3, bytes: 24 });
        });
        assert_eq!(doubled, [text]);
    }
}
