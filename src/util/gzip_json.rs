//! JSON files compressed by gzip, with a limit on what they may unpack to.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufReader, Read as _};

/// What a file may unpack to, in bytes. What is beyond is cut off, and is then no JSON.
const LONGEST: u64 = 1 << 30;

/// The bytes of the file. Equal values give equal bytes: the header has no time and no name.
pub fn to_bytes(value: &impl Serialize, compression: Compression) -> Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), compression);
    serde_json::to_writer(&mut out, value)?;
    Ok(out.finish()?)
}

/// Read the file. `what` is what its JSON should have been, for the error: "profiles of windows".
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    // Not unpacked as a whole first: a few MiB can be a GiB of zeros.
    let unpacked = BufReader::new(GzDecoder::new(bytes).take(LONGEST));
    serde_json::from_reader(unpacked).with_context(|| format!("it is damaged, or not {what}"))
}
