//! What shows that a configuration option matters to a workload: a function that only kernels with it have, and execute; or
//! a search for options that has measured it.

use super::columns::{self, UNKNOWN};
use super::measure::Measure;
use super::model::Comparison;
use super::steps::Case;
use crate::kernel::config;
use crate::report::number;

/// Find the evidence for all options that differ; `cases` are those of the sections. Options with evidence join the
/// differences.
pub(super) fn find(comparison: &mut Comparison, cases: &[Case]) {
    for mut option in std::mem::take(&mut comparison.other_options) {
        let columns = |is_on: bool| -> Vec<usize> {
            let values = option.values.iter().enumerate().filter(|(_, value)| *value != UNKNOWN);
            values.filter(|(_, value)| ["n", "-"].contains(&&***value) != is_on).map(|(column, _)| column).collect()
        };
        let (on, off) = (columns(true), columns(false));
        let mut strongest = 0.0;
        for (section, case) in comparison.sections.iter().zip(cases).filter(|_| !on.is_empty() && !off.is_empty()) {
            let mode = &section.mode;
            let (value, text) = match (executed(&option.what, case, [&on, &off]), measured(&option.what, mode)) {
                (Some((value, function)), _) => {
                    let value_shown = number::exact(value);
                    (value, format!("only kernels with it execute {function}, {value_shown} {}", comparison.per_kib()))
                }
                (None, Some(text)) => (0.0, text),
                (None, None) => continue,
            };
            if option.modes.is_empty() || value > strongest {
                (option.matters, strongest) = (text, value);
            }
            if !option.modes.contains(mode) {
                option.modes.push(mode.clone());
            }
        }
        let list = if option.modes.is_empty() { &mut comparison.other_options } else { &mut comparison.differences };
        list.push(option);
    }
    columns::sort(&mut comparison.differences);
}

/// What a search has found of this option in a mode.
fn measured(option: &str, mode: &str) -> Option<String> {
    let (change, source) = config::measured(option, mode)?;
    Some(format!("a search has measured {change} of {mode} on {source}"))
}

/// The function of this option that takes most, with its callees, in a column with the option, and is not executed in any
/// column without it.
fn executed(option: &str, case: &Case, [on, off]: [&[usize]; 2]) -> Option<(f64, &'static str)> {
    let value = |columns: &[usize], name: &str| -> Vec<f64> {
        let measures = columns.iter().filter_map(|column| case.columns.get(*column)?.as_ref()?.profile.as_deref());
        measures.map(|measure: &Measure| measure.with_callees(name)).collect()
    };
    let only_with = |name: &&str| {
        let without = value(off, name);
        !without.is_empty() && without.iter().all(|value| *value == 0.0)
    };
    let most = |name: &'static str| (value(on, name).into_iter().fold(0.0, f64::max), name);
    let found = config::functions_of(option).filter(only_with).map(most).filter(|(value, _)| *value > 0.0);
    found.max_by(|a, b| a.0.total_cmp(&b.0))
}
