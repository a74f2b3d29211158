//! Find all items of a list that change a measured value.
//!
//! A position is the number of items, from the first on, that are applied. Two positions are measured and compared; if
//! they differ, a position between them is measured, until single items are left. So k of n items need about
//! k log2(n/k) measurements, and their changes add up to the change of all. Items whose changes cancel each other inside
//! a range that was not divided are not found.

use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};

/// What is searched.
pub trait SearchLine {
    /// What is known of a position.
    type Point;

    /// How many items there are.
    fn items(&self) -> usize;

    /// How much measuring a range with this item is expected to be worth: ranges are divided into halves of equal weight.
    fn weight(&self, _item: usize) -> usize {
        1
    }

    /// Measure a position; `None` if it cannot be measured, for example because it does not build.
    fn measure(&mut self, position: usize) -> Result<Option<Self::Point>>;

    /// Whether two positions differ.
    fn differ(&mut self, before: &Self::Point, after: &Self::Point) -> Result<bool>;
}

/// A range of items that change the value: a single one, unless no position inside the range can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Culprit {
    /// The position before the first item, which is also its index.
    pub before: usize,
    /// The position after the last item.
    pub after: usize,
}

/// What a search found.
#[derive(Debug)]
pub struct Search<P> {
    /// In the order of the list.
    pub culprits: Vec<Culprit>,
    /// What was measured, by position; `None`: could not be.
    pub points: BTreeMap<usize, Option<P>>,
}

/// Search the whole of `line`. At least `probes` positions between its ends are measured, at equal distances, even if
/// the ends do not differ.
///
/// # Errors
/// If an end cannot be measured.
pub fn search<L: SearchLine>(line: &mut L, probes: usize) -> Result<Search<L::Point>> {
    let length = line.items();
    let mut points = BTreeMap::new();
    for end in BTreeSet::from([0, length]) {
        let point = line.measure(end)?;
        let side = if end == 0 { "first" } else { "last" };
        point.as_ref().with_context(|| format!("the {side} of them cannot be measured"))?;
        points.insert(end, point);
    }
    let mut edges = vec![0];
    for probe in 1..=probes {
        let (position, half) = (probe * length / (probes + 1), length / (2 * (probes + 1)));
        let near = Culprit { before: position.saturating_sub(half + 1), after: position + half + 1 };
        let last = edges.last().copied().unwrap_or_default();
        let near = Culprit { before: near.before.max(last), after: near.after.min(length) };
        edges.extend(nearest(line, near, position, &mut points)?);
    }
    edges.push(length);
    let mut culprits = Vec::new();
    // The earliest range is on top.
    let mut ranges: Vec<Culprit> =
        edges.windows(2).rev().map(|edge| Culprit { before: edge[0], after: edge[1] }).collect();
    while let Some(range) = ranges.pop() {
        let (Some(Some(before)), Some(Some(after))) = (points.get(&range.before), points.get(&range.after)) else {
            continue;
        };
        if range.before == range.after || !line.differ(before, after)? {
            continue;
        }
        match divide(line, range, &mut points)? {
            Some(middle) => {
                ranges.push(Culprit { before: middle, ..range });
                ranges.push(Culprit { after: middle, ..range });
            }
            None => culprits.push(range),
        }
    }
    Ok(Search { culprits, points })
}

/// A position inside `range` that can be measured, as close to its middle as possible.
fn divide<L: SearchLine>(
    line: &mut L,
    range: Culprit,
    points: &mut BTreeMap<usize, Option<L::Point>>,
) -> Result<Option<usize>> {
    let total: usize = (range.before..range.after).map(|item| line.weight(item)).sum();
    let mut passed = 0;
    let mut best = (usize::MAX, range.before);
    for position in range.before + 1..range.after {
        passed += line.weight(position - 1);
        best = best.min((total.abs_diff(2 * passed), position));
    }
    nearest(line, range, best.1, points)
}

