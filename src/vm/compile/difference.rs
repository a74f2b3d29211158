//! How two configurations differ on one source and compiler, and the configurations between them.

use super::config::{OptionSetting, values};
use super::{BuildRequest, configure};
use crate::kernel::config as options;
use crate::vm::store::KernelCache;
use anyhow::Result;
use std::collections::BTreeMap;

/// An option whose value differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionChange {
    /// Without `CONFIG_`.
    pub option: String,
    pub before: String,
    pub after: String,
}

impl OptionChange {
    /// Whether it decides what is built in; otherwise only what modules there are.
    pub fn is_built_in(&self) -> bool {
        !(is_module_or_off(&self.before) && is_module_or_off(&self.after))
    }

    /// Whether a build has the value of the second configuration.
    pub fn is_made_by(&self, request: &BuildRequest) -> bool {
        request.settings.iter().any(|setting| setting.option == self.option && setting.value == self.after)
    }

    /// Whether it is known to change what pipes execute.
    pub fn matters(&self) -> bool {
        options::matters(&format!("CONFIG_{}", self.option))
    }
}

impl std::fmt::Display for OptionChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} -> {}", self.option, self.before, self.after)
    }
}

fn is_module_or_off(value: &str) -> bool {
    ["n", "m"].contains(&value)
}

/// A configuration as make has made it.
type Made = BTreeMap<String, String>;

/// How the configurations of two builds differ.
#[derive(Debug)]
pub struct ConfigDifference {
    /// Modules first, and those that are known to matter last, so that one range has all that probably change nothing.
    /// Otherwise in the order of the second configuration, in which options of one menu are together.
    pub options: Vec<OptionChange>,
    ends: [BuildRequest; 2],
    first: Made,
}

impl ConfigDifference {
    /// `ends` have the same source and compiler.
    pub fn find(cache: &KernelCache, ends: [BuildRequest; 2], say: &dyn Fn(&str)) -> Result<Self> {
        let texts = [configure(cache, &ends[0], say)?, configure(cache, &ends[1], say)?];
        let [first, second] = [made(&texts[0]), made(&texts[1])];
        let options = differing(&texts, &first, &second);
        Ok(Self { options, ends, first })
    }

    /// What to build with the first `position` options as in the second configuration, and all others as in the first.
    /// Options that depend on others that are not yet changed have the value that the source gives them.
    pub fn at(&self, cache: &KernelCache, position: usize, say: &dyn Fn(&str)) -> Result<BuildRequest> {
        match position {
            0 => Ok(self.ends[0].clone()),
            all if all == self.options.len() => Ok(self.ends[1].clone()),
            _ => self.between(cache, |index| index < position, say),
        }
    }

    /// What to build with only these options as in the second configuration.
    pub fn only(&self, cache: &KernelCache, indexes: &[usize], say: &dyn Fn(&str)) -> Result<BuildRequest> {
        self.between(cache, |index| indexes.contains(&index), say)
    }

    /// The options before `index` that the source wants changed before it accepts this one; `None` if they are not enough.
    pub fn needed(&self, cache: &KernelCache, index: usize, say: &dyn Fn(&str)) -> Result<Option<Vec<usize>>> {
        let Some(change) = self.options.get(index) else { return Ok(None) };
        let accepts = |from: usize, to: usize, needed: &[usize]| -> Result<bool> {
            let changed = |other: usize| (from..to).contains(&other) || needed.contains(&other) || other == index;
            Ok(change.is_made_by(&self.between(cache, changed, say)?))
        };
        let (mut needed, mut end) = (Vec::new(), index);
        while !accepts(0, 0, &needed)? {
            if !accepts(0, end, &needed)? {
                return Ok(None);
            }
            // Of all that are needed, the last one before `end`.
            let (mut last, mut beyond) = (0, end);
            while beyond - last > 1 {
                let middle = last.midpoint(beyond);
                if accepts(middle, end, &needed)? { last = middle } else { beyond = middle }
            }
            needed.push(last);
            end = last;
        }
        Ok(Some(needed))
    }

