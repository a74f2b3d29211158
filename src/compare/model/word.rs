//! The words of verdicts.

use crate::util::decision::Decision;
use serde::{Deserialize, Serialize};

/// The verdict in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Word {
    /// Exact: fewer instructions.
    Fewer,
    /// Exact: more instructions.
    More,
    Faster,
    Slower,
    Same,
    /// The data support none of the others.
    #[default]
    Undecided,
}

impl Word {
    pub fn text(self) -> &'static str {
        self.into()
    }

    /// Whether other numbers were counted.
    pub(crate) fn is_change(self) -> bool {
        matches!(self, Self::More | Self::Fewer)
    }

    /// The word for a change of counts.
    pub fn of_counts(decision: Decision) -> Self {
        match decision {
            Decision::More => Self::More,
            Decision::Fewer => Self::Fewer,
            Decision::Same => Self::Same,
            Decision::Undecided => Self::Undecided,
        }
    }

    /// The word for a change of times.
    pub(crate) fn of_times(decision: Decision) -> Self {
        match decision {
            Decision::More => Self::Slower,
            Decision::Fewer => Self::Faster,
            other => Self::of_counts(other),
        }
    }

    /// What was decided.
    pub fn decision(self) -> Decision {
        match self {
            Self::More | Self::Slower => Decision::More,
            Self::Fewer | Self::Faster => Decision::Fewer,
            Self::Same => Decision::Same,
            Self::Undecided => Decision::Undecided,
        }
    }

    /// 1 for more, -1 for less; `None` if nothing changed, or nobody knows.
    pub fn direction(self) -> Option<f64> {
        match self.decision() {
            Decision::More => Some(1.0),
            Decision::Fewer => Some(-1.0),
            Decision::Same | Decision::Undecided => None,
        }
    }
}
