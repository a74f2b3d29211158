//! The short help of `-h`: common flags on one screen of 24 lines by 80 columns. `--help` shows all flags.

use clap::Command;

/// By subcommand: the flags in `-h`, each with a short text. Other flags are in `--help` only.
const SHOWN: [(&str, &[(&str, &str)]); 4] = [
    (
        "run",
        &[
            ("mode", "Preset, such as write, vmsplice, splice [write]"),
            ("buffer-size", "Size of the writer's buffer [256K]"),
            ("duration", "Measured time of each run, such as 500ms [300ms]"),
            ("pin", "CPUs of writer and reader, or none"),
            ("collect", "auto, none, or sample,kprobe,fgraph,insn"),
            ("runs", "Number of runs [20]"),
            ("until", "Measure until the 95 % CI is this narrow: ±2%"),
            ("kernel", "Run inside this kernel: 6.12, or a bzImage"),
            ("cpus", "CPUs of the guest"),
            ("output", "Folder for the results"),
            ("json", "Print result.json instead of the tables"),
        ],
    ),
    (
        "compare",
        &[
            ("runs", "Stored runs, oldest first: result.json or its folder"),
            ("kernel", "Kernel to boot: 6.12, or a bzImage; repeatable"),
            ("mode", "Mode of `pipeprof run`; repeatable [write]"),
            ("append", "Kernel arguments; may be repeated"),
            ("buffer_size", "Size of the writer's buffer; repeatable"),
            ("run_flags", "Flags of `pipeprof run` for all columns"),
            ("number", "Runs per column and mode"),
            ("until", "Measure until the 95 % CI is this narrow: ±2%"),
            ("output", "Folder for runs and reports"),
            ("resume", "Continue the comparison in -o DIR"),
            ("json", "Print report.json instead of the tables"),
        ],
    ),
    (
        "check",
        &[
            ("kernel", "Kernel to test: 6.12, or a bzImage"),
            ("baseline", "Stored run or folder of -o; without it, -o stores one"),
            ("fail_above", "Regression threshold in percent"),
            ("fail_below", "Improvement threshold: exit 1 if better"),
            ("run_flags", "Further flags of `pipeprof run`"),
            ("output", "Folder to store the run in"),
        ],
    ),
    (
        "sweep",
        &[
            ("mode", "Presets, such as write,vmsplice"),
            ("writer", "Calls that fill the pipe"),
            ("reader", "Calls that empty the pipe"),
            ("buffer-size", "Sizes, such as 4K,64K or 4K..4M"),
            ("duration", "Measured time of each run"),
            ("pipeline", "Measure any pipeline instead"),
            ("pipe-size", "Sizes of the pipes, such as 64K,1M"),
            ("stage", "Another program as stage N: 2='gzip -9'"),
            ("runs", "Runs per combination"),
            ("kernel", "Run inside this kernel: 6.12, or a bzImage"),
            ("collect", "insn: count instructions in guests"),
            ("output", "Folder for sweep.json, sweep.csv, sweep.svg"),
            ("json", "Print sweep.json instead of the table"),
        ],
    ),
];

/// `command` with a `-h` that fits one screen.
pub(super) fn shorten(command: Command) -> Command {
    SHOWN.iter().fold(command, |command, (name, shown)| {
        command.mut_subcommand(name, |subcommand| {
            subcommand.mut_args(|arg| {
                let Some((_, text)) = shown.iter().find(|(id, _)| arg.get_id() == id) else {
                    return arg.hide_short_help(true);
                };
                let all = arg.get_long_help().or(arg.get_help()).cloned().unwrap_or_default();
                arg.help(*text).long_help(all)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn short_help_fits_one_screen_and_long_help_shows_all() {
        for (name, shown) in SHOWN {
            let mut command = shorten(crate::cli::Cli::command().term_width(80));
            command.build();
            let command = command.find_subcommand_mut(name).unwrap();
            for (id, _) in shown {
                assert!(command.get_arguments().any(|arg| arg.get_id() == id), "{name}: {id} does not exist");
            }
            let short = command.render_help().to_string();
            assert!(short.lines().count() <= 24, "{name}: {} lines\n{short}", short.lines().count());
            assert!(short.lines().all(|line| line.chars().count() <= 80), "{name}:\n{short}");
            let long = command.render_long_help().to_string();
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                if let Some(flag) = arg.get_long() {
                    assert!(long.contains(&format!("--{flag}")), "{name} --help does not contain --{flag}");
                }
            }
        }
    }

    #[test]
    fn the_help_of_run_is_grouped() {
        let mut command = shorten(crate::cli::Cli::command());
        command.build();
        let long = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        let headings: Vec<&str> = long.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
        assert_eq!(headings, ["Workload:", "Collectors:", "Guest:", "Output:"]);
    }
}
