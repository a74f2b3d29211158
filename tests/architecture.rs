//! Checks that src/lib.rs and docs/architecture.md list the crates in their true order: each depends on earlier ones
//! only; that what a crate shows is used by another one; and that no two files of src need each other.

mod facades;
mod foreign;
mod imports;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Module names in the tour of src/lib.rs, lowest layer first.
fn tour() -> Vec<String> {
    let text = read(&root().join("src/lib.rs"));
    let entry = |line: &str| Some(line.strip_prefix("//! - [`")?.split('`').next()?.to_owned());
    text.lines().filter_map(entry).collect()
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// The modules that `text` names after `crate::`, outside of comments.
fn used(text: &str) -> BTreeSet<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let name = |text: &str| text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
        match after.strip_prefix('{') {
            Some(list) => names.extend(list.split('}').next().unwrap_or("").split(',').map(|item| name(item.trim()))),
            None => drop(names.insert(name(after))),
        }
    }
    names
}

/// The crates that the manifest of `module` names, in the order of the manifest.
fn dependencies(module: &str) -> Vec<String> {
    let text = read(&root().join("src").join(module).join("Cargo.toml"));
    let tables =
        text.split("\n[").filter(|table| table.split(']').next().is_some_and(|name| name.contains("dependencies")));
    let names = tables.flat_map(str::lines).filter_map(|line| line.split(['.', ' ']).next());
    names.filter(|name| root().join("src").join(name).join("Cargo.toml").is_file()).map(str::to_owned).collect()
}

