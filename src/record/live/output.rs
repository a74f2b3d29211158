//! Where a live recording is shown: a screen of the terminal, or lines.

use crate::record::live::frame::LiveFrame;
use crate::record::live::pty::PipelineTerminal;
use crate::record::live::screen::LiveScreen;
use crate::record::live::terminal::RealTerminal;
use crate::record::start::launch::StageStreams;
use crate::util::progress;
use anyhow::Result;
use std::io::{IsTerminal as _, stderr, stdout};

/// Where it will be shown.
#[derive(Debug)]
pub(crate) enum LivePlace {
    Screen(RealTerminal, PipelineTerminal),
    Lines,
}

impl LivePlace {
    /// The screen of the terminal at standard error, if there is one. This process then divides in two
    /// ([`RealTerminal::divide`]); nothing may have been started.
    pub(crate) fn find() -> Self {
        let Some(real) = RealTerminal::find() else { return Self::Lines };
        match real.divide() {
            Ok((real, pipeline)) => Self::Screen(real, pipeline),
            Err(error) => {
                progress::problem(&format!("there is no screen, but a line each second: {error:#}"));
                Self::Lines
            }
        }
    }

    /// What a pipeline reads and writes: the terminal that the screen reads, in place of the real one.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn streams(&self) -> Result<Option<StageStreams>> {
        match self {
            Self::Screen(_, pipeline) => pipeline.streams().map(Some),
            Self::Lines => Ok(None),
        }
    }
}

/// The output of a live recording.
pub(crate) enum LiveOutput {
    Screen(LiveScreen),
    Lines,
}

impl LiveOutput {
    /// `is_pipeline`: what is recorded has the terminal, too.
    pub(crate) fn start(place: LivePlace, is_pipeline: bool) -> Self {
        match place {
            LivePlace::Screen(real, pipeline) => {
                let prints = is_pipeline && (stdout().is_terminal() || stderr().is_terminal());
                LiveScreen::start(real, pipeline, prints).map_or(Self::Lines, Self::Screen)
            }
            LivePlace::Lines => Self::Lines,
        }
    }

    /// Show a second: the frame on a screen, or the line.
    pub(crate) fn show(&self, frame: impl FnOnce() -> LiveFrame, line: impl FnOnce() -> String) {
        match self {
            Self::Screen(screen) => screen.show(frame()),
            Self::Lines => progress::problem(&line()),
        }
    }

    /// Whether `q` has been pressed.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self, Self::Screen(screen) if screen.is_left())
    }
}
