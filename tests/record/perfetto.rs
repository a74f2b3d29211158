//! Traces for Perfetto of recordings, read by their field numbers: nothing of what writes them is used.

use super::path::Limited;
use super::python;
use crate::common::pipeprof;
use pipeprof::result::{Document, RecordedEnd, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

/// A message: its fields in their order.
struct Message<'a>(Vec<(u64, Value<'a>)>);

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *bytes.split_off_first().expect("a number is cut off");
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

impl<'a> Message<'a> {
    fn read(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => Value::Number(u64::from_le_bytes(*bytes.split_off(..8).unwrap().first_chunk().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Value::Bytes(bytes.split_off(..length).expect("a field is cut off"))
                }
                kind => panic!("a field of kind {kind}"),
            };
            fields.push((key >> 3, value));
        }
        Self(fields)
    }

    fn numbers(&self, field: u64) -> impl Iterator<Item = u64> {
        self.0.iter().filter_map(move |(number, value)| match value {
            Value::Number(value) if *number == field => Some(*value),
            _ => None,
        })
    }

    fn number(&self, field: u64) -> u64 {
        self.numbers(field).next().unwrap_or(0)
    }

    fn messages(&self, field: u64) -> impl Iterator<Item = Message<'a>> {
        let bytes = self.0.iter().filter_map(move |(number, value)| match value {
            Value::Bytes(bytes) if *number == field => Some(*bytes),
            _ => None,
        });
        bytes.map(Message::read)
    }

    fn text(&self, field: u64) -> String {
        let bytes = self.0.iter().find_map(|(number, value)| match value {
            Value::Bytes(bytes) if *number == field => Some(bytes.to_vec()),
            _ => None,
        });
        String::from_utf8(bytes.unwrap_or_default()).unwrap()
    }
}

/// What a trace has, by the names of tracks.
#[derive(Default)]
struct Trace {
    /// Nanoseconds by name of slice: by the name of the track and that of the one above it.
    slices: BTreeMap<(String, String), BTreeMap<String, u64>>,
    /// The last value of each counter, times the time that it was valid, in sum.
    counters: BTreeMap<(String, String), f64>,
    /// Ends of each flow.
    flows: BTreeMap<u64, usize>,
    /// Nanoseconds on a CPU by thread, and the wake-ups of each, from Linux's events.
    on_cpu: BTreeMap<u64, u64>,
    wakings: BTreeMap<u64, u64>,
}

impl Trace {
    fn read(path: &Path) -> Self {
        const BEGIN: u64 = 1;
        const END: u64 = 2;
        const COUNTER: u64 = 4;
        let bytes = std::fs::read(path).unwrap();
        let packets: Vec<Message<'_>> = Message::read(&bytes).messages(1).collect();
        let mut names: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for track in packets.iter().flat_map(|packet| packet.messages(60)) {
            names.insert(track.number(1), (track.number(5), track.text(2)));
        }
        let mut trace = Self::default();
        let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
        let mut values: BTreeMap<u64, (f64, u64)> = BTreeMap::new();
        let mut switches: Vec<(u64, u64, u64, u64)> = Vec::new();
        for packet in &packets {
            let at = packet.number(8);
            for event in packet.messages(11) {
                let track = event.number(11);
                let (parent, name) = &names[&track];
                let above = names.get(parent).map_or(String::new(), |(_, name)| name.clone());
                let key = (above, name.clone());
                match event.number(9) {
                    BEGIN => open.entry(track).or_default().push((event.text(23), at)),
                    END => {
                        let (slice, begin) = open.get_mut(&track).and_then(Vec::pop).expect("an end without a begin");
                        *trace.slices.entry(key).or_default().entry(slice).or_default() += at - begin;
                    }
                    COUNTER => {
                        let (value, since) =
                            values.insert(track, (f64::from_bits(event.number(44)), at)).unwrap_or_default();
                        *trace.counters.entry(key).or_default() += value * (at - since) as f64;
                    }
                    _ => {}
                }
                event.numbers(47).for_each(|flow| *trace.flows.entry(flow).or_default() += 1);
            }
            for bundle in packet.messages(1) {
                for event in bundle.messages(2) {
                    let at = event.number(1);
                    let switched = event.messages(4).map(|to| (at, bundle.number(1), to.number(2), to.number(6)));
                    switches.extend(switched);
                    event.messages(20).for_each(|woken| *trace.wakings.entry(woken.number(2)).or_default() += 1);
                }
            }
        }
        assert!(open.values().all(Vec::is_empty), "a slice without an end");
        switches.sort_by_key(|(at, ..)| *at);
        let mut running: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (at, cpu, from, to) in switches {
            if let Some((thread, since)) = running.insert(cpu, (to, at)) {
                assert_eq!(thread, from, "who leaves CPU {cpu} is not who came");
                *trace.on_cpu.entry(thread).or_default() += at - since;
            }
        }
        trace
    }

    /// The states of the threads of a process, and the ids of these.
    fn threads_of(&self, process: &str) -> (BTreeMap<String, u64>, Vec<u64>) {
        let (mut sums, mut ids) = (BTreeMap::new(), Vec::new());
        for ((above, name), slices) in &self.slices {
            let Some(id) = name.strip_prefix("thread ").filter(|_| above == process) else { continue };
            ids.push(id.parse().unwrap());
            slices.iter().for_each(|(name, ns)| *sums.entry(name.clone()).or_default() += ns);
        }
        (sums, ids)
    }
}

