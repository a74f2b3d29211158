//! Findings of one kind, of which there can be many.

use crate::result::Finding;
use std::collections::BTreeSet;

/// Sentences of one kind of which more are only counted.
const NAMED_ALIKE: usize = 3;

/// The first three of these findings, each sentence once, and how many more there are.
pub(crate) fn first_of(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut known = BTreeSet::new();
    let mut findings: Vec<Finding> = findings.filter(|finding| known.insert(finding.text.clone())).collect();
    let more = findings.split_off(NAMED_ALIKE.min(findings.len()));
    let text = format!("The same holds for {} more, which result.json has.", more.len());
    findings.extend(more.first().map(|first| Finding::new(first.kind, None, text)));
    findings
}
