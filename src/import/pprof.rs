//! profile.proto, as pprof, Parca, perf_to_profile and pipeprof write it.

use super::{Commands, ImportFormat, ImportedProfile};
use crate::export::proto::{PprofFunction, PprofLine, PprofLocation, PprofProfile, PprofSample};
use crate::kernel::symbols::KERNEL_START;
use crate::profile::places::FramePlace;
use anyhow::{Context as _, Result, bail, ensure};
use prost::Message as _;
use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;

/// The longest profile after decompression, bytes.
const LONGEST: u64 = 1 << 30;

/// Labels that name a command, best first.
const COMMAND_LABELS: [&str; 4] = ["process", "comm", "process_name", "command"];

/// How a compressed file begins.
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];

pub(super) fn parse(bytes: &[u8], event: Option<&str>) -> Result<ImportedProfile> {
    let mut message = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(bytes).take(LONGEST + 1).read_to_end(&mut message);
    read.context("it is compressed, and damaged")?;
    ensure!(message.len() as u64 <= LONGEST, "it is larger than {} MiB", LONGEST >> 20);
    decoded(&message, event)
}

/// The profile in `message`, which is not compressed.
pub fn decoded(message: &[u8], event: Option<&str>) -> Result<ImportedProfile> {
    let profile = PprofProfile::decode(message).context("it is compressed, but no profile.proto")?;
    let value = value(&profile, event)?;
    let names = PprofNames::new(&profile);
    let mut commands = Commands::default();
    for sample in &profile.sample {
        let weight = sample.value.get(value).copied().unwrap_or(0);
        let Ok(weight @ 1..) = u64::try_from(weight) else { continue };
        let frames = sample.location_id.iter().rev().flat_map(|id| names.frames(*id));
        let all: Vec<(String, Option<FramePlace>)> =
            std::iter::once((names.command(sample), None)).chain(frames).collect();
        commands.add(all.iter().map(|(name, place)| (name.as_str(), place.clone())), weight);
    }
    let period = profile.period_type.as_ref().map(|period| names.text(period.kind));
    Ok(ImportedProfile {
        format: ImportFormat::Pprof,
        event: period.filter(|kind| !kind.is_empty()).map(str::to_owned),
        commands: commands.0,
        ..ImportedProfile::default()
    })
}

/// Which value of each sample is the number of samples.
fn value(profile: &PprofProfile, event: Option<&str>) -> Result<usize> {
    let text = |place: i64| text(profile, place);
    let kinds: Vec<(&str, &str)> =
        profile.sample_type.iter().map(|value| (text(value.kind), text(value.unit))).collect();
    let counts = |(kind, unit): &(&str, &str)| *unit == "count" && (*kind == "samples" || kind.ends_with("_sample"));
    let found = match event {
        Some(event) => kinds.iter().position(|(kind, _)| *kind == event),
        None => kinds.iter().position(counts),
    };
    let known = || kinds.iter().map(|(kind, unit)| format!("{kind}/{unit}")).collect::<Vec<_>>().join(", ");
    match (found, event) {
        (Some(found), _) => Ok(found),
        (None, Some(event)) => bail!("--event {event}: the profile has {}", known()),
        (None, None) => bail!(
            "the profile has no numbers of samples, only {}: choose one with --event (intervals are then too narrow)",
            known()
        ),
    }
}

fn text(profile: &PprofProfile, place: i64) -> &str {
    usize::try_from(place).ok().and_then(|place| profile.string_table.get(place)).map_or("", String::as_str)
}

/// What a profile's numbers stand for.
struct PprofNames<'p> {
    profile: &'p PprofProfile,
    locations: HashMap<u64, &'p PprofLocation>,
    functions: HashMap<u64, &'p PprofFunction>,
    /// The files.
    mappings: HashMap<u64, &'p str>,
}

impl<'p> PprofNames<'p> {
    fn new(profile: &'p PprofProfile) -> Self {
        Self {
            profile,
            locations: profile.location.iter().map(|location| (location.id, location)).collect(),
            functions: profile.function.iter().map(|function| (function.id, function)).collect(),
            mappings: profile.mapping.iter().map(|mapping| (mapping.id, text(profile, mapping.filename))).collect(),
        }
    }

    fn text(&self, place: i64) -> &'p str {
        text(self.profile, place)
    }

    /// The functions at a location with their lines, callers first: inlined ones come before their callers in the
    /// profile.
    fn frames(&self, id: u64) -> Vec<(String, Option<FramePlace>)> {
        let Some(location) = self.locations.get(&id) else { return Vec::new() };
        let file = self.mappings.get(&location.mapping_id).copied().unwrap_or_default();
        let in_kernel = location.address >= KERNEL_START
            || file.starts_with("[kernel")
            || file.ends_with(".ko")
            || file.contains("vmlinux");
        let mark = if in_kernel { super::KERNEL_MARK } else { "" };
        let known = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Arc::from);
        let in_module = FramePlace {
            address: Some(location.address).filter(|address| *address > 0),
            module: known(file).filter(|_| !file.starts_with("[kernel")),
            ..FramePlace::default()
        };
        let lines = location.line.iter().rev().filter_map(|line| Some((line, self.functions.get(&line.function_id)?)));
        let frame = |(line, function): (&PprofLine, &&PprofFunction)| {
            let name = Some(self.text(function.name)).filter(|name| !name.is_empty())?;
            let place = FramePlace {
                file: known(self.text(function.filename)),
                line: u32::try_from(line.line).ok().filter(|line| *line > 0),
                ..in_module.clone()
            };
            Some((format!("{name}{mark}"), place.if_known()))
        };
        let named: Vec<_> = lines.filter_map(frame).collect();
        if named.is_empty() {
            return vec![(format!("{}{mark}", module(file)), in_module.if_known())];
        }
        named
    }

    /// The command of a sample, by its labels, or else the program: the first file of the profile.
    fn command(&self, sample: &PprofSample) -> String {
        let label = |key: &&str| {
            let label = sample.label.iter().find(|label| self.text(label.key) == *key)?;
            Some(self.text(label.text)).filter(|text| !text.is_empty())
        };
        let program = || self.profile.mapping.first().map(|mapping| self.text(mapping.filename));
        let name = COMMAND_LABELS.iter().find_map(label).or_else(program).unwrap_or_default();
        let base = name.rsplit('/').next().unwrap_or(name);
        if base.is_empty() || base.starts_with('[') { "profile".to_owned() } else { base.to_owned() }
    }
}

/// `[libc.so.6]`, as perf's users know it.
fn module(file: &str) -> String {
    match file.rsplit('/').next().unwrap_or(file) {
        "" => "[unknown]".to_owned(),
        bracketed if bracketed.starts_with('[') => bracketed.to_owned(),
        name => format!("[{name}]"),
    }
}
