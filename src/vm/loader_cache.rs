//! The dynamic loader's cache for a guest: this machine's, with only those libraries that the guest has. Otherwise, each
//! package that is installed here would change how many pages programs map there, and with them the counts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Where the loader finds libraries in other folders than its own (ld.so(8)).
pub(super) const PLACE: &str = "/etc/ld.so.cache";

// The format that glibc writes since 2.32 (sysdeps/generic/dl-cache.h): a header, entries in the order in which the loader
// searches, and strings, whose offsets count from the start of the file. An extension at the end has the names of hardware
// capabilities, by number.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// `struct cache_file_new`: the magic, then the number of entries, the length of strings, a byte order with three bytes of
/// padding, the offset of the extension, and three reserved words.
const HEADER: usize = 48;
const COUNT: usize = 20;
const LENGTH: usize = 24;
const EXTENSION: usize = 32;
/// `struct file_entry_new`: kind, offsets of name and path, kernel version (four bytes each), and hardware capabilities.
const ENTRY: usize = 24;
const NAME: usize = 4;
const PATH: usize = 8;
const CAPABILITIES: usize = 16;

/// The cache without entries whose path is not to be kept. `None` if it is in another format, or one of those that are kept is
/// for certain processors, whose names only the extension has.
pub(super) fn limited(cache: &[u8], kept: impl Fn(&Path) -> bool) -> Option<Vec<u8>> {
    if !cache.starts_with(MAGIC) {
        return None;
    }
    let all = word(cache, COUNT)?.checked_mul(ENTRY)?.checked_add(HEADER)?;
    let mut found = Vec::new();
    for entry in cache.get(HEADER..all)?.chunks_exact(ENTRY) {
        let (name, path) = (string(cache, word(entry, NAME)?)?, string(cache, word(entry, PATH)?)?);
        if kept(Path::new(OsStr::from_bytes(path))) {
            if entry.get(CAPABILITIES..)? != [0; 8] {
                return None;
            }
            found.push((entry, name, path));
        }
    }
    let mut limited = cache.get(..HEADER)?.to_vec();
    let mut strings = Vec::new();
    let start = HEADER + found.len() * ENTRY;
    put(&mut limited, COUNT, found.len())?;
    put(&mut limited, EXTENSION, 0)?;
    for (entry, name, path) in found {
        let mut entry = entry.to_vec();
        for (place, text) in [(NAME, name), (PATH, path)] {
            put(&mut entry, place, start + strings.len())?;
            strings.extend([text, b"\0"].concat());
        }
        limited.extend(entry);
    }
    put(&mut limited, LENGTH, strings.len())?;
    limited.extend(strings);
    Some(limited)
}

/// The word at `at`, in the byte order of this machine, as the loader reads it.
fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_ne_bytes(*word)).ok()
}

fn put(bytes: &mut [u8], at: usize, value: usize) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = u32::try_from(value).ok()?.to_ne_bytes();
    Some(())
}

/// The string at `at`, without its end.
fn string(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    rest.get(..rest.iter().position(|byte| *byte == 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_caches_own_program_reads_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (all, some) = (std::fs::read(PLACE).unwrap(), folder.path().join("some"));
        let is_kept = |path: &Path| path.starts_with("/lib") && path.to_string_lossy().contains("/libc.so");
        let limited = limited(&all, is_kept).unwrap();
        std::fs::write(&some, &limited).unwrap();
        let listed = |cache: &Path| {
            let output = Command::new("/sbin/ldconfig").arg("-p").arg("-C").arg(cache).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().filter(|line| line.contains("=>")).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut expected = listed(Path::new(PLACE));
        expected.retain(|line| is_kept(Path::new(line.rsplit(' ').next().unwrap())));
        assert!(!expected.is_empty());
        assert_eq!(listed(&some), expected);
        assert_eq!(super::limited(&limited, is_kept).unwrap(), limited, "what has nothing else stays");
        assert_eq!(super::limited(b"ld.so-1.7.0", is_kept), None, "another format");
        assert_eq!(super::limited(&all[..100], is_kept), None, "cut");
    }
}
