//! Articles A and B: what memory allows.

use super::{Part, all_missing};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::Lab;
use crate::reproduce::result::Yield;
use crate::reproduce::verdict::Missing;
use anyhow::Result;

/// The part.
pub struct Profiles;

impl Part for Profiles {
    fn id(&self) -> &'static str {
        "profiles"
    }

    fn title(&self) -> &'static str {
        "Profiles: the upper bounds"
    }

    fn about(&self) -> &'static str {
        "articles A and B: copying and reading in user space, the upper bounds of a pipe"
    }

    fn run(&self, _lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
        let mut out = Yield::default();
        all_missing(&mut out.readings, facts, &[], &Missing::new("not measured yet", "pipeprof memory"));
        Ok(out)
    }
}
