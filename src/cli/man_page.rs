//! A manual page in roff, from a subcommand and its texts.

use super::man_texts;
use clap::builder::PossibleValue;
use clap::{Arg, Command};
use roff::{Inline, Roff, bold, italic, roman};

/// The page's name: `pipeprof-run`.
pub(super) fn name(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

/// The page of `command`, which is `program` or one of its subcommands. Both are built.
pub(super) fn render(program: &Command, command: &Command) -> String {
    let mut page = Roff::new();
    let title = name(command);
    let source = format!("pipeprof {}", program.get_version().unwrap_or_default());
    // The crate writes an empty date as nothing, which would move the others.
    page.control("TH", [title.to_uppercase().as_str(), "1", "\"\"", source.as_str(), "User Commands"]);
    page.control("nh", []).control("ad", ["l"]);
    page.control("SH", ["NAME"]);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    page.text([roman(format!("{title} - {}", lower(about.trim_end_matches('.'))))]);
    page.control("SH", ["SYNOPSIS"]);
    synopsis(&mut page, command);
    page.control("SH", ["DESCRIPTION"]);
    text(&mut page, &description(command));
    if command.has_subcommands() {
        page.control("SH", ["SUBCOMMANDS"]);
        for sub in command.get_subcommands() {
            if std::ptr::eq(command, program) {
                item(&mut page, vec![bold(name(sub)), roman("(1)")], &about_of(sub));
            } else {
                page.control("SS", [sub.get_bin_name().unwrap_or_else(|| sub.get_name())]);
                synopsis(&mut page, sub);
                page.control("PP", []);
                text(&mut page, &description(sub));
                let own = |arg: &&Arg| !arg.is_global_set();
                sub.get_arguments().filter(own).for_each(|arg| argument(&mut page, arg));
            }
        }
    }
    arguments(&mut page, command);
    let texts = man_texts::of(command);
    page.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in texts.exit {
        item(&mut page, vec![bold(code)], meaning);
    }
    for (heading, items) in [("ENVIRONMENT", texts.environment), ("FILES", texts.files)] {
        if !items.is_empty() {
            page.control("SH", [heading]);
        }
        for (what, meaning) in items {
            item(&mut page, vec![bold(what)], meaning);
        }
    }
    page.control("SH", ["EXAMPLES"]);
    for (purpose, line) in texts.examples {
        page.control("PP", []);
        text(&mut page, purpose);
        verbatim(&mut page, &[line]);
    }
    page.control("SH", ["SEE ALSO"]);
    text(&mut page, &texts.see_also);
    page.render()
}

/// `text` with a small first letter, unless it begins with a name.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn about_of(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// What a command does. The long text of the help begins with its short one.
fn description(command: &Command) -> String {
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_else(|| about_of(command));
    let (first, rest) = long.split_once('\n').unwrap_or((&long, ""));
    let extra = man_texts::of(command).description;
    format!("{first}.\n{rest}\n\n{extra}").replace("..\n", ".\n")
}

/// `Usage: pipeprof run [OPTIONS]`, without the first word.
fn synopsis(page: &mut Roff, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    let called = command.get_bin_name().unwrap_or_else(|| command.get_name());
    for (number, line) in usage.trim_start_matches("Usage:").lines().enumerate() {
        if number > 0 {
            page.control("br", []);
        }
        match line.trim().strip_prefix(called) {
            Some(rest) => page.text([bold(called), roman(rest)]),
            None => page.text([roman(line.trim())]),
        };
    }
}

/// The sections ARGUMENTS and OPTIONS, the latter by the headings of the help.
fn arguments(page: &mut Roff, command: &Command) {
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    if shown.iter().any(|arg| arg.is_positional()) {
        page.control("SH", ["ARGUMENTS"]);
        shown.iter().filter(|arg| arg.is_positional()).for_each(|arg| argument(page, arg));
    }
    page.control("SH", ["OPTIONS"]);
    let flags: Vec<&Arg> = shown.into_iter().filter(|arg| !arg.is_positional()).collect();
    flags.iter().filter(|arg| arg.get_help_heading().is_none()).for_each(|arg| argument(page, arg));
    let mut headings: Vec<&str> = Vec::new();
    for heading in flags.iter().filter_map(|arg| arg.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    // As in the help, output comes last.
    headings.sort_by_key(|heading| *heading == "Output");
    for heading in headings {
        page.control("SS", [heading]);
        flags.iter().filter(|arg| arg.get_help_heading() == Some(heading)).for_each(|arg| argument(page, arg));
    }
}

fn argument(page: &mut Roff, arg: &Arg) {
    if arg.is_hide_set() {
        return;
    }
    let mut help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let values = if arg.is_hide_possible_values_set() { Vec::new() } else { arg.get_possible_values() };
    let takes_values = arg.get_num_args().is_some_and(|number| number.takes_values());
    let explained = values.iter().any(|value| value.get_help().is_some());
    let mut last = String::new();
    if takes_values && !values.is_empty() && !explained {
        let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        last.push_str(&format!(" [possible values: {}]", names.join(", ")));
    }
    let defaults = arg.get_default_values();
    if takes_values && !arg.is_hide_default_value_set() && !defaults.is_empty() {
        let names: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        last.push_str(&format!(" [default: {}]", names.join(",")));
    }
    if takes_values && explained {
        last.push_str(":\n");
        for value in values.iter().filter(|value| !value.is_hide_set()) {
            let about = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
            last.push_str(&format!("- {}{about}\n", value.get_name()));
        }
    }
    help.push_str(&last);
    item(page, header(arg, takes_values), &help);
}

/// `-o, --output DIR`.
fn header(arg: &Arg, takes_values: bool) -> Vec<Inline> {
    let names: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let value = names.join(" ");
    if arg.is_positional() {
        let many = arg.get_num_args().is_some_and(|number| number.max_values() > 1);
        return vec![italic(value), roman(if many { " ..." } else { "" })];
    }
    let mut header = Vec::new();
    if let Some(short) = arg.get_short() {
        header.extend([bold(format!("-{short}")), roman(", ")]);
    }
    header.extend(arg.get_long().map(|long| bold(format!("--{long}"))));
    if takes_values {
        let optional = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
        let (before, after) = if optional { ("[=", "]") } else { (" ", "") };
        header.extend([roman(before), italic(value), roman(after)]);
    }
    header
}

/// A term and, indented below it, its explanation.
fn item(page: &mut Roff, term: Vec<Inline>, explanation: &str) {
    page.control("TP", []).text(term);
    let (paragraph, list) = explanation.split_once("\n- ").unwrap_or((explanation, ""));
    page.text(inlines(&paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ")));
    if list.is_empty() {
        return;
    }
    page.control("RS", []).control("PD", ["0"]);
    for entry in list.split("\n- ") {
        page.control("IP", ["\\(bu", "2"]);
        let entry = entry.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        match entry.split_once(": ") {
            Some((term, about)) => {
                let mut words = vec![bold(term), roman(": ")];
                words.extend(inlines(about));
                page.text(words);
            }
            None => drop(page.text([bold(entry.trim())])),
        }
    }
    page.control("PD", []).control("RE", []);
}

/// Paragraphs, and lines indented by two spaces as they are.
fn text(page: &mut Roff, text: &str) {
    let mut first = true;
    for block in text.split("\n\n").map(|block| block.trim_matches('\n')).filter(|block| !block.trim().is_empty()) {
        let lines: Vec<&str> = block.lines().collect();
        if lines.iter().all(|line| line.starts_with("  ")) {
            verbatim(page, &lines);
        } else {
            if !std::mem::take(&mut first) {
                page.control("PP", []);
            }
            page.text(inlines(&lines.join(" ")));
        }
        first = false;
    }
}

fn verbatim(page: &mut Roff, lines: &[&str]) {
    page.control("PP", []).control("RS", ["4"]).control("nf", []);
    for line in lines {
        page.text([bold(line.trim())]);
    }
    page.control("fi", []).control("RE", []);
}

/// Text with words in backticks and flags in bold.
fn inlines(text: &str) -> Vec<Inline> {
    let mut words = Vec::new();
    for (number, part) in text.split('`').enumerate() {
        if number % 2 == 1 {
            words.push(bold(part));
            continue;
        }
        let mut plain = String::new();
        let mut rest = part;
        while let Some(start) = rest.find("--") {
            let (before, flag) = rest.split_at(start);
            let length = flag.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(flag.len());
            plain.push_str(before);
            let (flag, after) = flag.split_at(length);
            if flag.len() > 2 {
                words.extend([roman(std::mem::take(&mut plain)), bold(flag)]);
            } else {
                plain.push_str(flag);
            }
            rest = after;
        }
        plain.push_str(rest);
        words.push(roman(plain));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_words_in_backticks_are_bold() {
        let [a, b, c, d, e] = ["with ", "--kernel", ", ", "none", " is"];
        assert_eq!(inlines("with --kernel, `none` is"), [roman(a), bold(b), roman(c), bold(d), roman(e)]);
        assert_eq!(inlines("a -- b"), [roman("a -- b")]);
    }

    #[test]
    fn lists_and_examples_keep_their_lines() {
        let mut page = Roff::new();
        item(&mut page, vec![bold("--mode")], "Preset:\n- a: one\n- b");
        text(&mut page, "First.\n\n  pipeprof x\n\nLast\nline.");
        let page = page.to_roff();
        assert!(
            page.contains("Preset:\n.RS\n.PD 0\n.IP \\(bu 2\n\\fBa\\fR: one\n.IP \\(bu 2\n\\fBb\\fR\n.PD\n.RE\n"),
            "{page}"
        );
        assert!(page.ends_with("First.\n.PP\n.RS 4\n.nf\n\\fBpipeprof x\\fR\n.fi\n.RE\n.PP\nLast line.\n"), "{page}");
    }
}
