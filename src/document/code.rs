//! The code that a counted window executed, with the count of each instruction: `code.json.gz` beside `run.json`, for
//! `pipeprof annotate`.

use serde::{Deserialize, Serialize};

/// The `schema` of these files.
pub const CODE_SCHEMA: &str = "pipeprof.code/1";

/// Executed functions, by name and address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedCode {
    pub schema: String,
    pub functions: Vec<ExecutedFunction>,
}

/// The instructions of one function that were executed, as they were after the kernel patched itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedFunction {
    pub name: String,
    pub address: u64,
    pub instructions: Vec<ExecutedInstruction>,
}

/// One instruction. Counts are those of writer, reader and others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedInstruction {
    /// Bytes from the function's address.
    pub offset: u64,
    /// Its code, two hexadecimal digits for each byte.
    pub code: String,
    /// How often it was completed; a `rep` instruction counts once, however often it repeats.
    pub counts: [u64; 3],
    /// Iterations of a `rep` instruction.
    #[serde(default, skip_serializing_if = "no_iterations")]
    pub iterations: [u64; 3],
}

fn no_iterations(iterations: &[u64; 3]) -> bool {
    *iterations == [0; 3]
}

impl ExecutedFunction {
    /// How often it was entered: what a probe on its first instruction counts.
    #[must_use]
    pub fn calls(&self) -> [u64; 3] {
        self.instructions.first().filter(|first| first.offset == 0).map_or([0; 3], |first| first.counts)
    }

    /// Instructions executed in it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.instructions.iter().flat_map(|instruction| instruction.counts).sum()
    }
}
