//! The command line of a pipeline: words with a literal `|` between stages, or one word for the shell.

use crate::result::PipelineCommand;
use crate::result::target::{SHELL_SYNTAX, needs_shell};
use crate::util::find_program::find_program;
use crate::util::usage::UsageError;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

impl PipelineCommand {
    /// The pipeline of the words after `--`.
    pub fn parse(words: &[String]) -> Result<Self> {
        if let [line] = words
            && line.contains(|c| SHELL_SYNTAX.contains(c))
        {
            let stages = vec![["sh", "-c", line].map(str::to_owned).to_vec()];
            return Ok(Self { stages, shell: true });
        }
        let stages: Vec<Vec<String>> = words.split(|word| word == "|").map(<[String]>::to_vec).collect();
        if stages.iter().any(Vec::is_empty) {
            bail!(UsageError::new("a stage of the pipeline is empty: write a program on both sides of each '|'"));
        }
        Ok(Self { stages, shell: false })
    }

    /// The same pipeline with stages that pipeprof starts itself, which it can change. `None` if a shell has to interpret
    /// more than words and pipes, or if a stage is not a program, such as `cd` or `while`.
    pub fn as_stages(&self) -> Option<Self> {
        let ([words], true) = (&self.stages[..], self.shell) else { return Some(self.clone()) };
        let split = |stage: &str| stage.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        let stages: Vec<Vec<String>> = words.last()?.split('|').map(split).collect();
        let plain = |words: &Vec<String>| {
            // `A=1 program` sets a variable.
            words.first().is_some_and(|first| !first.contains('=')) && !words.iter().any(|word| needs_shell(word))
        };
        let own = Self { stages, shell: false };
        (own.stages.iter().all(plain) && own.missing().is_none()).then_some(own)
    }

    /// The first stage of a line for the shell that is neither a program nor something of the shell itself, if the line has
    /// no more than words and pipes. A shell would only print an error, and the rest of the line run without its data.
    pub fn unknown_to_shell(&self) -> Option<String> {
        let ([words], true) = (&self.stages[..], self.shell) else { return None };
        let line = words.last()?;
        if line.contains(|c: char| c != '|' && c != ' ' && SHELL_SYNTAX.contains(c)) {
            return None;
        }
        let known = |name: &str| {
            let asked = ["-c", "command -v -- \"$1\" >/dev/null", "sh", name];
            Command::new("sh").args(asked).stdin(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let first = |stage: &str| stage.split_whitespace().next().unwrap_or_default().to_owned();
        line.split('|').map(first).find(|name| name.is_empty() || (!name.contains('=') && !known(name)))
    }

    /// All words, also those of a line for the shell.
    pub fn words(&self) -> Vec<String> {
        let syntax = |c| SHELL_SYNTAX.contains(c);
        let words = self.stages.iter().flatten().flat_map(|word| {
            let parts: Vec<&str> = if self.shell { word.split(syntax).collect() } else { vec![word] };
            parts.into_iter().filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<String>>()
        });
        words.collect()
    }

    /// What may be a program: the words, and those inside of a word, as in `sh -c 'dd | wc'`.
    pub fn programs(&self) -> BTreeSet<String> {
        let parts = |word: &String| word.split(|c| SHELL_SYNTAX.contains(c)).map(str::to_owned).collect::<Vec<_>>();
        self.words().iter().flat_map(parts).filter(|part| !part.is_empty() && !part.starts_with('-')).collect()
    }

    /// The first program that does not exist.
    pub fn missing(&self) -> Option<&str> {
        let names = self.stages.iter().filter_map(|words| words.first());
        // Starting a file that is not executable says why it cannot be started.
        let exists =
            |name: &str| if name.contains('/') { Path::new(name).is_file() } else { find_program(name).is_some() };
        names.map(String::as_str).find(|name| !exists(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<PipelineCommand> {
        PipelineCommand::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn one_word_with_syntax_is_for_the_shell_and_words_are_stages() {
        let shell = parse(&["yes | head -c 1"]).unwrap();
        assert!(shell.shell && shell.stages == [["sh", "-c", "yes | head -c 1"]], "{shell:?}");
        assert_eq!(shell.text(), "yes | head -c 1");
        let plain = parse(&["true"]).unwrap();
        assert!(!plain.shell && plain.stages == [["true"]], "{plain:?}");
        let words = parse(&["printf", "a|b", "|", "cat"]).unwrap();
        assert_eq!(words.stages, [vec!["printf", "a|b"], vec!["cat"]]);
        assert_eq!(words.text(), "printf 'a|b' | cat");
    }

    #[test]
    fn a_simple_line_is_split_into_stages() {
        let stages = |line: &str| parse(&[line]).unwrap().as_stages().map(|found| found.stages);
        assert_eq!(stages("cat a|cat -  | cat").unwrap(), [vec!["cat", "a"], vec!["cat", "-"], vec!["cat"]]);
        for line in ["cat a > b", "cat $A", "A=1 cat | cat", "cd / | cat", "cat || cat", "cat 'a b'", "cat | "] {
            assert_eq!(stages(line), None, "{line}");
        }
        assert_eq!(parse(&["cat", "a b"]).unwrap().as_stages().unwrap().stages, [["cat", "a b"]]);
    }

    #[test]
    fn an_empty_stage_is_a_usage_error() {
        for words in [&["|", "cat"][..], &["cat", "|"], &["cat", "|", "|", "cat"], &[]] {
            assert!(parse(words).unwrap_err().is::<UsageError>(), "{words:?}");
        }
    }

    #[test]
    fn missing_programs_are_found_before_anything_runs() {
        assert_eq!(parse(&["cat", "|", "no-such-program"]).unwrap().missing(), Some("no-such-program"));
        assert_eq!(parse(&["/no/such", "|", "cat"]).unwrap().missing(), Some("/no/such"));
        assert_eq!(parse(&["cat", "|", "/bin/sh"]).unwrap().missing(), None);
    }
}
