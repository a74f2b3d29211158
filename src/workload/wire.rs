//! What controller and worker say to each other over their socket: one line of JSON per message.

use super::Spec;
use super::spec::Amount;
use crate::profile::ProcessName;
use crate::target::ProcessTotals;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerPart {
    Writer,
    Reader,
}

impl WorkerPart {
    pub fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
        }
    }

    /// The name of the processes that do this part.
    pub fn process(self) -> ProcessName {
        match self {
            Self::Writer => ProcessName::WRITER,
            Self::Reader => ProcessName::READER,
        }
    }
}

/// Controller to worker, first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerJob {
    /// Process id of the controller: a worker whose parent is another has been orphaned.
    pub controller: u32,
    pub part: WorkerPart,
    pub cpu: Option<u32>,
    /// This process's share of the warm-up, exactly.
    pub warmup: u64,
    /// This process's share of the window; readers go on to the end of file.
    pub amount: Amount,
    pub spec: Spec,
}

/// Worker to controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// Warmed up; waits for [`GO`].
    Ready,
    /// The window is over; waits for [`GO`] once more, so that collectors can leave before it makes its report.
    Ended,
    Done(Box<WorkerWindow>),
    Failed(Failure),
}

/// A worker's window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WorkerWindow {
    /// Monotonic raw clock, ns.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub totals: ProcessTotals,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    pub message: String,
    /// The other end had gone: the other process knows the cause.
    pub consequence: bool,
}

/// The byte that lets a worker go on.
pub const GO: u8 = b'!';

/// Send one message.
pub fn send(mut to: impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Receive one message, no byte further, so that what follows stays in the socket.
pub fn receive<T: for<'de> Deserialize<'de>>(mut from: impl Read) -> std::io::Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ if byte[0] == b'\n' => return Ok(serde_json::from_slice(&line)?),
            _ => line.push(byte[0]),
        }
    }
}
