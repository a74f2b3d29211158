//! Attribution: every stack goes to exactly one role, that of its deepest frame that has one.

use super::{CallStack, Folded, RoleCycles, Unit};
use crate::roles::{self, Attributable, Placed, RoleId, Skid, TailCall};
use crate::util::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One role's part of one process's profile. The shares of one process sum to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoleShare {
    /// The role's id, such as `page-alloc`.
    pub role: RoleId,
    /// The frames that decided for this role, largest weight first.
    pub symbols: Vec<String>,
    /// Part of the process's total weight, 0 to 1.
    pub share: f64,
    /// 95 % interval of the share: the wider one of Wilson's, for the number of samples, and the interval from the
    /// differences between runs; absent if the weights are exact.
    pub share_ci95: Option<[f64; 2]>,
    /// The weight, in the profile's unit.
    pub weight: u64,
    /// The part of the weight with interrupts off, attributed to the caller; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupts_off: u64,
    /// Nanoseconds of CPU time per KiB moved; absent in instruction profiles and under emulation. Sampled profiles:
    /// the share times the process's CPU time (user and system) per KiB in the sampled runs.
    pub ns_per_kib: Option<f64>,
    /// Instructions per KiB moved; instruction profiles only.
    pub instructions_per_kib: Option<f64>,
    /// Instructions per system call of this process; instruction profiles only.
    pub instructions_per_call: Option<f64>,
    /// Calls of the role's probed functions per MiB moved; absent if they were not counted.
    pub calls_per_mib: Option<f64>,
    /// Estimated cycles; instruction profiles only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<RoleCycles>,
    /// Calls of the role's functions from outside of the role; instruction profiles only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entered: Option<u64>,
}

fn is_zero(weight: &u64) -> bool {
    *weight == 0
}

impl RoleShare {
    /// Part of the process's total weight, 0 to 1, that was attributed to the caller that had interrupts off.
    pub fn interrupts_off_share(&self) -> f64 {
        if self.weight == 0 { 0.0 } else { self.share * self.interrupts_off as f64 / self.weight as f64 }
    }
}

/// Attributes the stacks of one profile: every share, table, legend and colour comes from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributor {
    skid: Skid,
    tail_call: TailCall,
}

impl Attributor {
    /// An attributor for the stacks of `profile`, whose samples have this `skid`.
    pub fn new(profile: &Folded, skid: Skid) -> Self {
        Self { skid, tail_call: TailCall::of(profile.iter().map(|(stack, _)| stack.frames())) }
    }

    /// The role of `stack`.
    pub fn place<'a>(&self, stack: CallStack<'a>) -> Placed<&'a str> {
        self.place_frames(stack.frames())
    }

    /// The role of a stack of `frames`, root first.
    pub fn place_frames<F: Attributable>(&self, frames: impl DoubleEndedIterator<Item = F> + Clone) -> Placed<F> {
        roles::place(
            frames,
            match self.skid {
                Skid::CpuClock => Some(self.tail_call),
                Skid::None => None,
            },
        )
    }

    /// The `frames` of a stack, root first, with the one removed by a tail call, in samples of cpu-clock.
    pub fn restored<'a>(&self, frames: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut frames: Vec<&str> = frames.collect();
        if self.skid == Skid::CpuClock {
            self.tail_call.restore(&mut frames);
        }
        frames
    }
}

/// Bytes, calls and time of one process in the profiled windows, for values per KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub bytes: u64,
    /// System calls.
    pub calls: u64,
    /// User and system time of the process; `None` under emulation.
    pub cpu_ns: Option<u64>,
}

/// Attribute all stacks of `folded`, a profile with this `skid`. Returns roles with weight, largest first.
///
/// Time per KiB of a sampled profile is the share times the CPU time that the kernel accounted to the process, not
/// samples times the sampling period: the accounted time is exact, and lost or late samples do not shorten it. It is
/// the time of sampled runs and includes the cost of sampling, which the collector's report contains.
pub fn attribute(folded: &Folded, unit: Unit, skid: Skid, moved: &Moved) -> Vec<RoleShare> {
    let attributor = Attributor::new(folded, skid);
    attribute_with(folded, unit, moved, |stack| {
        let placed = attributor.place(stack);
        (placed.role.id, placed.frame, placed.interrupts_off)
    })
}

