//! Several kernels in one file, for machines without a network: a tar archive with a folder per release, as in the cache
//! ([`super::store`]).

use super::image::{self, Kernel};
use super::kernel_name::check_release;
use super::store::{CachedKernel, KernelCache, LONGEST_DESCRIPTION};
use crate::util::{progress, regular};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

const IMAGE: &str = "vmlinuz";
const CONFIG: &str = "config";
const ABOUT: &str = "kernel.json";

/// The largest file in a bundle, bytes: images have some 10 MiB.
const LARGEST: u64 = 1 << 30;

/// Most files in a bundle: three for each of some thousand kernels.
const MOST: usize = 10_000;

/// Write `kernels`, each with its version and its origin, as a tar archive. Equal kernels make equal archives.
pub fn write(kernels: &[CachedKernel], to: impl Write) -> Result<()> {
    let mut archive = tar::Builder::new(to);
    for cached in kernels {
        let Kernel { image, config, release, .. } = cached.kernel();
        put(&mut archive, &release, ABOUT, cached.text()?.as_bytes())?;
        for (name, path) in [(CONFIG, config), (IMAGE, Some(image))] {
            let Some(path) = path else { continue };
            let bytes = regular::read(&path, LARGEST).with_context(|| format!("cannot read {}", path.display()))?;
            put(&mut archive, &release, name, &bytes)?;
        }
    }
    archive.into_inner().and_then(|mut to| to.flush()).context("cannot write the bundle")
}

fn put(archive: &mut tar::Builder<impl Write>, release: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive
        .append_data(&mut header, format!("{release}/{name}"), bytes)
        .with_context(|| format!("cannot write {release}/{name} into the bundle"))
}

/// Whether the file at `path` is a tar archive: tar(5), the magic at byte 257.
pub fn is_bundle(path: &Path) -> bool {
    let mut head = [0; 262];
    regular::open(path).is_ok_and(|mut file| file.read_exact(&mut head).is_ok() && head.ends_with(b"ustar"))
}

/// Add the kernels of the bundle at `path` to the cache. Kernels before the fault are added.
pub fn add(cache: &KernelCache, path: &Path) -> Result<Vec<CachedKernel>> {
    let shown = path.display();
    let aside = tempfile::Builder::new()
        .prefix(crate::util::atomic_file::PREFIX)
        .tempdir()
        .context("cannot make a temporary folder: set TMPDIR to a folder with room")?;
    let folders = unpack(path, aside.path()).with_context(|| format!("{shown}: not a bundle of kernels"))?;
    ensure!(!folders.is_empty(), "{shown}: contains no kernels: make it with `pipeprof kernel bundle`");
    let mut added = Vec::new();
    for (release, folder) in folders {
        let about = regular::read(&folder.join(ABOUT), LONGEST_DESCRIPTION).map_err(anyhow::Error::from);
        let about = about.and_then(|bytes| CachedKernel::parse_bundled(&bytes, &release));
        let CachedKernel { version, origin, mut build, .. } =
            about.with_context(|| format!("{shown}: {release}/{ABOUT}"))?;
        let (image, config) = (folder.join(IMAGE), folder.join(CONFIG));
        let (own, _) = image::release_of(&image).with_context(|| format!("{shown}: {release}/{IMAGE}"))?;
        ensure!(own == release, "{shown}: the folder {release} contains Linux {own:?}");
        if let Some(build) = &mut build {
            build.from_bundle = true;
            let holder = build.name.as_deref().map(|name| cache.release_named(name)).transpose()?.flatten();
            if let Some(holder) = holder.filter(|holder| *holder != release) {
                // A bundle does not decide what is booted by a name that is known here.
                let name = build.name.take().unwrap_or_default();
                progress::note(&format!("{release} is added without its name {name}, which is that of {holder} here"));
            }
        }
        added.push(cache.add(&image, &origin, Some(&version), Some(&config), build)?);
    }
    Ok(added)
}

