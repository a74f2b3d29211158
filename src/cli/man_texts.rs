//! What manual pages say beyond the help: exit codes, environment, files, examples, related pages.

use clap::Command;

/// A term and its explanation.
pub(super) type PageEntry = (&'static str, &'static str);

/// The texts of one page.
#[derive(Debug)]
pub(super) struct PageTexts {
    /// Paragraphs after the description of the help.
    pub description: &'static str,
    pub exit: Vec<PageEntry>,
    pub environment: Vec<PageEntry>,
    pub files: Vec<PageEntry>,
    /// What a command line is for, and the command line.
    pub examples: Vec<PageEntry>,
    pub see_also: String,
}

const DONE: PageEntry = ("0", "Done.");
const FAILED: PageEntry = ("1", "Failed. One line says what, and how to fix it.");
const USAGE: PageEntry =
    ("2", "Usage error: an unknown flag, a wrong value, or flags that contradict each other. Nothing was run.");
const INTERRUPTED: PageEntry = ("128 + N", "Interrupted by signal N: 130 after Ctrl-C, 143 after SIGTERM.");

const CACHE: PageEntry = (
    "PIPEPROF_CACHE",
    "Folder of the cache of kernels [default: $XDG_CACHE_HOME/pipeprof, or ~/.cache/pipeprof]. A folder that every user \
     can write is refused.",
);
const QEMU: PageEntry = ("PIPEPROF_QEMU", "QEMU program that runs the guests [default: qemu-system-x86_64].");
const COLOUR: PageEntry = ("NO_COLOR", "If it is set and not empty, --color auto does not colour the output.");
const TERM: PageEntry = ("TERM", "If it is dumb, --color auto does not colour the output.");

const CACHED: PageEntry = (
    "~/.cache/pipeprof",
    "The cache: kernels for guests, and snapshots of booted guests. `pipeprof kernel list` and `pipeprof kernel remove` \
     manage it.",
);

const PROGRAM: &str = "\
pipeprof runs a writer and a reader around a pipe, attaches to the kernel with eBPF and ftrace, and attributes samples to \
roles, such as page allocation, copying or waking up the other process. It runs the same workload inside any kernel from \
5.10 in a QEMU guest, without root, and counts every executed instruction there. It compares kernels, and it records any \
other pipeline to find which stage limits it.

Profiling the running kernel needs root or capabilities; `pipeprof doctor` says which, and what else is missing. Guests \
need QEMU and a kernel:

  pipeprof kernel fetch 6.12";

/// The page's name: `pipeprof-run`.
pub(super) fn page_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

/// The texts for the page of `command`.
pub(super) fn of(command: &Command) -> PageTexts {
    let page = page_name(command);
    let name = page.strip_prefix("pipeprof-").unwrap_or(&page);
    let guests = ["kernel", "doctor", "check"].contains(&name)
        || name.starts_with("kernel-")
        || command.get_arguments().any(|arg| arg.get_long() == Some("kernel"));
    let whole = name == "pipeprof";
    let mut environment = Vec::new();
    let mut files = Vec::new();
    if guests || whole {
        environment.extend([CACHE, QEMU]);
        files.push(CACHED);
    }
    if whole {
        environment.extend([COLOUR, TERM]);
    }
    files.extend(written(name));
    PageTexts {
        description: if whole { PROGRAM } else { "" },
        exit: exit(name),
        environment,
        files,
        examples: examples_of(name),
        see_also: see_also(name),
    }
}

fn exit(name: &str) -> Vec<PageEntry> {
    match name {
        "check" => vec![
            ("0", "No regression. With --fail-below: no improvement."),
            ("1", "A regression. With --fail-below: an improvement."),
            ("125", "Not tested: no result, or an undecided one. `git bisect run` skips the commit."),
            ("128", "Usage error. `git bisect run` stops."),
            INTERRUPTED,
        ],
        "compare" => vec![
            DONE,
            ("1", "Failed, or a column has no result. One line says what, and how to fix it."),
            USAGE,
            INTERRUPTED,
        ],
        "record" => vec![
            ("0", "The pipeline's exit code was 0, or pipeprof ended it after --duration."),
            ("1", "Failed before the pipeline was run, unless it is the pipeline's own exit code."),
            ("2", "Usage error, unless it is the pipeline's own exit code. Nothing was run."),
            ("127", "A program of the pipeline does not exist. Nothing was run."),
            ("other", "The pipeline's exit code, which is that of its last stage."),
        ],
        "doctor" => vec![("0", "Done, whatever is missing."), FAILED, USAGE, INTERRUPTED],
        "completions" | "man" | "schema" | "roles" | "annotate" | "attribute" | "export" | "flamegraph" => {
            vec![DONE, FAILED, USAGE]
        }
        _ => vec![DONE, FAILED, USAGE, INTERRUPTED],
    }
}

