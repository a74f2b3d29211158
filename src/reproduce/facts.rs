//! What the articles published, as data: `facts.json`. It contains no measurement of this project.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All facts, the articles' tables in the order of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// By letter: `A`, `B`, `C`.
    pub articles: BTreeMap<String, Article>,
    pub tables: Vec<ArticleTable>,
}

/// Where figures come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Article {
    pub title: String,
    pub author: String,
    /// 0 if unknown.
    pub year: u32,
    /// The machine on which it measured.
    pub machine: String,
    /// What all its experiments have in common.
    pub setup: String,
}

/// One table or figure of an article.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArticleTable {
    pub id: String,
    /// The part of `pipeprof reproduce` that measures it.
    pub part: String,
    pub article: String,
    pub title: String,
    /// For headings, if the title is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub unit: String,
    pub rows: Vec<Fact>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    pub id: String,
    pub what: String,
    /// For sentences, if `what` has remarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// In the table's unit; absent if the article states it in words.
    pub value: Option<f64>,
    /// Call graphs: the share of stacks with one of these frames (names of Linux 6.1; renames are known) ...
    #[serde(default)]
    pub frames: Vec<String>,
    /// ... below one of these ...
    #[serde(default)]
    pub under: Vec<String>,
    /// ... and without any of these below.
    #[serde(default)]
    pub but: Vec<String>,
    /// What always calls the function: if this is sampled but the function itself never, the function is inlined or does
    /// not exist on this kernel.
    #[serde(default)]
    pub caller: Vec<String>,
    /// Call graphs: the row that this one is listed below.
    #[serde(default)]
    pub parent: String,
    pub judge: Judge,
}

impl Fact {
    /// As sentences call it.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.what)
    }
}

/// The rule by which a measured value is judged. Speeds of other hardware are not a target: articles claim ratios within
/// one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Judge {
    /// The ratio to another figure has the same direction as the article's, and is within this factor of it.
    Ratio { ratio_to: String, factor: f64 },
    /// The value is within this factor: for the base of ratios.
    Factor { factor: f64 },
    /// The value is within this percentage: for counts, which do not depend on the machine.
    Percent { percent: f64 },
    /// A share is within this number of percentage points.
    Points { points: f64 },
    /// A claim with a size: the value lies between these.
    Between { at_least: f64, at_most: f64 },
    /// A claim: the value is at most this.
    AtMost { at_most: f64 },
    /// The same figure as another one in other words, judged there.
    SameAs { same_as: String },
    /// As [`Judge::Ratio`], of a program that pipeprof does not contain, if its path is given: the program's name for
    /// `--program`, what it needs, and a command that measures it.
    Program { program: String, ratio_to: String, factor: f64, needs: String, command: String },
    /// Not measurable by pipeprof: the reason, and a command that measures it.
    Never { never: String, command: String },
}

/// The programs of [`Judge::Program`].
pub const PROGRAMS: [&str; 1] = ["fizzbuzz"];

impl Judge {
    /// The rule in words; `None` if the fact is not judged.
    pub fn text(&self) -> Option<String> {
        Some(match self {
            Self::Ratio { factor, .. } | Self::Program { factor, .. } => {
                format!("ratio in the same direction and within a factor of {factor}")
            }
            Self::Factor { factor } => format!("value within a factor of {factor}"),
            Self::Percent { percent } => format!("value within {percent} %"),
            Self::Points { points } => format!("share within {points} percentage points"),
            Self::Between { at_least, at_most } => format!("value between {at_least} and {at_most}"),
            Self::AtMost { at_most } => format!("value at most {at_most}"),
            Self::SameAs { .. } | Self::Never { .. } => return None,
        })
    }
}

static FACTS: &str = include_str!("facts.json");

impl Facts {
    /// The facts that are built in.
    pub fn load() -> Result<Self> {
        serde_json::from_str(FACTS).context("invalid built-in facts")
    }

    /// The fact called `id`, with its table.
    pub fn find(&self, id: &str) -> Option<(&ArticleTable, &Fact)> {
        self.tables.iter().find_map(|table| Some((table, table.rows.iter().find(|fact| fact.id == id)?)))
    }

    pub fn of_part<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a ArticleTable> {
        self.tables.iter().filter(move |table| table.part == part)
    }

    /// The table called `id`.
    pub fn table(&self, id: &str) -> Option<&ArticleTable> {
        self.tables.iter().find(|table| table.id == id)
    }
}

#[cfg(test)]
impl Facts {
    /// Facts with one table of these rows, in GB/s.
    pub(super) fn of_rows(rows: &str) -> Self {
        let article = r#"{"title":"t","author":"a","year":1,"machine":"m","setup":"s"}"#;
        let table = r#""id":"A.t","part":"ladder","article":"A","title":"t","unit":"GB/s""#;
        let text = format!(r#"{{"articles":{{"A":{article}}},"tables":[{{{table},"rows":[{rows}]}}]}}"#);
        serde_json::from_str(&text).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_built_in_facts_are_whole() {
        let facts = Facts::load().unwrap();
        assert_eq!(facts.articles.len(), 3);
        let mut ids = BTreeSet::new();
        for table in &facts.tables {
            assert!(crate::reproduce::parts::find(&table.part).is_some(), "{} is of no part", table.id);
            assert!(facts.articles.contains_key(&table.article), "{}", table.id);
            for fact in &table.rows {
                let id = &fact.id;
                assert!(id.starts_with(&format!("{}.", table.article)) && ids.insert(id), "{id}");
                assert!(fact.parent.is_empty() || table.rows.iter().any(|other| other.id == fact.parent), "{id}");
                let of = |id: &str| facts.find(id).unwrap().1;
                match &fact.judge {
                    Judge::Ratio { ratio_to, .. } | Judge::Program { ratio_to, .. } => {
                        assert!(of(ratio_to).value.is_some_and(|value| value > 0.0), "{id} has no base");
                    }
                    Judge::SameAs { same_as } => assert!(!matches!(of(same_as).judge, Judge::SameAs { .. }), "{id}"),
                    _ => {}
                }
                let claim = matches!(fact.judge, Judge::AtMost { .. } | Judge::Between { .. } | Judge::Never { .. });
                assert!(fact.value.is_some() || claim, "{id} has neither a value nor a claim");
            }
        }
    }
}
