//! What kernels may be called, in this program and in files of others: names become parts of paths, and `--kernel` chooses
//! by them what is booted.

use super::version;
use anyhow::{Result, ensure};

/// The longest name, characters: as `uname -r` (include/uapi/linux/utsname.h).
const LONGEST: usize = 64;

fn is_plain(text: &str, more: &str) -> bool {
    text.len() <= LONGEST && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-_.~".contains(c) || more.contains(c))
}

/// Check a name that users or bundles give to a kernel that was built. It is neither a release, a series nor a path.
pub(crate) fn check_name(name: &str) -> Result<()> {
    ensure!(
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && is_plain(name, ""),
        "name '{name}': give at most {LONGEST} letters, digits and -_.+~, and begin with a letter"
    );
    Ok(())
}

/// Check a release, which is also the name of a folder: `6.12.117+deb13-cloud-amd64`. The kernel's own have three numbers;
/// one that is a series would be meant by its name, instead of the newest kernel of the series.
pub(crate) fn check_release(release: &str) -> Result<()> {
    ensure!(
        release.starts_with(|c: char| c.is_ascii_digit()) && is_plain(release, ""),
        "release {release:?}: it is not at most {LONGEST} letters, digits and -_.+~ that begin with a digit"
    );
    ensure!(version::series_of(release) != release, "release {release}: it is the name of a series");
    Ok(())
}

/// Check a version of a kernel with this release: Debian's of the package, or that in the tree's Makefile. A series means
/// it, so it is of the release's series.
pub(crate) fn check_version(version: &str, release: &str) -> Result<()> {
    ensure!(is_plain(version, ":"), "version {version:?}: it is not at most {LONGEST} letters, digits and -_.+~:");
    let (stated, own) = (version::series_of(version), version::series_of(release));
    ensure!(stated == own, "version {version}: it is of the series {stated}, and Linux {release} is of {own}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_neither_series_nor_paths() {
        assert!(check_name("lru-off").is_ok() && check_name("v6.12-gcc14").is_ok());
        for wrong in ["6.12", "a/b", "", "-x", "a b", "..", "../../x", "\u{1b}[8mx", "a\n", "ä", &"a".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn releases_and_versions_are_of_one_series() {
        for (release, version) in [
            ("5.10.0-36-amd64", "5.10.262-1"),
            ("6.12.117+deb13-cloud-amd64", "6.12.117-1"),
            ("6.12.9-build-01234567", "6.12.9"),
            ("6.18.44-fc-v669", "6.18.44-fc-v669"),
            ("7.3-rc5-cloud-amd64", "7.3~rc5-1~exp1"),
        ] {
            check_release(release).unwrap();
            check_version(version, release).unwrap();
        }
        for release in ["", "x", ".6", "6", "6.12", "6/../..", "6.1 x", "6.1\u{1b}", &format!("6{}", "0".repeat(64))] {
            assert!(check_release(release).is_err(), "{release}");
        }
        for version in ["6.12", "6.12.1-1", "99:6.12.1", "6.10", "", "6.1/x", "6.1\u{1b}[8m", "6.1\n"] {
            assert!(check_version(version, "6.1.192-1").is_err(), "{version}");
        }
        assert!(check_version("1:6.1.2-1", "6.1.192-1").is_ok());
    }
}
