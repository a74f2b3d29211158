//! Errors in the command line: flags that are wrong on every machine. They exit with 2, as clap's do; those of `check` with 128.

use anyhow::Result;

/// A wrong value, a contradiction or a missing flag. A file, kernel or CPU that does not exist is another kind of error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Marks the errors of checks of the command line.
pub trait OrUsage {
    /// Every error as a [`UsageError`] with the same text.
    fn or_usage(self) -> Self;
}

impl<T> OrUsage for Result<T> {
    fn or_usage(self) -> Self {
        self.map_err(|error| UsageError(format!("{error:#}")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn the_mark_and_the_text_survive_context() {
        let error = Err::<(), _>(anyhow::anyhow!("b").context("a")).or_usage().context("--flag").unwrap_err();
        assert!(error.is::<UsageError>());
        assert_eq!(format!("{error:#}"), "--flag: a: b");
    }
}
