//! What is disturbed, and what its result is.

use super::attempt::Story;
use crate::common::kernel;
use std::path::Path;

/// A command that is disturbed.
pub(crate) struct Scenario {
    pub name: &'static str,
    /// Arguments; `KERNEL` stands for an image of 6.1, `OTHER` for one of 7.2.
    pub line: &'static str,
    /// Shell line that follows `--`, if any.
    pub pipeline: Option<&'static str>,
    /// Whether it takes `-o`.
    pub stores: bool,
    /// Whether an interrupted one is continued with --resume.
    pub resumes: bool,
    /// Whether its guests' snapshots are removed before each attempt.
    pub makes_snapshots: bool,
    /// What must be equal in each undisturbed run: from the folder, and what it printed.
    pub result: fn(&Path, &Story) -> String,
}

/// Hashes 64 MB that come through a pipe, and ends with 3.
pub(crate) const HASH: &str = "head -c 64000000 /dev/zero | sha256sum; exit 3";

/// Starts more processes than the kernel's maps would hold if they stayed there, and ends with 3.
pub(crate) const SHORT: &str = "seq 5000 | xargs -n1 true | cat; exit 3";

const PLAIN: Scenario = Scenario {
    name: "",
    line: "",
    pipeline: None,
    stores: true,
    resumes: false,
    makes_snapshots: false,
    result: |_, _| String::new(),
};

/// Without guests.
pub(crate) const HOST: &[Scenario] = &[
    Scenario {
        name: "run",
        line: "run --mode write --bytes 256M --warmup 1M --runs 3 --collect sample",
        result: |folder, _| loaded(&folder.join("result.json")),
        ..PLAIN
    },
    Scenario {
        name: "record",
        line: "record --collect sample",
        pipeline: Some(HASH),
        result: |folder, story| {
            assert_eq!(story.code, Some(3), "{story:?}");
            format!("{}{}", loaded(&folder.join("result.json")), story.stdout)
        },
        ..PLAIN
    },
    Scenario {
        name: "compare",
        line: "compare --mode write --variant= --variant=--poll --runs 3 --run-flags=--duration=100ms",
        resumes: true,
        result: |folder, _| loaded(&folder.join("report.json")) + &names(&folder.join("runs")),
        ..PLAIN
    },
    Scenario {
        name: "sweep",
        line: "sweep --mode write --buffer-size 4K,64K --pipe-size 64K,1M --runs 2 --duration 100ms",
        resumes: true,
        result: |folder, story| format!("{} {}", names(folder), story.stdout.lines().count()),
        ..PLAIN
    },
    Scenario {
        name: "reproduce",
        line: "reproduce memory --quick --kernel none",
        resumes: true,
        result: |folder, _| names(folder),
        ..PLAIN
    },
    Scenario {
        name: "record short processes",
        line: "record",
        pipeline: Some(SHORT),
        result: |folder, story| {
            assert_eq!(story.code, Some(3), "{story:?}");
            short_processes(&folder.join("result.json"))
        },
        ..PLAIN
    },
];

/// Results of guests are exact, and so their bytes are equal.
pub(crate) const GUESTS: &[Scenario] = &[
    Scenario {
        name: "snapshot",
        line: "roles --json --kernel KERNEL",
        stores: false,
        makes_snapshots: true,
        result: |_, story| story.stdout.clone(),
        ..PLAIN
    },
    Scenario {
        name: "run in a guest",
        line: "run --kernel KERNEL --mode vmsplice --calls 40 --warmup 1M --collect insn",
        result: |folder, _| bytes(folder, &["writer.folded", "reader.folded"]),
        ..PLAIN
    },
    Scenario {
        name: "record in a guest",
        line: "record --kernel KERNEL",
        pipeline: Some("head -c 1000000 /dev/zero | wc -c"),
        result: |folder, story| loaded(&folder.join("result.json")) + &story.stdout,
        ..PLAIN
    },
    Scenario {
        name: "compare kernels",
        line: "compare --kernel KERNEL --kernel OTHER --cpus 1 --run-flags=--calls=40",
        resumes: true,
        result: |folder, _| bytes(folder, &["report.md"]),
        ..PLAIN
    },
    Scenario {
        name: "check",
        line: "check --kernel KERNEL --run-flags=--calls=40",
        result: |folder, _| names(folder),
        ..PLAIN
    },
];

impl Scenario {
    /// How it ends if nobody disturbs it.
    pub(crate) fn code(&self) -> i32 {
        if self.pipeline.is_some_and(|line| line.ends_with("exit 3")) { 3 } else { 0 }
    }

    /// The arguments, with the folder `output` if it stores something.
    pub(crate) fn arguments(&self, output: &Path, resume: bool) -> Vec<String> {
        let image = |series: &str| kernel(series).image.to_str().expect("a path").to_owned();
        let mut arguments: Vec<String> = Vec::new();
        for word in self.line.split(' ') {
            arguments.push(match word {
                "KERNEL" => image("6.1"),
                "OTHER" => image("7.2"),
                other => other.to_owned(),
            });
        }
        if self.stores {
            arguments.extend(["-o".to_owned(), output.to_str().expect("a path").to_owned()]);
        }
        if resume {
            arguments.push("--resume".to_owned());
        }
        if let Some(pipeline) = self.pipeline {
            arguments.extend(["--".to_owned(), pipeline.to_owned()]);
        }
        arguments
    }
}

/// `complete` if `path` is a JSON document.
fn loaded(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let document: serde_json::Value =
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(document.is_object(), "{}", path.display());
    "complete ".to_owned()
}

/// Whether a recording has the processes of [`SHORT`]. Some virtual machines hide a few.
fn short_processes(path: &Path) -> String {
    let recording: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let processes = list(&recording["processes"]);
    let count: usize =
        processes.iter().filter(|process| process["name"] == "true").map(|process| list(&process["pids"]).len()).sum();
    let lost = list(&recording["warnings"]).iter().any(|warning| warning["code"] == "processes-not-recorded");
    format!("{}{}", if count > 4900 { "all" } else { "a part" }, if lost { ", others lost" } else { "" })
}

/// The names in a folder.
fn names(folder: &Path) -> String {
    crate::common::listing(folder).join(" ")
}

fn bytes(folder: &Path, names: &[&str]) -> String {
    let read = |name: &&str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    names.iter().map(read).collect()
}
