//! What each thread did, from the switches of a recording: a track with its states below its process.

use super::perfetto_proto::{DebugAnnotation, TrackEventKind};
use super::perfetto_writer::TraceWriter;
use crate::record::state_name;
use crate::result::{PathWhat, Switches, ThreadWait};
use crate::util::text::{clean, grouped};

/// Add the tracks of all threads. `processes`: the tracks of theirs; `channels`: names.
pub(super) fn add(writer: &mut TraceWriter, switches: &Switches, processes: &[u64], channels: &[String]) {
    for (thread, waits) in switches.by_thread() {
        let Some(process) = processes.get(thread.process) else { continue };
        let track = writer.track(&format!("thread {}", thread.tid), *process, "what it did, from switch to switch");
        let mut at = thread.begin_ns;
        for wait in waits {
            on_cpu(writer, track, [at, wait.begin_ns]);
            add_wait(writer, track, wait, switches, channels);
            at = wait.end_ns;
        }
        on_cpu(writer, track, [at, thread.end_ns]);
    }
    let problems = [
        (switches.lost, "switches and wake-ups were lost: a thread then seems to be on a CPU"),
        (switches.left_out, "further waits are not stored: the tracks of threads end before the recording"),
    ];
    for (count, what) in problems.into_iter().filter(|(count, _)| *count > 0) {
        let track = writer.track("what is missing", 0, "");
        writer.event(switches.until_ns, track, TrackEventKind::Instant, &format!("{} {what}", grouped(count)));
    }
}

fn on_cpu(writer: &mut TraceWriter, track: u64, span: [u64; 2]) {
    if span[0] < span[1] {
        writer.slice(track, state_name(PathWhat::OnCpu), span);
    }
}

/// Its sleep, what its cgroup was throttled for, and what it waited for a CPU.
fn add_wait(writer: &mut TraceWriter, track: u64, wait: &ThreadWait, switches: &Switches, channels: &[String]) {
    let runnable = wait.runnable_ns();
    let throttled = runnable.saturating_add(wait.throttled_ns).min(wait.end_ns);
    let text = |name: &str, value: String| DebugAnnotation {
        name: name.to_owned(),
        string_value: Some(value),
        double_value: None,
    };
    if wait.begin_ns < runnable {
        let mut name = state_name(wait.what).to_owned();
        if let Some(channel) = wait.channel.and_then(|channel| channels.get(channel)) {
            name.push_str(", ");
            name.push_str(channel);
        }
        let waker = wait.woken_by.and_then(|waker| switches.threads.get(waker));
        writer.slice(track, &name, [wait.begin_ns, runnable]).debug_annotations =
            waker.map(|waker| text("woken by thread", waker.tid.to_string())).into_iter().collect();
    }
    if runnable < throttled {
        writer.slice(track, state_name(PathWhat::Throttled), [runnable, throttled]);
    }
    if throttled < wait.end_ns {
        let who = wait.before_name.as_ref().map(|name| clean(name)).filter(|_| wait.before != 0);
        writer.slice(track, state_name(PathWhat::ForCpu), [throttled, wait.end_ns]).debug_annotations =
            who.map(|name| text("who had the CPU", name)).into_iter().collect();
    }
}
