//! `firefox`: the processed profile of the Firefox Profiler, compressed
//! (<https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>).
//!
//! Stored stacks have no times. Each process's stacks follow one another in the order of their text, each as wide as its
//! weight, so that the tool's time axis shows shares.

use super::ExportFormat;
use super::colour::nearest;
use super::samples::{ProcessPhase, Samples};
use crate::roles::{self, RoleId};
use crate::util::gzip_json;
use anyhow::Result;
use flate2::Compression;
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat, MarkerTiming,
    ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, StackHandle, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use std::collections::HashMap;

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "firefox",
    about: "Profile for profiler.firefox.com, compressed: roles are categories",
    files: |exported| {
        let samples = exported.all();
        let timeless = samples.processes.iter().all(|process| process.phases.is_empty());
        // A timeline is worth showing without stacks.
        let samples = if timeless { exported.samples()? } else { samples };
        Ok(vec![("firefox.json.gz".to_owned(), json(&samples)?)])
    },
    is_folder: false,
};

/// Kinds of values that have no thread of their own: the time axis shows CPU time.
const AXIS: &str = "cpu";

/// A wait of a process in the timeline of a recording.
#[derive(Debug, Clone, Copy)]
struct PhaseMarker {
    name: StringHandle,
    share: f64,
}

impl StaticSchemaMarker for PhaseMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "pipeprof-phase";
    const DESCRIPTION: Option<&'static str> = Some("What the process did most of this time");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.share}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "share",
        label: "Share of this time",
        format: MarkerFieldFormat::Percentage,
        flags: MarkerFieldFlags::empty(),
    }];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.name
    }

    fn number_field_value(&self, _: u32) -> f64 {
        self.share
    }
}

fn json(samples: &Samples) -> Result<Vec<u8>> {
    gzip_json::packed(&serde_json::to_vec(&profile(samples))?, Compression::default())
}

fn profile(samples: &Samples) -> Profile {
    let started = super::nanoseconds(&samples.started).unwrap_or(0) as f64 / 1e6;
    let reference = ReferenceTimestamp::from_millis_since_unix_epoch(started);
    let mut profile = Profile::new(&samples.title, reference, SamplingInterval::from_millis(1));
    profile.set_os_name(&format!("Linux {}", samples.release));
    profile.set_symbolicated(true);
    let mut writer = ThreadWriter { samples, categories: HashMap::new(), names: HashMap::new(), profile };
    for role in roles::all() {
        let category = writer.profile.add_category(role.title, nearest(role.colour));
        writer.categories.insert(role.id, category);
    }
    let cpu = samples.values.iter().position(|kind| kind.name == AXIS);
    for (index, process) in samples.processes.iter().enumerate() {
        let begin = Timestamp::from_nanos_since_reference(process.begin_ns);
        let handle = writer.profile.add_process(&process.name, process.pid, begin);
        let mut first = None;
        for value in (0..samples.values.len()).filter(|value| Some(*value) != cpu) {
            if samples.of(index, value).next().is_some() {
                let thread = writer.thread(handle, index, value, first.is_none());
                first.get_or_insert(thread);
            }
        }
        if !process.phases.is_empty() {
            let thread = first.unwrap_or_else(|| writer.profile.add_thread(handle, process.pid, begin, true));
            process.phases.iter().for_each(|phase| writer.marker(thread, phase));
        }
    }
    writer.profile
}

/// Writes the threads of a profile: one for each kind of value of a process.
struct ThreadWriter<'a> {
    samples: &'a Samples,
    categories: HashMap<RoleId, CategoryHandle>,
    /// By frame.
    names: HashMap<u32, StringHandle>,
    profile: Profile,
}

