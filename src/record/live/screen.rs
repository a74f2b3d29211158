//! The screen of the terminal: a thread reads what is typed and what the pipeline prints, and draws.
//!
//! While a program of the pipeline needs the terminal, as an editor or who asks for a password, the screen steps aside: both
//! terminals are connected, and what was printed before is shown.

use crate::record::live::draw::{ScreenColours, ScreenView};
use crate::record::live::frame::LiveFrame;
use crate::record::live::keys::keys;
use crate::record::live::printed::Printed;
use crate::record::live::pty::PipelineTerminal;
use crate::record::live::state::{ScreenRequest, ScreenState};
use crate::record::live::terminal::RealTerminal;
use crate::util::text::counted;
use anyhow::{Context as _, Result};
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, dup, fcntl_dupfd_cloexec, read, write};
use rustix::stdio::dup2_stderr;
use rustix::termios::Winsize;
use std::fs::File;
use std::io::stderr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is looked whether the size has changed, or a program takes the terminal.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What is printed is shown after this time at the latest; each picture costs time.
const PRINTED_EVERY: Duration = Duration::from_millis(250);

/// How long is read at a time, if it does not end; and at the end, if a program goes on.
const READ_FOR: Duration = Duration::from_millis(50);
const LAST_FOR: Duration = Duration::from_secs(2);

/// For the thread.
enum ScreenMessage {
    Frame(LiveFrame),
    /// Whether a program waits for a line that is typed.
    Reads(bool),
}

/// What both threads know.
#[derive(Default)]
struct SharedFlags {
    is_left: AtomicBool,
    stops: AtomicBool,
}

/// The screen, until it is dropped. Then the terminal is as it was, with all that the pipeline printed.
pub(crate) struct LiveScreen {
    messages: Sender<ScreenMessage>,
    wake: Arc<OwnedFd>,
    flags: Arc<SharedFlags>,
    thread: Option<JoinHandle<()>>,
    /// Standard error as it was.
    errors: OwnedFd,
    typed: Option<u64>,
}

