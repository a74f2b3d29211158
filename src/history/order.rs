//! The order of a series: by release, or as a list gives it, such as that of `git log`.

use super::HistoryKernel;
use crate::util::regular;
use crate::vm::version;
use anyhow::{Context as _, Result, bail};
use std::path::Path;

/// Abbreviations of a commit have at least so many digits (`git log --oneline`).
const LEAST_DIGITS: usize = 7;

/// Sort by release: 6.9 before 6.10, and 6.10-rc1 before 6.10.
pub(crate) fn by_release(kernels: &mut [HistoryKernel]) {
    let key = |kernel: &HistoryKernel| kernel.release.replacen("-rc", "~rc", 1);
    kernels.sort_by(|left, right| version::compare(&key(left), &key(right)).then_with(|| left.label.cmp(&right.label)));
}

/// Sort as the lines of `list` name them, oldest first: by label, by release, or by a commit that the release or the
/// label contains. The first word of a line counts, so that `git log --reverse --oneline` is a list.
pub(crate) fn by_list(kernels: &mut [HistoryKernel], list: &Path) -> Result<()> {
    /// The longest list that is read, bytes: all commits of Linux have 20 MB.
    const LONGEST: u64 = 1 << 28;
    let bytes = regular::read(list, LONGEST).with_context(|| format!("--order: cannot read {}", list.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut places = Vec::new();
    for kernel in kernels.iter() {
        let Some(place) = words.iter().position(|word| names(kernel, word)) else {
            bail!("--order {}: no line names the kernel {} ({})", list.display(), kernel.label, kernel.release);
        };
        places.push((kernel.sha256.clone(), kernel.label.clone(), place));
    }
    kernels.sort_by_key(|kernel| {
        let own = places.iter().find(|(sha256, label, _)| *sha256 == kernel.sha256 && *label == kernel.label);
        own.map_or(usize::MAX, |(.., place)| *place)
    });
    Ok(())
}

fn names(kernel: &HistoryKernel, word: &str) -> bool {
    if kernel.label == word || kernel.release == word {
        return true;
    }
    let is_commit = word.len() >= LEAST_DIGITS && word.chars().all(|c| c.is_ascii_hexdigit());
    // A release has 12 digits of its commit (scripts/setlocalversion), a list 7 to 40.
    let commits = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .map(|part| part.strip_prefix('g').unwrap_or(part))
            .filter(|part| part.len() >= LEAST_DIGITS)
            .any(|part| part.starts_with(word) || word.starts_with(part))
    };
    is_commit && (commits(&kernel.release) || commits(&kernel.label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(releases: &[&str]) -> Vec<HistoryKernel> {
        let kernel = |release: &&str| HistoryKernel {
            compiler: String::new(),
            label: (*release).to_owned(),
            release: (*release).to_owned(),
            sha256: (*release).to_owned(),
        };
        releases.iter().map(kernel).collect()
    }

    fn labels(kernels: &[HistoryKernel]) -> Vec<&str> {
        kernels.iter().map(|kernel| kernel.label.as_str()).collect()
    }

    #[test]
    fn releases_are_numbers() {
        let mut series = kernels(&["7.2.0", "6.12.117+deb13", "5.10.0-30", "6.1.0-56", "7.2.0-rc3", "6.9.1"]);
        by_release(&mut series);
        assert_eq!(labels(&series), ["5.10.0-30", "6.1.0-56", "6.9.1", "6.12.117+deb13", "7.2.0-rc3", "7.2.0"]);
    }

    #[test]
    fn commits_are_ordered_by_a_log() {
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), "1234567 first\nabcdef0123 pipe: second\n6.1 by name\n").unwrap();
        let mut series = kernels(&["6.1", "6.1.0-00012-gabcdef012345", "6.1.0-g1234567890ab"]);
        by_list(&mut series, list.path()).unwrap();
        assert_eq!(labels(&series), ["6.1.0-g1234567890ab", "6.1.0-00012-gabcdef012345", "6.1"]);
        let error = by_list(&mut kernels(&["6.2"]), list.path()).unwrap_err().to_string();
        assert!(error.contains("no line names the kernel 6.2"), "{error}");
        // Seven digits of a number are no commit of a release without one.
        assert!(!names(&kernels(&["6.1.0"])[0], "1234567"));
    }
}
