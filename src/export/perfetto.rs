//! `perfetto`: a trace for <https://ui.perfetto.dev>, with what the processes and channels of a recording did over time.
//!
//! A recording stores shares of slices of time (`timeline`, `path`). So states are those that a process was in for most of a
//! slice, and parts of the path follow each other within a slice in the order of their length. With `--switches` it has each
//! event, too: [`super::perfetto_threads`] shows the states of each thread, and [`super::perfetto_sched`] writes Linux's own events.
//! Sums are those of result.json. Stacks are in [`super::perfetto_stacks`].

use super::ExportFormat;
use super::perfetto_proto::{
    DebugAnnotation, PerfettoTrace, ProcessDescriptor, ThreadDescriptor, TrackEvent, TrackEventKind,
};
use super::perfetto_writer::{FIRST, TraceWriter};
use super::phases::phases;
use super::source::Exported;
use super::{perfetto_sched, perfetto_stacks, perfetto_threads};
use crate::record::{path_names, process_names};
use crate::result::{Document, ExecutedOn, PathPart, PathWakes, RecordedChannel, TimelinePipe, TimelineProcess};
use crate::util::text::clean;
use anyhow::{Result, bail};
use prost::Message as _;

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "perfetto",
    about: "trace of Perfetto: states of processes, fill of channels, wake-ups, the critical path and stacks; of threads with \
            --switches",
    files: |exported| Ok(vec![("trace.perfetto-trace".to_owned(), trace(exported)?.encode_to_vec())]),
    is_folder: false,
};

/// The sequences of packets: of events, and of stacks.
const EVENTS: u32 = 1;
const STACKS: u32 = 2;

/// A trace of a recording, or of the stacks of a run.
fn trace(exported: &Exported<'_>) -> Result<PerfettoTrace> {
    let Exported::Result(outcome) = exported else {
        bail!(
            "it contains tables, and nothing over time: give the folder of `pipeprof record` or of a run with stacks"
        );
    };
    let document = &outcome.document;
    let samples = exported.all();
    let is_recording = !document.recorded.is_empty() && !document.timeline.slice_ns.is_empty();
    if !is_recording && samples.samples.is_empty() {
        bail!("it has nothing over time, and no stacks: run or record it with a collector (--collect)");
    }
    let mut writer = TraceWriter::default();
    writer.answer(document);
    let names: Vec<String> = process_names(document).iter().map(|name| clean(name.as_str())).collect();
    if is_recording {
        let tracks = names.iter().enumerate().map(|(index, name)| writer.process(document, index, name));
        let mut tracks: Vec<ProcessTracks> = tracks.collect();
        writer.path(document, &names, &mut tracks);
        if let Some(switches) = &outcome.switches {
            let channels: Vec<String> = document.channels.iter().map(|channel| channel_name(channel, &names)).collect();
            let processes: Vec<u64> = tracks.iter().map(|tracks| tracks.whole).collect();
            perfetto_threads::add(&mut writer, switches, &processes, &channels);
        }
        for of_pipe in &document.timeline.pipes {
            if let Some(channel) = document.channels.get(of_pipe.pipe) {
                writer.channel(&channel_name(channel, &names), of_pipe, &document.timeline.slice_ns);
            }
        }
    } else {
        for process in &samples.processes {
            writer.named(&process.name, process.pid, &[]);
        }
    }
    let mut packets = writer.finish(EVENTS);
    packets.extend(outcome.switches.iter().flat_map(|switches| perfetto_sched::packets(switches, &names)));
    if !samples.samples.is_empty() {
        let mut stacks = perfetto_stacks::packets(&samples, document.executed_on != ExecutedOn::Hardware, FIRST);
        stacks.iter_mut().for_each(|packet| packet.trusted_packet_sequence_id = STACKS);
        packets.extend(stacks);
    }
    Ok(PerfettoTrace { packet: packets })
}

/// `pipe from dd to wc`.
fn channel_name(channel: &RecordedChannel, names: &[String]) -> String {
    let of = |ends: &[crate::result::RecordedEnd]| {
        let mut all: Vec<&str> = ends.iter().filter_map(|end| names.get(end.process)).map(String::as_str).collect();
        all.dedup();
        if all.is_empty() { "others".to_owned() } else { all.join(", ") }
    };
    format!("{} from {} to {}", channel.kind.noun(), of(&channel.writers), of(&channel.readers))
}

/// The slices of a process's track of states: each with the place of the event that begins it.
type StateSlices = Vec<([u64; 2], usize)>;

