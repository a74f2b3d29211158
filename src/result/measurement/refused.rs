//! System calls that fail in the programs of a pipeline, as on a kernel or under a seccomp profile without them.

use crate::util::choice::Choice as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A call that moves bytes without copying them through a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum RefusableCall {
    Splice,
    Vmsplice,
    Tee,
    CopyFileRange,
    Sendfile,
}

/// The error with which it fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "UPPERCASE")]
pub enum RefusalError {
    /// As of a kernel without the call.
    #[default]
    Enosys,
    /// As of files with which it does not work.
    Einval,
    /// As of a seccomp profile.
    Eperm,
}

/// A call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCall {
    pub call: RefusableCall,
    pub error: RefusalError,
}

/// What a refused call begins with on the command line.
const NO: &str = "no-";

impl RefusableCall {
    /// As the kernel names it: `copy_file_range`.
    pub fn kernel_name(self) -> String {
        self.name().replace('-', "_")
    }
}

impl RefusedCall {
    /// Parse `no-splice,no-tee=EINVAL`. `None` if it is no such list.
    ///
    /// # Errors
    /// What is expected.
    pub(crate) fn list(text: &str) -> Option<Result<Vec<Self>, String>> {
        text.starts_with(NO).then(|| {
            let calls: Vec<Self> = text.split(',').map(Self::parse).collect::<Result<_, _>>()?;
            let is_twice = |at: usize| calls[..at].iter().any(|before| before.call == calls[at].call);
            match (0..calls.len()).find(|at| is_twice(*at)) {
                Some(at) => Err(format!("{NO}{} is given twice", calls[at].call.name())),
                None => Ok(calls),
            }
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (call, error) = text.split_once('=').map_or((text, None), |(call, error)| (call, Some(error)));
        let call = call.strip_prefix(NO).and_then(RefusableCall::named);
        let error = error.map_or(Some(RefusalError::default()), RefusalError::named);
        call.zip(error).map(|(call, error)| Self { call, error }).ok_or_else(|| {
            "expected no-splice, no-vmsplice, no-tee, no-copy-file-range or no-sendfile, with =ENOSYS, =EINVAL or =EPERM, \
             separated by commas"
                .to_owned()
        })
    }

    /// As it is typed.
    pub(crate) fn text(&self) -> String {
        match self.error {
            RefusalError::Enosys => format!("{NO}{}", self.call.name()),
            error => format!("{NO}{}={}", self.call.name(), error.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_written_alike() {
        for text in ["no-splice", "no-splice=EPERM,no-copy-file-range", "no-vmsplice=EINVAL,no-tee,no-sendfile=EPERM"] {
            let calls = RefusedCall::list(text).unwrap().unwrap();
            assert_eq!(calls.iter().map(RefusedCall::text).collect::<Vec<_>>().join(","), text);
        }
        assert_eq!(RefusedCall::list("no-splice=ENOSYS").unwrap().unwrap()[0].text(), "no-splice");
        assert_eq!(RefusableCall::CopyFileRange.kernel_name(), "copy_file_range");
        assert_eq!(RefusedCall::list("pin"), None);
        for text in ["no-", "no-read", "no-splice=EIO", "no-splice,", "no-splice,tee", "no-tee,no-tee=EPERM"] {
            assert!(RefusedCall::list(text).unwrap().is_err(), "{text}");
        }
    }
}
