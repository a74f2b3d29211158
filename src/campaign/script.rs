//! Commands that run a list on a scheduler.

use super::chunk::Chunk;
use super::list::CellList;
use crate::util::text::{counted, quoted};

/// The largest array of Slurm's default configuration (MaxArraySize).
const MOST_SLURM_TASKS: usize = 1000;

/// A scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum CampaignEngine {
    /// GNU parallel, here or on machines reached by ssh
    Parallel,
    /// Slurm: an array of jobs
    Slurm,
    /// HyperQueue: an array of tasks
    Hyperqueue,
    /// Snakemake
    Snakemake,
    /// make -j
    Make,
}

impl CampaignEngine {
    /// Seconds of a chunk, if none are given: a job of Slurm costs seconds to start, others less.
    fn chunk_seconds(self) -> f64 {
        match self {
            Self::Slurm => 900.0,
            Self::Parallel | Self::Hyperqueue | Self::Snakemake | Self::Make => 60.0,
        }
    }

    /// A word of a command for a shell, in the engine's own notation.
    fn word(self, word: &str) -> String {
        let quoted = quoted(word);
        match self {
            Self::Snakemake => quoted.replace('{', "{{").replace('}', "}}"),
            Self::Make => quoted.replace('$', "$$"),
            Self::Parallel | Self::Slurm | Self::Hyperqueue => quoted,
        }
    }

    /// The number of chunks of about `seconds`.
    pub fn chunks(self, list: &CellList, seconds: Option<f64>) -> usize {
        let count = Chunk::count(list, seconds.unwrap_or_else(|| self.chunk_seconds()));
        if self == Self::Slurm { count.min(MOST_SLURM_TASKS) } else { count }
    }

    /// The script that runs `list`, which is in the file `path`, into `store`, in chunks of about `seconds`.
    pub fn script(self, list: &CellList, path: &str, store: &str, seconds: Option<f64>) -> String {
        let chunks = self.chunks(list, seconds);
        let seconds = seconds.unwrap_or_else(|| self.chunk_seconds());
        // What marks finished chunks must not be that of another list, or of other chunks.
        let plan = format!("{}-{chunks}", list.name());
        let (path, store) = (self.word(path), self.word(store));
        let run = |number: &str| format!("pipeprof matrix run {path} --chunk {number}/{chunks} --store {store}");
        let about = format!(
            "# {} in {}, about {} of one CPU in all.",
            counted(list.cells.len() as u64, "cell"),
            counted(chunks as u64, "chunk"),
            counted((list.seconds() / 60.0).ceil() as u64, "minute")
        );
        // In quotes, in a string of Python, or as it is.
        let quoted = |number: &str| run(number).replace('\'', "'\\''");
        let (template, run) = match self {
            Self::Parallel => (include_str!("scripts/parallel"), quoted("{}")),
            Self::Slurm => (include_str!("scripts/slurm"), run("$SLURM_ARRAY_TASK_ID")),
            Self::Hyperqueue => (include_str!("scripts/hyperqueue"), quoted("$HQ_TASK_ID")),
            Self::Snakemake => (include_str!("scripts/snakemake"), format!("{:?}", run("{wildcards.chunk}"))),
            Self::Make => (include_str!("scripts/make"), run("$@")),
        };
        // Four times the estimate: nodes differ, and each kernel boots once.
        let minutes = (seconds.max(list.seconds() / chunks as f64) * 4.0 / 60.0).ceil().max(10.0);
        let words =
            [("ABOUT", about), ("PLAN", plan), ("CHUNKS", chunks.to_string()), ("MINUTES", minutes.to_string())];
        // The command last: it has paths of the user's.
        let filled =
            words.iter().fold(template.to_owned(), |text, (word, value)| text.replace(&format!("@{word}@"), value));
        filled.replace("@RUN@", &run)
    }
}
