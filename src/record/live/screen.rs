//! Where a live recording is shown: a screen of the terminal, or lines.

use crate::report::block::{self, ReportBlock};
use crate::report::terminal::Style;
use crate::util::progress;
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, queue, terminal};
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::Duration;

/// The output of a live recording.
pub(crate) enum LiveOutput {
    Screen(LiveScreen),
    Lines,
}

impl LiveOutput {
    /// The screen of the terminal at standard error, if there is one and nothing else prints to it.
    pub(crate) fn new(is_shared: bool) -> Self {
        let wanted = stderr().is_terminal() && !is_shared;
        wanted.then(LiveScreen::new).and_then(Result::ok).map_or(Self::Lines, Self::Screen)
    }

    /// Show `blocks` or, where there is no screen, `line`.
    pub(crate) fn show(&mut self, blocks: &[ReportBlock], line: &str) {
        match self {
            Self::Screen(screen) => screen.show(&block::text(blocks, Style::of_stderr())),
            Self::Lines => progress::problem(line),
        }
    }

    /// Whether `q` has been pressed.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self, Self::Screen(_)) && LiveScreen::is_left()
    }
}

/// The other screen of the terminal, until it is dropped.
pub(crate) struct LiveScreen;

impl LiveScreen {
    fn new() -> std::io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on, dropping it restores the terminal.
        let screen = Self;
        queue!(stderr(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Show the first lines of `text`, as many as there is room for.
    fn show(&mut self, text: &str) {
        let rows = terminal::size().map_or(usize::MAX, |(_, rows)| usize::from(rows));
        let mut out = stderr().lock();
        // A terminal that is gone ends the recording by a signal.
        let _ = queue!(out, cursor::MoveTo(0, 0));
        for (row, line) in text.lines().take(rows).enumerate() {
            let begin = if row == 0 { "" } else { "\r\n" };
            let _ = write!(out, "{begin}{line}");
            let _ = queue!(out, Clear(ClearType::UntilNewLine));
        }
        let _ = queue!(out, Clear(ClearType::FromCursorDown));
        let _ = out.flush();
    }

    fn is_left() -> bool {
        while poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(key)) = read() else { continue };
            match key.code {
                _ if key.kind != KeyEventKind::Press => {}
                KeyCode::Char('q') => return true,
                // The terminal does not send it while it gives each key.
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::INT);
                }
                _ => {}
            }
        }
        false
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        // There is nothing else to try.
        let _ = crossterm::execute!(stderr(), cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}