impl ThreadWriter<'_> {
    fn thread(&mut self, handle: ProcessHandle, process: usize, value: usize, is_main: bool) -> ThreadHandle {
        let samples = self.samples;
        let (own, kind) = (&samples.processes[process], &samples.values[value]);
        let at = Timestamp::from_nanos_since_reference;
        let thread = self.profile.add_thread(handle, own.pid, at(own.begin_ns), is_main);
        let largest = samples.of(process, value).map(|(_, weight)| weight).max().unwrap_or(0);
        // The format's weights have 31 bits.
        let divisor = 1 + largest / (i32::MAX as u64);
        let unit = if kind.unit == "count" { "" } else { kind.unit };
        let mut name = format!("{} {unit}", kind.name.replace('_', " ")).trim_end().to_owned();
        if divisor > 1 {
            name += &format!(" / {divisor}");
            // A main thread is shown by the name of its process.
            self.profile.set_process_name(handle, &format!("{}, weights / {divisor}", own.name));
        }
        self.profile.set_thread_name(thread, &name);
        let scale = self.ns_per_weight(process, value);
        let cpu = samples.values.iter().position(|kind| kind.name == AXIS).filter(|_| value == 0);
        // Other kinds of values are of the same time, or of sleeps.
        let on_cpu = |ns| if value == 0 { CpuDelta::from_nanos(ns) } else { CpuDelta::ZERO };
        let (mut now, mut before) = (own.begin_ns, 0);
        for (sample, weight) in samples.of(process, value) {
            let stack = self.stack(thread, sample);
            let rounded = i32::try_from((weight + divisor / 2) / divisor).unwrap_or(i32::MAX);
            self.profile.add_sample(thread, at(now), stack, on_cpu(before), rounded);
            let own_ns = cpu.and_then(|cpu| sample.values.get(cpu).copied());
            before = own_ns.unwrap_or((weight as f64 * scale) as u64).max(1);
            now = now.saturating_add(before);
        }
        // The last stack ends here.
        self.profile.add_sample(thread, at(now), None, on_cpu(before), 0);
        self.profile.set_thread_end_time(thread, at(now));
        thread
    }

    /// The width of one unit of weight on the time axis: the heaviest process is as wide as the profiled windows.
    fn ns_per_weight(&self, process: usize, value: usize) -> f64 {
        match self.samples.values[value].unit {
            "nanoseconds" => return 1.0,
            "microseconds" => return 1e3,
            _ => {}
        }
        let total = |process| self.samples.of(process, value).map(|(_, weight)| weight as f64).sum::<f64>();
        let heaviest = (0..self.samples.processes.len()).map(total).fold(total(process), f64::max);
        if self.samples.duration_ns == 0 { 1.0 } else { self.samples.duration_ns as f64 / heaviest.max(1.0) }
    }

    /// The stack of a sample. Each frame has the role of the stack up to it, the last one that of the sample.
    fn stack(&mut self, thread: ThreadHandle, sample: &super::samples::StackSample) -> Option<StackHandle> {
        let samples = self.samples;
        let frames: Vec<(u32, &str)> =
            samples.frames_of(sample).map(|(index, frame)| (index, frame.name.as_str())).collect();
        let mut stack = None;
        for (depth, (index, name)) in frames.iter().enumerate() {
            let string = match self.names.get(index) {
                Some(string) => *string,
                None => *self.names.entry(*index).or_insert(self.profile.intern_string(name)),
            };
            let role = match sample.role {
                Some(role) if depth + 1 == frames.len() => Some(role),
                Some(_) => Some(roles::place(frames[..=depth].iter().map(|(_, name)| *name), None).role.id),
                None => None,
            };
            let category = role.and_then(|role| self.categories.get(&role)).copied();
            let info = FrameInfo {
                frame: Frame::Label(string),
                category_pair: category.unwrap_or(CategoryHandle::OTHER).into(),
                flags: FrameFlags::empty(),
            };
            let frame = self.profile.intern_frame(thread, info);
            stack = Some(self.profile.intern_stack(thread, stack, frame));
        }
        stack
    }

    fn marker(&mut self, thread: ThreadHandle, phase: &ProcessPhase) {
        let name = self.profile.intern_string(phase.what);
        let at = Timestamp::from_nanos_since_reference;
        let timing = MarkerTiming::Interval(at(phase.begin_ns), at(phase.end_ns));
        self.profile.add_marker(thread, timing, PhaseMarker { name, share: phase.share });
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::SampledProcess;
    use super::super::tests::{gallery, odd};
    use super::*;
    use crate::Exported;
    use crate::result::Outcome;
    use serde_json::Value;
    use std::io::Read as _;

    fn written(samples: &Samples) -> Value {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&json(samples).unwrap()[..]).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn of(outcome: &Outcome) -> Value {
        written(&Exported::Result(outcome).samples().unwrap())
    }

    fn total(thread: &Value) -> i64 {
        thread["samples"]["weight"].as_array().unwrap().iter().map(|weight| weight.as_i64().unwrap()).sum()
    }

    #[test]
    fn processes_have_threads_with_their_weights_and_roles_are_categories() {
        let outcome = gallery("6.1-write-exact");
        let file = of(&outcome);
        let categories: Vec<&str> = file["meta"]["categories"]
            .as_array()
            .unwrap()
            .iter()
            .map(|category| category["name"].as_str().unwrap())
            .collect();
        assert_eq!(categories.len(), roles::all().len() + 1);
        assert!(categories.contains(&"page allocation"), "{categories:?}");
        let threads = file["threads"].as_array().unwrap();
        let about: Vec<(&str, &str, i64)> = threads
            .iter()
            .map(|thread| (thread["processName"].as_str().unwrap(), thread["name"].as_str().unwrap(), total(thread)))
            .collect();
        let stored = |at: usize| outcome.profiles[at].stacks.total() as i64;
        assert_eq!(
            about,
            [
                ("writer", "writer", stored(0)),
                ("writer", "estimated cycles", stored(2)),
                ("reader", "reader", stored(1)),
                ("reader", "estimated cycles", stored(3))
            ]
        );
    }

    #[test]
    fn odd_names_and_large_weights_fit() {
        let mut outcome = odd();
        outcome.profiles[0].stacks.add("writer;f", 5_000_000_000);
        let file = of(&outcome);
        // Each weight is rounded: 5, 4 and 5,000,000,000 by 3.
        assert_eq!(total(&file["threads"][0]), 1_666_666_670);
        assert_eq!(file["threads"][0]["processName"], "writer, weights / 3");
        assert!(file["threads"][0]["stringArray"].to_string().contains("</script>"));
    }

    #[test]
    fn phases_are_markers() {
        let phase = |what, begin_ns, end_ns| ProcessPhase { what, begin_ns, end_ns, share: 0.75 };
        let phases = vec![phase("pipe empty", 0, 5_000_000), phase("no CPU", 5_000_000, 6_000_000)];
        let process = SampledProcess { name: "wc".to_owned(), pid: 7, phases, ..SampledProcess::default() };
        let file = written(&Samples { processes: vec![process], ..Samples::default() });
        let markers = &file["threads"][0]["markers"];
        assert_eq!(markers["length"], 2);
        assert_eq!(markers["data"][0]["share"], 0.75);
        assert_eq!(markers["endTime"][0], 5.0);
    }
}
