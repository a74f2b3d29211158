//! The code that a counted window executed, with the count of each instruction: `code.json.gz` beside `run.json`, for
//! `pipeprof annotate`.

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::io::Read;

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

/// More than this many bytes are no code of a window.
const LONGEST: u64 = 1 << 30;

impl ExecutedCode {
    /// The file: JSON, compressed. Equal code gives equal bytes.
    ///
    /// # Errors
    /// Never, as long as memory lasts.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        serde_json::to_writer(&mut out, self)?;
        Ok(out.finish()?)
    }

    /// Read the file.
    ///
    /// # Errors
    /// When it is damaged or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut text = Vec::new();
        GzDecoder::new(bytes).take(LONGEST).read_to_end(&mut text).context("it is damaged")?;
        let code: Self = serde_json::from_slice(&text).context("it is no executed code")?;
        ensure!(code.schema == CODE_SCHEMA, "its schema {} is not {CODE_SCHEMA}", code.schema);
        Ok(code)
    }
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
