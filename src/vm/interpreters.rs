//! What interpreters read when they start, besides libraries: modules in a folder of their own, which no file names.

use std::fs;
use std::path::{Path, PathBuf};

/// Parts of Python's library that programs do not import: tests, editors, and what installs or builds other packages. Modules that
/// do not come with Python are large, and programs name them.
const LEFT_OUT: [&str; 12] = [
    "test",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "pydoc_data",
    "distutils",
    "site-packages",
    "dist-packages",
    "LICENSE.txt",
    "EXTERNALLY-MANAGED",
];

/// The modules that come with the interpreter `program`; nothing for other programs. Python's are in a folder of its version (PEP
/// 3147 and `site`); of Perl's, those that Debian has in perl-base, which are enough for most scripts.
pub(super) fn modules(program: &Path) -> Vec<PathBuf> {
    let Ok(real) = program.canonicalize() else { return Vec::new() };
    let (Some(name), Some(prefix)) = (real.file_name().and_then(|name| name.to_str()), real.ancestors().nth(2)) else {
        return Vec::new();
    };
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    if name.strip_prefix("python3.").is_some_and(is_number) {
        return entries(&prefix.join("lib").join(name));
    }
    if name == "perl" || name.strip_prefix("perl5.").is_some() {
        let folders = entries(&prefix.join("lib"));
        return folders.into_iter().map(|folder| folder.join("perl-base")).filter(|folder| folder.is_dir()).collect();
    }
    Vec::new()
}

/// What is in a folder and is not left out.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // `config-3.11-x86_64-linux-gnu` has what a C program with Python in it is linked with.
        !LEFT_OUT.contains(&&*name) && !name.starts_with("config-")
    };
    all.filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_the_interpreters_real_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for part in
            ["bin", "lib/python3.99/json", "lib/python3.99/test", "lib/python3.99/config-3.99", "lib/any/perl-base"]
        {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        for program in ["python3.99", "perl", "python3.x"] {
            fs::write(root.join("bin").join(program), "").unwrap();
        }
        std::os::unix::fs::symlink("python3.99", root.join("bin/python3")).unwrap();
        let found = |name: &str| modules(&root.join("bin").join(name));
        assert_eq!(found("python3"), [root.join("lib/python3.99/json")]);
        assert_eq!(found("perl"), [root.join("lib/any/perl-base")]);
        assert!(found("python3.x").is_empty() && found("no-such-program").is_empty());
    }
}
