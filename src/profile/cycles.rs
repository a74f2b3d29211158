//! Estimated cycles: instructions by class, and the cache lines moved by `rep` instructions, priced by a model. There is
//! no cache, no branch predictor and no parallel CPU in a model: docs/cycles.md says how near to hardware it comes.

use super::stacks::StackMap;
use super::{CallStack, Folded};
use crate::arch::CYCLE_MODELS;
use crate::roles::{self, RoleId};
use crate::util::text::fnv1a;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// The name in profiles and files of instructions priced by a model.
pub const NAME: &str = "cycles";

/// Bytes of a cache line.
const LINE: f64 = 64.0;

/// The weights of all classes but [`InstructionClass::Other`] are multiplied by these for the ends of a range.
pub const FACTORS: [f64; 2] = [0.5, 2.0];

/// The number of prices: one for each class, and one for a cache line moved by `rep`.
pub const PRICES: usize = 12;

/// Of each class of instructions: its variant, its count, and the name of its price in a model's file.
macro_rules! classes {
    ($($(#[$about:meta])* $class:ident, $count:ident, $name:literal;)+) => {
        /// A class of instructions with its own price.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum InstructionClass {
            $($(#[$about])* $class,)+
        }

        /// The names of the prices in a model's file, in the order of [`ClassCounts::amounts`].
        const CLASSES: [&str; PRICES] = [$($name,)+ "rep-line"];

        /// Instructions by class. A class that is absent has none.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(default)]
        pub struct ClassCounts {
            $($(#[$about])* #[serde(skip_serializing_if = "is_zero")] pub $count: u64,)+
            /// Bytes moved by `rep` instructions: iterations times the size of an element. Not an instruction count.
            #[serde(skip_serializing_if = "is_zero")]
            pub rep_bytes: u64,
        }

        impl ClassCounts {
            pub fn add(&mut self, class: InstructionClass, times: u64) {
                *match class {
                    $(InstructionClass::$class => &mut self.$count,)+
                } += times;
            }

            fn classes(&self) -> [u64; PRICES - 1] {
                [$(self.$count),+]
            }
        }

        impl AddAssign for ClassCounts {
            fn add_assign(&mut self, more: Self) {
                $(self.$count = self.$count.saturating_add(more.$count);)+
                self.rep_bytes = self.rep_bytes.saturating_add(more.rep_bytes);
            }
        }
    };
}

classes! {
    Other, other, "other";
    /// Atomic operations: with a lock prefix, or `xchg` with memory. On one CPU Linux replaces lock prefixes; such
    /// operations are included.
    Locked, locked, "locked";
    Syscall, syscall, "syscall";
    Sysret, sysret, "sysret";
    Swapgs, swapgs, "swapgs";
    Wrmsr, wrmsr, "wrmsr";
    Iret, iret, "iret";
    /// Writes to CR3.
    Cr3, cr3, "cr3";
    Div, div, "div";
    /// `cli`, `sti` and `popf`.
    InterruptFlag, interrupt_flag, "interrupt-flag";
    /// `rep` string instructions, however often each repeats.
    Rep, rep, "rep";
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ClassCounts {
    /// Instructions of all classes.
    pub fn instructions(&self) -> u64 {
        // Documents are not trusted.
        self.classes().into_iter().fold(0, u64::saturating_add)
    }

    /// What is priced: the instructions of each class, then the cache lines moved by `rep` instructions.
    pub fn amounts(&self) -> [f64; PRICES] {
        let mut amounts = [self.rep_bytes as f64 / LINE; PRICES];
        for (amount, count) in amounts.iter_mut().zip(self.classes()) {
            *amount = count as f64;
        }
        amounts
    }
}

/// Instructions by stack and class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassifiedStacks {
    stacks: StackMap<ClassCounts>,
}

impl ClassifiedStacks {
    /// Add `counts` to the stack of `frames`, root first.
    pub fn add<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, counts: ClassCounts) {
        *self.stacks.entry(frames).1 += counts;
    }

    /// Stacks and counts, in the order of the stacks' text.
    pub fn iter(&self) -> impl Iterator<Item = (CallStack<'_>, &ClassCounts)> {
        self.stacks.iter()
    }

    /// The instructions of all classes.
    pub fn instructions(&self) -> Folded {
        self.folded(ClassCounts::instructions)
    }

    /// Estimated cycles, each stack rounded.
    pub fn cycles(&self, model: &CycleModel) -> Folded {
        self.folded(|counts| model.cycles(counts, 1.0).round() as u64)
    }

    fn folded(&self, weight: impl Fn(&ClassCounts) -> u64) -> Folded {
        let mut folded = Folded::new();
        self.iter().for_each(|(stack, counts)| folded.add_stack(stack.frames(), weight(counts)));
        folded
    }

    pub fn by_role(&self) -> BTreeMap<RoleId, ClassCounts> {
        let mut by_role: BTreeMap<RoleId, ClassCounts> = BTreeMap::new();
        for (stack, counts) in self.iter() {
            *by_role.entry(roles::of_stack(stack.frames()).0.id).or_default() += *counts;
        }
        by_role
    }
}

/// A model: the cycles of an instruction of each class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CycleModel {
    pub name: String,
    /// FNV-1a (64 bits) of its file, in hexadecimal digits.
    pub hash: String,
    /// Cycles of one instruction of each class, and of one cache line moved by `rep` (`rep-line`).
    pub weights: BTreeMap<String, f64>,
    /// The names of weights for which the model states no source.
    #[serde(default)]
    pub guesses: Vec<String>,
}

/// A model's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    name: String,
    weights: BTreeMap<String, SourcedWeight>,
}

/// A weight, and where it comes from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourcedWeight {
    cycles: f64,
    kind: SourceKind,
    source: String,
}

/// What stands behind a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SourceKind {
    Measured,
    Manual,
    Guess,
}

