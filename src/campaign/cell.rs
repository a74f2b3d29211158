//! One cell: one exact run, with all that decides its result.

use crate::compare::model::section_title;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// The `schema` of a line of `cells.jsonl`.
pub(crate) const CELL_SCHEMA: &str = "pipeprof.cell/1";

/// Hexadecimal digits of an id: 80 bits, so that a million cells share one with a probability of 1e-12.
const ID_DIGITS: usize = 20;

/// One exact run. Its result is a function of its [`id`](Self::id).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CampaignCell {
    pub schema: String,
    /// Hash of the build, QEMU, the kernel image's digest and the arguments.
    pub id: String,
    /// The column of the report: the kernel's label and the setting.
    pub column: String,
    pub kernel: CellKernel,
    /// What distinguishes the column from others of its kernel; may be empty.
    pub setting: String,
    pub mode: String,
    /// CPUs of the guest.
    pub cpus: u32,
    /// The arguments of pipeprof. The kernel is named by its release; its digest decides which it is.
    pub argv: Vec<String>,
    /// Estimated seconds on one CPU of a current server, without the boot of the first guest of a kernel.
    pub seconds: f64,
    /// pipeprof's version and build.
    pub build: String,
    /// QEMU's version and build.
    pub qemu: String,
    /// Whether two chunks run it, to check that their machines agree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub canary: bool,
}

/// The kernel of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellKernel {
    /// Its name in reports.
    pub label: String,
    pub release: String,
    /// SHA-256 of the image, in hexadecimal digits.
    pub sha256: String,
    /// Where the image was when the list was planned. Other machines have it in their cache of kernels.
    pub image: PathBuf,
}

impl CampaignCell {
    /// The id of the cell with these parts.
    #[must_use]
    pub(crate) fn id_of(build: &str, qemu: &str, kernel_sha256: &str, argv: &[String]) -> String {
        let mut hash = Sha256::new();
        for part in [build, qemu, kernel_sha256].into_iter().chain(argv.iter().map(String::as_str)) {
            // With its length, so that no two lists are one text.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let mut id = hexadecimal(&hash.finalize());
        id.truncate(ID_DIGITS);
        id
    }

    /// Whether the id is that of the cell's parts: nobody has edited the line.
    #[must_use]
    pub(crate) fn is_whole(&self) -> bool {
        self.id == Self::id_of(&self.build, &self.qemu, &self.kernel.sha256, &self.argv)
    }

    /// Its name for people: `6.12 psi=0, write, 2 CPUs`.
    #[must_use]
    pub(crate) fn title(&self) -> String {
        format!("{}, {}", self.column, section_title(&self.mode, Some(self.cpus)))
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn digest(path: &Path) -> Result<String> {
    let mut file = crate::util::regular::open(path).with_context(|| path.display().to_string())?;
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hexadecimal(&hash.finalize()))
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
