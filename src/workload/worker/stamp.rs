//! `--verify`: bytes that encode their position in the stream. A reader can detect a torn page (its parts are from
//! different times) and a reused page (all of it is from another position).

use crate::util::regular;
use crate::workload::spec::{DEFAULT_SOURCE, PAGE, Spec, Writer};
use anyhow::{Context, Result, ensure};

/// Makes stamps differ from typical memory contents.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;
/// Maximum number of errors to list.
const TOLD: usize = 8;

fn word(position: u64) -> u64 {
    (position / 8) ^ KEY
}

fn byte(position: u64) -> u8 {
    word(position).to_le_bytes()[(position % 8) as usize]
}

/// Stamp `bytes`, which are the stream from `position` on.
pub(crate) fn fill(bytes: &mut [u8], position: u64) {
    let mut at = position;
    let head = bytes.len().min((8 - position % 8) as usize % 8);
    let (first, rest) = bytes.split_at_mut(head);
    for out in first {
        *out = byte(at);
        at += 1;
    }
    let mut words = rest.chunks_exact_mut(8);
    for out in &mut words {
        out.copy_from_slice(&word(at).to_le_bytes());
        at += 8;
    }
    for out in words.into_remainder() {
        *out = byte(at);
        at += 1;
    }
}

/// Whether `spec`'s stream consists of the writer's stamps rather than a file's bytes.
fn stamped(spec: &Spec) -> bool {
    matches!(spec.writer, Writer::Write | Writer::Vmsplice | Writer::IoUring)
}

/// The longest source that is compared, bytes.
const LONGEST: u64 = 1 << 30;

/// The expected stream.
pub(crate) enum Expected {
    Stamps,
    /// A file's bytes, repeated.
    Repeated(Vec<u8>),
}

impl Expected {
    pub(crate) fn of(spec: &Spec) -> Result<Self> {
        if stamped(spec) {
            return Ok(Self::Stamps);
        }
        let path = spec.source.as_deref().unwrap_or(DEFAULT_SOURCE.as_ref());
        if path == std::path::Path::new(DEFAULT_SOURCE) {
            return Ok(Self::Repeated(vec![0; PAGE as usize]));
        }
        let name = path.display();
        let kind = std::fs::metadata(path).with_context(|| format!("--source {name}"))?;
        ensure!(
            kind.is_file(),
            "--verify: the bytes of {name} are not known in advance; use a regular file or /dev/zero"
        );
        ensure!(kind.len() <= LONGEST, "--verify keeps {name} in memory: use a file of at most 1G");
        Ok(Self::Repeated(regular::read(path, LONGEST).with_context(|| format!("--source {name}"))?))
    }
}

/// Compares a stream with the expected one.
pub(crate) struct Checker {
    expected: Expected,
    position: u64,
    wrong: u64,
    told: Vec<String>,
    scratch: Vec<u8>,
}

impl Checker {
    pub(crate) fn new(expected: Expected) -> Self {
        Self { expected, position: 0, wrong: 0, told: Vec::new(), scratch: Vec::new() }
    }

    /// Check the next `bytes` of the stream.
    pub(crate) fn check(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let in_page = (PAGE - self.position % PAGE).min(bytes.len() as u64) as usize;
            let (page, rest) = bytes.split_at(in_page);
            self.check_page(page);
            self.position += in_page as u64;
            bytes = rest;
        }
    }

    fn check_page(&mut self, page: &[u8]) {
        self.scratch.resize(page.len(), 0);
        match &self.expected {
            Expected::Stamps => fill(&mut self.scratch, self.position),
            Expected::Repeated(data) => {
                for (index, out) in self.scratch.iter_mut().enumerate() {
                    *out = data[((self.position + index as u64) % data.len() as u64) as usize];
                }
            }
        }
        if page == self.scratch {
            return;
        }
        self.wrong += 1;
        if self.told.len() < TOLD {
            let first = page.iter().zip(&self.scratch).position(|(got, wanted)| got != wanted).unwrap_or(0);
            // A stamp has 8 bytes, and two stamps may agree in the first ones.
            let differs = self.position + first as u64;
            let torn = differs & !7;
            let (at, what) = match (&self.expected, origin(page, self.position)) {
                (Expected::Repeated(_), _) => (differs, "differs from the source".to_owned()),
                (Expected::Stamps, Some(from)) => {
                    (self.position, format!("reused page: contains the data of byte {from}"))
                }
                (Expected::Stamps, None) => (torn, "torn page: contains data from different times".to_owned()),
            };
            self.told.push(format!("byte {at} of the stream: {what}"));
        }
    }

    /// The number of bytes checked, including the warm-up, and the errors.
    pub(crate) fn verdict(&self) -> (u64, Vec<String>) {
        let mut errors = self.told.clone();
        let more = self.wrong - self.told.len() as u64;
        if more > 0 {
            errors.push(format!("{more} more pages are wrong"));
        }
        (self.position, errors)
    }
}

/// The position to which all stamps of `page`, found at `position`, belong; `None` if they differ.
fn origin(page: &[u8], position: u64) -> Option<u64> {
    let head = (8 - position % 8) as usize % 8;
    let words = page.get(head..)?.chunks_exact(8);
    let mut starts = words.enumerate().map(|(index, bytes)| {
        let stamp = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        ((stamp ^ KEY).wrapping_mul(8)).wrapping_sub(8 * index as u64)
    });
    let start = starts.next()?;
    starts.all(|other| other == start).then_some(start.wrapping_sub(head as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(from: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fill(&mut bytes, from);
        bytes
    }

    fn verdict(bytes: &[u8], cuts: &[usize]) -> (u64, Vec<String>) {
        let mut checker = Checker::new(Expected::Stamps);
        let mut rest = bytes;
        for &cut in cuts {
            let (first, after) = rest.split_at(cut.min(rest.len()));
            checker.check(first);
            rest = after;
        }
        checker.check(rest);
        checker.verdict()
    }

    #[test]
    fn a_whole_stream_passes_however_it_is_cut() {
        let mut bytes = stream(0, 1001);
        bytes.extend(stream(1001, 20_000));
        assert_eq!(verdict(&bytes, &[1, 7, 4096, 3, 5000]), (21_001, vec![]));
    }

    #[test]
    fn a_reused_page_and_a_torn_one_are_told_apart() {
        let mut bytes = stream(0, 5 * 4096);
        bytes[4096..8192].copy_from_slice(&stream(65536, 4096));
        bytes[3 * 4096 + 2048..4 * 4096].copy_from_slice(&stream(65536, 2048));
        let (_, errors) = verdict(&bytes, &[]);
        assert_eq!(
            errors,
            [
                "byte 4096 of the stream: reused page: contains the data of byte 65536",
                "byte 14336 of the stream: torn page: contains data from different times"
            ]
        );
    }

    #[test]
    fn many_errors_are_counted() {
        let (_, errors) = verdict(&vec![7; 100 * 4096], &[]);
        assert_eq!(errors.len(), TOLD + 1);
        assert_eq!(errors[TOLD], "92 more pages are wrong");
    }

    #[test]
    fn a_file_repeats() {
        let mut checker = Checker::new(Expected::Repeated(b"abc".to_vec()));
        checker.check(b"abcab");
        checker.check(b"cabcabd");
        assert_eq!(checker.verdict(), (12, vec!["byte 11 of the stream: differs from the source".to_owned()]));
    }
}
