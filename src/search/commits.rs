//! Which commits change the instructions of a pipe: a report that a mailing list can read.

use super::effect::{Effect, Untestable};
use crate::kernel::info::compiler_name;
use crate::report::number;
use crate::util::text::counted;
use serde::Serialize;
use std::fmt::Write as _;

/// The result of a search.
#[derive(Debug, Clone, Serialize)]
pub struct CommitsReport {
    /// Version of this form.
    pub schema: &'static str,
    pub good: String,
    pub bad: String,
    pub configuration: String,
    pub compiler: String,
    /// The title of the role that was looked at.
    pub role: Option<String>,
    /// How many commits there are between the two, along first parents.
    pub commits: usize,
    /// How many of them were counted.
    pub counted: usize,
    /// Commits that could not be built or did not boot.
    pub untestable: Vec<Untestable>,
    /// Smaller changes were not looked for, as a part of the whole.
    pub smallest: f64,
    /// The change between the two ends.
    pub total: Vec<Effect>,
    /// In the order of the history.
    pub found: Vec<FoundCommits>,
}

pub const SCHEMA: &str = "pipeprof.bisect/1";

/// So many roles are named of each change.
const ROLES: usize = 4;

/// A commit that changes the counts, or several, none of which can be tested without the others.
#[derive(Debug, Clone, Serialize)]
pub struct FoundCommits {
    /// The full ids.
    pub ids: Vec<String>,
    /// As commits are cited: `0123456789ab ("subject")`.
    pub cited: Vec<String>,
    /// `Name <address>, 2024-11-17`, of each.
    pub authors: Vec<String>,
    /// The merge that brought it.
    pub merge: Option<String>,
    /// The counts before and after it.
    pub effects: Vec<Effect>,
    /// Functions whose instructions changed, as `pipe_write +7.5`, the largest first.
    pub functions: Vec<String>,
    /// Those of them that the commit's diff changes.
    pub changed: Vec<String>,
    /// How many functions its diff changes, in how many files.
    pub diff: (usize, usize),
}

impl CommitsReport {
    /// Lines of at most 72 columns where words allow it, for a terminal and for mail.
    pub fn text(&self) -> String {
        let mut out = paragraph("", &self.sentence());
        for found in &self.found {
            out.push('\n');
            for (cited, author) in found.cited.iter().zip(&found.authors) {
                let _ = writeln!(out, "{cited}\n  {author}");
            }
            if found.ids.len() > 1 {
                out.push_str("  One of these: what is between them could not be tested.\n");
            }
            if let Some(merge) = &found.merge {
                let _ = writeln!(out, "  merged by {merge}");
            }
            for effect in &found.effects {
                out.push_str(&paragraph("  ", &self.change(effect)));
            }
            if !found.functions.is_empty() {
                out.push_str(&paragraph(
                    "  ",
                    &format!(
                        "functions of writer (W) and reader (R), instructions per KiB: {}",
                        found.functions.join(", ")
                    ),
                ));
            }
            out.push_str(&paragraph("  ", &found.about_diff()));
            if let [cited] = &found.cited[..] {
                let _ = writeln!(out, "  Fixes: {cited}");
            }
        }
        out.push('\n');
        out.push_str(&paragraph("", &self.about()));
        out
    }

    /// The answer.
    fn sentence(&self) -> String {
        let changes: Vec<String> = self.total.iter().map(|effect| self.change(effect)).collect();
        let all = if self.explained() { "" } else { " in part" };
        let found = match self.found.len() {
            0 => format!("no commit changes more than {}", number::part(self.smallest)),
            1 => format!("1 commit explains it{all}"),
            some => format!("{some} commits explain it{all}"),
        };
        format!("{} to {}, {}: {}; {found}.", self.good, self.bad, self.commits_text(), changes.join("; "))
    }

    fn commits_text(&self) -> String {
        counted(self.commits as u64, "commit")
    }

    /// Whether the found commits change about what the ends differ by.
    fn explained(&self) -> bool {
        self.total.iter().enumerate().all(|(case, total)| {
            let found: f64 =
                self.found.iter().filter_map(|found| found.effects.get(case)).map(|effect| self.delta(effect)).sum();
            (self.delta(total) - found).abs() <= (0.1 * self.delta(total).abs()).max(self.smallest * total.before)
        })
    }

    /// The value that is looked at: the role, or everything without scheduling.
    fn delta(&self, effect: &Effect) -> f64 {
        match &self.role {
            None => effect.delta(),
            Some(title) => effect.roles.iter().filter(|role| role.title == *title).map(|role| role.delta).sum(),
        }
    }

