//! `pprof`: the compressed profile.proto of `go tool pprof`
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>).

use super::proto::{
    PprofFunction, PprofLabel, PprofLine, PprofLocation, PprofMapping, PprofProfile, PprofSample, PprofValueType,
};
use super::samples::{SampledFrame, Samples};
use super::{ExportFormat, KERNEL_MODULE, nanoseconds};
use crate::kernel::symbols::KERNEL_START;
use anyhow::{Context as _, Result};
use flate2::{Compression, write::GzEncoder};
use prost::Message as _;
use std::collections::HashMap;
use std::io::Write as _;

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "pprof",
    about: "profile.proto of go tool pprof, compressed",
    files: |exported| Ok(vec![("profile.pb.gz".to_owned(), compressed(&profile(&exported.samples()?))?)]),
    is_folder: false,
};

/// The number of the kernel's mapping.
const KERNEL_MAPPING: u64 = 1;

fn compressed(profile: &PprofProfile) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&profile.encode_to_vec())?;
    gzip.finish().context("cannot compress the profile")
}

/// The texts of a profile, each once. The first is empty, as the format demands.
#[derive(Default)]
struct StringTable {
    texts: Vec<String>,
    places: HashMap<String, i64>,
}

impl StringTable {
    fn new() -> Self {
        let mut table = Self::default();
        table.place("");
        table
    }

    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

/// The message.
fn profile(samples: &Samples) -> PprofProfile {
    let mut strings = StringTable::new();
    let mut profile = PprofProfile {
        time_nanos: nanoseconds(&samples.started).unwrap_or(0),
        duration_nanos: positive(samples.duration_ns),
        ..PprofProfile::default()
    };
    for value in &samples.values {
        let value = PprofValueType { kind: strings.place(&value.name), unit: strings.place(value.unit) };
        profile.sample_type.push(value);
    }
    profile.default_sample_type = profile.sample_type.first().map_or(0, |value| value.kind);
    let facts = [samples.title.clone(), format!("Linux {}", samples.release), format!("pipeprof {}", samples.version)];
    profile.comment = facts.iter().map(|fact| strings.place(fact)).collect();
    let mut code = CodeTable::new(&mut strings);
    for (id, frame) in (1..).zip(&samples.frames) {
        let location = code.location(id, frame, &mut strings);
        profile.location.push(location);
    }
    (profile.mapping, profile.function) = (code.mappings, code.functions);
    let keys = ["process", "role", "kernel", "interrupts"].map(|key| strings.place(key));
    let kernel = strings.place(&samples.release);
    let off = strings.place("off");
    for sample in &samples.samples {
        let process = samples.processes.get(sample.process).map_or("", |process| &process.name);
        let role = sample.role.map_or(0, |role| strings.place(role.as_str()));
        let interrupts = if sample.interrupts_off { off } else { 0 };
        let texts = [strings.place(process), role, kernel, interrupts];
        let label = |(key, text): (i64, i64)| PprofLabel { key, text, ..PprofLabel::default() };
        profile.sample.push(PprofSample {
            location_id: samples.frames_of(sample).rev().map(|(index, _)| u64::from(index) + 1).collect(),
            value: sample.values.iter().map(|value| positive(*value)).collect(),
            label: keys.into_iter().zip(texts).filter(|(_, text)| *text != 0).map(label).collect(),
        });
    }
    profile.string_table = strings.texts;
    profile
}

/// The files and functions that locations are in, each once.
struct CodeTable<'a> {
    mappings: Vec<PprofMapping>,
    /// The numbers of mappings, by file.
    files: HashMap<&'a str, u64>,
    functions: Vec<PprofFunction>,
    /// The numbers of functions: by name, mapping and source file.
    numbers: HashMap<(&'a str, u64, Option<&'a str>), u64>,
}

impl<'a> CodeTable<'a> {
    fn new(strings: &mut StringTable) -> Self {
        let kernel = PprofMapping {
            id: KERNEL_MAPPING,
            memory_start: KERNEL_START,
            memory_limit: u64::MAX,
            filename: strings.place(KERNEL_MODULE),
            has_functions: true,
        };
        Self { mappings: vec![kernel], files: HashMap::new(), functions: Vec::new(), numbers: HashMap::new() }
    }

    /// A frame's location. Several can be in one function.
    fn location(&mut self, id: u64, frame: &'a SampledFrame, strings: &mut StringTable) -> PprofLocation {
        let mapping_id = self.mapping(frame, strings);
        let function_id = self.function(frame, mapping_id, strings);
        PprofLocation {
            id,
            mapping_id,
            address: frame.address.unwrap_or(0),
            line: vec![PprofLine { function_id, line: frame.line.map_or(0, i64::from) }],
            is_folded: false,
        }
    }

    /// The number of the mapping that a frame is in; 0 if it is not known. Addresses in programs are those of their ELF
    /// files, so that each begins at 0.
    fn mapping(&mut self, frame: &'a SampledFrame, strings: &mut StringTable) -> u64 {
        let module = frame.module.as_deref().filter(|module| !module.starts_with("[kernel"));
        let Some(module) = module else { return if frame.is_kernel { KERNEL_MAPPING } else { 0 } };
        let next = self.mappings.len() as u64 + 1;
        *self.files.entry(module).or_insert_with(|| {
            self.mappings.push(PprofMapping {
                id: next,
                memory_start: if frame.is_kernel { KERNEL_START } else { 0 },
                memory_limit: if frame.is_kernel { u64::MAX } else { KERNEL_START },
                filename: strings.place(module),
                has_functions: true,
            });
            next
        })
    }

