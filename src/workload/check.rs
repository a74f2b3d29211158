//! Whether a [`Spec`] makes sense, before anything is started: what any machine can tell. What depends on this machine
//! (its CPUs, its limits on pipes) is found at [`super::launch`]; both name the flag and the way out.

use super::spec::{Amount, PAGE, Pin, Reader, Spec, Writer};
use crate::util::size;
use anyhow::{Result, bail, ensure};

/// A single call cannot be asked for more than this (the kernel cuts at 2 GiB less a page).
const LARGEST_BUFFER: u64 = 1 << 30;
/// What F_SETPIPE_SZ takes at most.
const LARGEST_PIPE: u64 = 1 << 31;
/// Processes of one kind; keeps a mistyped number from filling the process table.
const MOST_PROCESSES: u32 = 256;

impl Spec {
    /// # Errors
    /// The first contradiction among the axes, by flag, with the way out.
    pub fn check(&self) -> Result<()> {
        self.check_sizes()?;
        self.check_options()?;
        self.check_processes()?;
        match self.amount {
            Amount::Bytes(0) => bail!("--bytes 0: nothing to move; give at least 1"),
            Amount::DurationNs(0) => bail!("--duration 0: give at least 1ms"),
            Amount::Calls(0) => bail!("--calls 0: give at least 1"),
            _ => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<()> {
        let buffer = size::format(self.buffer_size);
        ensure!(self.buffer_size > 0, "--buffer-size 0: give at least 1 byte");
        ensure!(self.buffer_size <= LARGEST_BUFFER, "--buffer-size {buffer}: give at most 1G");
        if let Some(bytes) = self.reader_buffer_size {
            let text = size::format(bytes);
            ensure!(bytes > 0 && bytes <= LARGEST_BUFFER, "--reader-buffer-size {text}: give 1 byte to 1G");
        }
        if let Some(bytes) = self.pipe_size {
            let text = size::format(bytes);
            ensure!(bytes > 0, "--pipe-size 0: give at least 4K");
            ensure!(bytes <= LARGEST_PIPE, "--pipe-size {text}: no pipe takes more than 2G");
        }
        ensure!(self.warmup_bytes <= 1 << 50, "--warmup {}: give at most 1024T", size::format(self.warmup_bytes));
        if self.writer == Writer::Vmsplice {
            ensure!(
                self.buffer_size.is_multiple_of(2 * PAGE),
                "--buffer-size {buffer}: vmsplice alternates two halves of whole 4K pages, which this does not divide into; give a multiple of 8K"
            );
            let half = self.block();
            if let Some(bytes) = self.pipe_size
                && !self.unsafe_pipe
            {
                let real = bytes.max(PAGE).next_power_of_two();
                ensure!(
                    real <= half,
                    "--pipe-size {}: the pipe would hold {}, more than one half of the buffer ({}), and vmsplice would overwrite pages that are still in it; give at most {}, or a larger --buffer-size",
                    size::format(bytes),
                    size::format(real),
                    size::format(half),
                    size::format(1 << half.ilog2())
                );
            }
        }
        Ok(())
    }

    fn check_options(&self) -> Result<()> {
        let vmsplice = self.writer == Writer::Vmsplice;
        let buffered = self.writer != Writer::Splice || self.reader != Reader::Splice;
        ensure!(
            vmsplice || !self.contiguous,
            "--contiguous is about the two halves of --writer vmsplice; drop it, or choose that writer"
        );
        ensure!(
            vmsplice || self.reader == Reader::Splice || !self.gift,
            "--gift is a flag of vmsplice and splice; choose --writer vmsplice or --reader splice, or drop it"
        );
        ensure!(!self.huge_pages || buffered, "--huge-pages: splice to splice has no buffer; drop it");
        ensure!(!self.mlock || buffered, "--mlock: splice to splice has no buffer; drop it");
        ensure!(!self.no_touch || buffered, "--no-touch: splice to splice has no buffer; drop it");
        ensure!(!(self.no_touch && self.mlock), "--no-touch and --mlock: locking touches every page; drop one");
        ensure!(vmsplice || !self.unsafe_pipe, "--unsafe-pipe is about the pipe of --writer vmsplice; drop it");
        ensure!(
            !(self.writer == Writer::Stdio && (self.busy_loop || self.poll)),
            "--writer stdio makes its calls inside libc; drop --busy-loop and --poll"
        );
        ensure!(
            !(self.writer == Writer::Stdio && self.extra_call_every.is_some()),
            "--writer stdio makes its calls inside libc; drop --extra-call-every"
        );
        ensure!(self.extra_call_every != Some(0), "--extra-call-every 0: give at least 1");
        if let Some(source) = &self.source {
            ensure!(
                self.writer.has_source(),
                "--source {}: this writer reads no file; choose --writer splice, read-write or stdio",
                source.display()
            );
        }
        if self.verify {
            ensure!(self.reader == Reader::Read, "--verify looks at the bytes that arrive: choose --reader read");
            ensure!(
                self.writers == 1 && self.readers == 1,
                "--verify needs bytes to arrive in one order: choose one writer and one reader per pipe"
            );
            ensure!(!self.no_touch, "--verify stamps every page: drop --no-touch");
        }
        Ok(())
    }

    fn check_processes(&self) -> Result<()> {
        for (flag, count) in [("--pairs", self.pairs), ("--writers", self.writers), ("--readers", self.readers)] {
            ensure!((1..=MOST_PROCESSES).contains(&count), "{flag} {count}: give 1 to {MOST_PROCESSES}");
        }
        ensure!(
            self.pairs == 1 || !matches!(self.pin, Pin::Cpus { .. }),
            "--pairs {}: two CPUs cannot hold several pairs apart; drop --pin, or say --pin none",
            self.pairs
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::modes::MODES;

    fn refused(change: impl FnOnce(&mut Spec)) -> String {
        let mut spec = Spec::default();
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    }

    #[test]
    fn every_preset_is_sound() {
        for mode in MODES {
            mode.spec().check().unwrap();
        }
    }

    #[test]
    fn contradictions_name_their_flag() {
        assert!(refused(|s| s.buffer_size = 0).starts_with("--buffer-size 0"));
        assert!(refused(|s| s.buffer_size = 2 << 30).starts_with("--buffer-size 2G"));
        assert!(refused(|s| s.pipe_size = Some(4 << 30)).starts_with("--pipe-size 4G"));
        assert!(refused(|s| s.pipe_size = Some(0)).starts_with("--pipe-size 0"));
        assert!(refused(|s| s.reader_buffer_size = Some(0)).starts_with("--reader-buffer-size 0"));
        assert!(refused(|s| s.gift = true).starts_with("--gift"));
        assert!(refused(|s| s.contiguous = true).starts_with("--contiguous"));
        assert!(refused(|s| s.source = Some("/etc/passwd".into())).starts_with("--source /etc/passwd"));
        assert!(refused(|s| s.amount = Amount::Bytes(0)).starts_with("--bytes 0"));
        assert!(refused(|s| s.pairs = 0).starts_with("--pairs 0"));
        assert!(refused(|s| s.readers = 1000).starts_with("--readers 1000"));
        assert!(refused(|s| (s.no_touch, s.mlock) = (true, true)).starts_with("--no-touch"));
        assert!(refused(|s| (s.verify, s.reader) = (true, Reader::Splice)).starts_with("--verify"));
        assert!(refused(|s| (s.verify, s.writers) = (true, 2)).starts_with("--verify"));
        assert!(refused(|s| (s.writer, s.busy_loop) = (Writer::Stdio, true)).starts_with("--writer stdio"));
    }

    #[test]
    fn a_vmsplice_pipe_never_holds_more_than_a_half() {
        let vmsplice = |buffer: u64, pipe| Spec {
            writer: Writer::Vmsplice,
            buffer_size: buffer,
            pipe_size: pipe,
            ..Spec::default()
        };
        for odd in [4 << 10, 12 << 10, (256 << 10) + 1, 100_000] {
            let error = vmsplice(odd, None).check().unwrap_err().to_string();
            assert!(error.starts_with("--buffer-size") && error.contains("halves"), "{error}");
        }
        // 96 KiB halves: F_SETPIPE_SZ would round 96K up to 128K.
        let error = vmsplice(192 << 10, Some(96 << 10)).check().unwrap_err().to_string();
        assert!(error.starts_with("--pipe-size 96K") && error.contains("at most 64K"), "{error}");
        for pages in 1..200u64 {
            let spec = vmsplice(pages * 2 * PAGE, None);
            let pipe = spec.pipe_target().unwrap();
            assert!(pipe.is_power_of_two() && pipe <= spec.block() && pipe * 2 > spec.block(), "{pages} {pipe}");
        }
    }
}
