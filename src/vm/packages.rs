//! Read a Debian mirror's index for its kernels.

use crate::vm::version;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::BufRead;

/// A kernel on the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// The Debian version.
    pub version: String,
    /// Its `uname -r`, flavour included.
    pub release: String,
}

/// How the paragraph of a kernel begins.
const KERNEL_PACKAGE: &[u8] = b"Package: linux-";

/// Keep the name, version and size of packages whose names begin with `linux-`, from the output of `apt-cache
/// dumpavail`.
pub fn kernel_paragraphs(reader: impl BufRead) -> Result<Vec<u8>> {
    let mut kept = Vec::new();
    let mut inside = false;
    for line in reader.split(b'\n') {
        let line = line.context("apt-cache")?;
        if line.starts_with(b"Package: ") {
            // A paragraph may end without an empty line.
            if inside {
                kept.push(b'\n');
            }
            inside = line.starts_with(KERNEL_PACKAGE);
        }
        let wanted = ["Package: ", "Version: ", "Size: "].iter().any(|field| line.starts_with(field.as_bytes()));
        if inside && (wanted || line.is_empty()) {
            kept.extend_from_slice(&line);
            kept.push(b'\n');
        }
        inside &= !line.is_empty();
    }
    Ok(kept)
}

/// The kernels of `flavour` in an index, newest first, one per release.
pub fn parse_packages(index: &[u8], flavour: &str) -> Vec<Package> {
    let mut packages: Vec<Package> = Vec::new();
    let (mut name, mut found, mut size) = (None, None, 0_u64);
    for line in index.split(|byte| *byte == b'\n').chain([&[][..]]) {
        let field =
            |field: &[u8]| line.strip_prefix(field).map(|v| String::from_utf8_lossy(v.trim_ascii()).into_owned());
        let begins = field(b"Package: ");
        // A paragraph may end without an empty line.
        if line.is_empty() || begins.is_some() {
            if let (Some((name, release)), Some(version)) = (name.take(), found.take())
                && size >= SMALLEST_IMAGE
            {
                packages.push(Package { name, version, release });
            }
            (found, size) = (None, 0);
            let kernel = begins.filter(|_| line.starts_with(KERNEL_PACKAGE));
            name = kernel.and_then(|value| release_in(&value, flavour).map(|release| (value, release)));
        } else if name.is_some() {
            if let Some(value) = field(b"Version: ") {
                found = Some(value);
            } else if let Some(value) = field(b"Size: ") {
                size = value.parse().unwrap_or(0);
            }
        }
    }
    packages.sort_by(|left, right| {
        let unsigned = |package: &Package| package.name.contains("unsigned");
        version::compare(&right.version, &left.version)
            .then_with(|| left.release.cmp(&right.release))
            .then_with(|| unsigned(left).cmp(&unsigned(right)))
    });
    packages.dedup_by(|later, earlier| later.release == earlier.release);
    packages
}

/// The sources in an index: names and versions of packages linux-source-SERIES, newest first.
pub(crate) fn parse_sources(index: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(index);
    let mut name = None;
    let mut sources: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(package) = line.strip_prefix("Package: ") {
            let series = package.trim().strip_prefix("linux-source-");
            let is_source = series.is_some_and(|series| series.chars().all(|c| c.is_ascii_digit() || c == '.'));
            name = is_source.then(|| package.trim().to_owned());
        } else if let Some(version) = line.strip_prefix("Version: ")
            && let Some(name) = name.take()
        {
            sources.push((name, version.trim().to_owned()));
        }
    }
    sources.sort_by(|left, right| version::compare(&right.1, &left.1));
    sources.dedup();
    sources
}

/// The source of exactly this version, or the newest of this series.
pub(crate) fn matching_source<'a>(sources: &'a [(String, String)], wish: &str) -> Option<&'a (String, String)> {
    let exact = sources.iter().find(|source| source.1 == wish);
    exact.or_else(|| sources.iter().find(|source| version::in_series(&source.1, wish)))
}

/// Smaller packages are meta-packages without an image.
const SMALLEST_IMAGE: u64 = 4 << 20;

/// The release in a kernel package's name, if it is of this flavour.
fn release_in(package: &str, flavour: &str) -> Option<String> {
    let rest = package.strip_suffix("-unsigned").unwrap_or(package);
    let prefixes = ["linux-image-", "linux-binary-unsigned-", "linux-binary-"];
    let release = prefixes.iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let bare = release.strip_suffix(flavour)?.strip_suffix('-')?;
    let other_flavour = ["-cloud", "-rt", "-16k", "-64k", "-debug"].iter().any(|other| bare.ends_with(other));
    (bare.starts_with(|c: char| c.is_ascii_digit()) && !other_flavour).then(|| release.to_owned())
}

/// The packages of a series, newest first; or the one package with this release or name.
pub fn matching<'a>(packages: &'a [Package], wish: &str) -> Vec<&'a Package> {
    match packages.iter().find(|package| package.release == wish || package.name == wish) {
        Some(exact) => vec![exact],
        None => packages.iter().filter(|package| version::in_series(&package.version, wish)).collect(),
    }
}

