//! Commands that run a list on a scheduler.

use super::chunk::Chunk;
use super::list::CellList;
use crate::util::text::{counted, quoted};
use clap::ValueEnum;

/// The largest array of Slurm's default configuration (MaxArraySize).
const MOST_SLURM_TASKS: usize = 1000;

/// A scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CampaignEngine {
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
    #[must_use]
    pub(crate) fn chunks(self, list: &CellList, seconds: Option<f64>) -> usize {
        let count = Chunk::count(list, seconds.unwrap_or_else(|| self.chunk_seconds()));
        if self == Self::Slurm { count.min(MOST_SLURM_TASKS) } else { count }
    }

    /// The script that runs `list`, which is in the file `path`, into `store`, in chunks of about `seconds`.
    #[must_use]
    pub(crate) fn script(self, list: &CellList, path: &str, store: &str, seconds: Option<f64>) -> String {
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
        match self {
            Self::Parallel => format!(
                "#!/bin/sh
{about}
# Run this again after a failure: it continues. For other machines: LOGINS=2/host1,2/host2, where the folder is shared.
exec parallel --joblog matrix-{plan}.log --resume-failed --sshlogin \"${{LOGINS:-:}}\" --env PATH --workdir \"$PWD\" \\
    '{}' ::: $(seq {chunks})
",
                run("{}").replace('\'', "'\\''")
            ),
            Self::Slurm => {
                // Four times the estimate: nodes differ, and each kernel boots once.
                let each = seconds.max(list.seconds() / chunks as f64);
                let limit = (each * 4.0 / 60.0).ceil().max(10.0);
                format!(
                    "#!/bin/sh
{about}
# Submit it with sbatch. Submit it again after a failure: finished cells are kept.
#SBATCH --job-name=pipeprof --array=1-{chunks} --ntasks=1 --cpus-per-task=1 --mem=2G
#SBATCH --time={limit} --requeue --output=matrix-%A-%a.log
exec {}
",
                    run("$SLURM_ARRAY_TASK_ID")
                )
            }
            Self::Hyperqueue => format!(
                "#!/bin/sh
{about}
# Submits to the server of `hq server start`. Run it again after a failure: finished cells are kept.
job=$(hq --output-mode quiet submit --array 1-{chunks} --cpus 1 --crash-limit 5 --wait --stdout none \\
    --stderr matrix-%{{TASK_ID}}.log -- sh -c '{}') || exit
# The exit status above is not that of the tasks.
failed=$(hq job task-ids \"$job\" --filter failed,canceled,aborted) || exit
[ -z \"$failed\" ] || {{ echo \"failed: $failed; see matrix-N.log\" >&2; exit 1; }}
",
                run("$HQ_TASK_ID").replace('\'', "'\\''")
            ),
            Self::Snakemake => format!(
                "{about}
# Run it with: snakemake --snakefile FILE --cores N --keep-going. Run it again after a failure: it continues.
CHUNKS = range(1, {chunks} + 1)
rule all:
    input: expand(\"matrix-{plan}/{{chunk}}.done\", chunk=CHUNKS)
rule chunk:
    output: touch(\"matrix-{plan}/{{chunk}}.done\")
    shell: {:?}
",
                run("{wildcards.chunk}")
            ),
            Self::Make => format!(
                "{about}
# Run it with: make -f FILE -k -j N. Run it again after a failure: finished cells are kept.
CHUNKS := $(shell seq {chunks})
.PHONY: all $(CHUNKS)
all: $(CHUNKS)
$(CHUNKS):
\t{}
",
                run("$@")
            ),
        }
    }
}
