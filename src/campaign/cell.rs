//! One cell: one run or recording, with all that decides its result.

use crate::compare::model::section_title;
use crate::result::{Measurement, PipelineCommand};
use crate::util::sha256;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The `schema` of a line of `cells.jsonl`.
pub(crate) const CELL_SCHEMA: &str = "pipeprof.cell/1";

/// Hexadecimal digits of an id: 80 bits, so that a million cells share one with a probability of 1e-12.
const ID_DIGITS: usize = 20;

/// One run or recording. Unless it is bound to a [`host`](Self::host), its result is a function of its [`id`](Self::id).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignCell {
    pub schema: String,
    /// Hash of the build, QEMU, the kernel image's digest and the request.
    pub id: String,
    /// The column of the report: the kernel's label and the setting.
    pub column: String,
    pub kernel: CellKernel,
    /// What distinguishes the column from others of its kernel; may be empty.
    pub setting: String,
    /// The mode of a run, or the pipeline as text.
    pub mode: String,
    /// CPUs of the guest.
    pub cpus: u32,
    /// What is measured. The kernel is named by its release; its digest decides which it is.
    pub request: Measurement,
    /// Estimated seconds on one CPU of a current server, without the boot of the first guest of a kernel.
    pub seconds: f64,
    /// pipeprof's version and build.
    pub build: String,
    /// QEMU's version and build.
    pub qemu: String,
    /// Whether two chunks run it, to check that their machines agree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub canary: bool,
    /// The pipeline, if the cell is a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<CellPipeline>,
    /// The only machine that may run it, because its times depend on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// A finished cell: `cell.json` in the folder of its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedCell {
    #[serde(flatten)]
    pub cell: CampaignCell,
    /// The SHA-256 of each other file in the folder, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A pipeline whose instructions a cell counts, and what its processes find in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellPipeline {
    pub command: PipelineCommand,
    /// The folder in which it runs.
    pub folder: PathBuf,
    /// `PATH`.
    pub path: String,
    /// SHA-256 of the programs, their libraries and the files that the guest gets, in hexadecimal digits.
    pub contents: String,
}

/// The kernel of a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellKernel {
    /// Its name in reports.
    pub label: String,
    pub release: String,
    /// SHA-256 of the image, in hexadecimal digits.
    pub sha256: String,
    /// Where the image was when the list was planned. Other machines have it in their cache of kernels.
    pub image: PathBuf,
}

/// SHA-256 of the canonical JSON of `value`, in hexadecimal digits.
fn digest(value: &impl Serialize) -> String {
    // Values of cells are texts, numbers and lists of them, which JSON can represent.
    sha256::of_bytes(&serde_json::to_vec(value).unwrap_or_default())
}

impl CellPipeline {
    /// Eight digits that distinguish pipelines with one text: other folders, programs or files.
    pub fn digest(&self) -> String {
        let mut digest = digest(self);
        digest.truncate(8);
        digest
    }
}

impl CampaignCell {
    /// The same cell with the id that belongs to its parts.
    pub fn identified(self) -> Self {
        Self { id: self.own_id(), ..self }
    }

    fn own_id(&self) -> String {
        let Self { build, qemu, kernel, request, pipeline, host, .. } = self;
        let mut id = digest(&(build, qemu, &kernel.sha256, request, pipeline, host));
        id.truncate(ID_DIGITS);
        id
    }

    /// Whether the id is that of the cell's parts: nobody has edited the line.
    pub fn is_whole(&self) -> bool {
        self.id == self.own_id()
    }

    /// Whether every machine gives the same result.
    pub fn is_exact(&self) -> bool {
        self.host.is_none()
    }

    /// The command that makes its result, for people.
    pub fn command(&self) -> String {
        self.request.command()
    }

    /// Its name for people: `6.12 psi=0, write, 2 CPUs`.
    pub fn title(&self) -> String {
        format!("{}, {}", self.column, self.section())
    }

    /// Its section of a report: `write, 2 CPUs`.
    pub fn section(&self) -> String {
        section_title(&self.mode, Some(self.cpus))
    }
}

/// The names of the cells' kernels: their labels, or their releases if several kernels have one label.
pub fn kernel_names<'a>(kernels: impl Iterator<Item = &'a CellKernel> + Clone) -> BTreeMap<String, String> {
    let shared =
        |kernel: &CellKernel| kernels.clone().any(|other| other.label == kernel.label && other.sha256 != kernel.sha256);
    let name = |kernel: &CellKernel| if shared(kernel) { &kernel.release } else { &kernel.label }.clone();
    kernels.clone().map(|kernel| (kernel.sha256.clone(), name(kernel))).collect()
}
