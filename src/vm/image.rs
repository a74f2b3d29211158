//! Kernel images, and what a bzImage's header says.

use crate::arch::Processor;
use crate::util::regular;
use crate::vm::deb;
use anyhow::{Context, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest image or configuration of a kernel, bytes: images have some 10 MiB.
pub(super) const LARGEST_IMAGE: u64 = 1 << 30;

/// A kernel that can be booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The bzImage, or for arm64 the Image.
    pub image: PathBuf,
    pub processor: Processor,
    /// The release in the image's header, which `uname -r` prints in the guest.
    pub release: String,
    /// The build configuration, if its file was found.
    pub config: Option<PathBuf>,
}

/// The configuration file near an image: in the cache, in /boot, or at the top of a kernel tree.
pub fn config_beside(image: &Path, release: &str) -> Option<PathBuf> {
    let folder = image.parent()?;
    let tree = folder.ancestors().nth(3).map(|top| top.join(".config"));
    [Some(folder.join("config")), Some(folder.join(format!("config-{release}"))), tree]
        .into_iter()
        .flatten()
        .find(|path| path.is_file())
}

/// Why a file is not an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoImage {
    #[error("this is an uncompressed kernel (ELF): give arch/x86/boot/bzImage of the same build")]
    Elf,
    #[error("this is a Debian package: rename it so that it ends in .deb")]
    Deb,
    #[error("neither a bzImage nor an arm64 Image: the boot header is missing; give one of these, or a .deb")]
    NoHeader,
    #[error("the file is truncated: its header gives a larger size")]
    Short,
    #[error("the image's header does not contain the kernel release")]
    NoRelease,
}

/// The release of the image at `path`, and its processor.
pub fn release_of(path: &Path) -> Result<(String, Processor)> {
    let mut file = regular::open(path).with_context(|| format!("cannot open kernel {}", path.display()))?;
    let length = file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    // The version string is in the setup code, which has at most 64 sectors of 512 bytes.
    let mut head = Vec::new();
    (&mut file).take(65 * 512).read_to_end(&mut head).with_context(|| format!("cannot read {}", path.display()))?;
    if arm64_image(&head) || head.starts_with(GZIP) {
        let mut image = head;
        file.take(LARGEST_IMAGE).read_to_end(&mut image).with_context(|| format!("cannot read {}", path.display()))?;
        if image.starts_with(GZIP) {
            let mut whole = Vec::new();
            let unpacked = flate2::read::MultiGzDecoder::new(&image[..]).take(LARGEST_IMAGE).read_to_end(&mut whole);
            unpacked.with_context(|| format!("cannot unpack {}", path.display()))?;
            image = whole;
        }
        return Ok((parse_arm64(&image)?, Processor::Aarch64));
    }
    Ok((parse(&head, length)?, Processor::X86_64))
}

const GZIP: &[u8] = b"\x1f\x8b";

/// Whether this is how an Image begins: Documentation/arch/arm64/booting.rst.
fn arm64_image(head: &[u8]) -> bool {
    head.get(0x38..0x3c) == Some(b"ARM\x64")
}

/// The release of an arm64 Image, which is not compressed: it is in the kernel's banner (init/version.c).
fn parse_arm64(image: &[u8]) -> Result<String, NoImage> {
    const BANNER: &[u8] = b"Linux version ";
    if !arm64_image(image) {
        return Err(NoImage::NoHeader);
    }
    let banners = image.windows(BANNER.len()).enumerate().filter(|(_, window)| *window == BANNER);
    // A format of the same beginning has no release.
    banners.filter_map(|(at, _)| release_at(image, at + BANNER.len())).next().ok_or(NoImage::NoRelease)
}

/// The release in the text at this place.
fn release_at(image: &[u8], at: usize) -> Option<String> {
    let text = image.get(at..)?;
    let end = text.iter().position(|byte| matches!(byte, 0 | b' ' | b'\n'))?;
    let release = std::str::from_utf8(text.get(..end)?).ok()?;
    let plain = release.starts_with(|c: char| c.is_ascii_digit())
        // It becomes part of file names.
        && release.chars().all(|c| c.is_ascii_graphic() && c != '/');
    plain.then(|| release.to_owned())
}

