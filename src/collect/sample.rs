//! Sampling: the stacks of the target's processes at each clock tick, counted in the kernel by bpf/sample.bpf.h.

use super::attach::Attached;
use super::bpf::Object;
use super::bpf::shared::PP_STACKS;
use super::follow::{self, Following};
use super::samples::{self, SamplingClock};
use super::user_code::UserCode;
use super::{Collect, Collected, Programs, Watched, loss_warning};
use crate::kernel::symbols::Symbols;
use crate::profile::Unit;
use crate::result::{Loader, Status};
use crate::util::warning::WarningCode;
use anyhow::{Context as _, Result};
use std::sync::Arc;

const PROGRAM: &str = "pp_sample";

/// The `sample` collector.
pub(crate) struct Sample {
    loader: Loader,
    symbols: Arc<Symbols>,
    armed: Option<ArmedSampler>,
}

struct ArmedSampler {
    watched: Watched,
    object: Object,
    clock: SamplingClock,
    attached: Vec<Attached>,
    following: Following,
    code: UserCode,
}

impl Sample {
    pub(crate) fn new(loader: Loader, symbols: Arc<Symbols>) -> Self {
        Self { loader, symbols, armed: None }
    }
}

impl Collect for Sample {
    fn arm(&mut self, watched: &Watched) -> Result<()> {
        let code = UserCode::follow(watched.all().map(|(pid, _)| pid));
        let settings = follow::settings(watched, false);
        let (mut object, refused) = follow::load(self.loader, &settings, &[PROGRAM], PP_STACKS as u32)?;
        let following = Following::start(&mut object, watched, refused)?;
        let (clock, attached) = SamplingClock::start(object.program(PROGRAM)?)?;
        self.armed = Some(ArmedSampler { watched: watched.clone(), object, clock, attached, following, code });
        Ok(())
    }

    fn finish(&mut self) -> Result<Collected> {
        let mut armed = self.armed.take().context("the sampler was not armed")?;
        armed.attached.clear();
        let followed = armed.following.finish(&armed.object)?;
        let names = follow::names(&armed.object, &armed.watched, &Programs::default())?;
        let (stacks, folded) = samples::of_target(&armed.object, &names, &self.symbols, armed.code)?;

        let mut notes = armed.clock.notes();
        notes.push(format!("loaded by {}", armed.object.loaded_by()));
        notes.extend(followed.notes);
        notes.extend(folded.notes);
        let lost = folded.lost.samples + folded.lost.stacks;
        let said = format!("{} samples and {} stacks lost: no room", folded.lost.samples, folded.lost.stacks);
        let mut warnings = followed.warnings;
        if lost > 0 {
            warnings.push(loss_warning(WarningCode::SamplesLost, said.clone()));
        }
        Ok(Collected {
            status: if folded.total == 0 || lost + followed.unfollowed > 0 { Status::Partial } else { Status::Ok },
            reason: match (folded.total, lost) {
                (0, _) => Some("no sample fell into the window: move more bytes".to_owned()),
                (_, 0) => None,
                _ => Some(said),
            },
            unit: Unit::Samples,
            skid: armed.clock.clock.skid(),
            stacks,
            functions: Vec::new(),
            samples: folded.total,
            lost,
            unresolved: folded.unresolved,
            notes,
            warnings,
        })
    }
}
