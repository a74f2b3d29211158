//! What a format is: [`ExportFormat`].

use super::source::Exported;
use anyhow::Result;

/// What other programs call the kernel's code.
pub(super) const KERNEL_MODULE: &str = "[kernel.kallsyms]";

/// File names and contents.
pub type ExportedFiles = Vec<(String, Vec<u8>)>;

/// A format of other programs.
#[derive(Debug, Clone, Copy)]
pub struct ExportFormat {
    /// The word on the command line.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    pub(super) files: fn(&Exported<'_>) -> Result<ExportedFiles>,
    /// Whether it consists of several files.
    pub is_folder: bool,
}

impl ExportFormat {
    /// The files of `exported` in this format, by name.
    pub fn files(self, exported: &Exported<'_>) -> Result<ExportedFiles> {
        (self.files)(exported)
    }
}

/// A time in RFC 3339 as nanoseconds since 1970.
pub(super) fn nanoseconds(time: &str) -> Option<i64> {
    let time = time::OffsetDateTime::parse(time, &time::format_description::well_known::Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos()).ok()
}
