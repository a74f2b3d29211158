//! A row of the tables: a role, and how its functions are recognized.

use super::RoleId;
use serde::{Deserialize, Deserializer};

/// A text of the tables, which exist once, until the program ends.
type Text = &'static str;

/// A purpose that kernel time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    pub id: RoleId,
    /// For people: `page allocation`.
    #[serde(deserialize_with = "text")]
    pub title: Text,
    /// What a process in it does, to follow "spends 12 % of its time": `allocating pages`.
    #[serde(deserialize_with = "text")]
    pub doing: Text,
    /// One sentence.
    #[serde(deserialize_with = "text")]
    pub about: Text,
    /// Fill in a flame graph, `#rrggbb`.
    #[serde(deserialize_with = "text")]
    pub colour: Text,
    /// What the articles called it; empty where they did not.
    #[serde(default, rename = "article", deserialize_with = "text")]
    pub article_name: Text,
    /// A stack goes to this role when its deepest frame with a role is one of these.
    #[serde(default, deserialize_with = "patterns")]
    pub frames: &'static [Pattern],
    /// Functions to probe, best first; the first that this kernel has and that is hit is taken.
    #[serde(default, deserialize_with = "names")]
    pub candidates: &'static [Text],
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
    String::deserialize(deserializer).map(|text| &*text.leak())
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static [Text], D::Error> {
    text(deserializer).map(|names| &*names.split_whitespace().collect::<Vec<_>>().leak())
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static [Pattern], D::Error> {
    let pattern = |name: &Text| name.strip_suffix('*').map_or(Pattern::Exact(name), Pattern::Prefix);
    names(deserializer).map(|names| &*names.iter().map(pattern).collect::<Vec<_>>().leak())
}

/// How a frame's name is matched, after [`super::names::function_name`]. Full names win over prefixes, long prefixes over short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Exact(&'static str),
    Prefix(&'static str),
}

/// A role that means something else when the nearest other role around it is a certain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Within {
    pub role: RoleId,
    pub inside: RoleId,
    pub(crate) becomes: RoleId,
}
