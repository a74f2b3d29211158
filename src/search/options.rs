//! Which options of a configuration change the instructions of a pipe.

use super::effect::{Effect, Untestable};
use crate::report::number;
use crate::report::table::{Table, TableCell};
use crate::report::terminal::Style;
use crate::util::styled_text::StyledText;
use crate::util::text::counted;
use serde::Serialize;

/// The result of a search.
#[derive(Debug, Clone, Serialize)]
pub struct OptionsReport {
    /// Version of this form.
    pub schema: &'static str,
    /// The two configurations.
    pub before: String,
    pub after: String,
    pub source: String,
    pub compiler: String,
    /// How many options differ.
    pub differing: usize,
    /// How many of them only decide what modules there are.
    pub modules: usize,
    /// How many configurations were counted.
    pub counted: usize,
    /// Configurations that could not be built or did not boot.
    pub untestable: Vec<Untestable>,
    /// Smaller changes were not looked for, as a part of the whole.
    pub smallest: f64,
    /// The change of all options together.
    pub total: Vec<Effect>,
    /// The largest first.
    pub options: Vec<OptionEffect>,
}

pub const SCHEMA: &str = "pipeprof.options/1";

/// An option that changes the counts, or several that only change them together.
#[derive(Debug, Clone, Serialize)]
pub struct OptionEffect {
    /// As `OPTION before -> after`.
    pub options: Vec<String>,
    /// In the search: the options before it are already as in the second configuration.
    pub effects: Vec<Effect>,
    /// Of a build in which only this, and what it needs, is changed; empty if the source does not accept that.
    pub alone: Vec<Effect>,
    /// Options that it needs, or that follow from it, in that build.
    pub follow: Vec<String>,
}

impl OptionsReport {
    /// What all options that are not named change together, in this case.
    fn rest(&self, case: usize) -> f64 {
        let named = self.options.iter().filter_map(|option| option.effects.get(case));
        self.total.get(case).map_or(0.0, Effect::delta) - named.map(Effect::delta).sum::<f64>()
    }

    /// For a terminal.
    pub fn text(&self, style: Style) -> StyledText {
        let mut out = StyledText::from(format!("{}\n\n", self.sentence()));
        for (index, total) in self.total.iter().enumerate() {
            out.append(&self.table(index, total).text(style));
            out.push_str("\n");
        }
        out.push_str(&self.about());
        out
    }

    /// The answer.
    fn sentence(&self) -> String {
        let Self { differing, before, after, .. } = self;
        let changes: Vec<String> =
            self.total.iter().map(|total| format!("{} {}", total.case, total.percent())).collect();
        let found = match self.options.len() {
            0 => format!("none of them changes more than {}", number::part(self.smallest)),
            1 => "1 of them changes the count".to_owned(),
            some => format!("{some} of them change the count"),
        };
        format!(
            "Configuration of {before} to that of {after}, on {} with {}: {}. {} differ; {found}.",
            self.source,
            self.compiler,
            changes.join(", "),
            counted(*differing as u64, "option")
        )
    }

    fn table(&self, case: usize, total: &Effect) -> Table {
        let mut rows: Vec<(String, Option<&Effect>, Option<&Effect>)> = self
            .options
            .iter()
            .map(|option| (option.options.join(", "), option.effects.get(case), option.alone.get(case)))
            .collect();
        rows.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
        let rest = self.rest(case);
        let others = self.differing - self.options.iter().map(|option| option.options.len()).sum::<usize>();
        let mut cells: Vec<Vec<TableCell>> = rows
            .into_iter()
            .map(|(name, effect, alone)| {
                vec![
                    TableCell::Name(name),
                    effect.map_or(TableCell::Missing, |effect| TableCell::Change(effect.delta())),
                    effect.map_or(TableCell::Missing, |effect| {
                        let half = number::in_parentheses(effect.uncertainty.map(|half| half / total.before));
                        TableCell::figure(format!("{}{half}", percent(effect.delta(), total)))
                    }),
                    alone.map_or(TableCell::Missing, |alone| TableCell::Change(alone.delta())),
                    TableCell::Text(effect.map(largest_role).unwrap_or_default()),
                ]
            })
            .collect();
        let plain = |name: String, delta: f64| {
            let role = TableCell::Text(String::new());
            vec![
                TableCell::Text(name),
                TableCell::Change(delta),
                TableCell::figure(percent(delta, total)),
                TableCell::Missing,
                role,
            ]
        };
        cells.push(plain(format!("the other {others}"), rest));
        cells.push(plain("all".to_owned(), total.delta()));
        Table::new(["option", "change", "part", "alone", "most in"], cells)
            .titled(format!("{}, instructions per KiB without scheduling", total.case))
    }

