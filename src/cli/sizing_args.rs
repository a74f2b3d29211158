//! Flags that decide how long counted windows are, for `run`, `compare` and `check`.

use super::stop_args::parse_percent;
use crate::run::RunOptions;
use crate::util::stored_json::HIGHEST;

/// How precise counts must be.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SizingArgs {
    /// With --collect insn: lengthen the windows until their counts without scheduling differ by at most this percentage
    /// [default: 0.2%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    precision: Option<f64>,
    /// With --collect insn: do not lengthen windows beyond this number of instructions [default: 100000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..HIGHEST))]
    window_limit: Option<u64>,
}

impl SizingArgs {
    /// Whether a flag was given.
    pub(crate) fn is_given(&self) -> bool {
        self.precision.is_some() || self.window_limit.is_some()
    }

    /// Set what was given.
    pub(crate) fn apply(&self, options: &mut RunOptions) {
        let sizing = &mut options.sizing;
        sizing.precision = self.precision.unwrap_or(sizing.precision);
        sizing.limit = self.window_limit.unwrap_or(sizing.limit);
    }
}
