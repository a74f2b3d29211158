//! Who else has read what a process of a circle waits for.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::standstill::waiting::recorded;
use crate::result::{LastWait, RecordedChannel, RecordedEnd, SeenProcess};
use crate::util::text::{counted, grouped};

/// `` `bash commit.sh`, which `agent.py` had started, read 47 of the 99 bytes that came there: it had inherited that input. ... ``
///
/// A circle is one of several that hang together: whoever waits without end may wait for what was taken.
pub(super) fn taken(
    view: &FindingView<'_>,
    members: &[&LastWait],
    name: &impl Fn(&SeenProcess) -> String,
) -> Option<String> {
    let is_member = |of: usize| members.iter().any(|member| member.process.recorded == Some(of));
    let look = view.document.last_look.as_ref()?;
    let waits = look.waits.iter().filter(|wait| wait.endless);
    let awaited = waits.flat_map(|wait| wait.channels().iter().map(move |channel| (wait, channel)));
    awaited.filter(|(_, channel)| !channel.room).find_map(|(wait, channel)| {
        let pipe = recorded(view.document, channel)?;
        let own = wait.process.recorded?;
        let below = |of: usize| view.with_starters(of).skip(1).any(|above| above == own);
        let took = |end: &&RecordedEnd| end.bytes > 0 && !is_member(end.process) && below(end.process);
        let reader = name(&wait.process);
        if let Some(taker) = pipe.readers.iter().find(took).filter(|_| is_member(own)) {
            return Some(format!(
                "{}, which {reader} had started, read {} of the {} that came there: it had inherited that input. `</dev/null` behind \
                 its command (`stdin=DEVNULL`) leaves all to {reader}.",
                view.name(taker.process),
                grouped(taker.bytes),
                counted(pipe.written(), "byte"),
            ));
        }
        let (taker, end_ns) = took_all(view, pipe)?;
        Some(format!(
            "{}, which ended at {}, had read all {} that came to {}, for which {reader} waits now: both have the same input. `</dev/null` \
             behind the first command leaves it to {reader}.",
            view.name(taker.process),
            after(end_ns),
            counted(pipe.read(), "byte"),
            view.pipe_from(pipe),
        ))
    })
}

/// Who had read all of `pipe` and ended, so that another one got nothing, and when it ended.
fn took_all<'a>(view: &FindingView<'a>, pipe: &'a RecordedChannel) -> Option<(&'a RecordedEnd, u64)> {
    let mut readers = pipe.readers.iter().filter(|end| end.bytes > 0);
    let (taker, None) = (readers.next()?, readers.next()) else { return None };
    let process = view.process(taker).filter(|_| view.is_one(taker.process) && pipe.read() == pipe.written())?;
    (process.end_ns < view.document.processes.window_ns).then_some((taker, process.end_ns))
}