const THROTTLED: &str = "throttled by the CPU quota of its cgroup";

/// What processes slept at channels and otherwise, as result.json says.
fn slept(recording: &Document, process: usize) -> u64 {
    let own = |end: &&RecordedEnd| end.process == process;
    let ends = recording.channels.iter().flat_map(|channel| channel.ends().filter(own));
    let waits = recording.recorded[process].waits.values().map(|wait| wait.ns);
    ends.map(|end| end.blocked_ns + end.lock_ns).chain(waits).sum()
}

#[test]
#[ignore = "needs root: make test"]
fn tracks_have_the_sums_of_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let group = Limited::new("cpu", "perfetto");
    group.set(&[("cpu.max", "2000 100000"), ("cpu.cfs_quota_us", "2000")]);
    let copy = folder.path().join("copy.py");
    // What it reads goes through a socket to its child, which prints it.
    let script = "import os, socket\n\
                  a, b = socket.socketpair()\n\
                  if os.fork():\n\
                  \x20   b.close()\n\
                  \x20   while data := os.read(0, 65536): a.sendall(data)\n\
                  else:\n\
                  \x20   a.close()\n\
                  \x20   while data := b.recv(65536): os.write(1, data)\n";
    std::fs::write(&copy, script).unwrap();
    // It stops itself, and a child that sleeps lets it go on.
    let first = "sh -c '(sleep 0.3; kill -CONT $$) & kill -STOP $$; head -c 1500000 /dev/urandom'";
    let line = format!("{first} | {} {} | {} | wc -c", python(), copy.display(), group.run("gzip -9"));
    let target = folder.path().join("recording");
    let mut command = pipeprof(&["record", "--switches", "--export", "perfetto", "-o", target.to_str().unwrap(), "--"]);
    let output = command.arg(&line).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let recording = pipeprof::result::open(&target).unwrap_or_else(|error| panic!("{error:#}: {said}")).document;
    let trace = Trace::read(&target.join("trace.perfetto-trace"));

    let lost = recording.path.as_ref().unwrap().lost_steps + recording.skipped + recording.unseen_switches;
    let window = recording.processes.window_ns;
    let same = |found: u64, expected: u64, what: &str| {
        let known = found == expected || lost > 0 && found.abs_diff(expected) <= window;
        assert!(known, "{what}: {found} instead of {expected}: {:?}: {said}", trace.slices);
    };
    let path = &trace.slices[&(String::new(), "critical path".to_owned())];
    assert_eq!(path.values().sum::<u64>(), window, "{path:?}");
    let mut threads = BTreeSet::new();
    for (at, (process, name)) in recording.recorded.iter().zip(pipeprof::record::process_names(&recording)).enumerate()
    {
        let name = name.as_str();
        let (states, ids) = trace.threads_of(name);
        let of = |names: &[&str]| names.iter().filter_map(|name| states.get(*name)).sum::<u64>();
        same(of(&["on a CPU"]), process.cpu_ns, name);
        same(of(&["waiting for a CPU", THROTTLED]), process.runnable_ns, name);
        same(of(&[THROTTLED]), process.throttled_ns, name);
        let awake = of(&["on a CPU", "waiting for a CPU", THROTTLED]);
        same(states.values().sum::<u64>() - awake, slept(&recording, at), name);
        let stopped = process.waits.get(&WaitReason::Stopped).map_or(0, |wait| wait.ns);
        same(of(&["stopped"]), stopped, name);
        threads.extend(ids);
    }
    // Linux's events have other programs, too, that had a CPU before.
    let on_cpu: u64 = threads.iter().filter_map(|id| trace.on_cpu.get(id)).sum();
    same(on_cpu, recording.recorded.iter().map(|process| process.cpu_ns).sum(), "all");
    assert!(threads.iter().any(|id| trace.wakings.get(id).is_some_and(|count| *count > 0)), "{:?}", trace.wakings);
    let channels = recording.channels.iter().filter(|channel| channel.is_used());
    let written: u64 = channels.flat_map(|channel| &channel.writers).map(|end| end.bytes).sum();
    let rates = trace.counters.iter().filter(|((_, name), _)| name == "bytes per second");
    let counted = rates.map(|(_, sum)| sum / 1e9).sum::<f64>();
    assert!((counted - written as f64).abs() < 1.0, "{counted} bytes instead of {written}");
    assert!(trace.flows.values().all(|ends| *ends == 2) && !trace.flows.is_empty(), "{:?}", trace.flows);

    // Each of what the pipeline was made of is there.
    let all: BTreeMap<&String, u64> = trace.slices.values().flatten().map(|(name, ns)| (name, *ns)).collect();
    for part in ["stopped", "sleeping on a timer", "waiting for data, socket", "waiting for room, pipe", THROTTLED] {
        let found = all.iter().any(|(name, ns)| name.starts_with(part) && *ns > 0);
        assert!(found, "{part}: {all:?}: {said}");
    }
    let states = trace.slices.iter().filter(|((_, name), _)| name == "state").flat_map(|(_, slices)| slices.keys());
    let states: Vec<&String> = states.collect();
    assert!(states.iter().any(|state| *state == "throttled"), "{states:?}");
    assert!(states.iter().any(|state| *state == "stopped"), "{states:?}");
}
