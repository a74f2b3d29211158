//! Changes to a pipeline that may make it faster.

use super::launch::PipelineSetup;
use super::pipeline::needs_shell;
use crate::result::{Document, PipelineCommand, RecordedPipe};
use crate::util::size;
use crate::util::text::counted;
use crate::util::usage::UsageError;
use anyhow::{Result, bail};

/// What `--advise` tries for pipes.
const LARGER_PIPE: u64 = 1 << 20;

/// Sleeps at pipes per second from which a larger pipe is tried.
const MANY_SLEEPS: f64 = 100.0;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// All pipes hold this many bytes.
    PipeSize(u64),
    /// Each stage runs on a CPU of its own, in turn.
    Pin,
    /// Another program as this stage, counted from 1.
    Stage(usize, Vec<String>),
}

impl Remedy {
    /// Parse `pipe-size=1M`, `pin` or `stage2=pigz -dc`.
    ///
    /// # Errors
    /// What is expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "pin" {
            return Ok(Self::Pin);
        }
        let expected = || "expected pipe-size=SIZE, pin or stageN=COMMAND".to_owned();
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
        let number = key.strip_prefix("stage").and_then(|number| number.parse().ok()).ok_or_else(expected)?;
        let words: Vec<String> = if needs_shell(value) {
            ["sh", "-c", value].map(str::to_owned).to_vec()
        } else {
            value.split_whitespace().map(str::to_owned).collect()
        };
        if number == 0 || words.is_empty() { Err(expected()) } else { Ok(Self::Stage(number, words)) }
    }

    /// The change as it is typed.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        match self {
            Self::PipeSize(bytes) => format!("pipe-size={}", size::format(*bytes)),
            Self::Pin => "pin".to_owned(),
            Self::Stage(number, words) => match words.as_slice() {
                // As `parse` has it made.
                [shell, flag, line] if shell == "sh" && flag == "-c" && needs_shell(line) => {
                    format!("stage{number}={line}")
                }
                words => format!("stage{number}={}", words.join(" ")),
            },
        }
    }

    /// The changed pipeline.
    ///
    /// # Errors
    /// A usage error: there is nothing in this pipeline that it could change.
    pub(crate) fn changed(&self, pipeline: &PipelineCommand) -> Result<PipelineCommand> {
        Ok(self.apply(pipeline, &[])?.0)
    }

    /// The changed pipeline, and how to start it. `cpus` are those that this process may use.
    ///
    /// # Errors
    /// A usage error: there is nothing in this pipeline that it could change.
    pub(super) fn apply(&self, pipeline: &PipelineCommand, cpus: &[u32]) -> Result<(PipelineCommand, PipelineSetup)> {
        let (mut pipeline, mut setup) = (pipeline.clone(), PipelineSetup::default());
        let text = self.text();
        match self {
            Self::PipeSize(_) if pipeline.stages.len() < 2 => {
                let shown = pipeline.text();
                let why = if pipeline.shell {
                    format!("a shell makes the pipes of `{shown}`: give stages of plain words")
                } else {
                    format!("`{shown}` has one stage, and so no pipe")
                };
                bail!(UsageError::new(format!("{text}: {why}")))
            }
            Self::PipeSize(bytes) => setup.pipe_bytes = Some(*bytes),
            Self::Pin => setup.cpus = cpus.to_vec(),
            Self::Stage(number, words) => match pipeline.stages.get_mut(number - 1) {
                Some(stage) => stage.clone_from(words),
                None => {
                    let count = pipeline.stages.len();
                    bail!(UsageError::new(format!(
                        "{text}: `{}` has {}",
                        pipeline.text(),
                        counted(count as u64, "stage")
                    )))
                }
            },
        }
        Ok((pipeline, setup))
    }
}

/// The changes that `recording` suggests.
#[must_use]
pub(super) fn suggested(recording: &Document, cpus: &[u32]) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    if recording.target.stages().len() > 1 {
        let ends = recording.pipes.iter().flat_map(RecordedPipe::ends);
        let sleeps: u64 = ends.map(|end| end.sleeps).sum();
        if sleeps as f64 > MANY_SLEEPS * recording.processes.window_ns as f64 / 1e9 {
            remedies.push(Remedy::PipeSize(LARGER_PIPE));
        }
        if cpus.len() > 1 {
            remedies.push(Remedy::Pin);
        }
    }
    remedies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{MeasuredTarget, Processes, RecordedEnd};

    #[test]
    fn changes_are_parsed_and_applied() {
        let pipeline = PipelineCommand { stages: vec![vec!["a".to_owned()], vec!["b".to_owned()]], shell: false };
        for (text, bytes, cpus, second) in [
            ("pipe-size=1M", Some(1 << 20), vec![], vec!["b"]),
            ("pin", None, vec![0, 3], vec!["b"]),
            ("stage2=pigz -dc", None, vec![], vec!["pigz", "-dc"]),
            ("stage2=cat $HOME", None, vec![], vec!["sh", "-c", "cat $HOME"]),
        ] {
            let (changed, setup) = Remedy::parse(text).unwrap().apply(&pipeline, &[0, 3]).unwrap();
            assert_eq!(
                (setup.pipe_bytes, setup.cpus, &changed.stages[1]),
                (bytes, cpus, &second.into_iter().map(str::to_owned).collect())
            );
            assert_eq!(changed.stages[0], ["a"]);
            assert_eq!(Remedy::parse(text).unwrap().text(), text);
        }
        for text in
            ["", "pinned", "pipe-size", "pipe-size=1", "pipe-size=9G", "stage0=a", "stage=a", "stage1=", "stage1"]
        {
            assert!(Remedy::parse(text).is_err(), "{text}");
        }
        let error = Remedy::parse("stage3=a").unwrap().apply(&pipeline, &[]).unwrap_err();
        assert!(error.is::<UsageError>(), "{error}");
        let alone = PipelineCommand { stages: vec![vec!["a".to_owned()]], shell: false };
        assert!(Remedy::PipeSize(4096).apply(&alone, &[]).is_err());
    }

    #[test]
    fn what_is_suggested_depends_on_the_recording() {
        let stages = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
        let mut recording = Document {
            processes: Processes { window_ns: 1_000_000_000, ..Processes::default() },
            ..Document::default()
        };
        assert_eq!(suggested(&recording, &[0, 1]), []);
        recording.target = MeasuredTarget::Pipeline(PipelineCommand { stages, shell: false });
        assert_eq!(suggested(&recording, &[0, 1]), [Remedy::Pin]);
        assert_eq!(suggested(&recording, &[0]), []);
        let end = RecordedEnd { sleeps: 1000, ..RecordedEnd::default() };
        recording.pipes.push(RecordedPipe { readers: vec![end], ..RecordedPipe::default() });
        assert_eq!(suggested(&recording, &[0]), [Remedy::PipeSize(1 << 20)]);
    }
}
