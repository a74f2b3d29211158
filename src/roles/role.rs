//! A row of the tables: a role, and how its functions are recognized.

use super::RoleId;

/// A purpose that kernel time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    pub id: RoleId,
    /// For people: `page allocation`.
    pub title: &'static str,
    /// What a process in it does, to follow "spends 12 % of its time": `allocating pages`.
    pub doing: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Fill in a flame graph, `#rrggbb`.
    pub colour: &'static str,
    /// What the articles called it; empty where they did not.
    pub article_name: &'static str,
    /// A stack goes to this role when its deepest frame with a role is one of these.
    pub frames: &'static [Pattern],
    /// Functions to probe, best first; the first that this kernel has and that is hit is taken.
    pub candidates: &'static [&'static str],
}

/// How a frame's name is matched, after [`function_name`]. Full names win over prefixes, long prefixes over short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Exact(&'static str),
    Prefix(&'static str),
}

/// A role that means something else when the nearest other role around it is a certain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Within {
    pub role: RoleId,
    pub inside: RoleId,
    pub becomes: RoleId,
}