#[test]
fn crates_depend_on_earlier_ones_only() {
    let order = tour();
    assert!(order.len() > 10, "{order:?}");
    let place = |name: &str| order.iter().position(|module| module == name);
    let is_crate = |name: &str| root().join("src").join(name).join("Cargo.toml").is_file();
    let mut wrong = Vec::new();
    for module in order.iter().filter(|module| is_crate(module)) {
        let mut files = Vec::new();
        sources(&root().join("src").join(module), &mut files);
        let named: BTreeSet<String> = files.iter().flat_map(|file| used(&read(file))).collect();
        for name in dependencies(module) {
            if place(&name) >= place(module) {
                wrong.push(format!("{module} depends on {name}"));
            }
            if !named.contains(&name) && !files.iter().any(|file| read(file).contains(&format!("{name}::"))) {
                wrong.push(format!("{module} does not use {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the order of src/lib.rs:\n{}", wrong.join("\n"));
}

/// The words of code.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
}

/// The function or value that a line shows to other crates. Types may be parts of others, of which the compiler knows.
fn shown(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let rest = ["fn ", "const fn ", "const ", "static "].iter().find_map(|kind| item.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

/// The compiler finds what is unused inside a crate, but not what one shows to all others in vain.
#[test]
fn what_a_crate_shows_is_used_by_another() {
    let mut texts = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz/targets"] {
        let mut files = Vec::new();
        sources(&root().join(folder), &mut files);
        for file in files {
            let name = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            let parts: Vec<&str> = name.split('/').collect();
            let is_crate = root().join("src").join(parts[1]).join("Cargo.toml").is_file();
            let of = if parts[0] == "src" && is_crate { parts[1].to_owned() } else { String::new() };
            texts.push((of, name.clone(), read(&file)));
        }
    }
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (of, _, text) in &texts {
        for word in words(text) {
            users.entry(word).or_default().insert(of);
        }
    }
    let by_macro = |name: &str| texts.iter().any(|(.., text)| text.contains(&format!("$crate::streams::{name}(")));
    let mut found = 0;
    let mut unused = Vec::new();
    for (_, file, text) in texts.iter().filter(|(of, ..)| !of.is_empty()) {
        for name in text.lines().filter_map(shown) {
            found += 1;
            if users[name].len() == 1 && !by_macro(name) {
                unused.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(found > 500, "{found}");
    assert!(unused.is_empty(), "use pub(crate):\n{}", unused.join("\n"));
}

#[test]
fn the_tour_lists_every_module() {
    let listed: BTreeSet<String> = tour().into_iter().collect();
    let folders = std::fs::read_dir(root().join("src")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    let declared: BTreeSet<String> =
        folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(listed, declared);
}

#[test]
fn the_architecture_document_has_the_same_order() {
    let text = read(&root().join("docs/architecture.md"));
    let block = text.split("```").nth(1).unwrap_or_default();
    let mut documented: Vec<&str> = block.split(['>', '\n']).map(str::trim).filter(|name| !name.is_empty()).collect();
    documented.reverse();
    assert_eq!(documented, tour());
}

/// The files of the program with their text, without unit tests, which are at the end of a file or in one of their own.
fn program() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    files.retain(|file| !file.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests")));
    let product = |text: String| text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    files.into_iter().map(|file| (product(read(&file)), file)).map(|(text, file)| (file, text)).collect()
}

#[test]
fn no_two_files_need_each_other() {
    let src = root().join("src");
    let name = |file: PathBuf| file.strip_prefix(&src).unwrap().display().to_string();
    let sources = imports::Sources::new(program().into_iter().map(|(file, text)| (name(file), text)));
    let needed = sources.needed();
    let known: usize = needed.values().map(BTreeMap::len).sum();
    assert!(known > 1_000, "{known}");
    let cycles = imports::cycles(&needed);
    let shown = |cycle: &Vec<&str>| {
        let own = |file: &str| -> Vec<String> {
            let inside = needed[file].iter().filter(|(to, _)| cycle.contains(to));
            inside
                .map(|(to, names)| format!("{to} ({})", names.iter().cloned().collect::<Vec<_>>().join(", ")))
                .collect()
        };
        cycle.iter().map(|file| format!("  {file} needs {}\n", own(file).join(", "))).collect::<String>()
    };
    let shown: Vec<String> = cycles.iter().map(shown).collect();
    assert!(shown.is_empty(), "files that need each other:\n{}", shown.join("\n"));
}

/// The type that a line defines; not the type that a trait leaves to its implementations.
fn defined(line: &str) -> Option<&str> {
    let kinds = if line.starts_with(' ') {
        &["struct ", "enum ", "trait "][..]
    } else {
        &["struct ", "enum ", "trait ", "type "]
    };
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
    let name = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    name.split(|c: char| !c.is_ascii_alphanumeric()).next()
}

#[test]
fn one_name_means_one_type() {
    let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in program() {
        let file = file.strip_prefix(root()).unwrap().display().to_string();
        for name in text.lines().filter_map(defined) {
            homes.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(homes.len() > 200, "{}", homes.len());
    homes.retain(|_, files| files.len() > 1);
    assert!(homes.is_empty(), "{homes:#?}");
}

#[test]
fn the_program_includes_no_file_of_the_tests() {
    let mut wrong = Vec::new();
    for (file, product) in program() {
        for include in product.split("include_").skip(1) {
            if include.split(')').next().is_some_and(|path| path.contains("tests/")) {
                wrong.push(file.display().to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The files of src that open files by other means than `util::regular`, so many times, and why none of these is from
/// outside.
const OPENERS: [(&str, &[(&str, usize)]); 4] = [
    (
        "the kernel makes them: /proc, /sys, tracefs, /dev/tty",
        &[
            ("collect/attach.rs", 2),
            ("collect/fgraph/mod.rs", 1),
            ("collect/samples.rs", 1),
            ("collect/tracefs.rs", 6),
            ("guest/ports/aarch64.rs", 3),
            ("kernel/attempt.rs", 1),
            ("kernel/environment.rs", 2),
            ("kernel/features/privilege.rs", 1),
            ("kernel/features/settings.rs", 1),
            ("kernel/features/tracing.rs", 1),
            ("kernel/preemption.rs", 1),
            ("record/observe/recorder.rs", 1),
            ("record/start/input.rs", 1),
            ("record/start/launch.rs", 1),
            ("util/text.rs", 1),
            ("vm/emulator.rs", 2),
            ("workload/cpus.rs", 1),
            ("workload/pipe.rs", 1),
        ],
    ),
    (
        "in a guest, which has only what it was sent",
        &[
            ("guest/cgroup.rs", 1),
            ("guest/disk.rs", 1),
            ("guest/entropy.rs", 1),
            ("guest/init.rs", 4),
            ("guest/job.rs", 1),
            ("record/inside.rs", 1),
        ],
    ),
    (
        "a program that this one has started wrote it into a temporary folder",
        &[("collect/insn/raw.rs", 1), ("reproduce/parts/cat/strace.rs", 1), ("vm/watch.rs", 1)],
    ),
    ("only written: a lock, a log, a new file", &[("vm/compile/make.rs", 1), ("vm/store.rs", 1), ("vm/unpack.rs", 1)]),
];

/// The one reader of files from outside.
const READER: &str = "util/regular.rs";

/// The program's files by their path in src, without what is only for fuzzing.
fn by_path() -> BTreeMap<String, String> {
    let src = root().join("src");
    let named =
        program().into_iter().map(|(file, text)| (file.strip_prefix(&src).unwrap().display().to_string(), text));
    named.filter(|(file, _)| !file.starts_with("fuzz/")).collect()
}

/// How often `text` opens a file whose path it does not state to be the kernel's.
fn opened(text: &str) -> usize {
    let calls = [
        "fs::read(",
        "fs::read_to_string(",
        "fs::copy(",
        "File::open(",
        "File::options()",
        "OpenOptions::new()",
        "read_lossy(",
        "openat(",
        "libc::open(",
    ];
    let kernels = ["(\"/proc/", "(\"/sys/", "(format!(\"/proc/", ".open(\"/dev/"];
    let is_word = |line: &str, at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let opens = |line: &&str| calls.iter().any(|call| line.match_indices(call).any(|(at, _)| is_word(line, at)));
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//") && !line.contains("fn read_lossy"));
    code.filter(opens).filter(|line| !kernels.iter().any(|path| line.contains(path))).count()
}

/// What differs by processor: code that only one of them has, and decoders of its instructions.
const OF_ONE_PROCESSOR: [&str; 3] = ["target_arch", "iced_x86", "yaxpeax"];

/// Files that may have some, but for those of src/arch: CONTRIBUTING.md, "A processor".
const OF_PROCESSORS: [&str; 9] = [
    "collect/insn/class.rs",
    "guest/cpus.rs",
    "guest/ports/mod.rs",
    "record/observe/call_names.rs",
    "record/start/seccomp.rs",
    "reproduce/memory/code.rs",
    "reproduce/memory/loops.rs",
    "reproduce/memory/loops_x86_64.rs",
    "reproduce/memory/mod.rs",
];

#[test]
fn what_differs_by_processor_is_in_few_places() {
    let found: Vec<String> = by_path()
        .into_iter()
        .filter(|(file, text)| !file.starts_with("arch/") && OF_ONE_PROCESSOR.iter().any(|word| text.contains(word)))
        .map(|(file, _)| file)
        .collect();
    assert_eq!(found, OF_PROCESSORS);
}

#[test]
fn files_from_outside_are_opened_in_one_way() {
    let mut known: BTreeMap<&str, usize> = OPENERS.iter().flat_map(|(_, files)| files.iter().copied()).collect();
    let mut wrong = Vec::new();
    for (file, text) in by_path() {
        let (found, expected) = (opened(&text), known.remove(file.as_str()).unwrap_or(0));
        if file != READER && found != expected {
            wrong.push(format!("{file} opens {found} files, not {expected}"));
        }
        // Then a call would not name its module.
        let imports = text.lines().filter(|line| line.starts_with("use std::fs"));
        let functions = ["read", "read_to_string", "copy"];
        let is_function = |part: &str| functions.contains(&part);
        wrong.extend(
            imports
                .filter(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_function))
                .map(|line| format!("{file}: {line}")),
        );
    }
    assert!(known.is_empty(), "no such files: {known:?}");
    assert!(wrong.is_empty(), "use util::regular, or say in OPENERS why not:\n{}", wrong.join("\n"));
    assert_eq!(
        opened("let a = fs::read(path);\nlet b = tracefs::read(path);\nfs::read(\"/proc/x\")\n// File::open(x)"),
        1
    );
}

#[test]
fn the_security_document_lists_all_that_reads_files_from_outside() {
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let uses =
        |text: &str| text.lines().filter(code).any(|line| !line.starts_with("use ") && line.contains("regular::"));
    let readers: BTreeSet<String> =
        by_path().into_iter().filter(|(_, text)| uses(text)).map(|(file, _)| file).collect();
    assert!(readers.len() > 20, "{readers:?}");
    let text = read(&root().join("docs/security.md"));
    let section = text.split("\n## ").find(|section| section.starts_with("Files from outside")).unwrap_or_default();
    let named = section.split('`').skip(1).step_by(2).filter_map(|name| name.strip_prefix("src/"));
    let named: BTreeSet<String> = named.filter(|name| *name != READER).map(str::to_owned).collect();
    assert_eq!(named, readers, "docs/security.md, Files from outside");
}
