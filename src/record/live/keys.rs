//! What is typed while the screen is shown.

/// A key of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScreenKey {
    /// End the recording, or close what is open.
    Quit,
    Sort,
    Freeze,
    Open,
    Close,
    Up,
    Down,
    /// A character that makes the terminal of the pipeline send a signal: Ctrl-C, Ctrl-\.
    Signal(u8),
    /// Give the terminal back to the shell: Ctrl-Z.
    Suspend,
}

/// Escape: alone a key, otherwise the begin of one.
const ESCAPE: u8 = 0x1b;
const INTERRUPT: u8 = 0x03;
const QUIT: u8 = 0x1c;
const SUSPEND: u8 = 0x1a;

/// The keys in `typed`. Others are passed over. A terminal sends a key in one piece.
pub(crate) fn keys(typed: &[u8]) -> Vec<ScreenKey> {
    let mut keys = Vec::new();
    let mut rest = typed;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        keys.extend(match first {
            b'q' => Some(ScreenKey::Quit),
            b's' => Some(ScreenKey::Sort),
            b' ' => Some(ScreenKey::Freeze),
            b'\r' | b'\n' => Some(ScreenKey::Open),
            b'k' => Some(ScreenKey::Up),
            b'j' => Some(ScreenKey::Down),
            &SUSPEND => Some(ScreenKey::Suspend),
            &signal @ (INTERRUPT | QUIT) => Some(ScreenKey::Signal(signal)),
            &ESCAPE if after.is_empty() => Some(ScreenKey::Close),
            &ESCAPE => {
                let (key, length) = sequence(after);
                rest = &after[length..];
                key
            }
            _ => None,
        });
    }
    keys
}

/// The key that these bytes after an escape are, and how many they are: ECMA-48 for `[`, and `O` of the keypad.
fn sequence(bytes: &[u8]) -> (Option<ScreenKey>, usize) {
    if !matches!(bytes.first(), Some(b'[' | b'O')) {
        return (None, bytes.len().min(1));
    }
    let end = bytes.iter().skip(1).position(|byte| (0x40..=0x7e).contains(byte)).map(|at| at + 1);
    let key = match end.and_then(|end| bytes.get(end)) {
        Some(b'A') => Some(ScreenKey::Up),
        Some(b'B') => Some(ScreenKey::Down),
        _ => None,
    };
    (key, end.map_or(bytes.len(), |end| end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_bytes_are_one() {
        use ScreenKey::{Close, Down, Freeze, Open, Quit, Signal, Sort, Suspend, Up};
        assert_eq!(keys(b"q s\r"), [Quit, Freeze, Sort, Open]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[1;5A\x1b[15~q"), [Up, Down, Up, Quit]);
        assert_eq!(keys(b"\x1b"), [Close]);
        // Alt and a letter is not the letter.
        assert_eq!(keys(b"\x1bqx"), []);
        assert_eq!(keys(b"\x03\x1c\x1a"), [Signal(3), Signal(0x1c), Suspend]);
        assert_eq!(keys(b"\x1b["), []);
    }
}
