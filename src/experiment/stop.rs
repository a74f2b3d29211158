//! Stop rules of experiments.

use crate::util::stats;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time after which an experiment with a target width and no time limit ends.
const DEFAULT_LIMIT: Duration = Duration::from_secs(600);
/// Most blocks of an experiment with a target width.
pub(super) const MOST_BLOCKS: usize = 10_000;

/// A rule to stop before or after the planned number of blocks. It is evaluated between blocks, so that all lanes have
/// equally many results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StopRule {
    /// Run blocks until [`relative_half_width`] of each lane with values is at most this, such as 0.02.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// Start no block that is expected to end later than this, in nanoseconds. The first block always runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_ns: Option<u64>,
}

impl StopRule {
    /// Whether there is no rule.
    pub fn is_none(&self) -> bool {
        self.until.is_none() && self.max_time_ns.is_none()
    }

    /// The time limit, including the default limit of [`Self::until`].
    pub fn limit(&self) -> Option<Duration> {
        self.max_time_ns.map(Duration::from_nanos).or(self.until.map(|_| DEFAULT_LIMIT))
    }
}

/// How an experiment with a stop rule ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ending {
    pub by: EndedBy,
    /// Number of blocks, which is the number of results of each cell.
    pub blocks: usize,
    /// Half-width of the 95 % interval of the median, relative to the median, of the widest lane; absent with fewer
    /// than six values.
    pub width: Option<f64>,
    /// The requested width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
}

/// What ended an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    /// All planned blocks ran, or all cells were done.
    Runs,
    /// The intervals were narrow enough.
    Until,
    /// The time limit was reached.
    Time,
}

impl Ending {
    /// A sentence, for a `unit` such as "run".
    pub fn sentence(&self, unit: &str) -> String {
        let s = if self.blocks == 1 { "" } else { "s" };
        let after = format!("{} {unit}{s}", self.blocks);
        let width = self.width.map_or_else(
            || "too few values for a 95 % interval".to_owned(),
            |width| format!("95 % interval of the median ±{:.1} %", width * 100.0),
        );
        match self.by {
            EndedBy::Until => format!("ended by --until after {after}: {width}"),
            EndedBy::Time => format!("ended by the time limit after {after}: {width}"),
            EndedBy::Runs => format!("ended after {after}: {width}"),
        }
    }
}

/// The uncertainty of the median of `values`: half the width of its distribution-free 95 % interval
/// ([`stats::median_ci95`]), divided by the median. `None` with fewer than six values, or if the median is 0.
pub(crate) fn relative_half_width(values: &[f64]) -> Option<f64> {
    let [low, high] = stats::median_ci95(values)?;
    let median = stats::median(values)?.abs();
    (median > 0.0).then(|| (high - low) / 2.0 / median)
}
