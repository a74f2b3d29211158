//! Frames from a guest.

use crate::vm::protocol::{self, Decoder, LARGEST_RATIO, LONGEST_TEXT, MAGIC, Message};

/// Bytes from the guest's port. The first byte is the size of the pieces in which they arrive.
///
/// Properties: pieces do not matter; nothing unpacks to more than deflate allows; what is read can be sent; what is sent
/// arrives, with these bytes between the frames.
///
/// # Panics
/// If one does not hold.
pub fn guest_frames(bytes: &[u8]) {
    let Some((piece, stream)) = bytes.split_first() else { return };
    let (messages, damaged) = decoded(stream, stream.len());
    assert_eq!(decoded(stream, usize::from(*piece)), (messages.clone(), damaged), "pieces matter");
    // A byte that is not UTF-8 becomes a character of three bytes.
    let unpacked: usize = messages.iter().map(|message| length(message) / 3).sum();
    assert!(unpacked <= stream.len().saturating_mul(LARGEST_RATIO), "{unpacked} from {}", stream.len());
    for message in messages {
        assert!(matches!(message, Message::Answer(_)) || length(&message) <= 3 * LONGEST_TEXT);
        arrives(&message, &[]);
    }
    for (kind, part) in stream.split(|byte| *byte == b'\n').enumerate() {
        let text = String::from_utf8_lossy(part).into_owned();
        let message = match kind % 5 {
            0 => Message::Hello(text),
            1 => Message::NoPorts(text),
            2 => Message::Progress(text),
            3 => Message::Failure(text),
            _ => Message::Answer(part.to_vec()),
        };
        arrives(&message, part);
    }
}

/// Send `message` after `noise`.
fn arrives(message: &Message, noise: &[u8]) {
    if noise.windows(MAGIC.len()).any(|window| window == MAGIC) {
        // It may be the head of a frame that contains the message.
        return;
    }
    let Ok(frame) = protocol::encode(message) else { return };
    let (got, damaged) = decoded(&[noise, &frame].concat(), 7);
    assert_eq!((got.len(), damaged), (1, 0));
    if length(message) <= LONGEST_TEXT || matches!(message, Message::Answer(_)) {
        assert_eq!(got.first(), Some(message));
    }
}

/// The messages in `stream`, which arrives in pieces of this many bytes, and the number of damaged frames.
fn decoded(stream: &[u8], piece: usize) -> (Vec<Message>, u64) {
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    for piece in stream.chunks(piece.max(1)) {
        decoder.feed(piece);
        messages.extend(std::iter::from_fn(|| decoder.next_message()));
    }
    (messages, decoder.damaged())
}

fn length(message: &Message) -> usize {
    match message {
        Message::Hello(text) | Message::NoPorts(text) | Message::Progress(text) | Message::Failure(text) => text.len(),
        Message::Answer(bytes) => bytes.len(),
    }
}
