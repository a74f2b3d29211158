//! Who else has read what a process of a circle waits for.

use crate::record::say::findings::view::FindingView;
use crate::record::say::standstill::waiting::recorded;
use crate::result::{LastWait, RecordedEnd, SeenProcess};
use crate::util::text::{counted, grouped};

/// `` `bash commit.sh`, which `agent.py` had started, read 47 of the 99 bytes that came there: it had inherited that input. ... ``
pub(super) fn taken(
    view: &FindingView<'_>,
    members: &[&LastWait],
    name: &impl Fn(&SeenProcess) -> String,
) -> Option<String> {
    let awaited = members.iter().flat_map(|wait| wait.channels().iter().map(move |channel| (wait, channel)));
    awaited.filter(|(_, channel)| !channel.room).find_map(|(wait, channel)| {
        let pipe = recorded(view.document, channel)?;
        let own = wait.process.recorded?;
        let is_member = |of: usize| members.iter().any(|member| member.process.recorded == Some(of));
        let took = |end: &&RecordedEnd| {
            end.bytes > 0 && !is_member(end.process) && view.with_starters(end.process).skip(1).any(|above| above == own)
        };
        let taker = pipe.readers.iter().find(took)?;
        Some(format!(
            "{}, which {} had started, read {} of the {} that came there: it had inherited that input. `</dev/null` behind its command \
             (`stdin=DEVNULL`) leaves all to {}.",
            view.name(taker.process),
            name(&wait.process),
            grouped(taker.bytes),
            counted(pipe.written(), "byte"),
            name(&wait.process)
        ))
    })
}