    fn function(&mut self, frame: &'a SampledFrame, mapping: u64, strings: &mut StringTable) -> u64 {
        let file = frame.file.as_deref();
        let next = self.functions.len() as u64 + 1;
        *self.numbers.entry((&frame.name, mapping, file)).or_insert_with(|| {
            let filename = file.map_or(0, |file| strings.place(file));
            // If both names were equal, pprof would cut `<T as Trait>`, as in templates of C++.
            self.functions.push(PprofFunction { id: next, name: strings.place(&frame.name), system_name: 0, filename });
            next
        })
    }
}

fn positive(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gallery, odd};
    use super::*;
    use crate::Exported;
    use crate::profile::attribution;
    use crate::roles::RoleId;
    use std::collections::BTreeMap;
    use std::io::Read as _;

    fn decoded(bytes: &[u8]) -> PprofProfile {
        let mut message = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut message).unwrap();
        PprofProfile::decode(&message[..]).unwrap()
    }

    fn text(profile: &PprofProfile, place: i64) -> &str {
        &profile.string_table[usize::try_from(place).unwrap()]
    }

    /// Sums of a value by process and role.
    fn sums(profile: &PprofProfile, value: usize) -> BTreeMap<(String, String), i64> {
        let mut sums = BTreeMap::new();
        for sample in &profile.sample {
            let label = |key: &str| {
                let label = sample.label.iter().find(|label| text(profile, label.key) == key);
                text(profile, label.map_or(0, |label| label.text)).to_owned()
            };
            *sums.entry((label("process"), label("role"))).or_default() += sample.value[value];
        }
        sums
    }

    #[test]
    fn sums_by_process_and_role_are_those_of_the_run() {
        let outcome = gallery("6.1-write-exact");
        let bytes = compressed(&profile(&Exported::Result(&outcome).samples().unwrap())).unwrap();
        let profile = decoded(&bytes);
        let kinds: Vec<[&str; 2]> =
            profile.sample_type.iter().map(|kind| [text(&profile, kind.kind), text(&profile, kind.unit)]).collect();
        assert_eq!(kinds, [["instructions", "count"], ["estimated_cycles", "count"]]);
        let sums = sums(&profile, 0);
        for (process, shares) in outcome.document.attribution.processes.of_target() {
            let of_process = |name: &str| process.as_str() == name;
            let all: i64 = sums.iter().filter(|((name, _), _)| of_process(name)).map(|(_, sum)| sum).sum();
            assert_eq!(all as u64, shares.iter().map(|share| share.weight).sum::<u64>(), "{process}");
            let stored = outcome.profiles.iter().find(|own| own.process == process && own.collector == "insn").unwrap();
            for (role, weight) in attribution::by_role(&stored.stacks, stored.skid) {
                assert_eq!(sums[&(process.to_string(), role.to_string())], weight as i64, "{process} {role}");
            }
            for share in shares {
                // The gallery's stacks are cut where they are light, which moves a little weight between roles.
                let sum = sums.get(&(process.to_string(), share.role.to_string())).copied().unwrap_or(0);
                let part = (sum as f64 - share.weight as f64) / all as f64;
                assert!(part.abs() < 0.002, "{process} {}: {sum}, {}", share.role, share.weight);
            }
        }
    }

    #[test]
    fn every_index_is_valid_and_kernel_code_is_mapped() {
        let profile = profile(&Exported::Result(&odd()).samples().unwrap());
        assert_eq!(profile.string_table[0], "");
        for sample in &profile.sample {
            assert_eq!(sample.value.len(), profile.sample_type.len());
            for id in &sample.location_id {
                let location = &profile.location[usize::try_from(id - 1).unwrap()];
                let function = &profile.function[usize::try_from(location.line[0].function_id - 1).unwrap()];
                assert_eq!((location.id, function.id), (*id, location.line[0].function_id));
                let name = text(&profile, function.name);
                assert!(!name.is_empty() && !name.contains('\n'));
                assert_eq!(function.system_name, 0, "pprof would cut names");
                let is_kernel = ["entry_SYSCALL_64_after_hwframe", "do_syscall_64", "pipe_write"].contains(&name);
                assert_eq!(location.mapping_id == KERNEL_MAPPING, is_kernel, "{name}");
                let address = if name == "pipe_write" { 0xffff_ffff_8100_0000 } else { 0 };
                assert_eq!(location.address, address, "{name}");
            }
        }
        assert_eq!(profile.time_nanos, 1_767_225_600_000_000_000);
        let user = ("writer".to_owned(), RoleId::User.to_string());
        assert_eq!(sums(&profile, 0)[&user], 5);
        // 900 ns of CPU time were accounted to 9 samples.
        assert_eq!(sums(&profile, 1)[&user], 500);
        assert_eq!(sums(&profile, 1).values().sum::<i64>(), 900);
    }
}
