//! Several values of one axis, for sweeps.

use super::axis::{Axis, AxisKind, Value};
use crate::util::size;

/// Parse the values of `axis` in one flag: a list, and for sizes and counts also doubling ranges such as `4K..4M`.
pub fn values(axis: &Axis, text: &str) -> Result<Vec<Value>, String> {
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

    #[test]
    fn every_swept_axis_takes_a_list() {
        for axis in AXES.iter().filter(|axis| axis.swept) {
            let list = match axis.kind {
                AxisKind::Switch => "true,false".to_owned(),
                AxisKind::Size { .. } => "4K,8K".to_owned(),
                AxisKind::Count { .. } => "1,2".to_owned(),
                AxisKind::Choice(choices) => format!("{},{0}", choices()[0].0),
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