/// The tracks of a process to which others are linked.
struct ProcessTracks {
    states: StateSlices,
    whole: u64,
    wakes: Option<u64>,
}

impl TraceWriter {
    /// What the report says, at the begin.
    fn answer(&mut self, document: &Document) {
        let track = self.track("answer", 0, "what pipeprof says of this recording");
        let texts = document.findings.iter().map(|finding| &finding.text).chain(&document.cautions);
        let texts: Vec<String> = texts.map(|text| clean(text)).collect();
        let command = clean(&document.command);
        let event = self.event(0, track, TrackEventKind::Instant, texts.first().map_or("nothing", String::as_str));
        let annotation =
            |name: String, value: String| DebugAnnotation { name, string_value: Some(value), double_value: None };
        event.debug_annotations = std::iter::once(annotation("command".to_owned(), command))
            .chain((1..).zip(texts).map(|(number, text)| annotation(format!("{number}"), text)))
            .collect();
    }

    /// The parts of the critical path, one after the other, linked to what their process did; and the wake-ups.
    fn path(&mut self, document: &Document, processes: &[String], tracks: &mut [ProcessTracks]) {
        let Some(path) = &document.path else { return };
        let about = "what the wall time was made of; the order within a slice of time is not known";
        let track = self.track("critical path", 0, about);
        let mut begin = 0u64;
        let mut last: Option<(usize, [u64; 2])> = None;
        let mut found = Vec::new();
        for (slice, length) in path.slice_ns.iter().enumerate() {
            let mut at = begin;
            // What went on from the slice before comes first.
            let before = last.map(|(part, _)| part);
            let mut parts: Vec<usize> = (0..path.parts.len()).collect();
            parts.sort_by_key(|part| (Some(*part) != before, *part));
            for part in parts {
                let ns = path.parts[part].slices.get(slice).copied().unwrap_or(0);
                if ns == 0 {
                    continue;
                }
                let end = at.saturating_add(ns);
                match last.as_mut().filter(|(before, [_, end])| *before == part && *end == at) {
                    Some((_, span)) => span[1] = end,
                    None => found.extend(last.replace((part, [at, end]))),
                }
                at = end;
            }
            begin = begin.saturating_add(*length);
        }
        found.extend(last);
        let names = path_names(document);
        for (part, span) in found {
            let PathPart { process, .. } = path.parts[part];
            let states = process.and_then(|process| tracks.get(process)).map(|tracks| &tracks.states);
            let state =
                states.and_then(|states| states.iter().find(|([begin, end], _)| span[0] < *end && *begin < span[1]));
            let flow = state.map(|(_, event)| self.flow_from(*event));
            self.slice(track, &clean(&names[part]), span).flow_ids.extend(flow);
        }
        path.wakes.iter().for_each(|wakes| self.wakes(wakes, processes, tracks));
    }

    /// For each slice of time the first wake-up of one process by another, with how many there were.
    fn wakes(&mut self, wakes: &PathWakes, names: &[String], tracks: &mut [ProcessTracks]) {
        let PathWakes { from, to, .. } = *wakes;
        let mut track = |process: usize| -> Option<u64> {
            let own = tracks.get_mut(process)?;
            Some(*own.wakes.get_or_insert_with(|| self.track("wake-ups", own.whole, "the first in each slice of time")))
        };
        let (Some(waker), Some(woken)) = (track(from), track(to)) else { return };
        for (count, at) in wakes.counts.iter().zip(&wakes.first_ns) {
            let Some(at) = *at else { continue };
            let number = DebugAnnotation {
                name: "wake-ups until the next slice of time".to_owned(),
                double_value: Some(*count as f64),
                string_value: None,
            };
            self.event(at, waker, TrackEventKind::Instant, &format!("wakes {}", names[to])).debug_annotations =
                vec![number];
            let flow = self.flow_from(self.events.len() - 1);
            self.event(at, woken, TrackEventKind::Instant, &format!("woken by {}", names[from])).flow_ids = vec![flow];
        }
    }

    /// A track for the process, and its name for its only thread that samples have. Returns the track.
    fn named(&mut self, name: &str, pid: u32, args: &[String]) -> u64 {
        let track = self.track(name, 0, "");
        let pid = i32::try_from(pid).unwrap_or(0);
        if let Some(descriptor) = self.descriptor(track) {
            let cmdline = args.iter().map(|word| clean(word)).collect();
            descriptor.process = Some(ProcessDescriptor { pid, cmdline, process_name: name.to_owned() });
        }
        let thread = self.track(name, track, "");
        if let Some(descriptor) = self.descriptor(thread) {
            descriptor.thread = Some(ThreadDescriptor { pid, tid: pid.into(), thread_name: name.to_owned() });
        }
        track
    }