/// Unpack into `to`. The folder of each release, by name.
fn unpack(path: &Path, to: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let file = regular::open(path).context("cannot open it")?;
    let mut folders = BTreeMap::new();
    for (number, entry) in tar::Archive::new(file).entries()?.enumerate() {
        crate::util::cancel::check()?;
        ensure!(number < MOST, "it contains more than {MOST} files");
        let entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let (release, file) = name.split_once('/').with_context(|| format!("{name:?} is outside of a folder"))?;
        // The only names that are written, so that none leads elsewhere.
        let is_plain = check_release(release).is_ok() && [IMAGE, CONFIG, ABOUT].contains(&file);
        if !is_plain || !entry.header().entry_type().is_file() || entry.size() > LARGEST {
            bail!("{name:?} does not belong into one");
        }
        let folder = to.join(release);
        std::fs::create_dir_all(&folder)?;
        let twice = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => anyhow!("it contains {name} twice"),
            _ => error.into(),
        };
        let mut copy = File::create_new(folder.join(file)).map_err(twice)?;
        std::io::copy(&mut entry.take(LARGEST), &mut copy)?;
        folders.insert(release.to_owned(), folder);
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::compile::KernelOrigin;
    use crate::vm::store::BuildRecord;

    fn archive(files: &[(&str, &[u8])]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut archive = tar::Builder::new(File::create(file.path()).unwrap());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            // As a hostile archive would: tar's own function refuses such names.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, *bytes).unwrap();
        }
        archive.finish().unwrap();
        file
    }

    #[test]
    fn only_files_of_kernels_are_unpacked() {
        let to = tempfile::tempdir().unwrap();
        let good = archive(&[("6.1.2/vmlinuz", b"x"), ("6.1.2/config", b"y"), ("6.12.0/vmlinuz", b"z")]);
        assert!(is_bundle(good.path()));
        let folders = unpack(good.path(), to.path()).unwrap();
        assert_eq!(folders.keys().collect::<Vec<_>>(), ["6.1.2", "6.12.0"]);
        assert_eq!(std::fs::read(to.path().join("6.12.0/vmlinuz")).unwrap(), b"z");
        for name in [
            "../vmlinuz",
            "/etc/vmlinuz",
            "6.1.2/../../x",
            "6.1.2/other",
            "vmlinuz",
            "a b/vmlinuz",
            "6.1/vmlinuz",
            "../x/config",
        ] {
            let to = tempfile::tempdir().unwrap();
            assert!(unpack(archive(&[(name, b"x")]).path(), &to.path().join("in")).is_err(), "{name}");
            assert!(!to.path().join("vmlinuz").exists());
        }
        // The same file twice.
        let twice = archive(&[("6.1.2/vmlinuz", b"x"), ("6.1.2/vmlinuz", b"y")]);
        let error = unpack(twice.path(), tempfile::tempdir().unwrap().path()).unwrap_err();
        assert_eq!(error.to_string(), "it contains 6.1.2/vmlinuz twice");
    }

    /// The begin of an image of this release: Documentation/arch/x86/boot.rst.
    fn image(release: &str) -> Vec<u8> {
        let mut head = vec![0; 0x400];
        head[0x1f1] = 1;
        head[0x1fe..0x206].copy_from_slice(b"\x55\xaa\x00\x00HdrS");
        head[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        head[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
        head
    }

    /// A bundle of Linux 6.1.2, built as `name` unless it is empty, said to be of this version.
    fn bundle(version: &str, name: &str) -> tempfile::NamedTempFile {
        let build =
            BuildRecord { name: Some(name.to_owned()), source_name: "/tree".to_owned(), ..BuildRecord::default() };
        let build = Some(build).filter(|_| !name.is_empty());
        let about = serde_json::json!({ "release": "6.1.2", "version": version, "origin": "/tree", "build": build });
        archive(&[("6.1.2/vmlinuz", &image("6.1.2")), ("6.1.2/kernel.json", about.to_string().as_bytes())])
    }

    #[test]
    fn a_bundle_does_not_decide_what_other_names_mean() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path());
        for (version, name) in [
            ("6.1.2", "6.12"),
            ("6.1.2", "../../x"),
            ("6.1.2", "a\u{1b}[8mb"),
            ("6.1.2", "a\u{202e}b"),
            ("6.1.2", "-x"),
            ("6.12.9", ""),
            ("6.1.2\u{1b}[8m", "mine"),
        ] {
            let error = add(&cache, bundle(version, name).path()).unwrap_err();
            assert!(format!("{error:#}").contains("6.1.2/kernel.json: "), "{error:#}");
            assert!(cache.is_empty().unwrap(), "{name} {version}");
        }
        // Others than names are only shown, and hide nothing either.
        for field in ["source", "compiler", "configuration", "digest"] {
            let mut build =
                serde_json::to_value(BuildRecord { name: Some("mine".into()), ..BuildRecord::default() }).unwrap();
            build[field] = "a\u{202e}b".into();
            let about = serde_json::json!({ "release": "6.1.2", "version": "6.1.2", "origin": "x", "build": build });
            let (image, about) = (image("6.1.2"), about.to_string());
            let bundle = archive(&[("6.1.2/vmlinuz", &image), ("6.1.2/kernel.json", about.as_bytes())]);
            let error = format!("{:#}", add(&cache, bundle.path()).unwrap_err());
            assert!(error.contains("6.1.2/kernel.json: it contains hidden characters"), "{error}");
        }
        // What an earlier version has added is not used, and is no empty cache.
        let old = folder.path().join("kernels/6.1.2");
        std::fs::create_dir_all(&old).unwrap();
        for (file, bytes) in unpack(bundle("6.1.2", "6.12").path(), folder.path().join("x").as_path()).unwrap() {
            assert_eq!(file, "6.1.2");
            for name in [IMAGE, ABOUT] {
                std::fs::copy(bytes.join(name), old.join(name)).unwrap();
            }
        }
        assert!(cache.find("6.12").unwrap().is_none() && cache.list().unwrap().is_empty());
        assert!(!cache.is_empty().unwrap());
        let why = cache.find("6.1.2").unwrap_err().to_string();
        assert!(why.contains("kernel.json: name '6.12'") && why.contains("kernel remove 6.1.2"), "{why}");
        std::fs::write(old.join(ABOUT), "{").unwrap();
        assert!(cache.find("6.1.2").unwrap_err().to_string().contains("kernel.json: EOF"));
        assert_eq!(cache.remove("6.1.2").unwrap(), ["6.1.2"]);
        assert!(cache.is_empty().unwrap());
        // A good one, and one that wants the name of a kernel that is here.
        assert_eq!(add(&cache, bundle("6.1.2", "mine").path()).unwrap()[0].name(), Some("mine"));
        let own = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(own.path(), image("6.1.9")).unwrap();
        let build = BuildRecord { name: Some("mine".to_owned()), ..BuildRecord::default() };
        cache.add(own.path(), "/tree", None, None, Some(build)).unwrap();
        let added = add(&cache, bundle("6.1.2", "mine").path()).unwrap();
        assert!(added[0].name().is_none() && added[0].build.as_ref().unwrap().from_bundle);
        assert_eq!(cache.find("mine").unwrap().unwrap().release, "6.1.9");
        // Its source is a path of another machine.
        let why = KernelOrigin::of(&cache, "6.1.2").unwrap_err().to_string();
        assert!(why.contains("came in a bundle"), "{why}");
    }

    #[test]
    fn other_files_are_no_bundles() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0; 4096]).unwrap();
        assert!(!is_bundle(file.path()) && !is_bundle(Path::new("/nonexistent")) && !is_bundle(Path::new("/dev/zero")));
    }
}
