//! A requested workload: a mode and overrides.

use super::axes::{AXES, Overrides, name_with_overrides};
use super::axis::{Axis, Value};
use super::modes::{Mode, names};
use super::spec::{Amount, MEMORY_SOURCE, Pin, Spec};
use crate::util::usage::OrUsage as _;
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

/// The default warm-up makes at most so many calls, so that one byte by byte does not take minutes.
const WARMUP_CALLS: u64 = 1 << 16;

/// The workload that `pipeprof run` or a similar command is asked for. Absent fields leave the default of the mode or command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkloadRequest {
    pub mode: Option<String>,
    pub overrides: Overrides,
    pub amount: Option<Amount>,
    pub pin: Option<Pin>,
    pub verify: bool,
    pub warmup_bytes: Option<u64>,
    pub unsafe_pipe: bool,
}

impl WorkloadRequest {
    pub const DEFAULT_MODE: &'static str = "write";

    /// The request that gives `spec` as a variant of the mode `name`.
    pub fn of(name: &str, spec: &Spec) -> Result<Self> {
        let mode = Mode::find(name).with_context(|| format!("unknown mode '{name}'"))?;
        let preset = mode.spec();
        let mut overrides = Overrides::default();
        for axis in AXES {
            if let Some(value) = axis.value(spec).filter(|value| Some(value) != axis.value(&preset).as_ref()) {
                overrides.put(axis, value);
            }
        }
        let request = Self {
            mode: Some(name.to_owned()),
            overrides,
            amount: Some(spec.amount),
            pin: Some(spec.pin),
            verify: spec.verify,
            warmup_bytes: Some(spec.warmup_bytes),
            unsafe_pipe: spec.unsafe_pipe,
        };
        ensure!(request.spec()?.1 == *spec, "no flags give this workload");
        Ok(request)
    }

    /// Read from `source`, if given.
    pub fn set_source(&mut self, source: Option<&str>) {
        if let (Some(axis), Some(source)) = (Axis::find("source"), source) {
            self.overrides.put(axis, Value::Text(source.to_owned()));
        }
    }

    /// Read from a source that every kernel can splice from.
    pub fn use_source_of_every_kernel(&mut self) {
        self.set_source(Some(MEMORY_SOURCE));
    }

    /// The mode's name for headings, with the axes that override it (`write (writer=stdio)`), and the workload.
    pub fn spec(&self) -> Result<(String, Spec)> {
        let name = self.mode.as_deref().unwrap_or(Self::DEFAULT_MODE);
        let mode = Mode::find(name)
            .with_context(|| format!("--mode {name}: unknown mode; choose one of {}", names().join(", ")))
            .or_usage()?;
        let mut spec = mode.spec();
        self.overrides.apply(&mut spec).or_usage()?;
        spec.amount = self.amount.unwrap_or(spec.amount);
        spec.pin = self.pin.unwrap_or(spec.pin);
        spec.verify = self.verify;
        let least = spec.block().min(spec.reader_buffer_size.unwrap_or(u64::MAX)).max(1);
        spec.warmup_bytes = self.warmup_bytes.unwrap_or(spec.warmup_bytes.min(WARMUP_CALLS.saturating_mul(least)));
        spec.unsafe_pipe = self.unsafe_pipe;
        spec.check()?;
        Ok((name_with_overrides(mode, &spec), spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::axis::Axis;

    #[test]
    fn the_default_warm_up_makes_a_bounded_number_of_calls() {
        let warmup = |axis: Option<(&str, &str)>, given| {
            let mut request = WorkloadRequest { warmup_bytes: given, ..WorkloadRequest::default() };
            if let Some((name, value)) = axis {
                let axis = Axis::find(name).unwrap();
                request.overrides.put(axis, axis.parse(value).unwrap());
            }
            request.spec().unwrap().1.warmup_bytes
        };
        assert_eq!(warmup(None, None), 32 << 20);
        assert_eq!(warmup(Some(("buffer-size", "1")), None), 1 << 16);
        assert_eq!(warmup(Some(("buffer-size", "512")), None), 32 << 20);
        assert_eq!(warmup(Some(("reader-buffer-size", "10")), None), 10 << 16);
        assert_eq!(warmup(Some(("buffer-size", "1")), Some(1 << 20)), 1 << 20);
    }
}
