//! Sampling: the stacks of the target's processes at each clock tick, counted in the kernel by bpf/sample.bpf.h.

use super::attach::{self, Attached, Clock};
use super::bpf::Object;
use super::bpf::shared::{Losses, PP_STACKS, Stack};
use super::follow::{self, Following};
use super::stacks::{self, UserNames};
use super::{Collect, Collected, Watched, loss_warning};
use crate::kernel;
use crate::kernel::symbols::Symbols;
use crate::profile::Unit;
use crate::result::{Loader, Status};
use anyhow::{Context as _, Result};
use std::sync::Arc;

/// The highest rate that the kernel allows; it lowers this limit when sampling takes too long.
pub(crate) fn most_samples() -> u64 {
    let most = std::fs::read_to_string(kernel::features::MOST_SAMPLES).ok().and_then(|text| text.trim().parse().ok());
    most.unwrap_or(u64::MAX).max(1)
}

const PROGRAM: &str = "pp_sample";

/// The `sample` collector.
pub(crate) struct Sample {
    loader: Loader,
    frequency: u64,
    symbols: Arc<Symbols>,
    armed: Option<ArmedSampler>,
}

struct ArmedSampler {
    watched: Watched,
    object: Object,
    clock: Clock,
    frequency: u64,
    attached: Vec<Attached>,
    following: Following,
    user: UserNames,
}

impl Sample {
    /// A sampler at `frequency` Hz.
    pub(crate) fn new(loader: Loader, frequency: u64, symbols: Arc<Symbols>) -> Self {
        Self { loader, frequency, symbols, armed: None }
    }
}

impl Collect for Sample {
    fn arm(&mut self, watched: &Watched) -> Result<()> {
        let user = UserNames::of(watched);
        let settings = follow::settings(watched, false);
        let (mut object, refused) = follow::load(self.loader, &settings, &[PROGRAM], PP_STACKS as u32)?;
        let following = Following::start(&mut object, watched, refused)?;
        let program = object.program(PROGRAM)?;
        let frequency = self.frequency.min(most_samples());
        let (clock, attached) = attach::sampling(program, frequency, &attach::online_cpus()?)?;
        self.armed =
            Some(ArmedSampler { watched: watched.clone(), object, clock, frequency, attached, following, user });
        Ok(())
    }

    fn finish(&mut self) -> Result<Collected> {
        let mut armed = self.armed.take().context("the sampler was not armed")?;
        armed.attached.clear();
        let followed = armed.following.finish(&armed.object)?;
        let losses: Losses = armed.object.element("losses", 0)?;
        let stacks: Vec<Stack> = armed.object.values::<u64, Stack>("stacks")?;
        armed.user.look_again(&stacks);
        let readable = stacks::readable(&stacks, &armed.watched, &self.symbols, &armed.user);

        let mut notes = vec![
            format!("{} at {} Hz", armed.clock.name(), armed.frequency),
            format!("loaded by {}", armed.object.loaded_by()),
        ];
        if armed.frequency < self.frequency {
            notes.push(format!("no faster, by {}", kernel::features::MOST_SAMPLES));
        }
        notes.extend(followed.notes);
        let lost = losses.full + losses.busy;
        let mut warnings = followed.warnings;
        if lost > 0 {
            warnings.push(loss_warning(
                "samples-lost",
                format!("{lost} samples lost ({} no room, {} map busy)", losses.full, losses.busy),
            ));
        }
        for (count, what) in [
            (losses.kernel_unreadable, "without their kernel stack"),
            (losses.user_unreadable, "without their user stack"),
            (readable.full_depth, "cut at the maximum depth, so their root may be missing"),
        ] {
            if count > 0 {
                notes.push(format!("{count} samples {what}"));
            }
        }
        Ok(Collected {
            status: if readable.total == 0 || lost + followed.unfollowed > 0 { Status::Partial } else { Status::Ok },
            reason: match (readable.total, lost) {
                (0, _) => Some("no sample fell into the window: move more bytes".to_owned()),
                (_, 0) => None,
                _ => Some(format!("{lost} samples lost")),
            },
            unit: Unit::Samples,
            skid: armed.clock.skid(),
            stacks: readable.stacks,
            functions: Vec::new(),
            samples: readable.total,
            lost,
            unresolved: readable.unresolved,
            notes,
            warnings,
        })
    }
}
