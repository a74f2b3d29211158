//! `pages.toml`: what manual pages say beyond the help, and the flags that `-h` shows.

use clap::Command;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A term and its explanation.
pub(super) type PageEntry = (String, String);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pages {
    exit: Vec<PageEntry>,
    quick: Vec<String>,
    environment: Vec<PageEntry>,
    files: Vec<PageEntry>,
    page: BTreeMap<String, PageTexts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PageTexts {
    /// Paragraphs after the description of the help.
    pub description: String,
    pub exit: Vec<PageEntry>,
    pub environment: Vec<PageEntry>,
    pub files: Vec<PageEntry>,
    /// What a command line is for, and the command line.
    pub examples: Vec<PageEntry>,
    related: Vec<String>,
    pub see_also: String,
    /// The flags of `-h`, each with a short text.
    short: Vec<PageEntry>,
}

// The tests parse it, too.
static PAGES: LazyLock<Pages> = LazyLock::new(|| toml::from_str(include_str!("pages.toml")).unwrap_or_default());

/// Subcommands with a short help of their own: name, and flags.
pub(super) fn short() -> impl Iterator<Item = (&'static str, &'static [PageEntry])> {
    PAGES.page.iter().map(|(name, page)| (name.as_str(), &page.short[..])).filter(|(_, short)| !short.is_empty())
}

/// The page's name: `pipeprof-run`.
pub(super) fn page_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

pub(super) fn of(command: &Command) -> PageTexts {
    let page = page_name(command);
    let name = page.strip_prefix("pipeprof-").unwrap_or(&page);
    // A page of `pipeprof kernel fetch` belongs to that of `pipeprof kernel`.
    let parent = name.split_once('-').map(|(parent, _)| parent);
    let mut texts = PAGES.page.get(name).cloned().unwrap_or_default();
    let guests = ["pipeprof", "doctor", "check"].contains(&name)
        || parent.unwrap_or(name) == "kernel"
        || command.get_arguments().any(|arg| arg.get_long() == Some("kernel"));
    if guests {
        texts.environment = [&PAGES.environment[..], &texts.environment].concat();
        texts.files = [&PAGES.files[..], &texts.files].concat();
    }
    if texts.exit.is_empty() {
        let quick = PAGES.quick.iter().any(|quick| quick == name);
        texts.exit = PAGES.exit[..PAGES.exit.len() - usize::from(quick)].to_vec();
    }
    if let Some(all) = parent.and_then(|parent| PAGES.page.get(parent)) {
        // Those that call it, or all.
        let called = format!("pipeprof {} ", name.replacen('-', " ", 1));
        texts.examples = all.examples.iter().filter(|(_, line)| line.starts_with(&called)).cloned().collect();
        if texts.examples.is_empty() {
            texts.examples.clone_from(&all.examples);
        }
    }
    if texts.see_also.is_empty() {
        let related = parent.into_iter().chain(texts.related.iter().map(String::as_str));
        let related: String = related.map(|name| format!(", `pipeprof-{name}`(1)")).collect();
        texts.see_also = format!("`pipeprof`(1){related}");
    }
    texts
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
    fn every_page_is_that_of_a_subcommand() {
        let program = crate::cli::global::visible(&crate::cli::Cli::command());
        let pages: Pages = toml::from_str(include_str!("pages.toml")).unwrap();
        for name in pages.page.keys().chain(&pages.quick).filter(|name| *name != "pipeprof") {
            assert!(program.find_subcommand(name).is_some(), "{name}");
        }
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
            for page in of(command).related {
                assert!(program.find_subcommand(&page).is_some(), "{page}");
            }
        }
    }
}