impl CycleModel {
    /// The model that is used if no other is given.
    pub fn standard() -> Result<Self> {
        let [(_, text), ..] = CYCLE_MODELS;
        Self::parse(text)
    }

    /// Read a model that a user gave.
    pub fn given(text: &str) -> Result<Self> {
        let model = Self::parse(text)?;
        if let Some((_, own)) = CYCLE_MODELS.iter().find(|(name, _)| *name == model.name)
            && *own != text
        {
            bail!("'{}' is the name of a model of pipeprof: choose another name", model.name);
        }
        Ok(model)
    }

    fn parse(text: &str) -> Result<Self> {
        let file: ModelFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            anyhow::anyhow!("line {line}: {}", error.message())
        })?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        ensure!(
            (1..=40).contains(&file.name.len()) && file.name.chars().all(plain),
            "its name is not 1 to 40 letters, digits, '-', '_' and '.'"
        );
        if let Some(unknown) = file.weights.keys().find(|name| !CLASSES.contains(&name.as_str())) {
            bail!("unknown weight '{unknown}'; known: {}", CLASSES.join(", "));
        }
        let (mut weights, mut guesses) = (BTreeMap::new(), Vec::new());
        for name in CLASSES {
            let weight = file.weights.get(name).with_context(|| format!("the weight '{name}' is missing"))?;
            ensure!(weight.cycles.is_finite() && weight.cycles >= 0.0, "the weight '{name}' is not a positive number");
            ensure!(!weight.source.trim().is_empty(), "the weight '{name}' has no source");
            weights.insert(name.to_owned(), weight.cycles);
            guesses.extend((weight.kind == SourceKind::Guess).then(|| name.to_owned()));
        }
        ensure!(weights.get("other").is_some_and(|cycles| *cycles > 0.0), "the weight 'other' is 0");
        Ok(Self { name: file.name, hash: format!("{:016x}", fnv1a(text)), weights, guesses })
    }

    /// Estimated cycles of `counts`, with all weights but that of `other` multiplied by `factor`.
    pub fn cycles(&self, counts: &ClassCounts, factor: f64) -> f64 {
        self.cycles_of(&counts.amounts(), factor)
    }

    /// The same for amounts.
    pub fn cycles_of(&self, amounts: &[f64; PRICES], factor: f64) -> f64 {
        let parts = self.prices().into_iter().zip(amounts).enumerate();
        parts.map(|(index, (price, amount))| price * amount * if index == 0 { 1.0 } else { factor }).sum()
    }

    /// The weights in the order of [`ClassCounts::amounts`].
    pub fn prices(&self) -> [f64; PRICES] {
        CLASSES.map(|name| self.weights.get(name).copied().unwrap_or_default())
    }
}

