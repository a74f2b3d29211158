//! The command lines of processes, which tell those apart that execute the same program.

use crate::record::observe::raw::{PrArgs, PrWho};
use crate::record::start::command_line::words;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Further processes have none.
const MOST: usize = 4096;

/// By process.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandLines(HashMap<PrWho, Vec<String>, FixedState>);

impl CommandLines {
    /// Read a step of the BPF programs.
    pub(super) fn read(&mut self, step: &[u8]) {
        let Ok(step) = bytemuck::try_pod_read_unaligned::<PrArgs>(step) else { return };
        let text: &[u8] = bytemuck::cast_slice(&step.text);
        self.add(step.who, words(&text[..text.len().min(step.length as usize)]));
    }

    /// A process that has been forked has the command line of its parent.
    pub(crate) fn inherit(&mut self, parent: &PrWho, child: &PrWho) {
        if parent.tgid != child.tgid
            && let Some(line) = self.0.get(parent)
        {
            self.add(*child, line.clone());
        }
    }

    pub(crate) fn add(&mut self, who: PrWho, line: Vec<String>) {
        if self.0.len() < MOST && !line.is_empty() {
            self.0.insert(who, line);
        }
    }

    /// Forget processes of which `is_kept` does not hold.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&PrWho) -> bool) {
        self.0.retain(|who, _| is_kept(who));
    }

    /// The words of a process; empty if they are not known.
    pub(crate) fn of(&self, who: &PrWho) -> &[String] {
        self.0.get(who).map_or(&[], Vec::as_slice)
    }
}