    /// How it was found.
    fn about(&self) -> String {
        let following: Vec<String> = self
            .options
            .iter()
            .filter(|option| !option.follow.is_empty())
            .map(|option| format!("{} also sets {}", option.options.join(", "), option.follow.join(", ")))
            .collect();
        let following = match following.as_slice() {
            [] => String::new(),
            some => format!("Alone, {}.\n", some.join("; ")),
        };
        let skipped = match self.untestable.len() {
            0 => String::new(),
            some => format!(" {} could not be built or booted.", counted(some as u64, "configuration")),
        };
        format!(
            "{following}{} were built, and their instructions were counted in an emulated guest.{skipped} `change`: with all options before it already changed, so that the changes \
             add up. `alone`: only this option, and those that it needs, are changed; where the two differ, options act on each other. Changes of {} or \
             less of the whole were not looked for; {} differ in modules only. See docs/builds.md.\n",
            counted(self.counted as u64, "configuration"),
            number::part(self.smallest),
            self.modules
        )
    }
}

fn size(effect: Option<&Effect>) -> f64 {
    effect.map_or(0.0, |effect| effect.delta().abs())
}

/// As a part of the whole before.
fn percent(delta: f64, whole: &Effect) -> String {
    let percent = 100.0 * delta / whole.before;
    // Not `-0.0 %`.
    if percent.abs() < 0.05 { "0 %".to_owned() } else { format!("{percent:+.1} %") }
}

fn largest_role(effect: &Effect) -> String {
    effect.roles.first().map(|role| format!("{} {}", role.title, number::signed(role.delta))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::model::RolePart;
    use crate::roles::RoleId;

    fn effect(before: f64, delta: f64) -> Effect {
        let roles = vec![RolePart { role: RoleId::PageAlloc, title: "page allocation".to_owned(), delta }];
        Effect { case: "write".to_owned(), before, after: before + delta, uncertainty: Some(0.1), roles }
    }

    #[test]
    fn the_changes_of_options_and_the_rest_add_up() {
        let option = |name: &str, delta: f64, alone: Option<f64>| OptionEffect {
            options: vec![format!("{name} n -> y")],
            effects: vec![effect(450.0, delta)],
            alone: alone.map(|delta| effect(450.0, delta)).into_iter().collect(),
            follow: Vec::new(),
        };
        let report = OptionsReport {
            schema: SCHEMA,
            before: "6.12".to_owned(),
            after: "7.2".to_owned(),
            source: "7.2.13".to_owned(),
            compiler: "gcc 14.2.0".to_owned(),
            differing: 120,
            modules: 40,
            counted: 30,
            untestable: Vec::new(),
            smallest: 0.002,
            total: vec![effect(450.0, 36.0)],
            options: vec![option("B", 10.0, None), option("A", 25.5, Some(26.0))],
        };
        let text = report.text(Style::PLAIN);
        assert!(
            text.starts_with("Configuration of 6.12 to that of 7.2, on 7.2.13 with gcc 14.2.0: write +8.0 %"),
            "{text}"
        );
        assert!(text.contains("120 options differ; 2 of them change the count."), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" % ") && line.starts_with(' ')).collect();
        assert!(lines[0].contains("A n -> y") && lines[0].contains("+26.00"), "{text}");
        assert!(lines[2].contains("the other 118") && lines[2].contains("+0.50"), "{text}");
    }
}