/// Why a result has no estimated cycles.
pub const NOT_AVAILABLE: &str = "estimated cycles are not available, because the model is one of x86-64";

/// The estimated cycles of one role of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoleCycles {
    /// Estimated cycles by the document's `cycle_model`.
    pub estimate: u64,
    /// The same with all weights but that of `other` halved, and doubled.
    pub range: [u64; 2],
    /// Part of the process's estimated cycles, 0 to 1.
    pub share: f64,
    /// The lowest and the highest share with all weights but that of `other` halved, as they are, and doubled.
    pub share_range: [f64; 2],
    /// The role's instructions by class.
    pub classes: ClassCounts,
}

/// Price the roles of one process.
pub fn price(by_role: &BTreeMap<RoleId, ClassCounts>, model: &CycleModel) -> BTreeMap<RoleId, RoleCycles> {
    let [half, double] = FACTORS;
    let of = |counts: &ClassCounts| [half, 1.0, double].map(|factor| model.cycles(counts, factor));
    let mut totals = [0.0; 3];
    for counts in by_role.values() {
        totals.iter_mut().zip(of(counts)).for_each(|(total, cycles)| *total += cycles);
    }
    let priced = |classes: &ClassCounts| {
        let [low, estimate, high] = of(classes);
        let share = |index: usize, cycles: f64| if totals[index] > 0.0 { cycles / totals[index] } else { 0.0 };
        let shares = [share(0, low), share(1, estimate), share(2, high)];
        RoleCycles {
            estimate: estimate.round() as u64,
            range: [low, high].map(|cycles| cycles.round() as u64),
            share: shares[1],
            share_range: [shares.into_iter().fold(1.0, f64::min), shares.into_iter().fold(0.0, f64::max)],
            classes: *classes,
        }
    };
    by_role.iter().map(|(role, classes)| (*role, priced(classes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of each published model. A model never changes, because figures made with it name it: a correction is a
    /// new model with a new name.
    const FROZEN: [(&str, &str); 1] = [("published-1", "2f3241448e26f7d5")];

    #[test]
    fn published_models_never_change() {
        for ((name, text), frozen) in CYCLE_MODELS.into_iter().zip(FROZEN) {
            let model = CycleModel::given(text).unwrap();
            assert_eq!((model.name.as_str(), model.hash.as_str()), frozen, "give a changed model a new name");
            assert_eq!(model.name, name);
            let file: ModelFile = toml::from_str(text).unwrap();
            for (class, weight) in &file.weights {
                let stated = weight.source.starts_with("no source");
                assert_eq!(weight.kind == SourceKind::Guess, stated, "{name}: {class}: a guess is called one");
            }
        }
        assert_eq!(CycleModel::standard().unwrap().name, CYCLE_MODELS[0].0);
        // The test vectors of RFC 9923.
        assert_eq!((fnv1a(""), fnv1a("a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }

    #[test]
    fn the_document_has_the_weights() {
        let document = include_str!("../../docs/cycles.md");
        let file: ModelFile = toml::from_str(CYCLE_MODELS[0].1).unwrap();
        for (class, weight) in &file.weights {
            let kind = format!("{:?}", weight.kind).to_lowercase();
            let row = format!("| {class} | {} | {kind} |", weight.cycles);
            assert!(document.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_faulty_model_is_refused_with_the_reason() {
        let text = CYCLE_MODELS[0].1;
        let error = |from: &str, to: &str| CycleModel::given(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert_eq!(
            error("cycles = 18", "cycles = 17"),
            "'published-1' is the name of a model of pipeprof: choose another name"
        );
        assert_eq!(
            error("[weights.locked]", "[weights.lokced]"),
            "unknown weight 'lokced'; known: other, locked, syscall, sysret, swapgs, wrmsr, iret, cr3, div, interrupt-flag, rep, rep-line"
        );
        assert_eq!(error("cycles = 18", "cycles = -1"), "the weight 'locked' is not a positive number");
        assert_eq!(error("cycles = 0.4", "cycles = 0"), "the weight 'other' is 0");
        assert!(error("cycles = 18", "cycles = x").starts_with("line "), "{}", error("cycles = 18", "cycles = x"));
        assert!(error("\"published-1\"", "\"my model\"").contains("name"));
        let mine =
            CycleModel::given(&text.replace("published-1", "mine").replace("cycles = 18", "cycles = 8")).unwrap();
        assert_eq!((mine.name.as_str(), mine.weights["locked"]), ("mine", 8.0));
    }

    fn counts(pairs: &[(InstructionClass, u64)], rep_bytes: u64) -> ClassCounts {
        let mut counts = ClassCounts { rep_bytes, ..ClassCounts::default() };
        pairs.iter().for_each(|(class, times)| counts.add(*class, *times));
        counts
    }

    #[test]
    fn a_copied_page_costs_its_lines_and_other_instructions_keep_their_price() {
        let model = CycleModel::standard().unwrap();
        let copy = counts(&[(InstructionClass::Rep, 1), (InstructionClass::Other, 10)], 4096);
        assert_eq!(copy.instructions(), 11);
        assert_eq!(model.cycles(&copy, 1.0), 10.0 * 0.4 + 40.0 + 64.0 * 4.0);
        assert_eq!(model.cycles(&copy, 0.5), 10.0 * 0.4 + 20.0 + 32.0 * 4.0);
        // Each class has the price of its own name, and counts as one instruction.
        for name in CLASSES.into_iter().take(PRICES - 1) {
            let class = serde_json::from_value(name.into()).unwrap();
            let one = counts(&[(class, 1)], 0);
            assert_eq!((model.cycles(&one, 1.0), one.instructions()), (model.weights[name], 1), "{name}");
            let mut twice = one;
            twice += one;
            assert_eq!(twice.instructions(), 2);
        }
        assert_eq!(serde_json::to_string(&counts(&[(InstructionClass::Div, 2)], 0)).unwrap(), r#"{"div":2}"#);
    }

    #[test]
    fn shares_sum_to_one_and_lie_within_their_range() {
        let model = CycleModel::standard().unwrap();
        let mut stacks = ClassifiedStacks::default();
        stacks.add(
            ["w", "entry_SYSCALL_64_after_hwframe", "ksys_write", "pipe_write", "copy_page_from_iter"],
            counts(&[(InstructionClass::Rep, 8)], 8 * 4096),
        );
        stacks.add(
            ["w", "entry_SYSCALL_64_after_hwframe", "ksys_write", "pipe_write"],
            counts(&[(InstructionClass::Other, 4000), (InstructionClass::Locked, 2)], 0),
        );
        assert_eq!(stacks.instructions().total(), 4010);
        let priced = price(&stacks.by_role(), &model);
        assert_eq!(priced.len(), 2);
        assert!((priced.values().map(|role| role.share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(priced.values().map(|role| role.estimate).sum::<u64>(), stacks.cycles(&model).total());
        for role in priced.values() {
            let [low, high] = role.share_range;
            assert!(low < role.share && role.share < high);
            assert!(role.range[0] < role.estimate && role.estimate < role.range[1]);
        }
    }
}
