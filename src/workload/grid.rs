//! All combinations of some values of some axes, for sweeps.

use super::WorkloadRequest;
use super::axis::{Axis, AxisKind, Value};
use crate::util::size;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Maximum number of combinations; more are probably a typing error.
const MOST: usize = 2_000;

/// The axes and their values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grid {
    modes: Vec<String>,
    axes: Vec<(&'static Axis, Vec<Value>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Combination {
    /// Values as typed, by the names of their axes.
    pub labels: BTreeMap<String, String>,
    pub request: WorkloadRequest,
}

impl Grid {
    /// All of `modes`, with `values` of axes. Repeated values count once, and axes without values are left out.
    pub(crate) fn new(modes: &[String], values: Vec<(&'static Axis, Vec<Value>)>) -> Self {
        let mut axes: Vec<(&'static Axis, Vec<Value>)> =
            values.into_iter().map(|(axis, values)| (axis, distinct(values))).filter(|(_, v)| !v.is_empty()).collect();
        // Sizes come last, the buffer size at the very end, because the last axis varies fastest in tables.
        let is_size = |axis: &Axis| matches!(axis.kind, AxisKind::Size { .. });
        let mut sizes: Vec<_> = axes.extract_if(.., |(axis, _)| is_size(axis)).collect();
        sizes.reverse();
        axes.extend(sizes);
        Self { modes: distinct(modes.to_vec()), axes }
    }

    /// Names and values as typed, in the order of tables.
    pub(crate) fn axes(&self) -> Vec<(String, Vec<String>)> {
        let mode = ("mode".to_owned(), self.modes.clone());
        let axes = self.axes.iter().map(|(axis, values)| {
            (axis.name.to_owned(), values.iter().map(|value| axis.format(value)).collect::<Vec<_>>())
        });
        std::iter::once(mode).chain(axes).collect()
    }

    /// All combinations, each on top of `common`; the last axis varies fastest.
    pub(crate) fn combinations(&self, common: &WorkloadRequest) -> Result<Vec<Combination>> {
        let counts = std::iter::once(self.modes.len()).chain(self.axes.iter().map(|(_, values)| values.len()));
        match counts.into_iter().try_fold(1usize, usize::checked_mul) {
            Some(count) if count <= MOST => {}
            _ => bail!("these axes have more than {MOST} combinations: give fewer values"),
        }
        let mut all: Vec<Combination> = self
            .modes
            .iter()
            .map(|mode| Combination {
                labels: BTreeMap::from([("mode".to_owned(), mode.clone())]),
                request: WorkloadRequest { mode: Some(mode.clone()), ..common.clone() },
            })
            .collect();
        for (axis, values) in &self.axes {
            all = all
                .iter()
                .flat_map(|combination| values.iter().map(|value| combination.with(axis, value.clone())))
                .collect();
        }
        Ok(all)
    }
}

impl Combination {
    fn with(&self, axis: &Axis, value: Value) -> Self {
        let mut combination = self.clone();
        combination.labels.insert(axis.name.to_owned(), axis.format(&value));
        combination.request.overrides.put(axis, value);
        combination
    }
}

fn distinct<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// Parse the values of `axis` in one flag: a list, and for sizes and counts also doubling ranges such as `4K..4M`.
pub(crate) fn values(axis: &Axis, text: &str) -> Result<Vec<Value>, String> {
    match axis.kind {
        AxisKind::Size { .. } => Ok(sizes(text)?.into_iter().map(Value::Number).collect()),
        AxisKind::Count { least, most } => {
            let wrong = |_| format!("'{text}' is not a list of whole numbers such as 1,2 or 1..8");
            let numbers = sizes(text).map_err(wrong)?;
            match numbers.iter().find(|number| !(least..=most).contains(number)) {
                Some(number) => Err(format!("{number} in '{text}': give numbers from {least} to {most}")),
                None => Ok(numbers.into_iter().map(Value::Number).collect()),
            }
        }
        _ => text.split(',').map(|text| axis.parse(text)).collect(),
    }
}

/// `4K..4M` doubles from the first to the last, `4K,1M` lists, and both may be mixed.
fn sizes(text: &str) -> Result<Vec<u64>, String> {
    let mut values = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => values.push(size::parse(part)?),
            Some((from, to)) => {
                let (from, to) = (size::parse(from)?, size::parse(to)?);
                if from == 0 || from > to {
                    return Err(format!(
                        "'{part}' is not a range: give the smaller value first, above 0, such as 4K..4M"
                    ));
                }
                let doubled = std::iter::successors(Some(from), |value| value.checked_mul(2));
                values.extend(doubled.take_while(|value| *value <= to));
            }
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::axes::AXES;

    #[test]
    fn ranges_double_and_lists_list() {
        assert_eq!(sizes("4K..32K"), Ok(vec![4096, 8192, 16384, 32768]));
        assert_eq!(sizes("3..20"), Ok(vec![3, 6, 12]));
        assert_eq!(sizes("4K,1M..2M"), Ok(vec![4096, 1 << 20, 2 << 20]));
        for bad in ["", "8K..4K", "0..4", "4K..", "x", "1..2..3", "-1"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
        // Doubling ends at the largest power of two, without overflow.
        let all: Vec<u64> = (0..64).map(|power| 1 << power).collect();
        assert_eq!(sizes(&format!("1..{}", u64::MAX)), Ok(all.clone()));
        assert_eq!(sizes("1..8388608T"), Ok(all));
        assert!(sizes("1..16777216T").is_err(), "2^64 is not a size");
    }

    fn grid(modes: &[&str], axes: &[(&str, &str)]) -> Grid {
        let modes: Vec<String> = modes.iter().map(|mode| (*mode).to_owned()).collect();
        let of = |name: &str, text: &str| {
            let axis = Axis::find(name).unwrap();
            (axis, values(axis, text).unwrap())
        };
        Grid::new(&modes, axes.iter().map(|(name, text)| of(name, text)).collect())
    }

    #[test]
    fn all_combinations_are_there_once_and_too_many_are_refused() {
        let grid =
            grid(&["write", "vmsplice", "write"], &[("buffer-size", "8K..32K,8K"), ("pairs", "1"), ("poll", "true")]);
        let names: Vec<String> = grid.axes().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["mode", "pairs", "poll", "buffer-size"], "sizes vary fastest");
        let all = grid.combinations(&WorkloadRequest::default()).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!((all[0].labels["mode"].as_str(), all[1].labels["buffer-size"].as_str()), ("write", "16K"));
        let (name, spec) = all[5].request.spec().unwrap();
        assert_eq!(name, "vmsplice (poll=true, buffer-size=32K)");
        assert_eq!((spec.buffer_size, spec.pairs, spec.poll), (32 << 10, 1, true));
        let many =
            super::tests::grid(&["write"], &[("buffer-size", "1..1T"), ("pipe-size", "1..1T"), ("pairs", "1..8")]);
        assert!(many.combinations(&WorkloadRequest::default()).unwrap_err().to_string().contains("fewer"));
    }

    #[test]
    fn every_swept_axis_takes_a_list() {
        for axis in AXES.iter().filter(|axis| axis.swept) {
            let list = match axis.kind {
                AxisKind::Switch => "true,false".to_owned(),
                AxisKind::Size { .. } => "4K,8K".to_owned(),
                AxisKind::Count { .. } => "1,2".to_owned(),
                AxisKind::Choice(choices) => format!("{},{0}", choices()[0].get_name()),
                AxisKind::File => "a,b".to_owned(),
            };
            let values = values(axis, &list).unwrap();
            let shown: Vec<String> = values.iter().map(|value| axis.format(value)).collect();
            assert_eq!(shown.join(","), list, "{}", axis.name);
            if !matches!(axis.kind, AxisKind::File) {
                assert!(super::values(axis, "nonsense").is_err(), "{}", axis.name);
            }
        }
    }
}
