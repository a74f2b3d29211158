//! The verdicts of `pipeprof check` for programs: JSON, and JUnit XML, which CI services show as tests.

use super::check_comment::{JudgedCase, comment};
use crate::compare::Comparison;
use crate::compare::model::LimitedCount;
use crate::studies::limits::{LimitState, LimitVerdict};
use crate::studies::verdict::{CheckThresholds, CheckVerdict};
use crate::util::progress;
use crate::util::stored_json::json_text;
use crate::util::text::{clean, grouped};
use anyhow::{Context as _, Result};
use quick_xml::Writer;
use quick_xml::events::BytesText;
use serde::Serialize;
use std::io;
use std::path::PathBuf;

/// The name of the format, and the number of its version.
const SCHEMA: &str = "pipeprof.check/1";

/// In which forms verdicts are shown, besides in words.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct ShownVerdicts {
    /// Print the verdicts as JSON instead of words
    #[arg(long, conflicts_with = "history")]
    pub(super) json: bool,
    /// Write the verdicts as JUnit XML, a test for each case, for a CI service that shows tests
    #[arg(long, value_name = "FILE", conflicts_with = "history")]
    junit: Option<PathBuf>,
    /// Write the verdicts as Markdown, for a comment on a pull request
    #[arg(long, value_name = "FILE", conflicts_with = "history")]
    comment: Option<PathBuf>,
}

impl ShownVerdicts {
    /// Print and write what is wanted of the verdicts on all cases of `comparison`.
    pub(super) fn write(
        &self,
        comparison: &Comparison,
        judged: Vec<JudgedCase<'_>>,
        thresholds: &CheckThresholds,
    ) -> Result<()> {
        let document = CheckDocument::new(&judged, comparison.per_kib(), thresholds);
        if self.json {
            util::outln!("{}", json_text(&document)?);
        }
        if let Some(path) = &self.junit {
            std::fs::write(path, document.junit()?).with_context(|| format!("--junit {}", path.display()))?;
            progress::note(&format!("the verdicts are in {}", path.display()));
        }
        if let Some(path) = &self.comment {
            let text = comment(comparison, judged, thresholds);
            std::fs::write(path, text).with_context(|| format!("--comment {}", path.display()))?;
            progress::note(&format!("the comment is in {}", path.display()));
        }
        Ok(())
    }
}

/// What a check found. The first of the worst verdicts is that on all.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct CheckDocument {
    schema: &'static str,
    version: &'static str,
    verdict: CheckVerdict,
    /// The verdict in words, with its thresholds.
    text: String,
    /// One for each mode, pipeline or command.
    cases: Vec<CheckedCase>,
}

/// One command, or one mode on one number of CPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct CheckedCase {
    name: String,
    verdict: CheckVerdict,
    /// What changed, in words.
    text: String,
    /// The unit of `before` and `after`.
    unit: String,
    before: f64,
    after: f64,
    /// `None` if there was nothing before.
    change_percent: Option<f64>,
    /// Half the width of the 99 % interval of the change; `None` of single runs and of times.
    uncertainty_percent: Option<f64>,
    /// System calls of all stages before and after; absent where they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    system_calls: Option<[u64; 2]>,
    /// Those whose number changed, and does not vary between runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed_calls: Vec<ChangedCall>,
    /// The limits of the command itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<CheckedLimit>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CheckedLimit {
    count: LimitedCount,
    /// Whether it only warns.
    soft: bool,
    state: LimitState,
    /// In words.
    text: String,
}

impl CheckedLimit {
    fn new(limit: &LimitVerdict) -> Self {
        let LimitVerdict { what, is_soft, state, text, .. } = limit;
        Self { count: *what, soft: *is_soft, state: *state, text: text.clone() }
    }