    /// A slice of states, which others can be linked to.
    fn state(&mut self, own: &mut StateSlices, track: u64, name: &str, span: [u64; 2]) -> &mut TrackEvent {
        own.push((span, self.events.len() + 1));
        self.slice(track, name, span)
    }

    /// A process with its states, and its shares of each slice.
    fn process(&mut self, document: &Document, index: usize, name: &str) -> ProcessTracks {
        let process = &document.recorded[index];
        let parent = self.named(name, process.pids.first().copied().unwrap_or(0), &process.args);
        let mut own = StateSlices::new();
        let states = self.track("state", parent, "what it did for most of each slice of time");
        let mut at = process.begin_ns;
        for phase in phases(document, index) {
            if at < phase.begin_ns {
                self.state(&mut own, states, "on a CPU", [at, phase.begin_ns]);
            }
            let event = self.state(&mut own, states, phase.what, [phase.begin_ns, phase.end_ns]);
            event.debug_annotations = vec![DebugAnnotation {
                name: "share in percent".to_owned(),
                double_value: Some(100.0 * phase.share),
                string_value: None,
            }];
            at = phase.end_ns;
        }
        if at < process.end_ns {
            self.state(&mut own, states, "on a CPU", [at, process.end_ns]);
        }
        let tracks = ProcessTracks { states: own, whole: parent, wakes: None };
        let Some(own) = document.timeline.processes.iter().find(|own| own.process == index) else { return tracks };
        let TimelineProcess { running, runnable, empty, full, .. } = own;
        for (what, shares) in
            [("on a CPU", running), ("waits for a CPU", runnable), ("pipe is empty", empty), ("pipe is full", full)]
        {
            if shares.iter().any(|share| *share > 0.0) {
                let value = |slice: usize| shares.get(slice).map(|share| 100.0 * share);
                self.counter((what, "%"), parent, &document.timeline.slice_ns, value);
            }
        }
        tracks
    }

    /// A channel with its fill and its rate.
    fn channel(&mut self, name: &str, own: &TimelinePipe, slices: &[u64]) {
        let parent = self.track(name, 0, "");
        let rate = |slice: usize| {
            let (bytes, ns) = (own.bytes.get(slice)?, slices.get(slice)?);
            (*ns > 0).then(|| *bytes as f64 * 1e9 / *ns as f64)
        };
        self.counter(("bytes per second", "B/s"), parent, slices, rate);
        let fill = |slice: usize| own.filled.get(slice).copied().flatten().map(|part| 100.0 * part);
        self.counter(("fill", "%"), parent, slices, fill);
    }
}

#[cfg(test)]
mod tests {
    use super::super::perfetto_proto::TracePacket;
    use super::*;
    use crate::result::{CriticalPath, Outcome, PathWhat, RecordedEnd, RecordedProcess, Timeline};
    use std::collections::{BTreeMap, HashMap};

    fn recording() -> Outcome {
        let part = |process, what, slices: [u64; 3]| PathPart {
            process: Some(process),
            what,
            by: None,
            ns: slices.iter().sum(),
            slices: slices.into(),
        };
        let process = |name: &str| RecordedProcess {
            name: name.to_owned(),
            args: vec![name.to_owned()],
            end_ns: 300,
            ..RecordedProcess::default()
        };
        let end = |process| vec![RecordedEnd { process, ..RecordedEnd::default() }];
        let own =
            TimelineProcess { full: vec![0.0, 0.9, 0.8], running: vec![1.0, 0.1, 0.2], ..TimelineProcess::new(0, 3) };
        let document = Document {
            recorded: vec![process("dd"), process("wc")],
            channels: vec![RecordedChannel { writers: end(0), readers: end(1), ..RecordedChannel::default() }],
            path: Some(CriticalPath {
                parts: vec![part(0, PathWhat::OnCpu, [100, 40, 0]), part(1, PathWhat::PipeEmpty, [0, 60, 100])],
                slice_ns: vec![100; 3],
                wakes: vec![PathWakes {
                    from: 0,
                    to: 1,
                    counts: vec![0, 7, 2],
                    first_ns: vec![None, Some(120), Some(230)],
                }],
                ..CriticalPath::default()
            }),
            timeline: Timeline {
                slice_ns: vec![100; 3],
                processes: vec![own],
                pipes: vec![TimelinePipe { pipe: 0, bytes: vec![10, 0, 30], filled: vec![None, Some(1.0), Some(0.5)] }],
            },
            ..Document::default()
        };
        Outcome { document, ..Outcome::default() }
    }

