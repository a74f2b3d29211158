//! SHA-256 of files and bytes, in hexadecimal digits: names for contents that are the same on every machine.

use super::regular;
use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use std::io::Read;
use std::path::Path;

/// The digest of a file.
pub fn of_file(path: &Path) -> Result<String> {
    let mut file = regular::open(path).with_context(|| path.display().to_string())?;
    of_reader(&mut file, u64::MAX).with_context(|| format!("cannot read {}", path.display()))
}

/// The digest of all that `from` has, at most `longest` bytes.
pub fn of_reader(from: &mut impl Read, longest: u64) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    regular::copy_all(from, &mut hash, longest)?;
    Ok(hexadecimal(&hash.finalize()))
}

/// The digest of these bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The digest of a list of parts, which differs from that of every other list: parts count with their lengths.
pub fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> String {
    let mut hash = Sha256::new();
    add_parts(&mut hash, parts);
    hexadecimal(&hash.finalize())
}

/// Add parts to those that `hash` has.
pub fn add_parts<P: AsRef<[u8]>>(hash: &mut Sha256, parts: impl IntoIterator<Item = P>) {
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of "abc": the first example of FIPS 180-2, appendix B.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_has_the_digest_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!((of_bytes(b"abc").as_str(), of_file(&path).unwrap().as_str()), (ABC, ABC));
        assert!(of_file(folder.path()).is_err());
    }

    #[test]
    fn parts_are_not_joined() {
        assert_ne!(of_parts(["ab", "c"]), of_parts(["a", "bc"]));
    }
}
