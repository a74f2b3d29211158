//! What an address is part of.

use std::borrow::Cow;

/// The function that contains an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function<'a> {
    pub name: Cow<'a, str>,
    /// Address of its first instruction; absent if the name is not a function's.
    pub start: Option<u64>,
    /// The name of its file, for user code that was found in one.
    pub file: Option<&'a str>,
}

impl<'a> Function<'a> {
    /// One of the kernel, or of the program that the guest runs.
    pub(super) fn of(name: impl Into<Cow<'a, str>>, start: Option<u64>) -> Self {
        Self { name: name.into(), start, file: None }
    }
}