    /// `write, 453.22 to 488.54 instructions per KiB without scheduling, +7.8 % (±0.1 %): page allocation +19.25, ...`; of one
    /// role `write, page allocation: +19.25 of 453.22 instructions per KiB without scheduling`.
    fn change(&self, effect: &Effect) -> String {
        if let Some(role) = &self.role {
            let (case, delta, before) = (&effect.case, self.delta(effect), number::exact(effect.before));
            let delta = if delta == 0.0 { "no change".to_owned() } else { number::signed(delta) };
            return format!("{case}, {role}: {delta} of {before} instructions per KiB without scheduling");
        }
        let roles: Vec<String> = effect
            .roles
            .iter()
            .take(ROLES)
            .map(|role| format!("{} {}", role.title, number::signed(role.delta)))
            .collect();
        let roles = if roles.is_empty() { String::new() } else { format!(": {}", roles.join(", ")) };
        format!(
            "{}, {} to {} instructions per KiB without scheduling, {}{roles}",
            effect.case,
            number::exact(effect.before),
            number::exact(effect.after),
            effect.percent()
        )
    }

    /// How it was found.
    fn about(&self) -> String {
        let skipped = match self.untestable.len() {
            0 => String::new(),
            some => format!(" {} could not be built or booted.", counted(some as u64, "commit")),
        };
        format!(
            "Of {} and the {} after it, {} were built with {}, configuration of {}, and their instructions were counted in an \
             emulated guest.{skipped} Changes of {} or less were not looked for, nor commits that are reverted in between.",
            self.good,
            self.commits_text(),
            self.counted,
            compiler_name(&self.compiler),
            self.configuration,
            number::part(self.smallest)
        )
    }
}

impl FoundCommits {
    fn about_diff(&self) -> String {
        let (functions, files) = self.diff;
        let size = format!("{} in {}", counted(functions as u64, "function"), counted(files as u64, "file"));
        match self.changed.as_slice() {
            [] => format!("diff: {size}, none of those above"),
            all if all.len() == functions => format!("diff: {size}: {}", all.join(", ")),
            some => format!("diff: {size}, among them {}", some.join(", ")),
        }
    }
}

/// Filled to 72 columns, each line begun with `begin`.
fn paragraph(begin: &str, text: &str) -> String {
    const TOGETHER: &str = "\u{a0}%";
    let options = textwrap::Options::new(72).initial_indent(begin).subsequent_indent(begin);
    format!("{}\n", textwrap::fill(&text.replace(" %", TOGETHER), options).replace(TOGETHER, " %"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::model::RolePart;
    use crate::roles::RoleId;

    fn effect(before: f64, delta: f64) -> Effect {
        let roles = vec![RolePart { role: RoleId::PipeWrite, title: "pipe write".to_owned(), delta }];
        Effect { case: "write".to_owned(), before, after: before + delta, uncertainty: Some(0.1), roles }
    }

    fn report(found: Vec<FoundCommits>) -> CommitsReport {
        CommitsReport {
            schema: SCHEMA,
            good: "v6.12".to_owned(),
            bad: "v6.13".to_owned(),
            configuration: "tinyconfig".to_owned(),
            compiler: "gcc 12.2.0".to_owned(),
            role: None,
            commits: 200,
            counted: 31,
            untestable: vec![Untestable { what: "x".to_owned(), why: "y".to_owned() }],
            smallest: 0.003,
            total: vec![effect(500.0, 10.0)],
            found,
        }
    }

    fn found(delta: f64) -> FoundCommits {
        FoundCommits {
            ids: vec!["0123456789abcdef".to_owned()],
            cited: vec!["0123456789ab (\"pipe: count words\")".to_owned()],
            authors: vec!["A <a@b>, 2026-01-01".to_owned()],
            merge: None,
            effects: vec![effect(500.0, delta)],
            functions: vec!["pipe_write +7.50".to_owned()],
            changed: vec!["pipe_write".to_owned()],
            diff: (2, 1),
        }
    }

    #[test]
    fn the_answer_comes_first_and_lines_are_short() {
        let text = report(vec![found(10.0)]).text();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("+2.0 % (±0.02 %): pipe write +10.00; 1 commit explains it."), "{text}");
        assert!(text.contains("  Fixes: 0123456789ab (\"pipe: count words\")"), "{text}");
        assert!(text.contains("among them pipe_write") && words.contains("1 commit could not be"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 72), "{text}");
    }

    #[test]
    fn of_one_role_its_own_change_is_said() {
        let of = |role: &str| CommitsReport { role: Some(role.to_owned()), ..report(vec![found(10.0)]) };
        let text = of("pipe write").text().replace('\n', " ");
        assert!(text.contains("write, pipe write: +10.00 of 500.00 instructions per KiB"), "{text}");
        assert!(text.contains("Of v6.12 and the 200 commits after it, 31 were built with gcc 12.2.0,"), "{text}");
        assert!(of("page free").text().contains("page free: no change"));
    }

    #[test]
    fn an_unexplained_rest_is_said() {
        let text = |found| report(found).text().replace('\n', " ");
        assert!(text(vec![found(5.0)]).contains("1 commit explains it in part"));
        assert!(text(Vec::new()).contains("no commit changes more than 0.3 %."));
    }
}