    fn between(
        &self,
        cache: &KernelCache,
        is_second: impl Fn(usize) -> bool,
        say: &dyn Fn(&str),
    ) -> Result<BuildRequest> {
        let mut request = self.ends[0].clone();
        let value = |change: &OptionChange, second| if second { change.after.clone() } else { change.before.clone() };
        let wish = |(index, change): (usize, &OptionChange)| OptionSetting {
            option: change.option.clone(),
            value: value(change, is_second(index)),
        };
        request.settings.extend(self.options.iter().enumerate().map(wish));
        let mut now = made(&configure(cache, &request, say)?);
        // An option that only now can be chosen has its default, which neither configuration has.
        let is_known = |option: &str| self.options.iter().any(|change| change.option == option);
        let astray: Vec<OptionSetting> = now
            .iter()
            .filter(|(option, value)| !is_known(option) && self.first_value(option) != value.as_str())
            .map(|(option, _)| OptionSetting { option: option.clone(), value: self.first_value(option).to_owned() })
            .collect();
        if !astray.is_empty() {
            request.settings.extend(astray);
            now = made(&configure(cache, &request, say)?);
        }
        request.settings.retain(|setting| now.get(&setting.option).map_or("n", String::as_str) == setting.value);
        Ok(request)
    }

    fn first_value(&self, option: &str) -> &str {
        self.first.get(option).map_or("n", String::as_str)
    }
}

fn made(text: &str) -> Made {
    values(text).into_iter().map(|(option, value)| (option.to_owned(), value.to_owned())).collect()
}

/// The options whose values differ and can be set.
fn differing(texts: &[String; 2], first: &Made, second: &Made) -> Vec<OptionChange> {
    let value = |of: &Made, option: &str| of.get(option).map_or("n", String::as_str).to_owned();
    let mut seen = std::collections::BTreeSet::new();
    let mut found: Vec<OptionChange> = texts
        .iter()
        .rev()
        .flat_map(|text| text.lines())
        .filter_map(option_of)
        .filter(|option| seen.insert((*option).to_owned()))
        .map(|option| OptionChange {
            option: option.to_owned(),
            before: value(first, option),
            after: value(second, option),
        })
        // Numbers and texts that one of them does not have follow from other options.
        .filter(|change| change.before != change.after && is_text(&change.before) == is_text(&change.after))
        .collect();
    found.sort_by_key(|change| (change.is_built_in(), change.matters()));
    found
}

/// Whether it is not one of `y`, `m` and `n`.
fn is_text(value: &str) -> bool {
    !["y", "m", "n"].contains(&value)
}

/// The option of a line of a configuration, set or not.
fn option_of(line: &str) -> Option<&str> {
    match line.strip_prefix("# CONFIG_") {
        Some(rest) => rest.strip_suffix(" is not set"),
        None => Some(line.strip_prefix("CONFIG_")?.split_once('=')?.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_differ_are_found_modules_first() {
        let before = "CONFIG_UBSAN=y\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_M=m\nCONFIG_HZ=250\nCONFIG_ONLY=7\nCONFIG_GONE=y\n";
        let after = "CONFIG_B=y\nCONFIG_HZ=1000\nCONFIG_A=y\n# CONFIG_M is not set\n";
        let texts = [before.to_owned(), after.to_owned()];
        let found = differing(&texts, &made(before), &made(after));
        let shown: Vec<String> = found.iter().map(OptionChange::to_string).collect();
        assert_eq!(shown, ["M m -> n", "B n -> y", "GONE y -> n", "HZ 250 -> 1000", "UBSAN y -> n"]);
        assert!(!found[0].is_built_in() && found[1].is_built_in());
    }

    #[test]
    fn lines_of_configurations_name_options() {
        assert_eq!(option_of("# CONFIG_NUMA is not set"), Some("NUMA"));
        assert_eq!(option_of("CONFIG_HZ=250"), Some("HZ"));
        assert_eq!((option_of("# Linux 6.12"), option_of("")), (None, None));
    }
}
