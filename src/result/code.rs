//! `code.json.gz`, next to `result.json`: the executed code of a window with the count of each instruction, for `pipeprof
//! annotate`.

use crate::arch::Processor;
use crate::profile::ProcessName;
use crate::util::gzip_json;
use anyhow::{Result, ensure};
use flate2::Compression;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The name of the file.
pub const CODE: &str = "code.json.gz";

/// The `schema` of these files.
pub const CODE_SCHEMA: &str = "pipeprof.code/1";

/// Executed functions, by name and address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedCode {
    pub schema: String,
    /// Whose instructions these are.
    #[serde(default, skip_serializing_if = "Processor::is_default")]
    pub processor: Processor,
    /// The processes of an instruction's counts, in their order.
    pub processes: Vec<ProcessName>,
    /// Where the files of foreign programs were on the machine that counted, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, PathBuf>,
    pub functions: Vec<ExecutedFunction>,
}

/// The executed instructions of one function, as the kernel patched them at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedFunction {
    pub name: String,
    /// The file of user code of foreign programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// In the process, or of user code with a file in that file.
    pub address: u64,
    pub instructions: Vec<ExecutedInstruction>,
}

/// One instruction. It has one count for each of [`ExecutedCode::processes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedInstruction {
    /// Bytes from the function's address.
    pub offset: u64,
    /// Its code, two hexadecimal digits per byte.
    pub code: String,
    /// Number of executions; a `rep` instruction counts once, however often it repeats.
    pub counts: Vec<u64>,
    /// Iterations of a `rep` instruction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<u64>,
}

/// Where the instructions of a function are in sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceLines {
    /// By [`ExecutedInstruction::offset`].
    pub places: BTreeMap<u64, SourcePlace>,
    /// The lines of each source file; none if it is not there, or has changed since.
    pub sources: BTreeMap<String, Vec<String>>,
}

/// A place in a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePlace {
    pub file: String,
    pub line: u32,
    /// The functions that were inlined there, the outermost one first.
    pub functions: Vec<String>,
}

impl SourceLines {
    /// The text of a line, without blanks at its ends.
    pub fn text(&self, place: &SourcePlace) -> Option<&str> {
        let lines = self.sources.get(&place.file)?;
        lines.get((place.line as usize).checked_sub(1)?).map(|line| line.trim())
    }
}

impl ExecutedInstruction {
    /// Its code, without digits that are none.
    pub fn bytes(&self) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(self.code.get(at..at + 2)?, 16).ok();
        (0..self.code.len()).step_by(2).filter_map(byte).collect()
    }
}

/// The sum, at most the largest number: a file may contain any counts.
fn sum<'a>(counts: impl Iterator<Item = &'a u64>) -> u64 {
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

impl ExecutedCode {
    /// One process's count in `counts`, or the sum of all.
    pub fn of(&self, counts: &[u64], process: Option<ProcessName>) -> u64 {
        let wanted = |name: &ProcessName| process.is_none_or(|process| process == *name);
        sum(counts.iter().zip(&self.processes).filter(|(_, name)| wanted(name)).map(|(count, _)| count))
    }

    /// The count of all processes of the target.
    pub fn of_target(&self, counts: &[u64]) -> u64 {
        sum(counts.iter().zip(&self.processes).filter(|(_, name)| name.is_of_target()).map(|(count, _)| count))
    }

    /// The file's bytes: compressed JSON. Equal code gives equal bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        gzip_json::to_bytes(self, Compression::best())
    }

    /// Read the file.
    ///
    /// # Errors
    /// When it is damaged or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let code: Self = gzip_json::from_bytes(bytes, "executed code of pipeprof")?;
        ensure!(code.schema == CODE_SCHEMA, "its schema {} is not {CODE_SCHEMA}", code.schema);
        Ok(code)
    }
}

impl ExecutedFunction {
    /// Number of calls: executions of its first instruction.
    pub fn calls(&self) -> &[u64] {
        self.instructions.first().filter(|first| first.offset == 0).map_or(&[], |first| &first.counts)
    }

    /// Instructions executed in it.
    pub fn total(&self) -> u64 {
        sum(self.instructions.iter().flat_map(|instruction| &instruction.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_written_of_code_is_read(
            name: String, numbers in proptest::collection::vec(proptest::num::u64::ANY, 0..5), code: String,
        ) {
            let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
            let instruction = ExecutedInstruction {
                offset: number(0), code, counts: numbers.clone(), iterations: numbers.get(3..).unwrap_or_default().to_vec(),
            };
            let function = ExecutedFunction {
                name: name.clone(), file: Some(name.clone()).filter(|_| number(1) % 2 == 0), address: number(1),
                instructions: vec![instruction],
            };
            let written = ExecutedCode {
                schema: CODE_SCHEMA.to_owned(), processor: Processor::X86_64, processes: vec![ProcessName::new(&name)],
                files: [(name.clone(), PathBuf::from(&name))].into(), functions: vec![function],
            };
            proptest::prop_assert_eq!(ExecutedCode::from_bytes(&written.to_bytes().unwrap()).unwrap(), written);
        }
    }
}
