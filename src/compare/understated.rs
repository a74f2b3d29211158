//! What a change of instructions understates, in words: bytes that `rep` instructions move, and estimated cycles that
//! change in another direction.

use super::model::{CycleChange, RepChange, Section, Step, Word};
use crate::report::number;
use crate::util::text::rounded;

/// To follow the verdict on a change; empty if instructions say it all.
pub(super) fn understated(all: &[(&Section, &Step)]) -> String {
    let moved: Vec<(&Section, &Step, &RepChange)> = all
        .iter()
        .filter_map(|(section, step)| Some((*section, *step, step.rep.as_ref().filter(|rep| rep.matters)?)))
        .collect();
    if moved.is_empty() {
        return opposed(all);
    }
    let sign = |rep: &RepChange| (rep.after - rep.before).signum();
    let first = sign(moved[0].2);
    let is_one = moved.len() == all.len() && moved.iter().all(|(.., rep)| sign(rep) == first);
    let is_less = all.iter().all(|(_, step)| step.verdict.word.direction() == Some(first));
    let lead = if is_one && is_less { ", which understates it:" } else { ", while" };
    let clauses: Vec<String> = match is_one {
        true => vec![clause(&moved, "")],
        false => moved.iter().map(|one| clause(std::slice::from_ref(one), &one.0.place())).collect(),
    };
    format!("{lead} {}", clauses.join(", and "))
}

/// `rep instructions, which count once each, copy or clear 960 bytes per KiB more: +41 to +145 estimated cycles per KiB`.
fn clause(moved: &[(&Section, &Step, &RepChange)], place: &str) -> String {
    let changes = moved.iter().map(|(.., rep)| rep.after - rep.before);
    let sizes = changes.clone().map(f64::abs);
    let bytes = [sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max)];
    let how = if changes.sum::<f64>() > 0.0 { "more" } else { "less" };
    let cycles: Vec<&CycleChange> = moved.iter().filter_map(|(_, step, _)| step.cycles.as_ref()).collect();
    let [range, part] = ranges(&cycles);
    let cycles = match cycles[..] {
        [] => String::new(),
        _ => format!(": {range} estimated cycles per KiB ({part})"),
    };
    let bytes = number::span(bytes, rounded);
    format!("`rep` instructions, which count once each, copy or clear {bytes} bytes per KiB {how}{place}{cycles}")
}

/// The ranges of all changes together, per KiB and as a part: `+41 to +145`, `+11 % to +33 %`.
fn ranges(cycles: &[&CycleChange]) -> [String; 2] {
    let over = |range: &dyn Fn(&CycleChange) -> [f64; 2]| {
        let ranges = cycles.iter().map(|change| range(change));
        ranges.fold([f64::INFINITY, f64::NEG_INFINITY], |all, one| [all[0].min(one[0]), all[1].max(one[1])])
    };
    let range = over(&|change| change.without_scheduling.range);
    let part = over(&|change| change.part);
    [number::span(range, number::signed), number::span(part, |part| number::change(1.0 + part))]
}

/// Estimated cycles that change in another direction than instructions do, or change where these do not.
fn opposed(all: &[(&Section, &Step)]) -> String {
    let is_opposed = |step: &Step, cycles: &CycleChange| {
        let (instructions, cycles) = (step.verdict.word, cycles.word.direction());
        instructions != Word::Undecided && cycles.is_some() && cycles != instructions.direction()
    };
    let found: Vec<(&Section, &CycleChange)> = all
        .iter()
        .filter_map(|(section, step)| Some((*section, step.cycles.as_ref().filter(|cycles| is_opposed(step, cycles))?)))
        .collect();
    if found.is_empty() {
        return String::new();
    }
    let said = |cycles: &[&CycleChange], place: &str| {
        let [range, part] = ranges(cycles);
        format!(", while estimated cycles change by {range} per KiB ({part}){place}")
    };
    let one_way = found.windows(2).all(|pair| pair[0].1.word == pair[1].1.word);
    if found.len() == all.len() && one_way {
        return said(&found.iter().map(|(_, cycles)| *cycles).collect::<Vec<_>>(), "");
    }
    found.iter().map(|(section, cycles)| said(&[cycles], &section.place())).collect()
}
