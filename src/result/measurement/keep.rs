//! What is waited for while only the last time of a recording is kept.

use crate::util::size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Watch running processes, and keep only the last time before something happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Keep {
    /// At least so much is kept, ns, and at most three times as much.
    pub ns: u64,
    /// Any of these ends it; without any, only SIGUSR1 does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<Until>,
    /// How often it is written.
    pub repeat: u32,
}

/// A condition on watched processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// A thread has slept for so many ns, at one stretch, because a channel was full.
    Full(u64),
    /// The same because it was empty.
    Empty(u64),
    /// In a second, fewer bytes than this were read from all channels together.
    Rate(u64),
    /// A process is stopped.
    Stopped,
    /// A process that was asked for has ended.
    Exit,
}

/// Why a recording was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trigger {
    /// What happened; absent after SIGUSR1.
    pub until: Option<Until>,
    /// The program to which it happened, as in /proc/PID/comm; empty if unknown.
    pub name: String,
}

impl Until {
    /// As on the command line, by the function that parses times.
    ///
    /// # Errors
    /// A message for the flag.
    pub fn parse(text: &str, time: impl Fn(&str) -> Result<u64, String>) -> Result<Self, String> {
        if let Some(limit) = text.strip_prefix("rate").and_then(|rest| rest.trim_start().strip_prefix('<')) {
            return size::parse(limit.trim()).map(Self::Rate);
        }
        match text.split_once(' ') {
            None if text == "stopped" => Ok(Self::Stopped),
            None if text == "exit" => Ok(Self::Exit),
            Some(("full", rest)) => Ok(Self::Full(time(rest.trim())?)),
            Some(("empty", rest)) => Ok(Self::Empty(time(rest.trim())?)),
            _ => Err(format!(
                "unknown condition '{text}'; known: 'full TIME', 'empty TIME', 'rate < SIZE', stopped, exit"
            )),
        }
    }

    /// As on the command line.
    pub fn text(self) -> String {
        match self {
            Self::Full(ns) => format!("full {ns}ns"),
            Self::Empty(ns) => format!("empty {ns}ns"),
            Self::Rate(bytes) => format!("rate < {bytes}"),
            Self::Stopped => "stopped".to_owned(),
            Self::Exit => "exit".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_what_was_typed() {
        let time = |text: &str| text.trim_end_matches("ns").parse::<u64>().map_err(|error| error.to_string());
        for until in [Until::Full(7), Until::Empty(500_000_000), Until::Rate(9), Until::Stopped, Until::Exit] {
            assert_eq!(Until::parse(&until.text(), time), Ok(until));
        }
        assert_eq!(Until::parse("rate <1M", time), Ok(Until::Rate(1 << 20)));
        for wrong in ["", "full", "full x", "Exit", "rate 5", "rate <", "rate < x"] {
            assert!(Until::parse(wrong, time).is_err(), "{wrong}");
        }
    }
}
