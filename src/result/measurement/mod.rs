//! A measurement as a value: what is measured, on what, observed how, repeated how. The command line is parsed into it once.
//! Results contain it, so that they can be repeated, and a cell of a campaign is identified by it.

mod guest;
mod keep;
mod pair;
mod recording;
mod refused;
mod remedy;
mod words;

pub use guest::{Accel, GuestMachine};
pub use keep::{Keep, Trigger, Until};
pub use pair::{RunOptions, WindowSizing};
pub use recording::{RecordingRequest, RecordingTarget, SentFile, UserContexts};
pub use refused::{RefusableCall, RefusalError, RefusedCall};
pub use remedy::Remedy;
pub use remedy::{stage_text, words_of};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measurement {
    /// A built-in writer and reader.
    Pair(Box<RunOptions>),
    /// A pipeline, or running processes.
    Recording(Box<RecordingRequest>),
}

impl Measurement {
    /// Measure it on this kernel.
    pub fn set_kernel(&mut self, kernel: &str) {
        let place = match self {
            Self::Pair(options) => &mut options.kernel,
            Self::Recording(request) => &mut request.kernel,
        };
        *place = Some(kernel.to_owned());
    }

    /// The guest, if there is one.
    pub fn machine(&self) -> &GuestMachine {
        match self {
            Self::Pair(options) => &options.machine,
            Self::Recording(request) => &request.machine,
        }
    }
}
