//! Checks a [`Spec`] for contradictions before anything is started, independent of the machine. [`super::launch()`]
//! checks what depends on the machine (CPUs, pipe limits). Both name the flag and the fix. The bounds of one axis, and
//! the other axes that it requires, are in its row of [`AXES`].

use super::axes::AXES;
use super::spec::{Amount, PAGE, Pin, Reader, Spec, Writer};
use crate::util::size;
use crate::util::usage::OrUsage as _;
use anyhow::{Result, bail, ensure};

/// Most memory for the buffers of one process.
const LARGEST_BUFFERS: u64 = 1 << 30;

impl Spec {
    pub fn check(&self) -> Result<()> {
        self.contradictions().or_usage()
    }

    fn contradictions(&self) -> Result<()> {
        AXES.iter().try_for_each(|axis| axis.check(self))?;
        self.check_halves()?;
        self.check_options()?;
        ensure!(self.warmup_bytes <= 1 << 50, "--warmup {}: give at most 1024T", size::format(self.warmup_bytes));
        ensure!(
            self.pairs == 1 || !matches!(self.pin, Pin::Cpus { .. }),
            "--pairs {}: --pin W,R supports one pair only; remove --pin, or use --pin none",
            self.pairs
        );
        match self.amount {
            Amount::Bytes(0) => bail!("--bytes 0: nothing to move; give at least 1"),
            Amount::DurationNs(0) => bail!("--duration 0: give at least 1ms"),
            Amount::Calls(0) => bail!("--calls 0: give at least 1"),
            _ => Ok(()),
        }
    }

    /// Check the two halves that vmsplice uses alternately: the pipe must not hold more than one of them.
    fn check_halves(&self) -> Result<()> {
        if self.writer != Writer::Vmsplice {
            ensure!(!self.unsafe_pipe, "--unsafe-pipe requires --writer vmsplice");
            return Ok(());
        }
        ensure!(
            self.buffer_size.is_multiple_of(2 * PAGE),
            "--buffer-size {}: vmsplice needs two halves of whole 4K pages; give a multiple of 8K",
            size::format(self.buffer_size)
        );
        let half = self.block();
        if let Some(bytes) = self.pipe_size
            && !self.unsafe_pipe
        {
            let real = bytes.max(PAGE).next_power_of_two();
            ensure!(
                real <= half,
                "--pipe-size {}: the pipe would hold {}, more than half of the buffer ({}), so vmsplice would overwrite pages still in the pipe; give at most {}, or a larger --buffer-size",
                size::format(bytes),
                size::format(real),
                size::format(half),
                size::format(1 << half.ilog2())
            );
        }
        Ok(())
    }

    fn check_options(&self) -> Result<()> {
        ensure!(
            !(self.no_touch && self.mlock),
            "--no-touch conflicts with --mlock, which touches every page; remove one of them"
        );
        self.check_ring()?;
        if self.verify {
            ensure!(
                self.reader.sees_bytes(),
                "--verify requires --reader read, io-uring or io-uring-multishot, which see the bytes"
            );
            ensure!(self.writers == 1 && self.readers == 1, "--verify requires one writer and one reader per pipe");
            ensure!(!self.no_touch, "--verify writes to every page: remove --no-touch");
        }
        Ok(())
    }

    fn check_ring(&self) -> Result<()> {
        let all = u64::from(self.batch).saturating_mul(self.buffer_size.max(self.reader_block()));
        ensure!(
            all <= LARGEST_BUFFERS,
            "--batch {}: its buffers would have {} together; give at most {}",
            self.batch,
            size::format(all),
            size::format(LARGEST_BUFFERS)
        );
        ensure!(
            self.reader != Reader::IoUringMultishot || self.readers == 1,
            "--readers {}: --reader io-uring-multishot takes all that is in the pipe; use one reader",
            self.readers
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
        assert!(refused(|s| s.amount = Amount::Bytes(0)).starts_with("--bytes 0"));
        assert!(refused(|s| (s.no_touch, s.mlock) = (true, true)).starts_with("--no-touch"));
        assert!(refused(|s| (s.verify, s.reader) = (true, Reader::Splice)).starts_with("--verify"));
        assert!(refused(|s| (s.verify, s.writers) = (true, 2)).starts_with("--verify"));
        assert!(
            refused(|s| (s.writer, s.busy_loop) = (Writer::Stdio, true))
                .starts_with("--busy-loop requires a writer that is not stdio")
        );
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