    fn is_told(&self) -> bool {
        self.state != LimitState::Kept
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ChangedCall {
    process: String,
    name: String,
    before: u64,
    after: u64,
}

impl CheckDocument {
    fn new(judged: &[JudgedCase<'_>], verdict_unit: &str, thresholds: &CheckThresholds) -> Self {
        let verdict = CheckVerdict::worst(judged.iter().map(|case| case.verdict));
        Self {
            schema: SCHEMA,
            version: crate::util::build::version(),
            verdict,
            text: thresholds.sentence(verdict),
            cases: judged.iter().map(|judged| CheckedCase::new(judged, verdict_unit)).collect(),
        }
    }

    /// As a test suite, in which each case is a test: a regression fails, and what is undecided is an error.
    ///
    /// # Errors
    /// None in memory.
    fn junit(&self) -> Result<String> {
        let of = |wanted: &[CheckVerdict]| self.cases.iter().filter(|case| wanted.contains(&case.verdict)).count();
        let counts = [
            ("tests", self.cases.len().to_string()),
            ("failures", of(&[CheckVerdict::Regression, CheckVerdict::Improvement]).to_string()),
            ("errors", of(&[CheckVerdict::Undecided]).to_string()),
        ];
        let attributes = || counts.iter().map(|(name, value)| (*name, value.as_str()));
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        writer.create_element("testsuites").with_attributes(attributes()).write_inner_content(|writer| {
            let suite = writer.create_element("testsuite").with_attribute(("name", "pipeprof check"));
            let tests = |writer: &mut Writer<Vec<u8>>| self.cases.iter().try_for_each(|case| case.write(writer));
            suite.with_attributes(attributes()).write_inner_content(tests).map(drop)
        })?;
        Ok(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", String::from_utf8(writer.into_inner())?))
    }
}

impl CheckedCase {
    fn new(case: &JudgedCase<'_>, unit: &str) -> Self {
        let JudgedCase { section, step, verdict, limits } = case;
        let of = &step.verdict;
        let calls = &step.pipeline.system_calls;
        let changed = calls.iter().filter(|call| call.certain).map(|call| ChangedCall {
            process: call.process.to_string(),
            name: call.name.clone(),
            before: call.calls[0],
            after: call.calls[1],
        });
        Self {
            name: section.title(),
            verdict: *verdict,
            text: of.text.clone(),
            unit: if step.exact() { of.counted_in().to_owned() } else { unit.to_owned() },
            before: of.before,
            after: of.after,
            change_percent: of.ratio.is_finite().then_some((of.ratio - 1.0) * 100.0),
            uncertainty_percent: of.uncertainty.map(|half| half * 100.0),
            system_calls: (!calls.is_empty())
                .then(|| [0, 1].map(|side| calls.iter().map(|call| call.calls[side]).sum())),
            changed_calls: changed.collect(),
            limits: limits.iter().map(CheckedLimit::new).collect(),
        }
    }

    fn write(&self, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let name = clean(&self.name);
        let element =
            writer.create_element("testcase").with_attributes([("classname", "pipeprof.check"), ("name", &*name)]);
        let problem = match self.verdict {
            CheckVerdict::Regression | CheckVerdict::Improvement => Some("failure"),
            CheckVerdict::Undecided => Some("error"),
            CheckVerdict::Warned
            | CheckVerdict::Worse
            | CheckVerdict::WithinThreshold
            | CheckVerdict::Better
            | CheckVerdict::Same => None,
        };
        let told = self.limits.iter().filter(|limit| limit.is_told()).map(|limit| format!("; {}", clean(&limit.text)));
        let message = format!("{}: {}{}", self.verdict.text(), clean(&self.text), told.collect::<String>());
        element
            .write_inner_content(|writer| {
                let Some(problem) = problem else {
                    return writer.create_element("system-out").write_text_content(BytesText::new(&message)).map(drop);
                };
                let inner = writer.create_element(problem);
                let inner = inner.with_attribute(("message", &message[..]));
                let calls = self.changed_calls.iter().map(|call| {
                    let [before, after] = [call.before, call.after].map(grouped);
                    format!("{} of {}: {before} to {after} calls\n", clean(&call.name), clean(&call.process))
                });
                inner.write_text_content(BytesText::new(&calls.collect::<String>())).map(drop)
            })
            .map(drop)
    }
}
