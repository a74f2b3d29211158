//! How to record.

use crate::record::live::output::LivePlace;
use crate::record::observe::traced::TracingCollector;
use crate::record::start::launch::StageStreams;
use crate::record::trials::trial::TrialOptions;
use crate::result::{Observer, RecordLevel};
use crate::util::{privileges, progress};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How to record a pipeline, on this machine or in a guest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordSettings {
    /// End it after this time.
    pub duration: Option<Duration>,
    pub level: RecordLevel,
    /// Absent: by BPF programs if there are rights for these.
    pub observer: Option<Observer>,
    /// Size of the pipes between the stages.
    pub pipe_bytes: Option<u64>,
    /// Also keep when each thread had a CPU, and who woke it.
    pub switches: bool,
    /// Also attach this collector.
    pub traced: Option<TracingCollector>,
}

/// How to record a pipeline on this machine.
#[derive(Debug, Default)]
pub struct RecordOptions {
    pub settings: RecordSettings,
    pub trials: TrialOptions,
    /// Its standard input, output and error, if not this process's.
    pub streams: Option<StageStreams>,
    /// Also sample what the processes execute.
    pub sampled: bool,
    /// Show there what happens each second.
    pub(crate) live: Option<LivePlace>,
    /// Give up rights once everything is attached. Nothing else can be recorded by this thread then.
    pub(crate) drop_rights: bool,
}

impl RecordOptions {
    /// Whether rights are not needed any more once all is attached: neither to detach, nor to record again.
    pub(crate) fn needs_no_rights(&self) -> bool {
        self.drop_rights && self.settings.traced.is_none() && !self.trials.records()
    }
}

/// Give up what only attaching needs.
pub(crate) fn give_up(rights: bool) {
    if rights && !privileges::drop_attaching() {
        progress::detail(|| "rights that are no longer needed cannot be given up here".to_owned());
    }
}

/// Nanoseconds, as far as they fit.
pub(crate) fn nanoseconds(duration: Option<Duration>) -> Option<u64> {
    duration.and_then(|duration| u64::try_from(duration.as_nanos()).ok())
}
