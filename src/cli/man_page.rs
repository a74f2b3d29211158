//! A manual page in roff: what clap_mangen makes of a command, and the sections that only pages have.

use super::pages::{self, PageEntry};
use anyhow::Result;
use clap::Command;
use clap_mangen::Man;
use roff::{Inline, Roff, bold, roman};

/// The page of `command`, which is the program or one of its subcommands, of this version.
pub(super) fn render(command: &Command, version: &str) -> Result<String> {
    let texts = pages::of(command);
    let man = Man::new(described(command, &texts.description))
        .title(pages::page_name(command).to_uppercase())
        .section("1")
        // The crate writes an empty date as nothing, which would move the others.
        .date("\"\"")
        .source(format!("pipeprof {version}"))
        .manual("User Commands");
    let mut page = Vec::new();
    man.render(&mut page)?;
    // Words at the ends of lines stay whole, as they are to be typed.
    let page = String::from_utf8(page)?.replacen("\n.SH NAME", "\n.nh\n.ad l\n.SH NAME", 1);
    let mut own = Roff::new();
    for (heading, entries) in [("EXIT STATUS", texts.exit), ("ENVIRONMENT", texts.environment), ("FILES", texts.files)]
    {
        section(&mut own, heading, &entries);
    }
    own.control("SH", ["EXAMPLES"]);
    for (purpose, line) in texts.examples {
        own.control("PP", []).text([roman(purpose)]).control("PP", []);
        own.control("RS", ["4"]).control("nf", []).text([bold(line)]).control("fi", []).control("RE", []);
    }
    own.control("SH", ["SEE ALSO"]);
    for (number, paragraph) in texts.see_also.split("\n\n").enumerate() {
        if number > 0 {
            own.control("PP", []);
        }
        own.text(inlines(paragraph));
    }
    Ok(page + &own.to_roff())
}

/// The command with the texts of its page: its first sentence begins with a small letter, its usage names no single flags,
/// its description ends with `more`, and all flags are explained.
fn described(command: &Command, more: &str) -> Command {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let long = command.get_long_about().map_or_else(|| about.clone(), ToString::to_string);
    let (first, rest) = long.split_once('\n').unwrap_or((&long, ""));
    let long = format!("{}.\n{rest}\n\n{more}", first.trim_end_matches('.'));
    let usage = command.clone().render_usage().to_string();
    let mut letters = about.trim_end_matches('.').chars();
    let lower = letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect());
    // Flags without a heading are the section OPTIONS.
    let all_headed = command.get_arguments().all(|arg| arg.get_help_heading().is_some());
    let described = command.clone().display_name(pages::page_name(command)).mut_args(|arg| {
        let help = arg.get_long_help().or(arg.get_help()).map(|help| plain(&help.to_string()));
        let is_plain = all_headed && arg.get_help_heading() == Some("Output");
        let arg = arg.hide_short_help(false).long_help(help.unwrap_or_default());
        if is_plain { arg.help_heading(None::<&'static str>) } else { arg }
    });
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    described.override_usage(usage).about(lower).long_about(plain(long.trim_end()))
}

/// `text` as roff takes it: without backticks, and each entry of a list on a line of its own, which begins with a space.
fn plain(text: &str) -> String {
    text.replace('`', "").replace("\n- ", "\n  - ")
}

/// A section of terms with their explanations.
fn section(page: &mut Roff, heading: &str, entries: &[PageEntry]) {
    if !entries.is_empty() {
        page.control("SH", [heading]);
    }
    for (term, meaning) in entries {
        page.control("TP", []).text([bold(term)]).text(inlines(meaning));
    }
}

/// Text with words in backticks in bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts.map(|(number, part)| if number % 2 == 1 { bold(part) } else { roman(part) }).collect()
}
