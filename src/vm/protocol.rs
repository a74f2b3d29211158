//! The protocol on the guest's second serial port: compressed frames with a length and a checksum.
//!
//! A frame consists of the 8 bytes of [`MAGIC`], a kind (1 byte), the compressed and the plain length of the payload
//! (two 4-byte little-endian numbers), the CRC-32 of the plain payload (4 bytes), and the payload, compressed with
//! deflate. Other bytes are skipped, because firmware and early consoles may write to the port.

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use std::io::Read;

/// Start of each frame.
pub(crate) const MAGIC: [u8; 8] = *b"\x01ppFRM\x02\n";

/// Bytes before the payload.
const HEADER: usize = MAGIC.len() + 1 + 4 + 4 + 4;

/// Longest payload accepted, in bytes: larger than any profile, and small enough to allocate.
pub(crate) const LONGEST: usize = 1 << 30;

/// A message from the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
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

/// The frame of `message`.
///
/// # Errors
/// When the payload is longer than [`LONGEST`].
pub(crate) fn encode(message: &Message) -> std::io::Result<Vec<u8>> {
    let payload = message.payload();
    if payload.len() > LONGEST {
        return Err(std::io::Error::other(format!("the answer is too long: {} bytes", payload.len())));
    }
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

/// Reads frames from a growing stream.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    pending: Vec<u8>,
    skipped: u64,
    damaged: u64,
}

impl Decoder {
    /// Add more bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next complete message, if there is one.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        loop {
            let Some(start) = find(&self.pending, &MAGIC) else {
                // Keep the bytes that may begin a frame.
                let keep = self.pending.len().saturating_sub(MAGIC.len() - 1);
                self.skip(keep);
                return None;
            };
            self.skip(start);
            let number = |at: usize| {
                let bytes = self.pending.get(at..at + 4)?;
                Some(u32::from_le_bytes(bytes.try_into().ok()?))
            };
            let (deflated, plain, sum) = (number(9)? as usize, number(13)? as usize, number(17)?);
            if deflated > LONGEST || plain > LONGEST {
                self.damage();
                continue;
            }
            let payload = self.pending.get(HEADER..HEADER + deflated)?;
            let mut bytes = Vec::new();
            let whole = DeflateDecoder::new(payload).take(plain as u64 + 1).read_to_end(&mut bytes);
            let kind = self.pending.get(8).copied().unwrap_or_default();
            if whole.is_err() || bytes.len() != plain || checksum(&bytes) != sum {
                self.damage();
                continue;
            }
            self.pending.drain(..HEADER + deflated);
            match Message::of(kind, bytes) {
                Some(message) => return Some(message),
                None => self.damaged += 1,
            }
        }
    }

    /// Number of frames with an error.
    #[must_use]
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged
    }

    fn skip(&mut self, bytes: usize) {
        self.skipped += bytes as u64;
        self.pending.drain(..bytes);
    }

    /// Drop the frame at the front and look for the next one.
    fn damage(&mut self) {
        self.damaged += 1;
        self.skip(MAGIC.len());
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
        fn no_stream_panics(stream: Vec<u8>) {
            let mut decoder = Decoder::default();
            decoder.feed(&stream);
            decoder.feed(&MAGIC);
            decoder.feed(&stream);
            while decoder.next_message().is_some() {}
        }
    }
}
