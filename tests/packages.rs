//! What packages of pipeprof contain besides the program: completions that shells execute, manual pages without
//! warnings, and a crate that is complete and small. `make dist-test` installs and removes the packages.

use crate::common::pipeprof;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest line of a page on a terminal of 80 columns, apart from command lines, which are not wrapped.
const COLUMNS: usize = 80;

/// More than the crate has today, much less than with the gallery or the corpora.
const MOST_BYTES: u64 = 6 << 20;

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    assert_eq!(errors, "", "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The completions for `shell` in a file of `folder`.
fn completions(shell: &str, folder: &Path) -> PathBuf {
    let file = folder.join(shell);
    std::fs::write(&file, output(&mut pipeprof(&["completions", shell]))).unwrap();
    file
}

#[test]
#[ignore = "runs bash, zsh and fish: make test"]
fn shells_complete_modes_and_subcommands() {
    let folder = tempfile::tempdir().unwrap();
    let modes = ["splice", "vmsplice", "vmsplice-huge", "vmsplice-huge-busy", "write"];

    let bash = completions("bash", folder.path());
    let complete = |words: &str, before: &str| {
        let script = format!(
            "source '{}'; COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _pipeprof pipeprof '' {before}; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            bash.display()
        );
        let printed = output(Command::new("bash").args(["--norc", "--noprofile", "-c", &script]));
        let mut words: Vec<String> = printed.lines().map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(complete("pipeprof run --mode", "--mode"), modes);
    assert!(complete("pipeprof kernel", "kernel").contains(&"fetch".to_owned()));
    let subcommands = complete("pipeprof", "pipeprof");
    assert!(subcommands.contains(&"doctor".to_owned()), "{subcommands:?}");
    assert!(!subcommands.iter().any(|word| word.starts_with("__")), "{subcommands:?}");

    let fish = completions("fish", folder.path());
    let script = format!("source '{}'; complete -C 'pipeprof run --mode '", fish.display());
    let printed = output(Command::new("fish").args(["--no-config", "-c", &script]).env("HOME", folder.path()));
    assert_eq!(printed.lines().collect::<Vec<_>>(), modes);

    let zsh = completions("zsh", folder.path());
    std::fs::rename(&zsh, folder.path().join("_pipeprof")).unwrap();
    let script = format!(
        "fpath=('{}' $fpath); autoload -Uz compinit; compinit -D -u; print $_comps[pipeprof]; autoload +X _pipeprof",
        folder.path().display()
    );
    assert_eq!(output(Command::new("zsh").args(["-f", "-c", &script])), "_pipeprof\n");
}

#[test]
#[ignore = "runs man: make test"]
fn manual_pages_have_no_warnings_and_fit_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    output(pipeprof(&["man", "-o"]).arg(folder.path()));
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    assert!(pages.len() > 12, "{pages:?}");
    for page in pages {
        let mut man = Command::new("man");
        man.args(["--warnings", "--encoding=UTF-8", "-l"]).arg(&page);
        let text =
            output(man.env("MANWIDTH", COLUMNS.to_string()).env("LC_ALL", "C.UTF-8").env("MAN_KEEP_FORMATTING", ""));
        let long =
            text.lines().find(|line| line.chars().count() > COLUMNS && !line.starts_with("           pipeprof "));
        assert_eq!(long, None, "{}", page.display());
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
            assert!(text.lines().any(|line| line == section), "{}: {section}", page.display());
        }
        assert!(text.contains("User Commands"), "{}: the header is wrong", page.display());
    }
}

#[test]
fn an_unknown_page_or_shell_is_a_usage_error() {
    for arguments in
        [&["man", "nothing"][..], &["man", "__engine"], &["completions", "tcsh"], &["man", "run", "-o", "x"]]
    {
        assert_eq!(pipeprof(arguments).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_crate_has_all_that_its_build_needs_and_nothing_large() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cargo = Command::new(env!("CARGO"));
    let listed = cargo.args(["package", "--list", "--allow-dirty", "--offline"]).current_dir(root).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<&str> = listed.lines().collect();
    // The configuration links the program statically.
    for file in [".cargo/config.toml", "build.rs", "Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE", "bpf/LICENSE-GPL-2.0"]
    {
        assert!(files.contains(&file), "{file} is missing");
    }
    for folder in ["bpf", "build", "src"] {
        needed(root, &root.join(folder), &files);
    }
    assert!(!files.iter().any(|file| file.starts_with("flamegraphs/") || file.starts_with("fuzz/")));
    let size = |file: &&&str| root.join(file).metadata().map_or(0, |metadata| metadata.len());
    let large: Vec<_> = files.iter().filter(|file| size(file) > 200 << 10).collect();
    assert!(large.is_empty(), "{large:?}");
    let total: u64 = files.iter().map(|file| size(&file)).sum();
    assert!(total < MOST_BYTES, "{total}");
}

/// Check that all files in `folder` are among `files`.
fn needed(root: &Path, folder: &Path, files: &[&str]) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            needed(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            assert!(files.contains(&name), "{name} is missing");
        }
    }
}