/// The error for a series that the mirror does not have; it lists those that it has.
pub fn gone(packages: &[Package], wish: &str, flavour: &str, troubles: &[String]) -> String {
    let mut series: BTreeMap<String, (&Package, usize)> = BTreeMap::new();
    for package in packages {
        series.entry(version::series_of(&package.version)).or_insert((package, 0)).1 += 1;
    }
    let mut there: Vec<(&String, &(&Package, usize))> = series.iter().collect();
    there.sort_by(|left, right| version::compare(left.0, right.0));
    let there: Vec<String> =
        there.iter().map(|(series, (package, _))| format!("{series} ({})", package.version)).collect();
    let there = if there.is_empty() { "no kernels".to_owned() } else { there.join(", ") };
    let troubles = if troubles.is_empty() { String::new() } else { format!("; apt reported: {}", troubles.join("; ")) };
    format!("the mirror has no {flavour} kernel of series {wish}; it has {there}{troubles}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_package_names() {
        let cloud = |name| release_in(name, "cloud-amd64");
        assert_eq!(cloud("linux-image-6.1.0-56-cloud-amd64-unsigned").as_deref(), Some("6.1.0-56-cloud-amd64"));
        assert_eq!(cloud("linux-binary-7.2.13+deb14-cloud-amd64").as_deref(), Some("7.2.13+deb14-cloud-amd64"));
        assert_eq!(cloud("linux-binary-unsigned-7.3-cloud-amd64").as_deref(), Some("7.3-cloud-amd64"));
        assert_eq!(cloud("linux-image-6.1.0-56-cloud-amd64-dbg"), None);
        assert_eq!(cloud("linux-image-cloud-amd64"), None);
        assert_eq!(cloud("linux-image-6.1.0-56-amd64"), None);
        assert_eq!(release_in("linux-image-6.1.0-56-amd64", "amd64").as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(release_in("linux-image-6.1.0-56-cloud-amd64", "amd64"), None);
        assert_eq!(release_in("linux-image-6.1.0-56-rt-amd64", "amd64"), None);
    }

    fn best<'a>(packages: &'a [Package], wish: &str) -> Option<&'a Package> {
        matching(packages, wish).first().copied()
    }

    const DUMP: &str = "Package: linux-image-6.1-cloud-amd64\nVersion: 6.1.180-1~deb11u1\nSize: 1524\n\n\
        Package: linux-image-6.1.0-50-cloud-amd64\nVersion: 6.1.176-1\nSize: 26484304\n\n\
        Package: hello\nVersion: 9\nSize: 99999999\n\n\
        Package: linux-image-6.1.0-56-cloud-amd64-unsigned\nVersion: 6.1.192-2\nSize: 26714428\n\n\
        Package: linux-image-6.1.0-56-cloud-amd64\nVersion: 6.1.192-2\nSize: 26713492\n\n\
        Package: linux-image-6.12.117+deb13-cloud-amd64\nVersion: 6.12.117-1\nSize: 34671208\n";

    #[test]
    fn the_newest_of_a_series_is_taken_and_a_missing_one_said() {
        let packages = parse_packages(&kernel_paragraphs(DUMP.as_bytes()).unwrap(), "cloud-amd64");
        assert_eq!(packages.len(), 3);
        assert_eq!(
            best(&packages, "6.1").map(|package| package.name.as_str()),
            Some("linux-image-6.1.0-56-cloud-amd64")
        );
        assert_eq!(best(&packages, "6.1.0-50-cloud-amd64").map(|package| package.version.as_str()), Some("6.1.176-1"));
        assert_eq!(best(&packages, "5.10"), None);
        assert_eq!(
            gone(&packages, "5.10", "cloud-amd64", &[]),
            "the mirror has no cloud-amd64 kernel of series 5.10; it has 6.1 (6.1.192-2), 6.12 (6.12.117-1)"
        );
    }

    #[test]
    fn sources_are_found_by_series_and_version() {
        let dump = "Package: linux-source\nVersion: 7.2.13-1\n\nPackage: linux-source-6.12\nVersion: 6.12.117-1~deb12u1\n\n\
            Package: linux-source-6.12\nVersion: 6.12.117-1\n\nPackage: linux-source-7.2\nVersion: 7.2.13-1\n\n\
            Package: linux-source-6.12\nVersion: 6.12.95-1~bpo12+1\n\nPackage: linux-source-7.2-x\nVersion: 9\n";
        let sources = parse_sources(&kernel_paragraphs(dump.as_bytes()).unwrap());
        assert_eq!(sources.len(), 4, "{sources:?}");
        let found = |wish: &str| matching_source(&sources, wish).map(|source| source.1.as_str());
        assert_eq!((found("6.12"), found("7.2")), (Some("6.12.117-1"), Some("7.2.13-1")));
        assert_eq!(found("6.12.117-1~deb12u1"), Some("6.12.117-1~deb12u1"));
        assert_eq!((found("6.12.95"), found("6.1")), (Some("6.12.95-1~bpo12+1"), None));
    }

    #[test]
    fn fields_belong_to_the_package_before_them() {
        let dump = "Package: linux-image-6.1.0-56-cloud-amd64\nPackage: hello\nVersion: 9\nSize: 99999999\n";
        assert_eq!(parse_packages(dump.as_bytes(), "cloud-amd64"), []);
        let dump = "Package: linux-image-6.1.0-56-cloud-amd64\nVersion: 6.1.192-2\nSize: 26713492\nPackage: hello\n\n";
        let packages = parse_packages(dump.as_bytes(), "cloud-amd64");
        assert_eq!(packages.len(), 1);
        assert_eq!(parse_packages(&kernel_paragraphs(dump.as_bytes()).unwrap(), "cloud-amd64"), packages);
        let dump = "Package:  linux-image-6.1.0-56-cloud-amd64\nVersion: 9\nSize: 99999999\n";
        assert_eq!(parse_packages(dump.as_bytes(), "cloud-amd64"), []);
    }
}