/// The position inside `range` that can be measured and is closest to `wanted`.
fn nearest<L: SearchLine>(
    line: &mut L,
    range: Culprit,
    wanted: usize,
    points: &mut BTreeMap<usize, Option<L::Point>>,
) -> Result<Option<usize>> {
    let mut inside: Vec<usize> = (range.before + 1..range.after).collect();
    inside.sort_by_key(|position| (position.abs_diff(wanted), *position));
    for position in inside {
        if let std::collections::btree_map::Entry::Vacant(entry) = points.entry(position) {
            entry.insert(line.measure(position)?);
        }
        if points.get(&position).is_some_and(Option::is_some) {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items that add to a value; some positions do not build.
    struct Planted {
        items: Vec<i32>,
        broken: Vec<usize>,
        weights: Vec<usize>,
        measured: Vec<usize>,
    }

    impl Planted {
        fn new(length: usize, culprits: &[(usize, i32)], broken: &[usize]) -> Self {
            let mut items = vec![0; length];
            for (item, value) in culprits {
                items[*item] = *value;
            }
            Self { items, broken: broken.to_vec(), weights: vec![1; length], measured: Vec::new() }
        }

        fn found(&mut self, probes: usize) -> Vec<(usize, usize)> {
            let search = search(self, probes).unwrap();
            search.culprits.iter().map(|range| (range.before, range.after)).collect()
        }
    }

    impl SearchLine for Planted {
        type Point = i32;

        fn items(&self) -> usize {
            self.items.len()
        }

        fn weight(&self, item: usize) -> usize {
            self.weights[item]
        }

        fn measure(&mut self, position: usize) -> Result<Option<i32>> {
            assert!(!self.measured.contains(&position), "{position} was measured before");
            self.measured.push(position);
            let value = self.items[..position].iter().sum();
            Ok((!self.broken.contains(&position)).then_some(value))
        }

        fn differ(&mut self, before: &i32, after: &i32) -> Result<bool> {
            Ok(before != after)
        }
    }

    #[test]
    fn every_item_that_changes_the_value_is_found() {
        let mut line = Planted::new(200, &[(0, 5), (77, -3), (150, 8), (199, 1)], &[]);
        assert_eq!(line.found(0), [(0, 1), (77, 78), (150, 151), (199, 200)]);
        assert!(line.measured.len() <= 32, "{:?}", line.measured);
        let mut none = Planted::new(200, &[], &[]);
        assert_eq!((none.found(0), none.measured.len()), (vec![], 2));
        assert_eq!(Planted::new(0, &[], &[]).found(3), []);
        assert_eq!(Planted::new(1, &[(0, 1)], &[]).found(3), [(0, 1)]);
    }

    #[test]
    fn positions_that_cannot_be_measured_are_left_out() {
        // 40 to 42 do not build: what is found is the range of items 39 to 42.
        let mut line = Planted::new(100, &[(40, 2), (80, 1)], &[40, 41, 42, 50]);
        assert_eq!(line.found(0), [(39, 43), (80, 81)]);
        let error = search(&mut Planted::new(4, &[(1, 1)], &[4]), 0).unwrap_err();
        assert_eq!(error.to_string(), "the last of them cannot be measured");
    }

    #[test]
    fn probes_find_what_cancels() {
        // An item and its revert.
        let cancelled = || Planted::new(64, &[(20, 4), (50, -4)], &[]);
        assert_eq!(cancelled().found(0), []);
        assert_eq!(cancelled().found(1), [(20, 21), (50, 51)]);
        // A probe that cannot be measured is taken beside.
        let mut broken = Planted::new(64, &[(20, 4), (50, -4)], &[32, 33]);
        assert_eq!(broken.found(1), [(20, 21), (50, 51)]);
        assert_eq!(cancelled().found(100), [(20, 21), (50, 51)]);
    }

    #[test]
    fn heavy_items_are_divided_first() {
        let mut line = Planted::new(64, &[(62, 1)], &[]);
        line.weights[62] = 64;
        line.weights[63] = 64;
        assert_eq!(line.found(0), [(62, 63)]);
        assert!(line.measured.len() <= 5, "{:?}", line.measured);
    }
}
