//! Buffers: page-aligned, and touched, locked or huge as requested; with what the kernel actually provided.

use crate::process::GotAsked;
use crate::workload::spec::{HUGE_PAGE, PAGE, Spec};
use anyhow::{Context, Result, anyhow};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use std::io::BufRead;
use std::ptr::NonNull;

/// A separate anonymous mapping. It is aligned to 2 MiB, so that two mappings share no page table. The buffer begins
/// `--buffer-offset` bytes later.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    /// Length in whole pages (in huge pages if requested).
    mapped: usize,
    /// Start of the buffer. Stored, so that no call has to add the offset.
    bytes: NonNull<u8>,
    len: usize,
    huge: bool,
}

impl Mapping {
    /// Allocate a buffer of `len` bytes with the options of `spec`.
    pub fn new(len: usize, spec: &Spec) -> Result<Self> {
        let page = if spec.huge_pages { HUGE_PAGE } else { PAGE } as usize;
        let offset = usize::try_from(spec.buffer_offset)?;
        let mapped = (offset + len.max(1)).next_multiple_of(page);
        let start = map_aligned(mapped, HUGE_PAGE as usize)
            .with_context(|| format!("--buffer-size: cannot get {mapped} bytes of memory"))?;
        // SAFETY: the offset and `len` bytes more are within the mapping.
        let bytes = unsafe { start.add(offset) };
        let mapping = Self { start, mapped, bytes, len, huge: spec.huge_pages };
        if spec.huge_pages {
            // SAFETY: the range is ours, and the advice changes no contents.
            unsafe { madvise(start.as_ptr().cast(), mapped, Advice::LinuxHugepage) }.map_err(|error| {
                anyhow!("--huge-pages: not supported by this kernel ({error}): it needs CONFIG_TRANSPARENT_HUGEPAGE")
            })?;
        }
        if !spec.no_touch {
            for offset in (0..mapped).step_by(PAGE as usize) {
                // SAFETY: within the mapping. Write a value other than zero: a page that was only read would be the
                // shared zero page.
                unsafe { start.as_ptr().add(offset).write_volatile(b'p') };
            }
        }
        if spec.mlock {
            // SAFETY: the range is ours.
            unsafe { mlock(start.as_ptr().cast(), mapped) }.map_err(|error| {
                anyhow!("--mlock: cannot lock {mapped} bytes ({error}): raise the limit with `ulimit -l`")
            })?;
        }
        Ok(mapping)
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.bytes.as_ptr()
    }

    /// Its usable bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// The buffer's bytes. The kernel changes them only during this process's own system calls.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped readable, and the borrow of `self` excludes `bytes_mut`.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes are mapped writable and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len) }
    }

    fn range(&self) -> std::ops::Range<u64> {
        let start = self.start.as_ptr() as u64;
        start..start + self.mapped as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and nothing borrows it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

fn map_aligned(len: usize, align: usize) -> Result<NonNull<u8>> {
    let room = len.checked_add(align).context("too large")?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), room, access, MapFlags::PRIVATE) }? as usize;
    let start = base.next_multiple_of(align);
    for (from, to) in [(base, start), (start + len, base + room)] {
        if from < to {
            // SAFETY: the parts before and after the aligned range, within the new mapping.
            let _ = unsafe { munmap(from as *mut std::ffi::c_void, to - from) };
        }
    }
    NonNull::new(start as *mut u8).context("mapped at address zero")
}

/// Bytes in huge pages over all `mappings` that requested them, from /proc/self/smaps; `None` if none did.
pub fn huge_pages(mappings: &[&Mapping]) -> Result<Option<GotAsked>> {
    let ranges: Vec<_> = mappings.iter().filter(|m| m.huge).map(|m| m.range()).collect();
    if ranges.is_empty() {
        return Ok(None);
    }
    let asked = ranges.iter().map(|range| range.end - range.start).sum();
    let smaps = std::fs::File::open("/proc/self/smaps").context("--huge-pages: cannot check the pages")?;
    let got =
        anonymous_huge(std::io::BufReader::new(smaps), &ranges).context("--huge-pages: cannot check the pages")?;
    Ok(Some(GotAsked { got, asked }))
}

/// Sum `AnonHugePages` over the areas that contain `ranges`. The kernel merges neighbouring mappings of one kind into
/// one area, so each area counts once, and for no more than its overlap with `ranges`.
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
        let mut shifted = Mapping::new(8190, &Spec { buffer_offset: 3, ..spec.clone() }).unwrap();
        assert_eq!((shifted.as_ptr() as u64 % HUGE_PAGE, shifted.mapped, shifted.bytes().len()), (3, 12288, 8190));
        shifted.bytes_mut()[8189] = 1;
        assert_eq!(shifted.bytes()[8189], 1);
        let untouched = Mapping::new(5000, &Spec { no_touch: true, ..spec }).unwrap();
        assert_eq!(untouched.bytes()[4096], 0);
    }
}
