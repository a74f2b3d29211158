//! What a process does, by name and colour: the one home of both, for pages and screens.

use crate::result::{Document, RecordedChannel, RecordedEnd};

/// What the threads of a process do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProcessState {
    Running,
    Runnable,
    PipeEmpty,
    PipeFull,
    Other,
}

/// The colours of what is no state.
pub(crate) const FILL: (&str, &str) = ("fill of a pipe", "#7a9a5b");
pub(crate) const PATH: (&str, &str) = ("critical path", "#7b1fa2");

impl ProcessState {
    /// From the bottom of a row on. The rest of a process's life is another sleep.
    pub(crate) const KNOWN: [Self; 4] = [Self::Running, Self::Runnable, Self::PipeEmpty, Self::PipeFull];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "without a CPU",
            Self::PipeEmpty => "pipe empty",
            Self::PipeFull => "pipe full",
            Self::Other => "other sleep",
        }
    }

    pub(crate) fn colour(self) -> &'static str {
        match self {
            Self::Running => "#e0652c",
            Self::Runnable => "#f2c84b",
            Self::PipeEmpty => "#8fc1e3",
            Self::PipeFull => "#2f6ea5",
            Self::Other => "#d5dae0",
        }
    }

    /// What a process did most of the window. Several threads do several things at once.
    pub(crate) fn main(recording: &Document, process: usize) -> Option<Self> {
        let of = recording.recorded.get(process)?;
        let slept = |ends: fn(&RecordedChannel) -> &[RecordedEnd]| -> u64 {
            let ends = recording.channels.iter().flat_map(ends).filter(|end| end.process == process);
            ends.map(|end| end.blocked_ns).sum()
        };
        let empty = slept(|channel| &channel.readers);
        let full = slept(|channel| &channel.writers);
        let known = [of.cpu_ns, of.runnable_ns, empty, full];
        let rest = of.lived_ns.saturating_sub(known.iter().sum());
        let all = Self::KNOWN.into_iter().zip(known).chain([(Self::Other, rest)]);
        // Of equal ones, the first.
        let most = all.filter(|(_, ns)| *ns > 0).reduce(|most, next| if next.1 > most.1 { next } else { most });
        most.map(|(state, _)| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::model::stages::tests::shell;

    #[test]
    fn a_process_does_what_it_does_longest() {
        let mut recording = shell(["a", "b"], &[[&[0], &[1]]]);
        let main = |recording: &Document| [0, 1].map(|process| ProcessState::main(recording, process));
        recording.recorded.iter_mut().for_each(|process| process.lived_ns = 100);
        (recording.recorded[0].cpu_ns, recording.recorded[0].runnable_ns) = (60, 10);
        recording.channels[0].readers[0].blocked_ns = 70;
        assert_eq!(main(&recording), [Some(ProcessState::Running), Some(ProcessState::PipeEmpty)]);
        recording.channels[0].writers[0].blocked_ns = 61;
        recording.channels[0].readers[0].blocked_ns = 40;
        assert_eq!(main(&recording), [Some(ProcessState::PipeFull), Some(ProcessState::Other)]);
        assert_eq!(ProcessState::main(&Document::default(), 0), None);
    }
}
