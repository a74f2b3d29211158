//! The short help of `-h`: common flags on one screen of 24 lines by 80 columns. `--help` shows all flags.

use super::pages::short;
use clap::Command;

/// `command` with a `-h` that fits one screen.
pub(super) fn shorten(command: Command) -> Command {
    short().fold(command, |command, (name, shown)| {
        command.mut_subcommand(name, |subcommand| {
            subcommand.mut_args(|arg| {
                let Some((_, text)) = shown.iter().find(|(id, _)| arg.get_id() == id) else {
                    return arg.hide_short_help(true);
                };
                let all = arg.get_long_help().or(arg.get_help()).cloned().unwrap_or_default();
                arg.help(text).long_help(all)
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
        for (name, shown) in short() {
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
