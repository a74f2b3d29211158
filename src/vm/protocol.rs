//! The protocol on the guest's second serial port: compressed frames with a length and a checksum.
//!
//! A frame consists of the 8 bytes of [`MAGIC`], a kind (1 byte), the compressed and the plain length of the payload
//! (two 4-byte little-endian numbers), the CRC-32 of the plain payload (4 bytes), and the payload, compressed with
//! deflate. Other bytes are skipped, because firmware and early consoles may write to the port.

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use std::io::Read;

/// Start of each frame.
pub const MAGIC: [u8; 8] = *b"\x01ppFRM\x02\n";

/// Bytes before the payload.
const HEADER: usize = MAGIC.len() + 1 + 4 + 4 + 4;

/// Longest answer accepted, in bytes: far larger than any profile, and small enough to allocate.
const LONGEST_ANSWER: usize = 128 << 20;

/// Longest text accepted, in bytes; longer ones are cut before they are sent.
pub const LONGEST_TEXT: usize = 64 << 10;

/// A byte of deflate unpacks to at most so many (RFC 1951: two bits may stand for 258 bytes, and 8 / 2 x 258 = 1032).
pub const LARGEST_RATIO: usize = 1032;

/// A message from the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The guest is ready for its job; the payload is the release.
    Hello(String),
    /// The kernel gives init no access to ports, so no snapshot can be made; the payload is the reason.
    NoPorts(String),
    /// Progress of the job: `measuring 3/10`.
    Progress(String),
    /// The job's answer.
    Answer(Vec<u8>),
    /// Why the job failed.
    Failure(String),
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => b'H',
            Self::NoPorts(_) => b'N',
            Self::Progress(_) => b'P',
            Self::Answer(_) => b'A',
            Self::Failure(_) => b'F',
        }
    }

    fn payload(&self) -> &[u8] {
        match self {
            Self::Hello(text) | Self::NoPorts(text) | Self::Progress(text) | Self::Failure(text) => text.as_bytes(),
            Self::Answer(bytes) => bytes,
        }
    }

    /// Longest payload of a kind, in bytes; `None` if there is no such kind.
    fn longest(kind: u8) -> Option<usize> {
        match kind {
            b'H' | b'N' | b'P' | b'F' => Some(LONGEST_TEXT),
            b'A' => Some(LONGEST_ANSWER),
            _ => None,
        }
    }

    fn of(kind: u8, payload: Vec<u8>) -> Option<Self> {
        let text = |payload: &[u8]| String::from_utf8_lossy(payload).into_owned();
        Some(match kind {
            b'H' => Self::Hello(text(&payload)),
            b'N' => Self::NoPorts(text(&payload)),
            b'P' => Self::Progress(text(&payload)),
            b'F' => Self::Failure(text(&payload)),
            b'A' => Self::Answer(payload),
            _ => return None,
        })
    }
}

/// The frame of `message`. Texts are cut to [`LONGEST_TEXT`].
pub fn encode(message: &Message) -> std::io::Result<Vec<u8>> {
    let payload = message.payload();
    let payload = match message {
        Message::Answer(_) if payload.len() > LONGEST_ANSWER => {
            return Err(std::io::Error::other(format!("the answer is too long: {} bytes", payload.len())));
        }
        Message::Answer(_) => payload,
        // The receiver replaces a character that is cut in two.
        _ => payload.get(..LONGEST_TEXT).unwrap_or(payload),
    };
    let mut deflated = Vec::with_capacity(payload.len() / 4 + 64);
    // Fast compression costs the fewest instructions in the guest overall: each byte sent costs hundreds of them.
    DeflateEncoder::new(payload, Compression::fast()).read_to_end(&mut deflated)?;
    let mut frame = Vec::with_capacity(HEADER + deflated.len());
    frame.extend(MAGIC);
    frame.push(message.kind());
    for number in [deflated.len(), payload.len()] {
        frame.extend(u32::try_from(number).map_err(std::io::Error::other)?.to_le_bytes());
    }
    frame.extend(checksum(payload).to_le_bytes());
    frame.extend(deflated);
    Ok(frame)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Reads frames from a growing stream, in time proportional to its length.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    /// Bytes at the front of `pending` that are done with.
    done: usize,
    damaged: u64,
}

/// The numbers of a frame's header.
struct FrameHeader {
    kind: u8,
    deflated: usize,
    plain: usize,
    sum: u32,
}

impl FrameHeader {
    /// The header in `frame`, which begins with [`MAGIC`]; `None` if it is not complete.
    fn read(frame: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(frame.get(at..at + 4)?.try_into().ok()?));
        Some(Self {
            kind: *frame.get(8)?,
            deflated: usize::try_from(number(9)?).ok()?,
            plain: usize::try_from(number(13)?).ok()?,
            sum: number(17)?,
        })
    }

    /// Whether a frame can have these lengths. Deflate never makes more than a few bytes more of what it cannot
    /// compress.
    fn is_possible(&self) -> bool {
        Message::longest(self.kind).is_some_and(|longest| {
            self.plain <= longest
                && self.deflated <= longest + longest / 1000 + 64
                && self.plain <= self.deflated.saturating_mul(LARGEST_RATIO)
        })
    }

    /// The message whose compressed payload is `deflated`; `None` if it is damaged.
    fn message(&self, deflated: &[u8]) -> Option<Message> {
        let mut bytes = Vec::new();
        DeflateDecoder::new(deflated).take(self.plain as u64 + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() == self.plain && checksum(&bytes) == self.sum).then(|| Message::of(self.kind, bytes))?
    }
}

