//! What the articles printed, as data: `facts.json`. Everything in it is theirs; nothing of ours is ever written there.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// All facts, the articles' tables in the order of the report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// By letter: `A`, `B`, `C`.
    pub articles: BTreeMap<String, Article>,
    pub tables: Vec<Table>,
}

/// Where figures come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Article {
    pub title: String,
    pub author: String,
    /// 0 where it is not known.
    pub year: u32,
    /// The machine that its figures are of.
    pub machine: String,
    /// What all its experiments share.
    pub setup: String,
}

/// One table or figure of an article.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub id: String,
    /// The part of `pipeprof reproduce` that measures it.
    pub part: String,
    pub article: String,
    pub title: String,
    pub unit: String,
    pub rows: Vec<Fact>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    pub id: String,
    pub what: String,
    /// Theirs, in the table's unit; absent where the article states it in words.
    pub value: Option<f64>,
    /// Call graphs: the share of stacks with one of these frames (names as on Linux 6.1; renames are understood) ...
    #[serde(default)]
    pub frames: Vec<String>,
    /// ... below one of these ...
    #[serde(default)]
    pub under: Vec<String>,
    /// ... and without any of these below.
    #[serde(default)]
    pub but: Vec<String>,
    /// What calls the function on every pass: where this is sampled and the function itself never, this kernel has none
    /// of that name that runs.
    #[serde(default)]
    pub caller: Vec<String>,
    /// Call graphs: the row that this one is listed below.
    #[serde(default)]
    pub parent: String,
    pub judge: Judge,
}

/// By what ours is judged. Speeds of other hardware are no target: ratios within one machine are what an article claims.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Judge {
    /// The ratio to another figure has the same direction, and is within this factor of theirs.
    Ratio { ratio_to: String, factor: f64 },
    /// The figure itself is within this factor: for figures that a ratio has to start from.
    Factor { factor: f64 },
    /// The figure itself is within so many per cent: for counts that no machine changes.
    Percent { percent: f64 },
    /// A share is within so many percentage points.
    Points { points: f64 },
    /// A claim that says how much: our figure lies between these.
    Between { at_least: f64, at_most: f64 },
    /// A claim: our figure is no more than this.
    AtMost { at_most: f64 },
    /// The same figure as another in other words, and judged there.
    SameAs { same_as: String },
    /// Nothing that pipeprof could measure: why, and how to.
    Never { never: String, command: String },
}

impl Judge {
    /// The criterion in words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Ratio { factor, .. } => format!("same direction, ratio within a factor of {factor}"),
            Self::Factor { factor } => format!("within a factor of {factor} (another machine)"),
            Self::Percent { percent } => format!("within {percent} %"),
            Self::Points { points } => format!("within {points} points"),
            Self::Between { at_least, at_most } => format!("{at_least} to {at_most}"),
            Self::AtMost { at_most } => format!("at most {at_most}"),
            Self::SameAs { .. } | Self::Never { .. } => "-".to_owned(),
        }
    }
}

static FACTS: &str = include_str!("facts.json");

impl Facts {
    /// The facts that are built in.
    ///
    /// # Errors
    /// Never in a build whose tests passed.
    pub fn load() -> Result<Self> {
        Self::parse(FACTS).context("the facts built into this program")
    }

    /// Read a facts file.
    ///
    /// # Errors
    /// Text that is no facts file, an id twice, a base or an article that is not there.
    pub fn parse(text: &str) -> Result<Self> {
        let facts: Self = serde_json::from_str(text)?;
        let mut ids = BTreeSet::new();
        for fact in facts.tables.iter().flat_map(|table| &table.rows) {
            if !ids.insert(fact.id.as_str()) {
                bail!("{} is there twice", fact.id);
            }
        }
        for table in &facts.tables {
            if !facts.articles.contains_key(&table.article) {
                bail!("{} is of article {}, which is not there", table.id, table.article);
            }
            for fact in &table.rows {
                if let Judge::Ratio { ratio_to, .. } = &fact.judge
                    && facts.find(ratio_to).is_none_or(|(_, base)| base.value.is_none_or(|value| value <= 0.0))
                {
                    bail!("{} is judged by its ratio to {ratio_to}, which has no figure", fact.id);
                }
                if !fact.parent.is_empty() && !table.rows.iter().any(|other| other.id == fact.parent) {
                    bail!("{} is below {}, which its table has not", fact.id, fact.parent);
                }
                if let Judge::SameAs { same_as } = &fact.judge
                    && facts.find(same_as).is_none_or(|(_, other)| matches!(other.judge, Judge::SameAs { .. }))
                {
                    bail!("{} is judged as {same_as}, which is not", fact.id);
                }
                let claim = matches!(fact.judge, Judge::AtMost { .. } | Judge::Between { .. } | Judge::Never { .. });
                if fact.value.is_none() && !claim {
                    bail!("{} has neither a figure nor a claim", fact.id);
                }
            }
        }
        Ok(facts)
    }

    /// The fact called `id`, with its table.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(&Table, &Fact)> {
        self.tables.iter().find_map(|table| Some((table, table.rows.iter().find(|fact| fact.id == id)?)))
    }

    /// The tables of one part.
    pub fn of_part<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a Table> {
        self.tables.iter().filter(move |table| table.part == part)
    }

    /// The table called `id`.
    #[must_use]
    pub fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_facts_are_whole() {
        let facts = Facts::load().unwrap();
        assert_eq!(facts.articles.len(), 3);
        for table in &facts.tables {
            assert!(crate::reproduce::parts::find(&table.part).is_some(), "{} is of no part", table.id);
            for fact in &table.rows {
                assert!(fact.id.starts_with(&format!("{}.", table.article)), "{}", fact.id);
            }
        }
    }

    #[test]
    fn facts_that_contradict_themselves_are_refused() {
        let with = |rows: &str| {
            let article = r#"{"title":"t","author":"a","year":1,"machine":"m","setup":"s"}"#;
            let table =
                format!(r#"{{"id":"A.t","part":"ladder","article":"A","title":"t","unit":"s","rows":[{rows}]}}"#);
            Facts::parse(&format!(r#"{{"articles":{{"A":{article}}},"tables":[{table}]}}"#))
        };
        let row = r#"{"id":"A.x","what":"w","value":1.0,"judge":{"factor":2}}"#;
        assert!(with(row).is_ok());
        assert!(with(&format!("{row},{row}")).unwrap_err().to_string().contains("twice"));
        let adrift = r#"{"id":"A.y","what":"w","value":1.0,"judge":{"ratio_to":"A.z","factor":2}}"#;
        assert!(with(adrift).unwrap_err().to_string().contains("no figure"));
        let twice = r#"{"id":"A.y","what":"w","value":1.0,"judge":{"same_as":"A.z"}}"#;
        assert!(with(twice).unwrap_err().to_string().contains("is not"));
        let empty = r#"{"id":"A.y","what":"w","value":null,"judge":{"factor":2}}"#;
        assert!(with(empty).unwrap_err().to_string().contains("neither"));
        assert!(with(r#"{"id":"A.y","what":"w","value":1,"judge":{"guess":2}}"#).is_err());
    }
}
