//! Profiles of rungs.

use crate::reproduce::parts::data::Rung;
use crate::reproduce::parts::shared::prelude::*;
use crate::reproduce::parts::shared::with_writer;

pub(super) const COMMAND: &str = "pipeprof reproduce ladder";

/// The profiled rungs.
pub(super) type Profiles = BTreeMap<&'static str, Taken<Outcome>>;

/// The sampled profile of the rung called `id`; `None` if the rung is not profiled.
pub(crate) fn profile(lab: &Lab<'_>, id: &str) -> Result<Option<Taken<Outcome>>> {
    let rung = PartsData::get()?.ladder.rungs.iter().find(|rung| rung.id == id && rung.profiled);
    rung.map(|rung| sampled(lab, rung)).transpose()
}

pub(super) fn sampled(lab: &Lab<'_>, rung: &Rung) -> Result<Taken<Outcome>> {
    let spec = Spec { amount: Amount::DurationNs(lab.settings.window_ns()), ..rung.axes.clone() };
    let runs = if lab.settings.quick { 1 } else { 5 };
    let request = request(&format!("rung {}", rung.name), &spec, vec![Collector::Sample], runs);
    let taken = lab.run(&format!("profile of rung {}", rung.id), &request)?;
    Ok(taken.and_then(|outcome| with_writer(outcome, &request)))
}
