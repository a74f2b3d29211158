//! Changes to a pipeline that may make it faster.

use super::refused::RefusedCall;
use crate::result::target::needs_shell;
use crate::util::size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// All pipes hold this many bytes.
    PipeSize(u64),
    /// Each stage runs on a CPU of its own, in turn.
    Pin,
    /// Another program as this stage, counted from 1.
    Stage(usize, Vec<String>),
    /// Other words instead of these, wherever a command begins with them, also in a line for the shell.
    Program(Vec<String>, Vec<String>),
    /// These system calls fail in all programs.
    Refuse(Vec<RefusedCall>),
}

/// The words of a text without quotes.
pub fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The words of a stage as [`Remedy::parse`] reads them.
pub fn stage_text(words: &[String]) -> String {
    match words {
        [shell, flag, line] if shell == "sh" && flag == "-c" && needs_shell(line) => line.clone(),
        words => words.join(" "),
    }
}

impl Remedy {
    /// Parse `pipe-size=1M`, `pin`, `stage2=pigz -dc`, `program:gzip=pigz` or `no-splice`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "pin" {
            return Ok(Self::Pin);
        }
        if let Some(calls) = RefusedCall::list(text) {
            return calls.map(Self::Refuse);
        }
        let expected = || "expected pipe-size=SIZE, pin, stageN=COMMAND, program:WORDS=WORDS or no-CALL".to_owned();
        let (key, value) = text.split_once('=').ok_or_else(expected)?;
        if key == "pipe-size" {
            let bytes = size::parse(value)?;
            // F_SETPIPE_SZ takes an int.
            return if (4096..=1 << 30).contains(&bytes) {
                Ok(Self::PipeSize(bytes))
            } else {
                Err("from 4K to 1G".into())
            };
        }
        if let Some(from) = key.strip_prefix("program:") {
            let (from, to) = (words_of(from), words_of(value));
            return if from.is_empty() { Err(expected()) } else { Ok(Self::Program(from, to)) };
        }
        let number = key.strip_prefix("stage").and_then(|number| number.parse().ok()).ok_or_else(expected)?;
        let words: Vec<String> =
            if needs_shell(value) { ["sh", "-c", value].map(str::to_owned).to_vec() } else { words_of(value) };
        if number == 0 || words.is_empty() { Err(expected()) } else { Ok(Self::Stage(number, words)) }
    }

    /// The change as it is typed.
    pub fn text(&self) -> String {
        match self {
            Self::PipeSize(bytes) => format!("pipe-size={}", size::format(*bytes)),
            Self::Pin => "pin".to_owned(),
            Self::Program(from, to) => format!("program:{}={}", from.join(" "), to.join(" ")),
            Self::Stage(number, words) => format!("stage{number}={}", stage_text(words)),
            Self::Refuse(calls) => calls.iter().map(RefusedCall::text).collect::<Vec<_>>().join(","),
        }
    }
}
