//! Estimated cycles of an exact profile: its instructions, priced by a model.

use crate::profile::cycles;
use crate::profile::{CycleModel, Profile, Unit};
use crate::result::{Collector, Outcome};
use crate::roles::Skid;
use crate::util::regular;
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result};
use std::path::Path;

/// The longest model, bytes.
const LONGEST: u64 = 1 << 20;

/// The model in the file of `--cycle-model`.
pub fn model(path: &Path) -> Result<CycleModel> {
    let name = || format!("--cycle-model {}", path.display());
    let text = regular::read_text(path, LONGEST).with_context(|| format!("{}: cannot read the file", name()))?;
    CycleModel::given(&text).map_err(|error| UsageError::new(format!("{}: {error:#}", name())).into())
}

/// Say in the result that its instructions have no price, if that is so.
pub fn note_missing(outcome: &mut Outcome) {
    if outcome.document.cycle_model.is_some() {
        return;
    }
    let collectors = outcome.document.collectors.iter_mut();
    for report in collectors.filter(|report| report.name == Collector::Insn) {
        report.notes.push(format!("{}; --cycle-model takes another", cycles::NOT_AVAILABLE));
    }
}

/// Price the roles and the stacks of `outcome`, whose instructions have classes. An earlier price is replaced.
pub fn price(outcome: &mut Outcome, model: CycleModel) {
    outcome.profiles.retain(|profile| profile.unit != Unit::EstimatedCycles);
    for (process, stacks) in outcome.classes.iter() {
        let mut priced = cycles::price(&stacks.by_role(), &model);
        if let Some(shares) = outcome.document.attribution.processes.get_mut(process) {
            shares.iter_mut().for_each(|share| share.cycles = priced.remove(&share.role));
        }
        if !process.is_of_target() {
            continue;
        }
        outcome.profiles.push(Profile {
            process,
            collector: cycles::NAME.to_owned(),
            unit: Unit::EstimatedCycles,
            skid: Skid::None,
            stacks: stacks.cycles(&model),
        });
    }
    outcome.document.cycle_model = Some(model);
}
