//! The format of a pair's `run.json`: its processes `writer`, `reader` and `other` are fields among the others. In
//! memory, and in documents of other targets, they are in a map.

use super::Attribution;
use crate::process::{PipeEnd, PipeTotals, ProcessTotals, Processes};
use crate::profile::{ByProcess, ProcessName, RoleShare};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const PAIR: [ProcessName; 2] = [ProcessName::WRITER, ProcessName::READER];

/// [`Attribution`].
pub(crate) mod attribution {
    use super::*;

    const RESERVED: [&str; 1] = ["collector"];

    #[derive(Serialize, Deserialize)]
    struct AttributionForm {
        collector: String,
        #[serde(flatten)]
        processes: ByProcess<Vec<RoleShare>>,
    }

    /// The schema of a pair's attribution.
    #[derive(JsonSchema)]
    #[schemars(rename = "Attribution")]
    #[expect(dead_code, reason = "only its schema is used")]
    pub(crate) struct AttributionSchema {
        /// Which collector's profile was attributed.
        collector: String,
        writer: Vec<RoleShare>,
        reader: Vec<RoleShare>,
        /// Instruction profiles only: what neither process executed.
        other: Vec<RoleShare>,
    }

    /// # Errors
    /// When a process has the name of a field.
    pub(crate) fn serialize<S: Serializer>(attribution: &Attribution, serializer: S) -> Result<S::Ok, S::Error> {
        let all = [ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER];
        let processes = padded::<_, S>(&attribution.processes, &all, &RESERVED)?;
        AttributionForm { collector: attribution.collector.clone(), processes }.serialize(serializer)
    }

    /// # Errors
    /// When the format differs.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attribution, D::Error> {
        let form = AttributionForm::deserialize(deserializer)?;
        let processes = form.processes.into_iter().filter(|(_, shares)| !shares.is_empty());
        Ok(Attribution { collector: form.collector, processes: processes.collect() })
    }
}

/// [`Processes`].
pub(crate) mod processes {
    use super::*;

    const RESERVED: [&str; 2] = ["window_ns", "pairs"];

    #[derive(Serialize, Deserialize)]
    struct ProcessesForm {
        #[serde(flatten)]
        totals: ByProcess<ProcessTotals>,
        #[serde(default)]
        window_ns: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pairs: Vec<PipeForm>,
    }

    /// The processes around one pipe.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[schemars(rename = "PairTotals")]
    struct PipeForm {
        /// From its first writer's first call to its last process's end.
        window_ns: u64,
        writers: Vec<ProcessTotals>,
        readers: Vec<ProcessTotals>,
    }

    /// The schema of a pair's processes.
    #[derive(JsonSchema)]
    #[schemars(rename = "Processes")]
    #[expect(dead_code, reason = "only its schema is used")]
    pub(crate) struct ProcessesSchema {
        /// Sum over all writers.
        writer: ProcessTotals,
        reader: ProcessTotals,
        /// From the first writer's first call to the last process's end, monotonic raw clock.
        #[serde(default)]
        window_ns: u64,
        /// Each process separately, by pipe; empty for one writer and one reader on one pipe.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pairs: Vec<PipeForm>,
    }

    /// # Errors
    /// When a process has the name of a field.
    pub(crate) fn serialize<S: Serializer>(processes: &Processes, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = processes.pipes.iter().map(|pipe| PipeForm {
            window_ns: pipe.window_ns,
            writers: pipe.from.totals.clone(),
            readers: pipe.to.totals.clone(),
        });
        let totals = padded::<_, S>(&processes.totals, &PAIR, &RESERVED)?;
        ProcessesForm { totals, window_ns: processes.window_ns, pairs: pairs.collect() }.serialize(serializer)
    }

    /// # Errors
    /// When the format differs.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Processes, D::Error> {
        let form = ProcessesForm::deserialize(deserializer)?;
        let pipes = form.pairs.into_iter().map(|pipe| PipeTotals {
            window_ns: pipe.window_ns,
            from: PipeEnd { process: ProcessName::WRITER, totals: pipe.writers },
            to: PipeEnd { process: ProcessName::READER, totals: pipe.readers },
        });
        Ok(Processes { totals: form.totals, window_ns: form.window_ns, pipes: pipes.collect() })
    }
}

/// For a pair, `values` with defaults for missing `names`, so that all fields exist.
fn padded<T, S>(values: &ByProcess<T>, names: &[ProcessName], reserved: &[&str]) -> Result<ByProcess<T>, S::Error>
where
    T: Clone + Default + Serialize + DeserializeOwned,
    S: Serializer,
{
    if let Some(name) = values.names().find(|name| reserved.contains(&name.as_str())) {
        let message = format!("a process cannot be called '{name}', which is a field of run.json");
        return Err(serde::ser::Error::custom(message));
    }
    let of_pair = values.names().all(|name| PAIR.contains(&name) || !name.is_of_target());
    if !of_pair {
        return Ok(values.clone());
    }
    let mut all: ByProcess<T> =
        names.iter().map(|name| (*name, values.get(*name).cloned().unwrap_or_default())).collect();
    all.extend(values.iter().map(|(name, value)| (name, value.clone())));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Document(#[serde(with = "processes")] Processes);

    fn totals(bytes: u64) -> ProcessTotals {
        ProcessTotals { bytes, ..ProcessTotals::default() }
    }

    #[test]
    fn processes_are_fields_among_the_others() {
        for names in [&["writer", "reader"][..], &["sort", "head", "writer"]] {
            let totals = names.iter().zip(1..).map(|(name, bytes)| (ProcessName::new(name), totals(bytes))).collect();
            let document = Document(Processes { totals, window_ns: 9, pipes: Vec::new() });
            let text = serde_json::to_string(&document).unwrap();
            assert!(text.starts_with(&format!("{{\"{}\":{{\"bytes\":1,", names[0])), "{text}");
            assert!(text.ends_with("},\"window_ns\":9}"), "{text}");
            assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
        }
    }

    #[test]
    fn an_ambiguous_name_is_refused() {
        let totals = [(ProcessName::new("pairs"), totals(1))].into_iter().collect();
        let document = Document(Processes { totals, ..Processes::default() });
        assert!(serde_json::to_string(&document).unwrap_err().to_string().contains("cannot be called 'pairs'"));
    }

    #[test]
    fn an_empty_attribution_has_all_fields() {
        let mut text = Vec::new();
        attribution::serialize(&Attribution::default(), &mut serde_json::Serializer::new(&mut text)).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), r#"{"collector":"","writer":[],"reader":[],"other":[]}"#);
    }
}