/// [`attribute`] with another `classify`, which gives a stack's role, the frame that decided it, and whether
/// interrupts were off.
pub(crate) fn attribute_with(
    folded: &Folded,
    unit: Unit,
    moved: &Moved,
    classify: impl for<'s> Fn(CallStack<'s>) -> (RoleId, &'s str, bool),
) -> Vec<RoleShare> {
    let mut roles: BTreeMap<RoleId, (u64, u64, BTreeMap<&str, u64>)> = BTreeMap::new();
    for (stack, weight) in folded.iter() {
        let (role, frame, interrupts_off) = classify(stack);
        let (total, off, frames) = roles.entry(role).or_default();
        *total = total.saturating_add(weight);
        *off = off.saturating_add(if interrupts_off { weight } else { 0 });
        *frames.entry(frame).or_default() += weight;
    }
    let total = folded.total();
    let per = |amount: f64, of: u64, scale: f64| (of > 0).then(|| amount / (of as f64 / scale));
    let mut shares: Vec<RoleShare> = roles
        .into_iter()
        .filter(|(_, (weight, ..))| *weight > 0)
        .map(|(role, (weight, interrupts_off, frames))| {
            let share = weight as f64 / total as f64;
            let counted = unit == Unit::Instructions;
            RoleShare {
                role,
                symbols: heaviest_first(frames),
                share,
                share_ci95: (unit == Unit::Samples).then(|| stats::wilson(weight, total)),
                weight,
                interrupts_off,
                ns_per_kib: match unit {
                    Unit::Samples => moved.cpu_ns.and_then(|cpu| per(share * cpu as f64, moved.bytes, 1024.0)),
                    Unit::Nanoseconds => moved.cpu_ns.and_then(|_| per(weight as f64, moved.bytes, 1024.0)),
                    Unit::Instructions | Unit::EstimatedCycles => None,
                },
                instructions_per_kib: if counted { per(weight as f64, moved.bytes, 1024.0) } else { None },
                instructions_per_call: if counted { per(weight as f64, moved.calls, 1.0) } else { None },
                calls_per_mib: None,
                cycles: None,
                entered: None,
            }
        })
        .collect();
    shares.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.role.cmp(&b.role)));
    shares
}

pub type RoleWeights = BTreeMap<RoleId, u64>;

pub fn by_role(folded: &Folded, skid: Skid) -> RoleWeights {
    let attributor = Attributor::new(folded, skid);
    let mut weights = RoleWeights::new();
    for (stack, weight) in folded.iter() {
        *weights.entry(attributor.place(stack).role.id).or_default() += weight;
    }
    weights
}

/// Widen the intervals of sampled shares to the differences between runs, if there are two or more: samples of one run
/// are not independent. `pairs` are the weights by role of each run.
///
/// The share is the ratio of two sums over runs. Its variance is that of a ratio, by linearisation with runs as
/// clusters (W. G. Cochran, Sampling Techniques, 3rd ed. 1977, ch. 6 and 9A), the interval is Student's with one
/// degree of freedom less than runs.
pub fn between_pairs(shares: &mut [RoleShare], pairs: &[RoleWeights]) {
    let totals: Vec<f64> = pairs.iter().map(|pair| pair.values().sum::<u64>() as f64).collect();
    let total: f64 = totals.iter().sum();
    let (n, Some(t)) = (pairs.len() as f64, stats::student_t95(pairs.len().saturating_sub(1))) else { return };
    if total == 0.0 {
        return;
    }
    for share in shares {
        let Some([low, high]) = &mut share.share_ci95 else { continue };
        let residues = pairs.iter().zip(&totals).map(|(pair, total)| {
            let weight = pair.get(&share.role).copied().unwrap_or(0) as f64;
            (weight - share.share * total).powi(2)
        });
        let half = t * (n / (n - 1.0) * residues.sum::<f64>()).sqrt() / total;
        *low = low.min((share.share - half).max(0.0));
        *high = high.max((share.share + half).min(1.0));
    }
}