fn written(name: &str) -> Vec<PageEntry> {
    match name {
        "run" => vec![(
            "runs/TIME-MODE",
            "The output folder without -o: result.json, folded stacks (*.folded) and flame graphs (*.svg). It is created \
             when all files are complete. With several modes: modes.svg, and such a folder for each mode.",
        )],
        "record" => vec![(
            "runs/TIME-record",
            "The output folder without -o: result.json, record.html (a page for a browser), timeline.svg, and flame \
             graphs.",
        )],
        "attribute" => vec![(
            "runs/TIME-attribute",
            "The output folder without -o: result.json, record.html (a page for a browser), folded stacks and flame graphs.",
        )],
        "compare" => {
            vec![("compare-TIME", "The output folder without -o: the runs, report.html, report.md and report.json.")]
        }
        "reproduce" => vec![("reproduce", "The output folder without -o: the report, and the results of each part.")],
        _ => Vec::new(),
    }
}

/// The examples of a page. One of `pipeprof kernel fetch` has those of `pipeprof kernel` that call it, or all.
fn examples_of(name: &str) -> Vec<PageEntry> {
    let Some((parent, _)) = name.split_once('-') else { return examples(name).to_vec() };
    let called = format!("pipeprof {} ", name.replacen('-', " ", 1));
    let own: Vec<PageEntry> = examples(parent).iter().filter(|(_, line)| line.starts_with(&called)).copied().collect();
    if own.is_empty() { examples(parent).to_vec() } else { own }
}

fn examples(name: &str) -> &'static [PageEntry] {
    match name {
        "pipeprof" => &[
            ("Show what this machine supports:", "pipeprof doctor"),
            ("Profile one pipe on this machine:", "pipeprof run --mode vmsplice"),
            ("Find which stage limits a pipeline:", "pipeprof record -- 'xz -dc a.xz | tar -t'"),
            ("Show what changed between two kernels:", "pipeprof compare --kernel 6.12 --kernel 7.2"),
        ],
        "run" => &[
            ("Profile vmsplice with huge pages on this machine:", "pipeprof run --mode vmsplice-huge -o r1"),
            ("Compare modes in one table and one chart:", "pipeprof run --mode write,splice,vmsplice -o modes"),
            ("Measure throughput only, until its 95 % CI is narrow:", "pipeprof run --collect none --until 2%"),
            ("Count every instruction in a guest, without root:", "pipeprof run --kernel 6.12 --collect insn"),
        ],
        "record" => &[
            ("Find which stage limits a pipeline:", "pipeprof record -- 'xz -dc a.xz | tar -t'"),
            ("The same for a pipeline that is running:", "pipeprof record -p 4711 --duration 5s"),
            ("Measure what a larger pipe would help:", "pipeprof record --try pipe-size=1M -- 'xz -dc a.xz | tar -t'"),
        ],
        "compare" => &[
            ("Count instructions on two kernels:", "pipeprof compare --kernel 6.12 --kernel 7.2 --mode write"),
            (
                "Compare one kernel with and without mitigations:",
                "pipeprof compare --kernel 6.12 --append '' --append mitigations=off",
            ),
            ("Compare stored runs:", "pipeprof compare r1 r2"),
        ],
        "check" => &[
            ("Store a baseline:", "pipeprof check --kernel 6.12 -o baseline"),
            ("Test another kernel:", "pipeprof check --kernel 7.2 --baseline baseline"),
        ],
        "reproduce" => &[
            ("Make fewer and shorter runs, without a guest:", "pipeprof reproduce --quick --kernel none"),
            ("One experiment only:", "pipeprof reproduce ladder"),
        ],
        "sweep" => &[
            (
                "Measure two modes with eleven buffer sizes:",
                "pipeprof sweep --mode write,vmsplice --buffer-size 4K..4M -o s1",
            ),
            (
                "Time a pipeline with two sizes of its pipes:",
                "pipeprof sweep --pipeline 'xz -dc a.xz | gzip -1 | wc -c' --pipe-size 64K,1M",
            ),
        ],
        "matrix" => &[
            ("List the runs of a campaign, with a job for Slurm:", "pipeprof matrix plan spec.toml --for slurm"),
            (
                "Run the third of 16 chunks, on any machine:",
                "pipeprof matrix run cells.jsonl --chunk 3/16 --store store",
            ),
            ("Make one store and a report of several:", "pipeprof matrix merge store1 store2 -o report"),
        ],
        "history" => &[
            ("Show the kernels of a campaign:", "pipeprof history report -o history.html"),
            ("In the order of their commits:", "pipeprof history report --order commits.txt"),
        ],
        "annotate" => {
            &[("Show the instructions of pipe_write that the run r1 executed:", "pipeprof annotate r1 pipe_write")]
        }
        "export" => &[
            ("Write the run r1 for go tool pprof:", "pipeprof export r1 --to pprof"),
            ("Write its tables as CSV into a folder:", "pipeprof export r1 --to csv -o tables"),
        ],
        "attribute" => &[
            ("Show the roles of what perf recorded:", "pipeprof attribute perf.script -o r1"),
            ("Compare it with another recording:", "pipeprof compare r1 r2"),
        ],
        "flamegraph" => &[
            ("Show who calls the hot functions of the writer:", "pipeprof flamegraph r1 --process writer --reverse"),
            ("Draw what changed from r1 to r2:", "pipeprof flamegraph r1 --diff r2"),
        ],
        "memory" => &[("Measure on CPU 1 with huge pages:", "pipeprof memory --cpu 1 --huge-pages")],
        "roles" => &[
            ("List the roles of the running kernel:", "pipeprof roles"),
            ("Those of a kernel in the cache:", "pipeprof roles --kernel 6.1"),
        ],
        "kernel" => &[
            ("Fetch kernels for guests:", "pipeprof kernel fetch 5.10 6.1 6.12"),
            ("Copy kernels to a machine without a network:", "pipeprof kernel bundle 6.1 6.12 -o kernels.tar"),
            ("Add a kernel of your own:", "pipeprof kernel add arch/x86/boot/bzImage"),
            ("Boot it, with its console:", "pipeprof kernel boot 6.12 --console"),
        ],
        "doctor" => &[
            ("Show what this machine supports:", "pipeprof doctor"),
            ("Show what a guest supports:", "pipeprof doctor --kernel 6.12"),
        ],
        "schema" => &[("Store the schema of result.json:", "pipeprof schema record > record.schema.json")],
        "completions" => &[("Complete in this bash only:", "source <(pipeprof completions bash)")],
        "man" => &[("Read the page of run:", "pipeprof man run | man -l -")],
        _ => &[],
    }
}

