//! What is in the place of each file that a command line names: none of it may stop pipeprof, fill the memory, or make it
//! print more than an error.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Command lines with a file `X`. `RUN` and `OTHER` are stored results, `REPOSITORY` has a commit, and the Makefile of
/// `TREE` is that file. Whether it may succeed: a source may be a device, and of any length.
const LINES: [(&str, bool); 22] = [
    ("kernel build TREE --config RUN/result.json", false),
    ("kernel build X --config RUN/result.json", false),
    ("kernel build REPOSITORY@HEAD --config X", false),
    ("kernel add X", false),
    ("kernel add X.deb", false),
    ("kernel options X X --source REPOSITORY@HEAD", false),
    ("run --kernel X --collect insn", false),
    ("run --mode splice --source X --calls 1 --warmup 0 --runs 1 --collect none", true),
    ("record --kernel X -- true", false),
    ("compare X OTHER -o out", false),
    ("compare RUN OTHER --cycle-model X -o out", false),
    ("check --baseline X", false),
    ("history X", false),
    ("flamegraph X -o out.svg", false),
    ("flamegraph RUN --diff X -o out.svg", false),
    ("flamegraph RUN -o X", true),
    ("annotate X pipe_write", false),
    ("export X --to pprof -o out", false),
    ("attribute X", false),
    ("matrix plan X -o out", false),
    ("matrix run X --store out", false),
    ("matrix merge X -o out", false),
];

const KINDS: [&str; 5] = ["fifo", "/dev/zero", "socket", "sparse", "circle"];

/// It ends long before the limit, or never. With more memory, it fails.
fn ended(words: &[String], folder: &Path) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 3000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pipeprof")]).args(words);
    command.current_dir(folder).env("PIPEPROF_CACHE", folder.join("cache"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("sh");
    let begun = Instant::now();
    while child.try_wait().expect("a status").is_none() {
        if begun.elapsed() > Duration::from_secs(300) {
            child.kill().expect("a process");
            panic!("{words:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

#[test]
#[ignore = "100 command lines: make test"]
fn nothing_in_the_place_of_a_file_stops_or_fills() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RWXU).expect("a FIFO");
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
    std::fs::File::create(at("sparse")).and_then(|file| file.set_len(4 << 40)).expect("a file without blocks");
    symlink("circle", at("circle")).expect("a link");
    let script =
        "git init -q . && echo VERSION = 9 >Makefile && git add -A && git -c user.name=a -c user.email=b commit -qm a";
    std::fs::create_dir(at("REPOSITORY")).expect("a folder");
    let made = Command::new("sh").args(["-c", script]).current_dir(at("REPOSITORY")).status().expect("git");
    assert!(made.success());
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs");
    symlink(gallery.join("6.1-write-exact"), at("RUN")).expect("a link");
    symlink(gallery.join("7.2-write-exact"), at("OTHER")).expect("a link");
    std::fs::create_dir(at("TREE")).expect("a folder");
    let mut wrong = Vec::new();
    for kind in KINDS {
        for name in ["X", "X.deb", "TREE/Makefile"] {
            let _ = std::fs::remove_file(at(name));
            symlink(folder.path().join(kind), at(name)).expect("a link");
        }
        for (line, may_succeed) in LINES {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let output = ended(&words, folder.path());
            let said = String::from_utf8_lossy(&output.stderr);
            // A usage error has a hint after an empty line.
            let is_short = said.split("\n\n").next().is_some_and(|said| said.lines().count() == 1) && said.len() < 1000;
            let is_right = match output.status.code() {
                Some(0) => may_succeed,
                Some(1 | 2 | 128) => is_short && !said.contains("panicked"),
                _ => false,
            };
            if !is_right {
                wrong.push(format!("{kind}: {line}: {}: {said}", output.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for kind in ["fifo", "socket"] {
        assert!(!at(kind).is_file(), "{kind} was replaced");
    }
}
