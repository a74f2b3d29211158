//! Functions of stripped programs, which are named by their place in the file (`sort+0x9450`). A program that was built again has
//! them elsewhere, in nearly the same order: they are aligned by what they execute.

use super::function_weights::Key;
use super::measure::Measure;
use crate::profile::ProcessName;
use crate::roles::RoleId;
use std::collections::BTreeMap;

/// Two functions may be one if their instructions, without and with callees, agree at least so well: the smaller part of the
/// larger, averaged.
const ALIKE: f64 = 0.8;

/// Files with this part of their functions at the same places have not been built again.
const UNMOVED: f64 = 0.9;

/// Programs in which more functions are executed are not aligned: it takes time that grows with the square.
const MOST: usize = 2_000;

/// A function of a stripped program.
#[derive(Debug, Clone, Copy)]
struct PlacedFunction<'a> {
    offset: u64,
    key: &'a Key,
    /// Per KiB, without and with callees.
    values: [f64; 2],
}

impl PlacedFunction<'_> {
    fn likeness(&self, other: &Self) -> f64 {
        let part = |at: usize| {
            let [a, b] = [self.values[at], other.values[at]];
            if a == b { 1.0 } else { a.min(b) / a.max(b) }
        };
        f64::midpoint(part(0), part(1))
    }
}

/// Which function after is which one before.
pub(crate) fn partners<'a>(before: &'a Measure, after: &'a Measure) -> BTreeMap<&'a Key, &'a Key> {
    let [old, mut new] = [before, after].map(by_file);
    let pairs = old.into_iter().flat_map(|(file, old)| aligned(&old, &new.remove(&file).unwrap_or_default()));
    pairs.collect()
}

/// The functions that are named by their places, by process and file, in the order of their places.
fn by_file(measure: &Measure) -> BTreeMap<(ProcessName, &str), Vec<PlacedFunction<'_>>> {
    let mut files: BTreeMap<_, Vec<PlacedFunction<'_>>> = BTreeMap::new();
    for (key, weight) in measure.functions.iter().filter(|(key, _)| key.role == RoleId::User) {
        let Some((file, offset)) = key.name.rsplit_once("+0x") else { continue };
        let Ok(offset) = u64::from_str_radix(offset, 16) else { continue };
        let values = [weight.own, weight.whole].map(|weight| measure.per_kib(key.process, weight));
        files.entry((key.process, file)).or_default().push(PlacedFunction { offset, key, values });
    }
    files.values_mut().for_each(|file| file.sort_by_key(|function| function.offset));
    files
}

/// The pairs of one file: the alignment in order with the largest sum of likeness (Needleman and Wunsch, Journal of Molecular
/// Biology 48, 443, 1970), and what is alone between two pairs.
fn aligned<'a>(old: &[PlacedFunction<'a>], new: &[PlacedFunction<'a>]) -> Vec<(&'a Key, &'a Key)> {
    let same = old.iter().filter(|function| new.iter().any(|other| other.offset == function.offset)).count();
    if same as f64 >= UNMOVED * old.len().max(new.len()) as f64 || old.len().max(new.len()) > MOST {
        return Vec::new();
    }
    let width = new.len() + 1;
    // The best sum of the functions from each pair of places on.
    let mut best = vec![0.0; (old.len() + 1) * width];
    let likeness = |i: usize, j: usize| Some(old[i].likeness(&new[j])).filter(|alike| *alike >= ALIKE);
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let paired = likeness(i, j).map_or(0.0, |alike| alike + best[(i + 1) * width + j + 1]);
            best[i * width + j] = paired.max(best[(i + 1) * width + j]).max(best[i * width + j + 1]);
        }
    }
    let mut pairs = Vec::new();
    // The first of both that are between the last pair and this place.
    let (mut i, mut j, mut open) = (0, 0, (0, 0));
    let between = |pairs: &mut Vec<(&'a Key, &'a Key)>, open: (usize, usize), end: (usize, usize)| {
        if (end.0 - open.0, end.1 - open.1) == (1, 1) {
            pairs.push((old[open.0].key, new[open.1].key));
        }
    };
    while i < old.len() && j < new.len() {
        let here = best[i * width + j];
        if likeness(i, j).is_some_and(|alike| here == alike + best[(i + 1) * width + j + 1]) {
            between(&mut pairs, open, (i, j));
            pairs.push((old[i].key, new[j].key));
            (i, j) = (i + 1, j + 1);
            open = (i, j);
        } else if here == best[(i + 1) * width + j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    between(&mut pairs, open, (old.len(), new.len()));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::function_weights::FunctionWeight;
    use crate::compare::measure::MeasuredPer;

    fn measure(functions: &[(&str, u64)]) -> Measure {
        let process = ProcessName::new("stage1-sort");
        let mut measure = Measure { per: MeasuredPer::Moved(1024), ..Measure::default() };
        for (name, own) in functions {
            let key = Key { process, role: RoleId::User, name: (*name).to_owned() };
            measure.processes.get_or_default(process).weight += own;
            measure.functions.insert(key, FunctionWeight { own: *own, whole: *own, ..FunctionWeight::default() });
        }
        measure.scale_counts();
        measure
    }

    fn paired(before: &[(&str, u64)], after: &[(&str, u64)]) -> Vec<(String, String)> {
        let [before, after] = [before, after].map(measure);
        partners(&before, &after).into_iter().map(|(old, new)| (old.name.clone(), new.name.clone())).collect()
    }

    #[test]
    fn functions_that_moved_are_found() {
        let before = [("sort+0x100", 500), ("sort+0x200", 9_000), ("sort+0x300", 70), ("sort+0x400", 8_000)];
        // One is new, one takes twice as many, and one is where another was.
        let after = [
            ("sort+0x120", 500),
            ("sort+0x200", 33),
            ("sort+0x280", 9_100),
            ("sort+0x3a0", 140),
            ("sort+0x500", 8_000),
        ];
        let expected = [(0, 0), (1, 2), (2, 3), (3, 4)];
        assert_eq!(
            paired(&before, &after),
            expected.map(|(old, new)| (before[old].0.to_owned(), after[new].0.to_owned()))
        );
    }

    #[test]
    fn a_file_that_did_not_move_keeps_its_names() {
        let functions: Vec<(String, u64)> = (1..20).map(|at| (format!("libc.so.6+{:#x}", at * 64), at * 10)).collect();
        let functions: Vec<(&str, u64)> = functions.iter().map(|(name, own)| (&name[..], *own)).collect();
        assert!(paired(&functions, &functions).is_empty());
        assert!(paired(&functions, &[]).is_empty());
        assert!(paired(&[("main", 1)], &[("start", 1)]).is_empty());
    }
}