fn heaviest_first(frames: BTreeMap<&str, u64>) -> Vec<String> {
    let mut frames: Vec<_> = frames.into_iter().collect();
    frames.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    frames.into_iter().map(|(frame, _)| frame.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf(stack: CallStack<'_>) -> (RoleId, &str, bool) {
        let frame = stack.leaf();
        (if frame.starts_with("copy") { RoleId::CopyIn } else { RoleId::OtherKernel }, frame, false)
    }

    fn folded(stacks: &[(&str, u64)]) -> Folded {
        let mut folded = Folded::new();
        for (stack, weight) in stacks {
            folded.add(*stack, *weight);
        }
        folded
    }

    #[test]
    fn samples_give_shares_intervals_and_time() {
        let folded = folded(&[("w;copy_a", 30), ("w;x", 60), ("w;y;copy_b", 10)]);
        let (unit, moved) = (Unit::Samples, Moved { bytes: 1 << 20, calls: 4, cpu_ns: Some(1_024_000) });
        let shares = attribute_with(&folded, unit, &moved, leaf);
        assert_eq!(shares.len(), 2);
        assert_eq!((shares[0].role, shares[0].weight), (RoleId::OtherKernel, 60));
        assert_eq!(shares[1].symbols, ["copy_a", "copy_b"]);
        assert_eq!(shares[1].share, 0.4);
        assert_eq!(shares[1].ns_per_kib, Some(400.0));
        let [low, high] = shares[1].share_ci95.unwrap();
        assert!(low < 0.4 && 0.4 < high && high - low < 0.2, "{low} {high}");
        assert_eq!(shares[1].instructions_per_kib, None);
    }

    #[test]
    fn time_with_interrupts_off_goes_to_the_caller_and_is_counted_apart() {
        let entry = "w;entry_SYSCALL_64_after_hwframe";
        let stacks = [
            (format!("{entry};__do_sys_vmsplice;__wake_up;_raw_spin_unlock_irqrestore"), 60),
            (format!("{entry};anon_pipe_write;_raw_spin_unlock_irqrestore"), 10),
            (format!("{entry};anon_pipe_write;__wake_up_sync_key"), 5),
            (format!("{entry};anon_pipe_write;schedule;__schedule;finish_task_switch.isra.0"), 20),
            (format!("{entry};do_syscall_64;_raw_spin_unlock_irq"), 5),
        ];
        let folded = folded(&stacks.each_ref().map(|(stack, weight)| (stack.as_str(), *weight)));
        let rows = |skid| -> Vec<(RoleId, u64, u64)> {
            let shares = attribute(&folded, Unit::Samples, skid, &Moved::default());
            shares.into_iter().map(|share| (share.role, share.weight, share.interrupts_off)).collect()
        };
        assert_eq!(
            rows(Skid::CpuClock),
            [(RoleId::WakeUp, 75, 70), (RoleId::Scheduler, 20, 20), (RoleId::IrqOff, 5, 5)]
        );
        assert_eq!(
            rows(Skid::None),
            [(RoleId::WakeUp, 65, 0), (RoleId::Scheduler, 20, 0), (RoleId::PipeWrite, 10, 0), (RoleId::Syscall, 5, 0)]
        );
        let shares = attribute(&folded, Unit::Samples, Skid::CpuClock, &Moved::default());
        assert!((shares[0].interrupts_off_share() - 0.7).abs() < 1e-9);
        assert_eq!(shares[0].symbols, ["__wake_up", "__wake_up_sync_key"]);
    }

    #[test]
    fn pairs_that_differ_widen_an_interval_and_alike_ones_do_not() {
        let samples = folded(&[("w;copy", 3000), ("w;x", 3000)]);
        let interval = |copied: [u64; 4]| {
            let mut shares = attribute_with(&samples, Unit::Samples, &Moved::default(), leaf);
            let pair =
                |copied: u64| RoleWeights::from([(RoleId::CopyIn, copied), (RoleId::OtherKernel, 1500 - copied)]);
            between_pairs(&mut shares, &copied.map(pair));
            shares.into_iter().find(|share| share.role == RoleId::CopyIn).unwrap().share_ci95.unwrap()
        };
        let [low, high] = interval([750, 750, 750, 750]);
        assert!(0.48 < low && high < 0.52, "that of 6000 samples: {low} {high}");
        // Shares 0.4, 0.6, 0.4, 0.6: standard error 0.1 / sqrt(3), Student's t of 3 degrees 3.182.
        let [low, high] = interval([600, 900, 600, 900]);
        assert!((high - low - 2.0 * 3.182 * 0.1 / 3f64.sqrt()).abs() < 1e-3, "{low} {high}");
        assert_eq!((interval([0, 1500, 0, 1500])[0], interval([0, 1500, 0, 1500])[1]), (0.0, 1.0), "within 0 and 1");
    }

    #[test]
    fn no_time_under_emulation() {
        let (unit, moved) = (Unit::Samples, Moved { bytes: 1 << 20, calls: 4, cpu_ns: None });
        assert_eq!(attribute_with(&folded(&[("a", 1)]), unit, &moved, leaf)[0].ns_per_kib, None);
    }

    #[test]
    fn instructions_are_exact_and_per_kib_and_call() {
        let (unit, moved) = (Unit::Instructions, Moved { bytes: 4096, calls: 2, cpu_ns: None });
        let shares = attribute_with(&folded(&[("w;copy", 300), ("w", 100)]), unit, &moved, leaf);
        assert_eq!(shares[0].share_ci95, None);
        assert_eq!(shares[0].instructions_per_kib, Some(75.0));
        assert_eq!(shares[0].instructions_per_call, Some(150.0));
        assert_eq!(shares[0].ns_per_kib, None);
    }

    #[test]
    fn nothing_gives_nothing() {
        let (unit, moved) = (Unit::Samples, Moved { bytes: 0, calls: 0, cpu_ns: Some(1) });
        assert!(attribute_with(&Folded::new(), unit, &moved, leaf).is_empty());
        assert_eq!(attribute_with(&folded(&[("a", 1)]), unit, &moved, leaf)[0].ns_per_kib, None);
    }

    proptest! {
        #[test]
        fn shares_of_one_process_sum_to_one(stacks in prop::collection::btree_map("[a-d](;(copy|x)[a-c]){0,3}", 1u64..1 << 40, 1..30)) {
            let mut folded = Folded::new();
            for (stack, weight) in stacks {
                folded.add(stack, weight);
            }
            let (unit, moved) = (Unit::Samples, Moved { bytes: 1, calls: 1, cpu_ns: None });
            let shares = attribute_with(&folded, unit, &moved, leaf);
            let sum: f64 = shares.iter().map(|share| share.share).sum();
            prop_assert!((sum - 1.0).abs() < 1e-9, "{}", sum);
            prop_assert_eq!(shares.iter().map(|share| share.weight).sum::<u64>(), folded.total());
        }
    }
}
