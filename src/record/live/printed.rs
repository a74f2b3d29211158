//! What a pipeline prints to its terminal while the screen is shown: its last lines, and all of it for later.

use crate::util::text::is_hidden;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// So many bytes are kept for later: the last ones. Terminals remember less.
const MOST: u64 = 64 << 20;

/// Lines that are shown at most, and characters of one.
const LINES: usize = 100;
const WIDTH: usize = 500;

/// Where a sequence that controls the terminal has got to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    /// After an escape.
    Escape,
    /// After an escape and one of `()*+%#`: one more character.
    One,
    /// Parameters until a final character: `CSI`.
    Parameters,
    /// Text until a bell or an escape: `OSC` and its like.
    Text,
}

/// What was printed.
pub(crate) struct Printed {
    kept: File,
    /// Bytes printed, and how many of them were handed out.
    length: u64,
    taken: u64,
    lines: VecDeque<String>,
    /// The line that has not ended, and the place in it where the next character comes.
    line: Vec<char>,
    place: usize,
    /// Bytes of a character that is not complete.
    bytes: Vec<u8>,
    sequence: Sequence,
    parameters: Vec<u8>,
    /// Whether the program shows the other screen of its terminal.
    is_other: bool,
}

impl Printed {
    /// # Errors
    /// When there is no file in memory.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            kept: File::from(memfd_create("printed", MemfdFlags::CLOEXEC)?),
            length: 0,
            taken: 0,
            lines: VecDeque::new(),
            line: Vec::new(),
            place: 0,
            bytes: Vec::new(),
            sequence: Sequence::None,
            parameters: Vec::new(),
            is_other: false,
        })
    }

    /// Add what was printed; `is_shown` already.
    pub(crate) fn add(&mut self, bytes: &[u8], is_shown: bool) {
        bytes.iter().for_each(|byte| self.byte(*byte));
        if !is_shown {
            let mut rest = bytes;
            while !rest.is_empty() {
                let at = self.length % MOST;
                let part = rest.len().min((MOST - at) as usize);
                // Without memory, it is lost.
                let _ = self.kept.write_all_at(&rest[..part], at);
                self.length += part as u64;
                rest = &rest[part..];
            }
        }
    }

    /// What was printed and not shown since this was last called, in parts, with the number of bytes before it that are no
    /// longer known.
    pub(crate) fn take(&mut self, mut show: impl FnMut(&[u8])) -> u64 {
        let lost = (self.length - self.taken).saturating_sub(MOST);
        self.taken += lost;
        let mut part = vec![0; 1 << 16];
        while self.taken < self.length {
            let at = self.taken % MOST;
            let wanted = (self.length - self.taken).min(part.len() as u64).min(MOST - at) as usize;
            match self.kept.read_at(&mut part[..wanted], at) {
                Ok(count @ 1..) => {
                    show(&part[..count]);
                    self.taken += count as u64;
                }
                _ => self.taken = self.length,
            }
        }
        let _ = self.kept.set_len(0);
        (self.length, self.taken) = (0, 0);
        lost
    }

    /// Whether something was printed.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.line.is_empty()
    }

    /// Whether the program shows the other screen of its terminal, as editors do.
    pub(crate) fn is_other_screen(&self) -> bool {
        self.is_other
    }

    /// The last lines, of so many at most.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let line: String = self.line.iter().collect();
        let mut all: Vec<String> = self.lines.iter().rev().take(count).rev().cloned().collect();
        all.extend((!line.is_empty()).then_some(line));
        all.split_off(all.len().saturating_sub(count))
    }

    fn byte(&mut self, byte: u8) {
        match self.sequence {
            Sequence::None => self.plain(byte),
            Sequence::Escape => {
                self.parameters.clear();
                self.sequence = match byte {
                    b'[' => Sequence::Parameters,
                    b']' | b'P' | b'_' | b'^' | b'X' => Sequence::Text,
                    b'(' | b')' | b'*' | b'+' | b'%' | b'#' => Sequence::One,
                    _ => Sequence::None,
                };
            }
            Sequence::One => self.sequence = Sequence::None,
            Sequence::Parameters if (0x40..=0x7e).contains(&byte) => {
                self.control(byte);
                self.sequence = Sequence::None;
            }
            Sequence::Parameters if self.parameters.len() < 32 => self.parameters.push(byte),
            Sequence::Parameters => {}
            Sequence::Text if byte == 0x07 => self.sequence = Sequence::None,
            Sequence::Text if byte == 0x1b => self.sequence = Sequence::Escape,
            Sequence::Text => {}
        }
    }

    fn plain(&mut self, byte: u8) {
        match byte {
            0x1b => self.sequence = Sequence::Escape,
            b'\n' => {
                let line: String = self.line.drain(..).collect();
                self.lines.push_back(line);
                if self.lines.len() > LINES {
                    self.lines.pop_front();
                }
                self.place = 0;
            }
            b'\r' => self.place = 0,
            0x08 => self.place = self.place.saturating_sub(1),
            b'\t' => (0..8 - self.place % 8).for_each(|_| self.put(' ')),
            0..0x20 => {}
            _ => self.character(byte),
        }
    }

    /// A byte of a character.
    fn character(&mut self, byte: u8) {
        self.bytes.push(byte);
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => text.chars().collect::<Vec<_>>().into_iter().for_each(|c| self.put(c)),
            Err(error) if error.error_len().is_none() => return,
            Err(_) => self.put('?'),
        }
        self.bytes.clear();
    }

    fn put(&mut self, c: char) {
        let c = if is_hidden(c) { '?' } else { c };
        match self.line.get_mut(self.place) {
            Some(old) => *old = c,
            None if self.place >= WIDTH => return,
            None => {
                self.line.resize(self.place, ' ');
                self.line.push(c);
            }
        }
        self.place += 1;
    }

    /// What of a sequence matters here: the other screen (DEC's private modes 47, 1047 and 1049), and what clears a line.
    fn control(&mut self, last: u8) {
        match (&self.parameters[..], last) {
            (b"?47" | b"?1047" | b"?1049", b'h' | b'l') => self.is_other = last == b'h',
            (b"" | b"0", b'K') => self.line.truncate(self.place),
            (b"2", b'K') => self.line.clear(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[&[u8]]) -> Vec<String> {
        let mut printed = Printed::new().unwrap();
        parts.iter().for_each(|part| printed.add(part, false));
        printed.last(10)
    }

    #[test]
    fn the_last_lines_are_those_of_a_terminal() {
        assert_eq!(shown(&[b"one\r\ntwo\r\nthr", b"ee"]), ["one", "two", "three"]);
        // A program that shows how far it is.
        assert_eq!(shown(&[b"10 %\r20 %\r100 %\r\n"]), ["100 %"]);
        assert_eq!(shown(&[b"long line\rab\x1b[K\r\n"]), ["ab"]);
        assert_eq!(shown(&[b"a\tb\x08c"]), ["a       c"]);
        // Styles and titles are left out, and a character in two parts is one.
        assert_eq!(shown(&[b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b(Bend \xc3", b"\xa9\xff"]), ["red end é?"]);
        assert_eq!(shown(&["a\u{202e}b".as_bytes()]), ["a?b"]);
    }

    #[test]
    fn the_other_screen_is_noticed_also_in_parts() {
        let mut printed = Printed::new().unwrap();
        printed.add(b"x\x1b[?10", false);
        assert!(!printed.is_other_screen());
        printed.add(b"49hy", false);
        assert!(printed.is_other_screen());
        printed.add(b"\x1b[?1049l", false);
        assert!(!printed.is_other_screen());
    }

    #[test]
    fn what_was_not_shown_is_kept_byte_by_byte() {
        let mut printed = Printed::new().unwrap();
        let mut all = Vec::new();
        printed.add(b"a\x1b[1mb\r\n", false);
        printed.add(b"seen", true);
        assert_eq!(printed.take(|part| all.extend_from_slice(part)), 0);
        assert_eq!(all, b"a\x1b[1mb\r\n");
        printed.add(b"c", false);
        all.clear();
        printed.take(|part| all.extend_from_slice(part));
        assert_eq!(all, b"c");
        // Of too much, the last is kept.
        let block = vec![b'x'; 1 << 20];
        (0..65).for_each(|_| printed.add(&block, false));
        printed.add(b"end", false);
        let mut length = 0;
        let mut last = Vec::new();
        let lost = printed.take(|part| {
            length += part.len() as u64;
            last.extend_from_slice(part);
            last = last.split_off(last.len().saturating_sub(8));
        });
        assert_eq!((lost, length), ((1 << 20) + 3, MOST));
        assert!(last.ends_with(b"xend"));
    }
}
