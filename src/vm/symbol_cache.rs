//! The functions of kernels that ran in guests. Reading them in an emulated guest and sending them takes longer than a
//! window, and they are the same in every guest of a kernel, whose addresses are fixed (`nokaslr`).

use crate::util::{atomic_file, regular};
use crate::vm::GuestOptions;
use crate::vm::image::LARGEST_IMAGE;
use crate::vm::snapshots::digest;
use crate::vm::store::{KernelCache, keep_newest, used_now};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;

/// Number of lists to keep, of about 3 MiB each.
const MOST: usize = 32;

/// The longest list, bytes.
const LONGEST: u64 = 256 << 20;

/// The place of one kernel's list.
#[derive(Debug, Clone)]
pub struct SymbolCache {
    path: PathBuf,
}

impl SymbolCache {
    /// The place for the kernel of a guest; `None` if its addresses may change.
    pub fn of(options: &GuestOptions) -> Result<Option<Self>> {
        if options.append.iter().flat_map(|text| text.split_whitespace()).any(|word| word == "kaslr") {
            return Ok(None);
        }
        let image = &options.kernel.image;
        let image = regular::read(image, LARGEST_IMAGE).with_context(|| format!("cannot read {}", image.display()))?;
        let name = format!("{}-{:016x}", options.kernel.release, digest(&image));
        Ok(Some(Self { path: KernelCache::open()?.root().join("symbols").join(name) }))
    }

    /// The list, in the format of /proc/kallsyms; `None` if it is missing or damaged.
    pub fn read(&self) -> Option<String> {
        let text = regular::read_text(&self.path, LONGEST).ok()?;
        let (first, list) = text.split_once('\n')?;
        if first != header(list) {
            return None;
        }
        used_now(&self.path);
        Some(list.to_owned())
    }

    /// Store the list.
    pub fn write(&self, list: &str) -> Result<()> {
        let folder = self.path.parent().context("a file has a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        atomic_file::write(&self.path, format!("{}\n{list}", header(list)).as_bytes())?;
        // If some remain, the next write tries again.
        let _ = keep_newest(folder, MOST);
        Ok(())
    }
}

/// Remove all lists.
pub fn remove_all() -> Result<()> {
    let folder = KernelCache::open()?.root().join("symbols");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The first line of the file, a comment for readers of such lists.
fn header(list: &str) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(list.as_bytes());
    format!("# {} bytes, CRC-32 {:08x}", list.len(), crc.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = SymbolCache { path: folder.path().join("symbols/6.1-0") };
        assert_eq!(cache.read(), None);
        let list = "ffffffff81000000 T _text\nffffffff81000010 t x";
        cache.write(list).unwrap();
        assert_eq!(cache.read().as_deref(), Some(list));
        let damaged = fs::read_to_string(&cache.path).unwrap().replace("10 t x", "20 t x");
        fs::write(&cache.path, damaged).unwrap();
        assert_eq!(cache.read(), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_of_a_list_is_read(list in "(.|\n)*") {
            let folder = tempfile::tempdir().unwrap();
            let cache = SymbolCache { path: folder.path().join("symbols/6.1-0") };
            cache.write(&list).unwrap();
            proptest::prop_assert_eq!(cache.read(), Some(list));
        }
    }
}
