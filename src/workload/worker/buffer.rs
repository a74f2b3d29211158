//! Buffers: page-aligned, touched, locked or huge as asked, and what was really got.

use crate::target::GotAsked;
use crate::workload::spec::{HUGE_PAGE, PAGE, Spec};
use anyhow::{Context, Result, ensure};
use std::io::BufRead;
use std::ptr::NonNull;

/// An anonymous mapping of its own. It begins at a multiple of 2 MiB, so that two of them share no page table.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    /// Whole pages (huge pages where asked).
    mapped: usize,
    len: usize,
    huge: bool,
}

impl Mapping {
    /// A buffer of `len` bytes with the options of `spec`.
    ///
    /// # Errors
    /// Names the flag that cannot be met.
    pub fn new(len: usize, spec: &Spec) -> Result<Self> {
        let page = if spec.huge_pages { HUGE_PAGE } else { PAGE } as usize;
        let mapped = len.max(1).next_multiple_of(page);
        let start = map_aligned(mapped, HUGE_PAGE as usize)
            .with_context(|| format!("--buffer-size: cannot get {mapped} bytes of memory"))?;
        let mapping = Self { start, mapped, len, huge: spec.huge_pages };
        if spec.huge_pages {
            // SAFETY: the range is ours; advice changes no contents.
            let failed = unsafe { libc::madvise(start.as_ptr().cast(), mapped, libc::MADV_HUGEPAGE) } != 0;
            ensure!(
                !failed,
                "--huge-pages: this kernel has none to give ({}): it needs CONFIG_TRANSPARENT_HUGEPAGE",
                std::io::Error::last_os_error()
            );
        }
        if !spec.no_touch {
            for offset in (0..mapped).step_by(PAGE as usize) {
                // SAFETY: within the mapping. A value other than zero, written so that it cannot be left out: a page
                // only read would be the shared zero page.
                unsafe { start.as_ptr().add(offset).write_volatile(b'p') };
            }
        }
        if spec.mlock {
            // SAFETY: the range is ours.
            let failed = unsafe { libc::mlock(start.as_ptr().cast(), mapped) } != 0;
            ensure!(
                !failed,
                "--mlock: cannot lock {mapped} bytes ({}): raise the limit with `ulimit -l`",
                std::io::Error::last_os_error()
            );
        }
        Ok(mapping)
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Its bytes. The kernel writes into them only during this process's own calls.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped readable for `len` bytes; the borrow of `self` keeps `bytes_mut` away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped writable for `len` bytes, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    fn range(&self) -> std::ops::Range<u64> {
        let start = self.start.as_ptr() as u64;
        start..start + self.mapped as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours and nothing borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

fn map_aligned(len: usize, align: usize) -> Result<NonNull<u8>> {
    let room = len.checked_add(align).context("too large")?;
    // SAFETY: a new anonymous mapping at a place of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            room,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().into());
    }
    let base = base as usize;
    let start = base.next_multiple_of(align);
    for (from, to) in [(base, start), (start + len, base + room)] {
        if from < to {
            // SAFETY: the parts before and after the aligned range, within the mapping just made.
            unsafe { libc::munmap(from as *mut libc::c_void, to - from) };
        }
    }
    NonNull::new(start as *mut u8).context("mapped at address zero")
}

/// Bytes in huge pages of all `mappings` that asked for them, by /proc/self/smaps; `None` where none asked.
///
/// # Errors
/// When smaps cannot be read.
pub fn huge_pages(mappings: &[&Mapping]) -> Result<Option<GotAsked>> {
    let ranges: Vec<_> = mappings.iter().filter(|m| m.huge).map(|m| m.range()).collect();
    if ranges.is_empty() {
        return Ok(None);
    }
    let asked = ranges.iter().map(|range| range.end - range.start).sum();
    let smaps = std::fs::File::open("/proc/self/smaps").context("--huge-pages: cannot check them")?;
    let got = anonymous_huge(std::io::BufReader::new(smaps), &ranges).context("--huge-pages: cannot check them")?;
    Ok(Some(GotAsked { got, asked }))
}

/// `AnonHugePages` of the areas that hold `ranges`. Neighbouring mappings of one kind are one area to the kernel, so
/// areas are counted once each, and an area never for more than it holds of `ranges`.
fn anonymous_huge(smaps: impl BufRead, ranges: &[std::ops::Range<u64>]) -> std::io::Result<u64> {
    let mut got = 0;
    let mut held = 0;
    for line in smaps.lines() {
        let line = line?;
        if let Some(area) = area(&line) {
            held = ranges.iter().map(|r| r.end.min(area.end).saturating_sub(r.start.max(area.start))).sum();
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:") {
            let kib: u64 = rest.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
            got += kib.saturating_mul(1024).min(held);
        }
    }
    Ok(got)
}

/// `7f0000000000-7f0000200000 rw-p ...`
fn area(line: &str) -> Option<std::ops::Range<u64>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00500000 r-xp 00000000 00:00 0 /bin/x
AnonHugePages:      2048 kB
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      2048 kB
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0
AnonHugePages:         0 kB
";

    #[test]
    fn huge_pages_are_counted_over_the_whole_range() {
        let range = |start: u64, len: u64| start..start + len;
        let got = |ranges: &[std::ops::Range<u64>]| anonymous_huge(SMAPS.as_bytes(), ranges).unwrap();
        assert_eq!(got(&[range(0x7f00_0000_0000, 4 << 20)]), 2 << 20);
        assert_eq!(got(&[range(0x7f00_0000_0000, 2 << 20), range(0x7f00_0020_0000, 2 << 20)]), 2 << 20);
        assert_eq!(got(&[range(0x7f00_0080_0000, 2 << 20)]), 0);
        assert_eq!(got(&[range(0x7e00_0000_0000, 2 << 20)]), 0);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_no_range_gets_more_than_it_has(text: String, start: u32, len: u32) {
            let range = u64::from(start)..u64::from(start) + u64::from(len);
            for text in [text.clone(), format!("{SMAPS}{text}"), format!("0-ffffffff rw-p\nAnonHugePages: 1 kB{text}")] {
                let got = anonymous_huge(text.as_bytes(), std::slice::from_ref(&range));
                proptest::prop_assert!(got.is_ok());
            }
            let all = "0-fffffffff rw-p\nAnonHugePages: 99999999 kB\n";
            proptest::prop_assert_eq!(anonymous_huge(all.as_bytes(), &[range]).ok(), Some(u64::from(len)));
        }
    }

    #[test]
    fn mappings_are_aligned_and_touched() {
        let spec = Spec::default();
        let mapping = Mapping::new(5000, &spec).unwrap();
        assert_eq!(mapping.as_ptr() as u64 % HUGE_PAGE, 0);
        assert_eq!((mapping.mapped, mapping.bytes().len()), (8192, 5000));
        assert_eq!(mapping.bytes()[4096], b'p');
        let untouched = Mapping::new(5000, &Spec { no_touch: true, ..spec }).unwrap();
        assert_eq!(untouched.bytes()[4096], 0);
    }
}
