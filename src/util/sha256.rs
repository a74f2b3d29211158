//! SHA-256 of files and bytes, in hexadecimal digits: names for contents that are the same on every machine.

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// The digest of a file.
pub(crate) fn of_file(path: &Path) -> Result<String> {
    let mut file = super::regular::open(path).with_context(|| path.display().to_string())?;
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hexadecimal(&hash.finalize()))
}

/// The digest of these bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The digest of a list of parts, which differs from that of every other list: parts count with their lengths.
pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hexadecimal(&hash.finalize())
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
