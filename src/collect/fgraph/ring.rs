//! Parse the pages of events that `trace_pipe_raw` returns from the kernel's trace ring buffer. The bytes are not
//! trusted: malformed data end the page and are counted.
//!
//! Form: include/linux/ring_buffer.h (`ring_buffer_type`) and events/header_page of tracefs.

use std::ops::Range;

/// Size of a page's header: the time of its first event, and its used length.
const HEADER: usize = 16;
/// Flag in the length: events are missing before this page.
const MISSED: u64 = 1 << 31;
/// Mask of the length without flags.
const LENGTH: u64 = (1 << 20) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// A page's events.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Each event's record in the page, and its time.
    pub records: Vec<(u64, Range<usize>)>,
    /// Events are missing before this page.
    pub missed: bool,
    /// The page ends with malformed data.
    pub broken: bool,
}

fn word(page: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(page.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn double(page: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(page.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Find the events of a page.
pub(crate) fn page(bytes: &[u8]) -> Page {
    let mut page = Page::default();
    let (Some(mut time), Some(length)) = (double(bytes, 0), double(bytes, 8)) else {
        page.broken = !bytes.is_empty();
        return page;
    };
    page.missed = length & MISSED != 0;
    let end = HEADER + (length & LENGTH) as usize;
    page.broken = end > bytes.len();
    let end = end.min(bytes.len());
    let mut at = HEADER;
    while at + 4 <= end {
        let Some((record, size)) = event(&bytes[..end], at, &mut time) else {
            page.broken = true;
            return page;
        };
        if let Some(record) = record {
            page.records.push((time, record));
        } else if size == 0 {
            return page;
        }
        at += size;
    }
    page
}

/// The record of the event at `at`, if it has one, and its size; 0 if the page is empty from there on. Adds the
/// event's delta to `time`.
fn event(bytes: &[u8], at: usize, time: &mut u64) -> Option<(Option<Range<usize>>, usize)> {
    let head = word(bytes, at)?;
    let (kind, delta) = (head & 31, u64::from(head >> 5));
    match kind {
        PADDING if delta == 0 => Some((None, 0)),
        PADDING => Some((None, (word(bytes, at + 4)? as usize).checked_add(4)?)),
        TIME_EXTEND => {
            *time = time.wrapping_add(u64::from(word(bytes, at + 4)?) << 27 | delta);
            Some((None, 8))
        }
        TIME_STAMP => {
            // An absolute time without its upper five bits.
            *time = *time & (31 << 59) | u64::from(word(bytes, at + 4)?) << 27 | delta;
            Some((None, 8))
        }
        _ => {
            *time = time.wrapping_add(delta);
            let (start, length) = match kind {
                0 => (at + 8, (word(bytes, at + 4)? as usize).checked_sub(4)?),
                words => (at + 4, words as usize * 4),
            };
            let record = start..start.checked_add(length)?;
            (record.end <= bytes.len()).then(|| (Some(record.clone()), record.end - at))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A page with `records` (whose length in bytes is a multiple of 4 below 112), one ns apart.
    pub(crate) fn made(time: u64, records: &[Vec<u8>]) -> Vec<u8> {
        let mut data = Vec::new();
        for record in records {
            data.extend_from_slice(&((record.len() as u32 / 4) | 1 << 5).to_le_bytes());
            data.extend_from_slice(record);
        }
        let mut page = time.to_le_bytes().to_vec();
        page.extend_from_slice(&(data.len() as u64).to_le_bytes());
        page.extend_from_slice(&data);
        page.resize(4096, 0);
        page
    }

    #[test]
    fn records_and_times() {
        let found = page(&made(100, &[vec![1; 8], vec![2; 12]]));
        assert_eq!(found.records, [(101, 20..28), (102, 32..44)]);
        assert!(!found.broken && !found.missed);
    }

    #[test]
    fn long_gaps_and_long_records() {
        let mut bytes = 5u64.to_le_bytes().to_vec();
        let mut data = Vec::new();
        data.extend_from_slice(&(TIME_EXTEND | 3 << 5).to_le_bytes());
        data.extend_from_slice(&2u32.to_le_bytes());
        data.extend_from_slice(&(1u32 << 5).to_le_bytes());
        data.extend_from_slice(&(4u32 + 120).to_le_bytes());
        data.extend_from_slice(&[7; 120]);
        bytes.extend_from_slice(&(data.len() as u64 | MISSED).to_le_bytes());
        bytes.extend_from_slice(&data);
        let found = page(&bytes);
        assert_eq!(found.records, [(5 + (2 << 27) + 3 + 1, 32..152)]);
        assert!(found.missed && !found.broken);
    }

    #[test]
    fn cut_short_is_said() {
        let whole = made(100, &[vec![1; 8], vec![2; 12]]);
        let found = page(&whole[..40]);
        assert_eq!(found.records.len(), 1);
        assert!(found.broken);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let found = page(&bytes);
            for (_, record) in found.records {
                prop_assert!(record.end <= bytes.len() && record.start >= HEADER);
            }
        }
    }
}
