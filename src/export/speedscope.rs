//! `speedscope`: the JSON of <https://www.speedscope.app/file-format-schema.json>.

use super::samples::{SampledFrame, Samples, ValueKind};
use super::{ExportFormat, KERNEL_MODULE};
use anyhow::{Context as _, Result};
use indexmap::IndexMap;
use serde::Serialize;

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "speedscope",
    about: "JSON of speedscope, one profile for each process and kind of value",
    files: |exported| Ok(vec![("speedscope.json".to_owned(), json(&exported.samples()?)?)]),
    is_folder: false,
};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeedscopeFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: String,
    active_profile_index: usize,
    shared: SpeedscopeShared<'a>,
    profiles: Vec<SpeedscopeProfile>,
}

/// What all profiles of a file share.
#[derive(Debug, Serialize)]
struct SpeedscopeShared<'a> {
    frames: Vec<SpeedscopeFrame<'a>>,
}

/// A function.
#[derive(Debug, Serialize)]
struct SpeedscopeFrame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// The stacks of one process, with one kind of weight.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeedscopeProfile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

fn json(samples: &Samples) -> Result<Vec<u8>> {
    // One frame for each function: speedscope would draw others side by side. Its line is the first one that was seen.
    let mut functions: IndexMap<(&str, Option<&str>), Option<u32>> = IndexMap::new();
    let mut numbers: Vec<u32> = Vec::new();
    for own in &samples.frames {
        let function = functions.entry((own.name.as_str(), file(own)));
        numbers.push(function.index() as u32);
        let line = function.or_default();
        *line = [*line, own.line].into_iter().flatten().min();
    }
    let frames = functions.into_iter().map(|((name, file), line)| SpeedscopeFrame { name, file, line }).collect();
    let kinds = samples.values.iter().enumerate();
    let profiles = kinds.flat_map(|(index, kind)| {
        let numbers = &numbers;
        (0..samples.processes.len()).filter_map(move |process| profile(samples, numbers, process, (index, kind)))
    });
    let file = SpeedscopeFile {
        schema: SCHEMA,
        name: &samples.title,
        exporter: format!("pipeprof {}", samples.version),
        active_profile_index: 0,
        shared: SpeedscopeShared { frames },
        profiles: profiles.collect(),
    };
    serde_json::to_vec(&file).context("cannot write the profile as JSON")
}

/// Its source file if it is known, otherwise the program.
fn file(frame: &SampledFrame) -> Option<&str> {
    let known = frame.file.as_deref().or(frame.module.as_deref());
    known.or(frame.is_kernel.then_some(KERNEL_MODULE))
}

/// `None` if the process has no value of this kind. `numbers`: those of the file's frames, by index of the samples'.
fn profile(
    samples: &Samples,
    numbers: &[u32],
    process: usize,
    (value, kind): (usize, &ValueKind),
) -> Option<SpeedscopeProfile> {
    let own: Vec<_> = samples.of(process, value).collect();
    let weights: Vec<u64> = own.iter().map(|(_, weight)| *weight).collect();
    (!own.is_empty()).then(|| SpeedscopeProfile {
        kind: "sampled",
        name: format!("{}, {}", samples.processes[process].name, kind.name.replace('_', " ")),
        unit: if kind.unit == "count" { "none" } else { kind.unit },
        start_value: 0,
        end_value: weights.iter().fold(0, |sum, weight| sum.saturating_add(*weight)),
        samples: own
            .iter()
            .map(|(sample, _)| {
                samples.frames_of(sample).filter_map(|(index, _)| numbers.get(index as usize)).copied().collect()
            })
            .collect(),
        weights,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ODD, gallery, odd};
    use super::*;
    use crate::Exported;
    use serde_json::Value;

    fn written(outcome: &crate::result::Outcome) -> Value {
        let value: Value =
            serde_json::from_slice(&json(&Exported::Result(outcome).samples().unwrap()).unwrap()).unwrap();
        let schema: Value = serde_json::from_str(include_str!("../../tests/data/speedscope-schema.json")).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        value
    }

    #[test]
    fn each_process_has_a_profile_with_the_weight_of_its_folded_file() {
        let outcome = gallery("6.1-write-exact");
        let file = written(&outcome);
        let profiles = file["profiles"].as_array().unwrap();
        let names: Vec<&str> = profiles.iter().map(|profile| profile["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["writer, instructions", "reader, instructions", "writer, estimated cycles", "reader, estimated cycles"]
        );
        for (profile, stored) in profiles.iter().zip(&outcome.profiles) {
            assert_eq!(profile["endValue"], stored.stacks.total());
            assert_eq!(profile["weights"].as_array().unwrap().len(), stored.stacks.len());
        }
    }

    #[test]
    fn odd_names_stay_as_they_are_but_for_what_is_hidden() {
        let file = written(&odd());
        let frames = file["shared"]["frames"].as_array().unwrap();
        assert_eq!(frames[0]["name"], ODD[0]);
        assert_eq!(frames[1]["name"], "_[31m_");
        assert_eq!(file["profiles"][1]["unit"], "nanoseconds");
        assert_eq!(file["profiles"][1]["endValue"], 900);
    }
}
