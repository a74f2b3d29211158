//! A client of QEMU's machine protocol (QMP): QEMU's docs/interop/qmp-spec.rst.

use anyhow::{Context as _, Result, bail};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde_json::{Value, json};
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long QEMU may take to answer a command. It answers at once unless the machine is very busy.
const ANSWER: Duration = Duration::from_secs(60);

/// A connection to a QEMU.
pub struct Monitor {
    socket: UnixStream,
    /// Bytes after the last complete line.
    pending: Vec<u8>,
    answers: Vec<Value>,
    /// Names of events, not looked at yet.
    events: Vec<String>,
    /// Number of commands sent. QEMU repeats it in the answer.
    sent: u64,
    /// QEMU has closed its end.
    closed: bool,
}

impl Monitor {
    /// A monitor, and the other end of its socket, which is for QEMU.
    pub fn new() -> Result<(Self, UnixStream)> {
        let (socket, other) = UnixStream::pair().context("cannot make a socket")?;
        socket.set_nonblocking(true).context("cannot configure a socket")?;
        let mut monitor =
            Self { socket, pending: Vec::new(), answers: Vec::new(), events: Vec::new(), sent: 0, closed: false };
        // QEMU reads this when it has started. Before, it reports no events.
        monitor.send("qmp_capabilities", json!({}))?;
        Ok((monitor, other))
    }

    fn send(&mut self, command: &str, arguments: Value) -> Result<()> {
        self.sent += 1;
        let line = json!({ "execute": command, "arguments": arguments, "id": self.sent }).to_string();
        self.socket.write_all(line.as_bytes()).with_context(|| format!("cannot send {command} to QEMU"))
    }

    /// Give QEMU an open file, which commands then name as `fd:NAME`.
    pub fn give(&mut self, name: &str, file: impl AsFd) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        message.push(SendAncillaryMessage::ScmRights(&files));
        // The file travels with a byte between two commands, which QEMU skips.
        let blank = [IoSlice::new(b" ")];
        rustix::net::sendmsg(&self.socket, &blank, &mut message, SendFlags::empty())
            .context("cannot pass a file to QEMU")?;
        self.execute("getfd", json!({ "fdname": name })).map(drop)
    }

    /// Execute a command and return its answer.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        self.send(command, arguments)?;
        let begun = Instant::now();
        loop {
            self.read();
            let ours =
                self.answers.iter().position(|answer| answer.get("id").and_then(Value::as_u64) == Some(self.sent));
            if let Some(mut answer) = ours.map(|place| self.answers.swap_remove(place)) {
                if let Some(error) = answer.get("error") {
                    let why = error.get("desc").and_then(Value::as_str).unwrap_or("no reason given");
                    bail!("QEMU refuses {command}: {why}");
                }
                return Ok(answer.get_mut("return").map(Value::take).unwrap_or_default());
            }
            if self.closed || begun.elapsed() > ANSWER {
                bail!("QEMU does not answer {command}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the event has happened since the last call with this name.
    pub fn happened(&mut self, event: &str) -> bool {
        self.read();
        let before = self.events.len();
        self.events.retain(|name| name != event);
        self.events.len() < before
    }

    /// Read what has arrived.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => {
                    self.closed = true;
                    break;
                }
                Ok(length) => self.pending.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            if let Some(name) = message.get("event").and_then(Value::as_str) {
                self.events.push(name.to_owned());
            } else if message.get("return").is_some() || message.get("error").is_some() {
                self.answers.push(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_events_are_told_apart() {
        let (mut monitor, mut qemu) = Monitor::new().unwrap();
        assert!(!monitor.happened("STOP"));
        qemu.write_all(b"{\"QMP\": {}}\r\n{\"return\": {}, \"id\": 1}\r\n{\"event\": \"STOP\"}\r\n").unwrap();
        qemu.write_all(b"{\"id\": 2, \"return\": {\"status\": \"x\"}}\r\n{\"id\": 3, \"error\": ").unwrap();
        qemu.write_all(b"{\"desc\": \"no\"}}\r\n").unwrap();
        assert_eq!(monitor.execute("query-status", json!({})).unwrap()["status"], "x");
        let error = monitor.execute("cont", json!({})).unwrap_err().to_string();
        assert_eq!(error, "QEMU refuses cont: no");
        assert!(monitor.happened("STOP") && !monitor.happened("STOP"));
        let mut sent = [0; 200];
        let length = qemu.read(&mut sent).unwrap();
        let sent = String::from_utf8_lossy(&sent[..length]);
        let places = ["qmp_capabilities", "query-status", "cont"].map(|command| sent.find(command).unwrap());
        assert!(places.is_sorted(), "{sent}");
    }
}
