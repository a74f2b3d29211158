//! Frames of functions that one compiler inlined, which count with their callers on both sides.

use super::model::Inlined;
use crate::profile::folded::is_kernel_entry;
use crate::roles;
use std::collections::{BTreeMap, BTreeSet};

/// Frames to drop: canonical names of callers, each with those of its inlined callees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped(BTreeMap<String, BTreeSet<String>>);

impl Dropped {
    /// The frames of `inlined`.
    pub fn of<'a>(inlined: impl IntoIterator<Item = &'a Inlined>) -> Self {
        let mut dropped = Self::default();
        for one in inlined {
            dropped.0.entry(one.caller.clone()).or_default().insert(one.function.clone());
        }
        dropped
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the frame `callee` is dropped after `caller`, the frame before it that is kept.
    fn drops(&self, caller: &str, callee: &str) -> bool {
        self.0.get(caller).is_some_and(|callees| callees.contains(callee))
    }

    /// The `frames` of a stack, root first, without the dropped ones, if it has any.
    pub fn shortened<'a>(&self, frames: impl Iterator<Item = &'a str>) -> Option<Vec<&'a str>> {
        if self.is_empty() {
            return None;
        }
        let mut kept: Vec<&str> = Vec::new();
        let (mut kernel, mut dropped) = (false, false);
        for frame in frames {
            let inlined =
                kernel && kept.last().is_some_and(|last| self.drops(roles::canonical(last), roles::canonical(frame)));
            kernel |= is_kernel_entry(frame);
            dropped |= inlined;
            if !inlined {
                kept.push(frame);
            }
        }
        dropped.then_some(kept)
    }
}
