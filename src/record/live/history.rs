//! What the screen has shown of each row before: rates and states of the last seconds.

use crate::record::live::frame::LiveFrame;
use crate::record::say::states::ProcessState;
use std::collections::{HashMap, VecDeque};

/// Seconds that are remembered.
pub(crate) const SECONDS: usize = 60;

/// Rows that are remembered, of channels and of processes. Of a pipeline that starts many, those of the last seconds are shown.
const ROWS: usize = 256;

/// What a process did in a second: its state, and whether the critical path was mostly its.
pub(crate) type StatesCell = Option<(ProcessState, bool)>;

/// The last seconds of all rows, newest last. Rows that are not in a second have nothing there.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveHistory {
    rates: HashMap<String, VecDeque<Option<u64>>>,
    states: HashMap<String, VecDeque<StatesCell>>,
}

impl LiveHistory {
    pub(crate) fn add(&mut self, frame: &LiveFrame) {
        add(&mut self.rates, frame.channels.iter().map(|channel| (&channel.name, channel.rate)));
        let processes = frame.processes.iter();
        let cell = |state, is_on_path| Some((state?, is_on_path));
        add(&mut self.states, processes.map(|process| (&process.name, cell(process.state, process.is_on_path))));
    }

    /// The rates of the last so many seconds.
    pub(crate) fn rates(&self, channel: &str, seconds: usize) -> Vec<Option<u64>> {
        last(&self.rates, channel, seconds)
    }

    /// The states of the last so many seconds.
    pub(crate) fn states(&self, process: &str, seconds: usize) -> Vec<StatesCell> {
        last(&self.states, process, seconds)
    }
}

fn add<'a, T: Copy>(
    rows: &mut HashMap<String, VecDeque<Option<T>>>,
    now: impl Iterator<Item = (&'a String, Option<T>)>,
) {
    rows.values_mut().for_each(|row| row.push_back(None));
    for (name, value) in now {
        if let Some(last) = rows.get_mut(name).and_then(VecDeque::back_mut) {
            *last = value;
        } else if rows.len() < ROWS {
            rows.insert(name.clone(), VecDeque::from([value]));
        }
    }
    for row in rows.values_mut() {
        row.drain(..row.len().saturating_sub(SECONDS));
    }
    rows.retain(|_, row| row.iter().any(Option::is_some));
}

fn last<T: Copy>(rows: &HashMap<String, VecDeque<Option<T>>>, name: &str, seconds: usize) -> Vec<Option<T>> {
    let known = rows.get(name);
    let length = known.map_or(0, VecDeque::len).min(seconds);
    let before = std::iter::repeat_n(None, seconds - length);
    before.chain(known.into_iter().flat_map(|row| row.iter().skip(row.len() - length)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::live::frame::{LiveChannel, LiveProcess};

    fn frame(rate: Option<u64>) -> LiveFrame {
        let channels =
            rate.map(|rate| LiveChannel { name: "a".to_owned(), rate: Some(rate), ..LiveChannel::default() });
        let process =
            LiveProcess { name: "p".to_owned(), state: Some(ProcessState::Running), ..LiveProcess::default() };
        LiveFrame { channels: channels.into_iter().collect(), processes: vec![process], ..LiveFrame::default() }
    }

    #[test]
    fn each_second_is_one_cell_also_of_what_was_not_there() {
        let mut history = LiveHistory::default();
        for rate in [Some(3), None, Some(5)] {
            history.add(&frame(rate));
        }
        assert_eq!(history.rates("a", 4), [None, Some(3), None, Some(5)]);
        assert_eq!(history.rates("a", 2), [None, Some(5)]);
        assert_eq!(history.rates("b", 2), [None; 2]);
        assert_eq!(history.states("p", 1), [Some((ProcessState::Running, false))]);
        (0..2 * SECONDS).for_each(|_| history.add(&frame(None)));
        assert!(history.rates.is_empty());
        assert_eq!(history.states["p"].len(), SECONDS);
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = LiveHistory::default();
        for number in 0..10 * ROWS {
            let channel = LiveChannel { name: number.to_string(), rate: Some(1), ..LiveChannel::default() };
            history.add(&LiveFrame { channels: vec![channel], ..LiveFrame::default() });
        }
        assert!(history.rates.len() <= ROWS);
    }
}
