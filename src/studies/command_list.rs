//! A file of commands with their limits: TOML, or a command in each line.

use super::limits::{CommandLimits, Limit, LimitsByCount};
use crate::compare::model::LimitedCount;
use crate::result::{PipelineCommand, SentFile};
use crate::util::decision::FLOOR;
use crate::util::usage::UsageError;
use anyhow::{Result, bail};
use serde::Deserialize;

/// Commands to count, and what they may cost.
#[derive(Debug, Clone, Default)]
pub struct CommandList {
    pub commands: Vec<PipelineCommand>,
    /// Those that are in the file.
    limits: Vec<(String, CommandLimits)>,
    /// What the commands read.
    pub files: Vec<SentFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct BenchFile {
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    fail_above: LimitsByCount,
    #[serde(default)]
    warn_above: LimitsByCount,
    #[serde(default)]
    command: Vec<BenchCommand>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct BenchCommand {
    run: String,
    #[serde(default)]
    fail_above: LimitsByCount,
    #[serde(default)]
    warn_above: LimitsByCount,
}

impl CommandList {
    /// The words of a command line, as `pipeprof record` takes them, and the text of a file. `is_toml`: what kind.
    ///
    /// # Errors
    /// A usage error for `--commands`.
    pub fn parse(words: &[String], text: Option<&str>, is_toml: bool) -> Result<Self> {
        let mut bench = Self::default();
        if !words.is_empty() {
            bench.commands.push(PipelineCommand::parse(words)?);
        }
        match text {
            Some(text) if is_toml => bench.add_file(text)?,
            Some(text) => bench.add_lines(text)?,
            None => {}
        }
        for (at, command) in bench.commands.iter().enumerate() {
            if bench.commands[..at].iter().any(|other| other.text() == command.text()) {
                bail!(UsageError::new(format!("the command '{}' is given twice", command.text())));
            }
        }
        Ok(bench)
    }

    fn add_lines(&mut self, text: &str) -> Result<()> {
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.commands.push(PipelineCommand::parse(&[line.to_owned()])?);
        }
        Ok(())
    }

    fn add_file(&mut self, text: &str) -> Result<()> {
        let usage = |problem: String| UsageError::new(format!("--commands: {problem}"));
        let file: BenchFile = toml::from_str(text).map_err(|error| usage(error.to_string().trim().to_owned()))?;
        let all = CommandLimits { fail: file.fail_above, warn: file.warn_above };
        for BenchCommand { run, fail_above, warn_above } in file.command {
            let command = PipelineCommand::parse(&[run])?;
            let own = CommandLimits { fail: fail_above, warn: warn_above };
            self.limits.push((command.text(), own.or(&all)));
            self.commands.push(command);
        }
        for path in &file.files {
            self.files.push(SentFile::parse(path).map_err(|problem| usage(format!("files: {problem}")))?);
        }
        Ok(())
    }

    /// The limits of the command with this text; none of commands that are not in a file with limits.
    pub fn limits(&self, text: &str) -> Option<&CommandLimits> {
        match &self.limits[..] {
            // It may be compared with another command.
            [(_, only)] if self.commands.len() == 1 => Some(only),
            all => all.iter().find(|(own, _)| own == text).map(|(_, limits)| limits),
        }
    }

    /// Changes within it, a part of the whole, do not matter: `margin`, or the smallest limit of instructions.
    pub fn margin(&self, margin: f64) -> f64 {
        let limits = self.limits.iter().flat_map(|(_, limits)| [&limits.fail, &limits.warn]);
        let percent = limits.filter_map(|of| match of.get(&LimitedCount::Instructions)? {
            Limit::Percent(percent) => Some(percent / 100.0),
            Limit::Absolute(_) => None,
        });
        percent.fold(margin, f64::min).max(FLOOR)
    }

    /// Whether commands have limits of their own.
    pub fn has_limits(&self) -> bool {
        self.limits.iter().any(|(_, limits)| *limits != CommandLimits::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_and_comments() {
        let all = CommandList::parse(&["wc a".to_owned()], Some("# a list\n\n seq 9 | wc \nsort a\n"), false).unwrap();
        assert_eq!(
            all.commands.iter().map(PipelineCommand::text).collect::<Vec<_>>(),
            ["wc a", "seq 9 | wc", "sort a"]
        );
        assert!(CommandList::parse(&[], Some("true\ntrue"), false).unwrap_err().to_string().contains("given twice"));
        assert!(!all.has_limits());
    }

    #[test]
    fn limits_of_a_command_come_before_those_of_all() {
        let text = r#"
            fail-above = { instructions = "0.5%", system-calls = 0 }
            warn-above = { page-faults = "5%" }
            [[command]]
            run = "seq 9 | wc"
            [[command]]
            run = "sort a"
            fail-above = { system-calls = 20, sleeps-per-MiB = 1.5, bytes = "10%" }
        "#;
        let bench = CommandList::parse(&[], Some(text), true).unwrap();
        assert!(bench.has_limits());
        let (first, second) = (bench.limits("seq 9 | wc").unwrap(), bench.limits("sort a").unwrap());
        use LimitedCount::{Bytes, Instructions, PageFaults, SleepsPerMib, SystemCalls};
        assert_eq!(first.fail, [(Instructions, Limit::Percent(0.5)), (SystemCalls, Limit::Absolute(0.0))].into());
        assert_eq!((&first.warn, &second.warn), (&[(PageFaults, Limit::Percent(5.0))].into(), &first.warn));
        let own =
            [(SystemCalls, Limit::Absolute(20.0)), (SleepsPerMib, Limit::Absolute(1.5)), (Bytes, Limit::Percent(10.0))];
        assert_eq!(second.fail.len(), 4);
        assert!(own.iter().all(|(what, limit)| second.fail[what] == *limit));
        assert_eq!(bench.limits("other"), None);
        for (wrong, what) in [
            ("[[command]]\nrun = 'true'\nfail-above = { cycles = 1 }", "cycles"),
            ("[[command]]\nrun = 'true'\nfail-above = { bytes = 'x' }", "'x' is not a limit"),
            ("[[command]]\ncommand = 'true'", "command"),
        ] {
            let error = CommandList::parse(&[], Some(wrong), true).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(what), "{error}");
        }
    }
}
