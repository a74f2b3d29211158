//! What a [`Remedy`] makes of a pipeline.

use crate::record::start::launch::PipelineSetup;
use crate::record::trials::shell_words::replaced;
use crate::result::{PipelineCommand, Remedy};
use crate::util::text::counted;
use crate::util::usage::UsageError;
use anyhow::{Result, bail};
use easy_ext::ext;

#[ext(ApplyRemedy)]
impl Remedy {
    /// The changed pipeline.
    ///
    /// # Errors
    /// A usage error: there is nothing in this pipeline that it could change.
    pub fn changed(&self, pipeline: &PipelineCommand) -> Result<PipelineCommand> {
        Ok(self.apply(pipeline, &[])?.0)
    }

    /// The changed pipeline, and how to start it. `cpus` are those that this process may use.
    ///
    /// # Errors
    /// A usage error: there is nothing in this pipeline that it could change.
    pub fn apply(&self, pipeline: &PipelineCommand, cpus: &[u32]) -> Result<(PipelineCommand, PipelineSetup)> {
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
            Self::Refuse(calls) => setup.refused.clone_from(calls),
            Self::Program(from, to) if pipeline.shell => {
                let line = pipeline.stages.first_mut().and_then(|words| words.last_mut());
                let changed = line.as_ref().and_then(|line| replaced(line, from, to));
                match line.zip(changed) {
                    Some((line, changed)) => *line = changed,
                    None => bail!(UsageError::new(format!("{text}: no command of `{}` begins so", pipeline.text()))),
                }
            }
            Self::Program(from, to) => {
                let mut found = false;
                for stage in pipeline.stages.iter_mut().filter(|stage| stage.starts_with(from)) {
                    stage.splice(..from.len(), to.iter().cloned());
                    found = true;
                }
                if !found || pipeline.stages.iter().any(Vec::is_empty) {
                    bail!(UsageError::new(format!("{text}: no stage of `{}` begins so", pipeline.text())));
                }
            }
            Self::Stage(..) if pipeline.shell => {
                let why = "a shell runs it: replace a program, as in program:gzip=pigz";
                bail!(UsageError::new(format!("{text}: `{}` has no stages of plain words; {why}", pipeline.text())))
            }
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn programs_are_replaced_in_stages_and_in_lines_for_the_shell() {
        let changed = |change: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let pipeline = PipelineCommand::parse(&words).unwrap();
            let remedy = Remedy::parse(change).unwrap();
            assert_eq!(remedy.text(), change);
            remedy.changed(&pipeline).map(|changed| changed.text())
        };
        assert_eq!(changed("program:gzip=pigz -p 2", &["gzip", "-9", "|", "wc"]).unwrap(), "pigz -p 2 -9 | wc");
        assert_eq!(changed("program:gzip=pigz", &["gzip -9 >a; gzip b"]).unwrap(), "pigz -9 >a; pigz b");
        assert_eq!(changed("program:stdbuf -oL=", &["stdbuf", "-oL", "sed", "p"]).unwrap(), "sed p");
        for words in [&["xz", "|", "wc"][..], &["xz | wc"]] {
            assert!(changed("program:gzip=pigz", words).unwrap_err().is::<UsageError>());
        }
        assert!(changed("program:cat=", &["cat"]).is_err(), "nothing is left");
        assert!(changed("stage1=a", &["a; b"]).is_err(), "what a shell runs has no stages");
        assert!(Remedy::parse("program:=a").is_err());
    }
}
