//! Messages between controller and worker on their socket: one line of JSON each.

use super::Spec;
use super::spec::Amount;
use crate::process::ProcessTotals;
use crate::profile::ProcessName;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkerPart {
    Writer,
    Reader,
}

impl WorkerPart {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
        }
    }

    /// The name of the processes with this part.
    pub(crate) fn process(self) -> ProcessName {
        match self {
            Self::Writer => ProcessName::WRITER,
            Self::Reader => ProcessName::READER,
        }
    }
}

/// Controller to worker, first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerJob {
    /// Process id of the controller. A worker with another parent has been orphaned.
    pub controller: u32,
    pub part: WorkerPart,
    pub cpu: Option<u32>,
    /// This process's exact share of the warm-up.
    pub warmup: u64,
    /// This process's share of the window; readers continue to the end of file.
    pub amount: Amount,
    /// Whether to mark the window for the instruction collector.
    pub marked: bool,
    /// The descriptor of the counter of the CPU's instructions, if [`Spec::counted`] asks for one.
    pub counter: Option<Result<i32, String>>,
    pub spec: Spec,
}

/// Worker to controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Warmed up; waits for [`GO`].
    Ready,
    /// The window has ended; waits for another [`GO`], so that collectors can detach before its report.
    Ended,
    Done(Box<WorkerWindow>),
    Failed(Failure),
}

/// A worker's window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct WorkerWindow {
    /// Monotonic raw clock, ns.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub totals: ProcessTotals,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub message: String,
    /// The other end was closed; the other process reports the cause.
    pub(crate) consequence: bool,
}

/// The byte that lets a worker continue.
pub(crate) const GO: u8 = b'!';

pub(crate) fn send(mut to: impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Receive one message, and leave further bytes in the socket.
pub(crate) fn receive<T: for<'de> Deserialize<'de>>(mut from: impl Read) -> std::io::Result<T> {
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