    /// The lengths of the slices of a track, by name.
    fn slices(trace: &PerfettoTrace, track: &str) -> BTreeMap<String, u64> {
        let named = |packet: &TracePacket| packet.track_descriptor.clone().filter(|found| found.name == track);
        let uuid = trace.packet.iter().find_map(named).unwrap().uuid;
        let (mut found, mut open) = (BTreeMap::new(), Vec::new());
        for packet in &trace.packet {
            let Some(event) = packet.track_event.as_ref().filter(|event| event.track_uuid == uuid) else { continue };
            match event.kind() {
                TrackEventKind::SliceBegin => open.push((event.name.clone(), packet.timestamp.unwrap())),
                TrackEventKind::SliceEnd => {
                    let (name, begin) = open.pop().unwrap();
                    *found.entry(name).or_default() += packet.timestamp.unwrap() - begin;
                }
                TrackEventKind::Unspecified | TrackEventKind::Instant | TrackEventKind::Counter => {}
            }
        }
        assert!(open.is_empty());
        found
    }

    #[test]
    fn sums_are_those_of_the_recording() {
        let outcome = recording();
        let bytes = FORMAT.files(&Exported::Result(&outcome)).unwrap().remove(0).1;
        let trace = PerfettoTrace::decode(&bytes[..]).unwrap();
        assert_eq!(trace.packet[0].sequence_flags, FIRST);
        let path = slices(&trace, "critical path");
        assert_eq!(path.values().collect::<Vec<_>>(), [&140, &160], "{path:?}");
        let states = slices(&trace, "state");
        assert_eq!(states, BTreeMap::from([("on a CPU".to_owned(), 100), ("pipe is full".to_owned(), 200)]));
        let counters: Vec<f64> =
            trace.packet.iter().filter_map(|packet| packet.track_event.as_ref()?.double_counter_value).collect();
        // 10 and 30 bytes in 100 ns each.
        assert!(counters.contains(&1e8) && counters.contains(&3e8) && counters.contains(&50.0), "{counters:?}");
        let names: Vec<&str> =
            trace.packet.iter().filter_map(|packet| Some(packet.track_descriptor.as_ref()?.name.as_str())).collect();
        assert!(names.contains(&"pipe from dd to wc"), "{names:?}");
    }

    #[test]
    fn flows_link_the_path_to_its_processes_and_wakers_to_the_woken() {
        let outcome = recording();
        let trace = trace(&Exported::Result(&outcome)).unwrap();
        let descriptors = trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        let tracks: HashMap<u64, (String, u64)> =
            descriptors.map(|track| (track.uuid, (track.name.clone(), track.parent_uuid))).collect();
        let mut flows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for event in trace.packet.iter().filter_map(|packet| packet.track_event.as_ref()) {
            let (track, parent) = &tracks[&event.track_uuid];
            let above = tracks.get(parent).map_or("", |(name, _)| name);
            event.flow_ids.iter().for_each(|flow| {
                flows.entry(*flow).or_default().push(format!("{above} {track}: {}", event.name));
            });
        }
        let mut flows: Vec<Vec<String>> = flows.into_values().collect();
        flows.iter_mut().for_each(|events| events.sort());
        let wake = ["dd wake-ups: wakes wc", "wc wake-ups: woken by dd"].map(str::to_owned).to_vec();
        assert_eq!(flows.iter().filter(|events| **events == wake).count(), 2, "{flows:?}");
        let path: Vec<_> = flows.iter().filter(|events| **events != wake).collect();
        assert_eq!(path.len(), 2, "{flows:?}");
        assert!(path.iter().all(|events| events.len() == 2 && events[0].starts_with(" critical path: ")), "{path:?}");
        assert!(path[0][1] == "dd state: on a CPU" && path[1][1].starts_with("wc state: "), "{path:?}");
        let counts = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref());
        let woken =
            counts.filter(|event| event.name == "wakes wc").map(|event| event.debug_annotations[0].double_value);
        assert_eq!(woken.collect::<Vec<_>>(), [Some(7.0), Some(2.0)]);
    }

    #[test]
    fn what_has_neither_times_nor_stacks_is_refused() {
        assert!(FORMAT.files(&Exported::Result(&Outcome::default())).is_err());
    }
}
