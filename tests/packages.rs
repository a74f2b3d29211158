//! What packages of pipeprof contain besides the program: completions that shells execute, and manual pages without
//! warnings. `make dist-test` installs and removes the packages.

use crate::common::pipeprof;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest line of a page on a terminal of 80 columns, apart from command lines, which are not wrapped.
const COLUMNS: usize = 80;

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
    let rings = ["io-uring", "io-uring-multishot", "io-uring-registered", "io-uring-splice", "io-uring-sqpoll"];
    let modes = [&rings[..], &["splice", "vmsplice", "vmsplice-huge", "vmsplice-huge-busy", "write"]].concat();

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
fn a_release_has_checksums_and_recipes_of_its_archives() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ["x86_64", "aarch64"].map(|of| format!("pipeprof-9.8.7-{of}-linux.tar.gz"));
    archives.iter().for_each(|name| std::fs::write(folder.path().join(name), name).unwrap());
    std::fs::write(folder.path().join("pipeprof_9.8.7-1_amd64.deb"), "").unwrap();
    let render = |version| {
        let mut render = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/build/packages/render"));
        render.args([version, "https://example.org/me/pipeprof/"]).arg(folder.path());
        render
    };
    output(&mut render("9.8.7"));
    let checked = output(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder.path()));
    assert_eq!(checked.lines().filter(|line| line.ends_with(": OK")).count(), 3, "{checked}");
    output(Command::new("tar").args(["-xzf", "pipeprof-flake.tar.gz"]).current_dir(folder.path()));
    let sums = std::fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
    for recipe in ["PKGBUILD", "pipeprof.rb", "flake/flake.nix"] {
        let text = std::fs::read_to_string(folder.path().join(recipe)).unwrap();
        assert!(
            text.contains("https://example.org/me/pipeprof/releases/download/v9.8.7/pipeprof-"),
            "{recipe}: {text}"
        );
        let own = sums.lines().filter(|line| line.ends_with(".tar.gz")).filter_map(|line| line.split(' ').next());
        assert_eq!(own.filter(|sum| text.contains(sum)).count(), 2, "{recipe}: {text}");
        assert!(!text.contains("@SHA") && !text.contains("@VERSION") && !text.contains("@URL"), "{recipe}: {text}");
    }
    output(Command::new("bash").arg("-n").arg(folder.path().join("PKGBUILD")));
    let missing = render("9.8.6").output().unwrap();
    assert!(!missing.status.success(), "archives of another version");
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
