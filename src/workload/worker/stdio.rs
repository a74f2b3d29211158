//! fgetc and fputc through libc's buffers, like the first cat of article C.

use super::buffer::Mapping;
use super::hot::{self, HotOptions, Tally};
use super::ports::{Run, Source};
use crate::workload::spec::{Amount, Spec};
use crate::workload::wire::WorkerPart;
use anyhow::{Context, Result, bail, ensure};
use std::os::fd::{IntoRawFd, RawFd};
use std::ptr::NonNull;

/// Characters between two checks of the timer.
const STRIDE: u64 = 4096;

/// Both streams, each with a buffer of `--buffer-size` bytes.
pub(crate) struct Stdio {
    from: NonNull<libc::FILE>,
    to: NonNull<libc::FILE>,
    /// libc's buffers. They outlive the streams, which are never closed.
    buffers: [Mapping; 2],
}

impl Stdio {
    pub(crate) fn new(end: RawFd, source: Source, spec: &Spec) -> Result<Self> {
        let size = usize::try_from(spec.buffer_size)?;
        let buffers = [Mapping::new(size, spec)?, Mapping::new(size, spec)?];
        let open = |fd, mode: &std::ffi::CStr, buffer: &Mapping| -> Result<NonNull<libc::FILE>> {
            // SAFETY: the descriptor is open in this mode, and libc owns it from now on.
            let stream = NonNull::new(unsafe { libc::fdopen(fd, mode.as_ptr()) });
            let stream = stream.ok_or_else(std::io::Error::last_os_error).context("--writer stdio: fdopen")?;
            // SAFETY: nothing was read or written yet, and the buffer outlives the stream.
            let refused =
                unsafe { libc::setvbuf(stream.as_ptr(), buffer.as_ptr().cast(), libc::_IOFBF, buffer.size()) } != 0;
            ensure!(!refused, "--writer stdio: libc does not accept a buffer of {size} bytes");
            Ok(stream)
        };
        let from = open(source.file.into_raw_fd(), c"r", &buffers[0])?;
        let to = open(end, c"w", &buffers[1])?;
        Ok(Self { from, to, buffers })
    }

    /// Copy `count` characters.
    #[inline(always)]
    fn copy(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            // SAFETY: both streams are open.
            unsafe {
                let mut character = libc::fgetc(self.from.as_ptr());
                if character == libc::EOF {
                    character = self.again()?;
                }
                if libc::fputc(character, self.to.as_ptr()) == libc::EOF {
                    return Err(failed("fputc"));
                }
            }
        }
        Ok(())
    }

    /// Read the file's first character again, after its end.
    #[cold]
    fn again(&mut self) -> Result<libc::c_int> {
        // SAFETY: the stream is open.
        unsafe {
            if libc::ferror(self.from.as_ptr()) != 0 {
                return Err(failed("fgetc from the source"));
            }
            libc::rewind(self.from.as_ptr());
            match libc::fgetc(self.from.as_ptr()) {
                libc::EOF => bail!("--source: the file became empty during the run"),
                character => Ok(character),
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        // SAFETY: the stream is open.
        if unsafe { libc::fflush(self.to.as_ptr()) } == 0 { Ok(()) } else { Err(failed("fflush")) }
    }

    #[inline(never)]
    fn hot(&mut self, amount: Amount) -> Result<u64> {
        let bytes = match amount {
            Amount::Bytes(bytes) => bytes,
            // A transfer is the write of one buffer.
            Amount::Calls(calls) => calls.saturating_mul(self.buffers[1].size() as u64),
            Amount::DurationNs(_) => u64::MAX,
        };
        let mut copied = 0;
        while copied < bytes && !hot::timer_rang() {
            let stride = STRIDE.min(bytes - copied);
            self.copy(stride)?;
            copied += stride;
        }
        self.flush()?;
        Ok(copied)
    }
}

fn failed(call: &str) -> anyhow::Error {
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPIPE) => hot::OtherEndGone.into(),
        _ => anyhow::anyhow!("{call}: {error}"),
    }
}

impl Run for Stdio {
    fn run(&mut self, amount: Amount, window: Option<WorkerPart>, _: &HotOptions) -> Result<Tally> {
        let before = calls_so_far();
        let begin_ns = hot::now_ns();
        if let Amount::DurationNs(ns) = amount {
            hot::start_timer(ns)?;
        }
        hot::mark_begin(window);
        let bytes = self.hot(amount);
        hot::mark_end(window);
        let end_ns = hot::now_ns();
        let after = calls_so_far();
        let bytes = bytes?;
        let buffer = self.buffers[1].size() as u64;
        let calls = match (before, after) {
            // The second count includes the read of the first count itself.
            (Some(before), Some(after)) => (after - before).saturating_sub(1),
            // If the kernel does not account I/O per task, derive the calls from the buffer sizes.
            _ => 2 * bytes.div_ceil(buffer),
        };
        Ok(Tally { bytes, calls, begin_ns, end_ns, ..Tally::default() })
    }

    fn mappings(&self) -> Vec<&Mapping> {
        self.buffers.iter().collect()
    }
}

/// Read and write calls that the kernel counted for this process.
fn calls_so_far() -> Option<u64> {
    use std::io::Read;
    let mut text = [0; 512];
    // A single read, so that the number of calls added by this function is known.
    let count = std::fs::File::open("/proc/self/io").ok()?.read(&mut text).ok()?;
    calls_in(std::str::from_utf8(&text[..count]).ok()?)
}

/// `syscr` and `syscw` of /proc/PID/io.
fn calls_in(text: &str) -> Option<u64> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    field("syscr:")?.checked_add(field("syscw:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_reads_and_writes() {
        assert_eq!(calls_in("rchar: 1\nwchar: 2\nsyscr: 30\nsyscw: 4\nread_bytes: 0\n"), Some(34));
        assert_eq!(calls_in("syscr: 30\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text: String, a: u64, b: u64) {
            let _ = calls_in(&text);
            proptest::prop_assert_eq!(calls_in(&format!("syscr: {a}\nsyscw: {b}")), a.checked_add(b));
        }
    }
}