impl LiveScreen {
    /// Take over the terminal. What this process prints meanwhile is shown as if the pipeline did.
    ///
    /// # Errors
    /// When the terminal is gone, or there are no descriptors or threads left.
    pub(crate) fn start(real: RealTerminal, pipeline: PipelineTerminal, prints: bool) -> Result<Self> {
        let errors = fcntl_dupfd_cloexec(stderr(), 3).context("cannot copy standard error")?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("eventfd")?);
        let printed = Printed::new().context("cannot make a file in memory")?;
        let own = dup(pipeline.programs()).context("cannot copy a descriptor")?;
        let typed = pipeline.typed_channel();
        let (messages, received) = channel();
        let flags = Arc::<SharedFlags>::default();
        let mut thread = ScreenThread {
            raw: RawTerminal::new(real)?,
            pipeline,
            received,
            wake: Arc::clone(&wake),
            flags: Arc::clone(&flags),
            printed,
            prints,
            state: ScreenState::default(),
            colours: ScreenColours::of_terminal(),
            reads: false,
        };
        let run = move || thread.run();
        let spawned = std::thread::Builder::new().name("pp-screen".to_owned()).spawn(run);
        let thread = Some(spawned.context("cannot start a thread")?);
        let _ = dup2_stderr(&own);
        Ok(Self { messages, wake, flags, thread, errors, typed })
    }

    pub(crate) fn show(&self, frame: LiveFrame) {
        self.send(ScreenMessage::Frame(frame));
    }

    /// Whether a program waits for a line that is typed.
    pub(crate) fn set_reads(&self, reads: bool) {
        self.send(ScreenMessage::Reads(reads));
    }

    /// What is typed for the pipeline, as a channel.
    pub(crate) fn typed_channel(&self) -> Option<u64> {
        self.typed
    }

    /// Whether `q` has been pressed.
    pub(crate) fn is_left(&self) -> bool {
        self.flags.is_left.load(Ordering::Relaxed)
    }

    fn send(&self, message: ScreenMessage) {
        // A thread that is gone shows nothing any more.
        let _ = self.messages.send(message);
        let _ = write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        let _ = dup2_stderr(&self.errors);
        self.flags.stops.store(true, Ordering::Relaxed);
        let _ = write(&*self.wake, &1_u64.to_ne_bytes());
        // A panic of it was said, and has restored the terminal.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What is on the screen. [`ratatui::Terminal`] would ask the terminal of this session for its size and its cursor: that
/// is the one of the pipeline.
struct Drawn {
    backend: CrosstermBackend<File>,
    shown: Buffer,
}

impl Drawn {
    /// An empty screen.
    fn new(file: File, area: Rect) -> Self {
        let mut backend = CrosstermBackend::new(file);
        // A terminal that is gone ends the recording by a signal.
        let _ = backend.clear();
        Self { backend, shown: Buffer::empty(area) }
    }

    /// Write what has changed.
    fn draw(&mut self, view: &ScreenView<'_>) {
        let mut next = Buffer::empty(self.shown.area);
        view.draw(&mut next);
        let _ = self.backend.draw(self.shown.diff(&next).into_iter());
        let _ = self.backend.flush();
        self.shown = next;
    }

    fn resize(&mut self, area: Rect) {
        let _ = self.backend.clear();
        self.shown = Buffer::empty(area);
    }
}

/// The terminal that gives each key at once, until it is dropped.
struct RawTerminal {
    real: RealTerminal,
    /// What draws; absent while the screen steps aside.
    drawn: Option<Drawn>,
    /// Whether the terminal is this program's, and not the shell's that started it.
    front: bool,
    size: Winsize,
}

impl RawTerminal {
    fn new(real: RealTerminal) -> Result<Self> {
        real.make_raw()?;
        let size = real.size();
        Ok(Self { real, drawn: None, front: true, size })
    }

    fn area(&self) -> Rect {
        Rect::new(0, 0, self.size.ws_col, self.size.ws_row)
    }

    fn enter(&mut self) {
        let Ok(file) = self.real.file().try_clone() else { return };
        self.real.enter_screen();
        self.drawn = Some(Drawn::new(file, self.area()));
    }

    fn leave(&mut self) {
        if self.drawn.take().is_some() {
            self.real.leave_screen();
        }
    }

    /// The terminal is this program's again, or is not any more.
    fn turn(&mut self, front: bool) {
        if front && !self.front {
            // A terminal that is gone ends the recording by a signal.
            let _ = self.real.make_raw();
        }
        self.front = front;
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.leave();
        // The shell has settings of its own, while it has the terminal.
        if self.front {
            self.real.restore();
        }
    }
}

struct ScreenThread {
    raw: RawTerminal,
    pipeline: PipelineTerminal,
    received: Receiver<ScreenMessage>,
    wake: Arc<OwnedFd>,
    flags: Arc<SharedFlags>,
    printed: Printed,
    /// Whether the pipeline prints to the terminal.
    prints: bool,
    state: ScreenState,
    colours: ScreenColours,
    reads: bool,
}

impl ScreenThread {
    fn run(&mut self) {
        let mut has_keys = true;
        let (mut is_new, mut printed_at) = (true, None::<Instant>);
        while !self.flags.stops.load(Ordering::Relaxed) {
            let front = self.raw.real.is_in_front();
            self.raw.turn(front);
            let [typed, printed] = self.wait(has_keys && front);
            if typed {
                has_keys = self.read_keys(&mut is_new);
            }
            if printed {
                self.read_printed(READ_FOR);
                printed_at.get_or_insert_with(Instant::now);
            }
            for message in self.received.try_iter() {
                match message {
                    ScreenMessage::Frame(frame) => {
                        self.state.add(frame);
                        is_new = true;
                    }
                    ScreenMessage::Reads(reads) => self.reads = reads,
                }
            }
            let size = self.raw.real.size();
            if size != self.raw.size {
                self.raw.size = size;
                self.pipeline.resize(size);
                let area = self.raw.area();
                self.raw.drawn.iter_mut().for_each(|drawn| drawn.resize(area));
                is_new = true;
            }
            if self.raw.real.is_alone() {
                has_keys = false;
            }
            self.step_aside_if_needed(has_keys, &mut is_new);
            if is_new || printed_at.is_some_and(|at| at.elapsed() >= PRINTED_EVERY) {
                self.draw();
                (is_new, printed_at) = (false, None);
            }
        }
        self.read_printed(LAST_FOR);
        self.raw.leave();
        self.show_printed();
    }

    /// Wait for something to do. Returns whether something was typed, and printed.
    fn wait(&self, has_keys: bool) -> [bool; 2] {
        let real = self.raw.real.file();
        let mut all = [
            PollFd::new(&*self.wake, PollFlags::IN),
            PollFd::new(self.pipeline.master(), PollFlags::IN),
            PollFd::new(real, PollFlags::IN),
        ];
        let wanted = if has_keys { &mut all[..] } else { &mut all[..2] };
        if poll(wanted, Some(&LOOK_EVERY)).is_err() {
            return [false; 2];
        }
        let [woken, printed, typed] = all.map(|one| !one.revents().is_empty());
        if woken {
            let _ = read(&*self.wake, &mut [0; 8]);
        }
        [typed && has_keys, printed]
    }

    /// Returns whether there will be more.
    fn read_keys(&mut self, is_new: &mut bool) -> bool {
        let mut bytes = [0; 1024];
        let typed = match read(self.raw.real.file(), &mut bytes) {
            Ok(count @ 1..) => &bytes[..count],
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Ok(_) | Err(_) => return false,
        };
        if self.raw.drawn.is_none() {
            self.type_in(typed);
            return true;
        }
        for key in keys(typed) {
            *is_new = true;
            match self.state.key(key) {
                None => {}
                Some(ScreenRequest::End) => self.flags.is_left.store(true, Ordering::Relaxed),
                Some(ScreenRequest::Signal(character)) => self.type_in(&[character]),
                Some(ScreenRequest::Suspend) => self.suspend(),
            }
        }
        true
    }

    /// Give the terminal back to the shell. The recording goes on, and what is printed meanwhile is shown later.
    fn suspend(&mut self) {
        self.raw.leave();
        self.show_printed();
        self.raw.real.restore();
        self.raw.turn(false);
        self.raw.real.stop_job();
    }

    /// Type into the terminal of the pipeline. What has no room there is lost, as on any terminal.
    fn type_in(&self, bytes: &[u8]) {
        let _ = write(self.pipeline.master(), bytes);
    }

    /// Read what has been printed until now, for so long.
    fn read_printed(&mut self, most: Duration) {
        let begun = Instant::now();
        let mut bytes = [0; 1 << 14];
        while begun.elapsed() < most {
            let Ok(count @ 1..) = read(self.pipeline.master(), &mut bytes) else { return };
            let is_shown = self.raw.drawn.is_none() && self.raw.front;
            if is_shown {
                self.raw.real.write(&bytes[..count]);
            }
            self.printed.add(&bytes[..count], is_shown);
        }
    }

    /// Write what the pipeline printed while the screen hid it.
    fn show_printed(&mut self) {
        let real = &self.raw.real;
        let mut parts = Vec::new();
        let lost = self.printed.take(|part| parts.push(part.to_vec()));
        if lost > 0 {
            real.write(format!("pipeprof: {} before this are not shown\r\n", counted(lost, "byte")).as_bytes());
        }
        parts.iter().for_each(|part| real.write(part));
    }

    /// Give the terminal to a program that needs it, and take it back.
    fn step_aside_if_needed(&mut self, has_keys: bool, is_new: &mut bool) {
        let needs = self.reads || self.pipeline.is_taken() || self.printed.is_other_screen() || !has_keys;
        match (needs || !self.raw.front, self.raw.drawn.is_some()) {
            (true, true) => {
                self.raw.leave();
                self.show_printed();
            }
            (false, false) => {
                self.raw.enter();
                *is_new = true;
            }
            _ => {}
        }
    }

    fn draw(&mut self) {
        let lines = usize::from(self.raw.size.ws_row);
        let printed = (self.prints || !self.printed.is_empty()).then(|| self.printed.last(lines));
        let view = ScreenView { state: &self.state, printed, colours: self.colours };
        self.raw.drawn.iter_mut().for_each(|drawn| drawn.draw(&view));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::termios::tcgetattr;

    #[test]
    fn a_panic_restores_the_terminal() {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let (real, master) = RealTerminal::of_test(size);
        let modes = || tcgetattr(&master).map(|now| (now.local_modes, now.output_modes)).unwrap();
        let before = modes();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut raw = RawTerminal::new(real).unwrap();
            raw.enter();
            assert_ne!(modes(), before);
            panic!("as if something were wrong");
        }));
        assert!(caught.is_err());
        assert_eq!(modes(), before);
        let mut written = String::new();
        while !written.ends_with("[?25h") {
            let mut part = [0; 1024];
            let count = read(&master, &mut part).unwrap();
            written += &String::from_utf8_lossy(&part[..count]);
        }
        assert!(written.find("[?1049h") < written.find("[?1049l"), "{written:?}");
    }
}