fn see_also(name: &str) -> String {
    let related: &[&str] = match name {
        "run" => &["doctor", "compare", "sweep", "annotate", "flamegraph"],
        "record" => &["doctor", "compare", "flamegraph"],
        "compare" => &["run", "record", "check"],
        "check" => &["compare", "run", "kernel"],
        "reproduce" => &["run", "memory"],
        "sweep" => &["run"],
        "matrix" => &["history", "compare", "sweep", "kernel"],
        "history" => &["matrix", "compare"],
        "annotate" | "flamegraph" => &["run", "record"],
        "attribute" => &["record", "compare", "flamegraph", "export"],
        "export" => &["run", "record", "compare", "attribute"],
        "memory" => &["reproduce"],
        "roles" => &["run", "doctor"],
        "kernel" => &["run", "doctor"],
        "doctor" => &["run", "record", "kernel"],
        "schema" => &["run", "record"],
        _ => &[],
    };
    if name == "pipeprof" {
        return "`perf`(1), `bpftrace`(8), `qemu-system-x86_64`(1), `pipe`(7), `vmsplice`(2), `splice`(2)\n\n\
                The documents that the help mentions, such as docs/method.md, are in the sources of pipeprof. Its \
                Debian package has them in /usr/share/doc/pipeprof."
            .to_owned();
    }
    // A page of `pipeprof kernel fetch` belongs to that of `pipeprof kernel`.
    let parent = name.split_once('-').map(|(parent, _)| parent);
    let related = parent.iter().chain(related).map(|name| format!(", `pipeprof-{name}`(1)"));
    format!("`pipeprof`(1){}", related.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// The words of a simple command line, with single quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (number, part) in line.split('\'').enumerate() {
            if number % 2 == 1 {
                words.push(part.to_owned())
            } else {
                words.extend(part.split_whitespace().map(str::to_owned))
            }
        }
        words
    }

    #[test]
    fn examples_are_valid_command_lines() {
        let program = crate::cli::global::visible(&crate::cli::Cli::command());
        for command in std::iter::once(&program).chain(program.get_subcommands()) {
            let examples = of(command).examples;
            assert!(!examples.is_empty(), "{}", command.get_name());
            for (_, line) in examples {
                let own = line.trim_start_matches("source <(").split([')', '>']).next().unwrap();
                let own = if line.contains("'") { own } else { own.split('|').next().unwrap() };
                let parsed = program.clone().try_get_matches_from(words(own));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn related_pages_exist() {
        let program = crate::cli::global::visible(&crate::cli::Cli::command());
        for command in program.get_subcommands() {
            for page in see_also(command.get_name()).split('`').filter_map(|word| word.strip_prefix("pipeprof-")) {
                assert!(program.find_subcommand(page).is_some(), "{page}");
            }
        }
    }
}
