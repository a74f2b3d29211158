//! What the screen shows now, and what keys do to it.

use crate::record::live::frame::{LiveChannel, LiveFrame, LiveProcess};
use crate::record::live::history::LiveHistory;
use crate::record::live::keys::ScreenKey;

/// The order of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// As they are in the pipeline; of a machine, where most time is lost first.
    #[default]
    Place,
    /// What moves or works most first.
    Work,
    /// Where is waited longest first.
    Waits,
}

impl RowOrder {
    fn next(self) -> Self {
        match self {
            Self::Place => Self::Work,
            Self::Work => Self::Waits,
            Self::Waits => Self::Place,
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Work => "work",
            Self::Waits => "waits",
        }
    }
}

/// A row, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScreenRow {
    Channel(String),
    Process(String),
}

/// What is for the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScreenRequest {
    End,
    /// Send a signal, as a terminal does for this character.
    Signal(u8),
    /// Give the terminal back to the shell.
    Suspend,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(crate) struct ScreenState {
    frame: LiveFrame,
    history: LiveHistory,
    /// What is shown instead, if it stands still.
    frozen: Option<(LiveFrame, LiveHistory)>,
    pub order: RowOrder,
    pub selected: Option<ScreenRow>,
    pub opened: Option<ScreenRow>,
}

impl ScreenState {
    pub(crate) fn add(&mut self, frame: LiveFrame) {
        self.history.add(&frame);
        self.frame = frame;
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    pub(crate) fn shown(&self) -> (&LiveFrame, &LiveHistory) {
        self.frozen.as_ref().map_or((&self.frame, &self.history), |(frame, history)| (frame, history))
    }

    /// The channels in their order.
    pub(crate) fn channels(&self) -> Vec<&LiveChannel> {
        let mut rows: Vec<&LiveChannel> = self.shown().0.channels.iter().collect();
        match self.order {
            RowOrder::Place => {}
            RowOrder::Work => rows.sort_by_key(|row| std::cmp::Reverse(row.rate)),
            RowOrder::Waits => rows.sort_by(|one, other| other.lost.total_cmp(&one.lost)),
        }
        rows
    }

    /// The processes in their order.
    pub(crate) fn processes(&self) -> Vec<&LiveProcess> {
        let mut rows: Vec<&LiveProcess> = self.shown().0.processes.iter().collect();
        match self.order {
            RowOrder::Place => {}
            RowOrder::Work => rows.sort_by(|one, other| other.cpu.total_cmp(&one.cpu)),
            RowOrder::Waits => rows.sort_by(|one, other| other.asleep.total_cmp(&one.asleep)),
        }
        rows
    }

    fn rows(&self) -> Vec<ScreenRow> {
        let channels = self.channels().into_iter().map(|row| ScreenRow::Channel(row.name.clone()));
        channels.chain(self.processes().into_iter().map(|row| ScreenRow::Process(row.name.clone()))).collect()
    }

    pub(crate) fn key(&mut self, key: ScreenKey) -> Option<ScreenRequest> {
        match key {
            ScreenKey::Quit | ScreenKey::Close if self.opened.is_some() => self.opened = None,
            ScreenKey::Quit => return Some(ScreenRequest::End),
            ScreenKey::Signal(character) => return Some(ScreenRequest::Signal(character)),
            ScreenKey::Suspend => return Some(ScreenRequest::Suspend),
            ScreenKey::Sort => self.order = self.order.next(),
            ScreenKey::Freeze => {
                self.frozen = match self.frozen {
                    Some(_) => None,
                    None => Some((self.frame.clone(), self.history.clone())),
                }
            }
            ScreenKey::Open if self.opened.is_some() => self.opened = None,
            ScreenKey::Open => self.opened = self.selected.clone().or_else(|| self.rows().into_iter().next()),
            ScreenKey::Close => self.selected = None,
            ScreenKey::Up | ScreenKey::Down => {
                let rows = self.rows();
                let at = rows.iter().position(|row| Some(row) == self.selected.as_ref());
                let next = match (at, key) {
                    (None, _) => 0,
                    (Some(at), ScreenKey::Up) => at.saturating_sub(1),
                    (Some(at), _) => (at + 1).min(rows.len().saturating_sub(1)),
                };
                self.selected = rows.into_iter().nth(next);
                if self.opened.is_some() {
                    self.opened.clone_from(&self.selected);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ScreenState {
        let channel = |name: &str, rate, lost| LiveChannel {
            name: name.to_owned(),
            rate: Some(rate),
            lost,
            ..LiveChannel::default()
        };
        let process = |name: &str, cpu| LiveProcess { name: name.to_owned(), cpu, ..LiveProcess::default() };
        let mut state = ScreenState::default();
        state.add(LiveFrame {
            channels: vec![channel("a", 1, 0.5), channel("b", 7, 0.2)],
            processes: vec![process("p", 0.1), process("q", 0.9)],
            ..LiveFrame::default()
        });
        state
    }

    fn names(state: &ScreenState) -> Vec<&str> {
        let channels = state.channels().into_iter().map(|row| &row.name[..]);
        channels.chain(state.processes().into_iter().map(|row| &row.name[..])).collect()
    }

    #[test]
    fn rows_are_sorted_and_opened() {
        let mut state = state();
        assert_eq!(names(&state), ["a", "b", "p", "q"]);
        state.key(ScreenKey::Sort);
        assert_eq!(names(&state), ["b", "a", "q", "p"]);
        state.key(ScreenKey::Down);
        state.key(ScreenKey::Sort);
        assert_eq!(names(&state)[..2], ["a", "b"]);
        // What was selected stays so.
        state.key(ScreenKey::Open);
        assert_eq!(state.opened, Some(ScreenRow::Channel("b".to_owned())));
        state.key(ScreenKey::Down);
        assert_eq!(state.opened, Some(ScreenRow::Process("p".to_owned())));
        assert_eq!(state.key(ScreenKey::Quit), None);
        assert_eq!(state.opened, None);
        assert_eq!(state.key(ScreenKey::Quit), Some(ScreenRequest::End));
    }

    #[test]
    fn a_frozen_screen_stands_still_and_the_seconds_go_on() {
        let mut state = state();
        state.key(ScreenKey::Freeze);
        state.add(LiveFrame { elapsed: "2 s".to_owned(), ..LiveFrame::default() });
        assert_eq!((&state.shown().0.elapsed[..], names(&state).len()), ("", 4));
        state.key(ScreenKey::Freeze);
        assert_eq!((&state.shown().0.elapsed[..], names(&state).len()), ("2 s", 0));
        assert_eq!(state.history.rates("a", 2), [Some(1), None]);
    }
}
