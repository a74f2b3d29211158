//! JSON files compressed by gzip, with a limit on what they may unpack to.

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read as _, Write as _};

/// What a file may unpack to, in bytes. What is beyond is cut off, and is then no JSON.
const LONGEST: u64 = 1 << 30;

/// The bytes of a file that [`from_bytes`] reads as the same. Equal values give equal bytes: the header has no time and no
/// name.
///
/// # Errors
/// When it would be refused, or read as something else.
pub fn to_bytes<T: Serialize + DeserializeOwned>(value: &T, compression: Compression) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(value)?;
    ensure!(text.len() as u64 <= LONGEST, "it is longer than {} GiB", LONGEST >> 30);
    ensure!(serde_json::to_vec(&parse::<T>(&text)?)? == text, "it would be read as something else");
    packed(&text, compression)
}

/// `json` in such a file.
pub fn packed(json: &[u8], compression: Compression) -> Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), compression);
    out.write_all(json)?;
    Ok(out.finish()?)
}

/// Read the file. `what` is what its JSON should have been, for the error: "profiles of windows".
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    let unpacked = || -> Result<T> {
        let mut text = Vec::new();
        // A few MiB can be a GiB of zeros, which are no JSON from the first on.
        let mut unpacking = GzDecoder::new(bytes).take(LONGEST);
        unpacking.by_ref().take(1).read_to_end(&mut text)?;
        ensure!(text == b"{" || text == b"[", "it does not begin as JSON does");
        unpacking.read_to_end(&mut text)?;
        Ok(parse(&text)?)
    };
    unpacked().with_context(|| format!("it is damaged, or not {what}"))
}

/// One reader for both, so that what reads a `T` is compiled once. Of bytes in memory, which takes half the time that a
/// stream takes.
fn parse<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(names: Vec<(String, u64)>, value in proptest::num::f64::ANY) {
            let file = (names, value);
            match to_bytes(&file, Compression::fast()) {
                Ok(bytes) => proptest::prop_assert_eq!(from_bytes::<(Vec<(String, u64)>, f64)>(&bytes, "x").unwrap(), file),
                Err(_) => proptest::prop_assert!(!value.is_finite()),
            }
        }
    }
}