/// Parse the release of a bzImage whose first bytes are `head` and whose size is `length`. The offsets are from
/// Documentation/arch/x86/boot.rst.
pub fn parse(head: &[u8], length: u64) -> Result<String, NoImage> {
    if head.starts_with(b"\x7fELF") {
        return Err(NoImage::Elf);
    }
    if head.starts_with(b"!<arch>\n") {
        return Err(NoImage::Deb);
    }
    let word = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    if word(0x1fe) != Some(0xaa55) || head.get(0x202..0x206) != Some(b"HdrS") {
        return Err(NoImage::NoHeader);
    }
    let setup = match head.get(0x1f1).copied() {
        None | Some(0) => 4,
        Some(sectors) => u64::from(sectors),
    };
    let protected = u64::from(long(0x1f4).unwrap_or(0)) * 16;
    if (setup + 1) * 512 + protected > length {
        return Err(NoImage::Short);
    }
    let at = usize::from(word(0x20e).unwrap_or(0)) + 0x200;
    release_at(head, at).filter(|_| at > 0x200).ok_or(NoImage::NoRelease)
}

/// Extract the kernel from the package at `path`; see [`deb::unpack`].
pub(crate) fn from_deb(path: &Path, into: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
    let found = deb::unpack(path, into)?;
    let image = found
        .image
        .with_context(|| format!("{}: the package contains no kernel image (boot/vmlinuz-*)", path.display()))?;
    Ok((image, found.config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(release: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 0x400];
        head[0x1f1] = 1;
        head[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        head[0x202..0x206].copy_from_slice(b"HdrS");
        head[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        head[0x300..0x300 + release.len()].copy_from_slice(release);
        head
    }

    #[test]
    fn an_image_names_its_release() {
        let head = header(b"6.12.1-test (someone@somewhere) #1 SMP\0");
        assert_eq!(parse(&head, 0x400), Ok("6.12.1-test".to_owned()));
        assert_eq!(parse(&head, 0x3ff), Err(NoImage::Short));
        assert_eq!(parse(&header(b""), 0x400), Err(NoImage::NoRelease));
        assert_eq!(parse(&header(b"6.1/../../x\0"), 0x400), Err(NoImage::NoRelease));
    }

    #[test]
    fn an_image_of_arm64_names_its_release_in_its_banner() {
        let mut image = vec![0; 0x1000];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert_eq!(parse_arm64(&image), Err(NoImage::NoRelease));
        for (at, text) in [(0x100, &b"Linux version %s (%s)\0"[..]), (0x200, b"Linux version 6.12.1-arm64 (x@y) #1\0")]
        {
            image[at..at + text.len()].copy_from_slice(text);
        }
        assert_eq!(parse_arm64(&image), Ok("6.12.1-arm64".to_owned()));
        let folder = tempfile::tempdir().unwrap();
        let (plain, packed) = (folder.path().join("Image"), folder.path().join("Image.gz"));
        std::fs::write(&plain, &image).unwrap();
        let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &image).unwrap();
        std::fs::write(&packed, encoder.finish().unwrap()).unwrap();
        for path in [plain, packed] {
            assert_eq!(release_of(&path).unwrap(), ("6.12.1-arm64".to_owned(), Processor::Aarch64));
        }
    }

    #[test]
    fn what_is_no_image_is_said() {
        assert_eq!(parse(b"\x7fELF", 4), Err(NoImage::Elf));
        assert_eq!(parse(b"!<arch>\n", 8), Err(NoImage::Deb));
        assert_eq!(parse(b"", 0), Err(NoImage::NoHeader));
        assert_eq!(parse(&[0; 4096], 4096), Err(NoImage::NoHeader));
    }
}