impl Decoder {
    /// Add more bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        // What is done with is dropped here, once for all the frames in it.
        self.pending.drain(..self.done);
        self.done = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// The next complete message, if there is one.
    pub fn next_message(&mut self) -> Option<Message> {
        loop {
            let rest = self.pending.get(self.done..).unwrap_or_default();
            let Some(start) = find(rest, &MAGIC) else {
                // Keep the bytes that may begin a frame.
                self.done += rest.len().saturating_sub(MAGIC.len() - 1);
                return None;
            };
            self.done += start;
            let frame = rest.get(start..).unwrap_or_default();
            let header = FrameHeader::read(frame)?;
            if !header.is_possible() {
                self.damage();
                continue;
            }
            let end = HEADER + header.deflated;
            if let Some(message) = header.message(frame.get(HEADER..end)?) {
                self.done += end;
                return Some(message);
            }
            self.damage();
        }
    }

    /// Number of frames with an error.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Drop the frame at the front and look for the next one.
    fn damage(&mut self) {
        self.damaged += 1;
        self.done += MAGIC.len();
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            ".{0,40}".prop_map(Message::Hello),
            ".{0,40}".prop_map(Message::NoPorts),
            ".{0,40}".prop_map(Message::Progress),
            ".{0,40}".prop_map(Message::Failure),
            proptest::collection::vec(any::<u8>(), 0..2000).prop_map(Message::Answer),
        ]
    }

    proptest! {
        #[test]
        fn messages_arrive_in_any_pieces_between_noise(
            messages in proptest::collection::vec((message(), "[a-z \n]{0,20}"), 0..6), piece in 1_usize..300
        ) {
            let mut stream = Vec::new();
            for (message, noise) in &messages {
                stream.extend(noise.as_bytes());
                stream.extend(encode(message).unwrap());
            }
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in stream.chunks(piece) {
                decoder.feed(piece);
                while let Some(message) = decoder.next_message() {
                    got.push(message);
                }
            }
            let sent: Vec<Message> = messages.into_iter().map(|(message, _)| message).collect();
            prop_assert_eq!(got, sent);
            prop_assert_eq!(decoder.damaged(), 0);
        }

        #[test]
        fn a_damaged_frame_is_dropped_and_the_next_read(
            first in message(), second in message(), at: prop::sample::Index, flip in 1_u8..
        ) {
            let mut stream = encode(&first).unwrap();
            // Do not flip bits of the lengths: a longer frame waits for bytes that never come, until the time limit.
            let places: Vec<usize> = (0..8).chain(17..stream.len()).collect();
            stream[places[at.index(places.len())]] ^= flip;
            stream.extend(encode(&second).unwrap());
            let mut decoder = Decoder::default();
            decoder.feed(&stream);
            let mut got = Vec::new();
            while let Some(message) = decoder.next_message() {
                got.push(message);
            }
            // Flipping an unused bit of the deflate stream may leave the payload unchanged.
            prop_assert!(got == [second.clone()] || got == [first, second]);
        }

        #[test]
        fn frames_that_cannot_be_are_refused_at_their_header(kind: u8, deflated: u32, plain: u32) {
            let mut stream = MAGIC.to_vec();
            stream.push(kind);
            stream.extend(deflated.to_le_bytes());
            stream.extend(plain.to_le_bytes());
            stream.extend([0; 4]);
            let mut decoder = Decoder::default();
            decoder.feed(&stream);
            prop_assert_eq!(decoder.next_message(), None);
            let waits = Message::longest(kind).is_some_and(|longest| plain as usize <= longest)
                && (deflated as usize) < LONGEST_ANSWER * 2
                && u64::from(plain) <= u64::from(deflated) * 1032;
            prop_assert!(decoder.damaged() == 1 || waits);
        }

    }

    #[test]
    fn long_texts_are_cut_and_long_answers_refused() {
        let mut decoder = Decoder::default();
        decoder.feed(&encode(&Message::Failure("\u{e9}".repeat(LONGEST_TEXT))).unwrap());
        let Some(Message::Failure(text)) = decoder.next_message() else { panic!("no message") };
        assert_eq!(text.len(), LONGEST_TEXT);
        assert!(encode(&Message::Answer(vec![0; LONGEST_ANSWER + 1])).is_err());
    }

    #[test]
    fn a_damaged_or_lying_frame_does_not_hide_those_after_it() {
        let good = encode(&Message::Progress("here".to_owned())).unwrap();
        // Unpacks to more than its header says.
        let mut bomb = encode(&Message::Answer(vec![0; 1 << 20])).unwrap();
        bomb.splice(13..17, 100_u32.to_le_bytes());
        // A million headers, each of which would be a frame of nearly all that follows.
        let mut nested = Vec::new();
        for _ in 0..1_000_000 {
            nested.extend(MAGIC);
        }
        let mut decoder = Decoder::default();
        for stream in [&bomb, &nested, &good] {
            decoder.feed(stream);
        }
        assert_eq!(decoder.next_message(), Some(Message::Progress("here".to_owned())));
        assert_eq!(decoder.damaged(), 1_000_001);
    }
}
