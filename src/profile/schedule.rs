//! The cost of scheduling, split by its cause. How often processes sleep and are preempted depends on the schedule; the
//! cost of one sleep is a property of the kernel.

use super::{Attributor, Profile};
use crate::roles::{self, AFTER_SWITCH, RoleId, SCHEDULING};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The weight of [`SCHEDULING`], in the profile's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulingWeight {
    /// Sleeping: preparing to wait, switching to another task and back, and the wake-up by the other process.
    pub sleeps: u64,
    /// Switches on the way back to user code or out of an interrupt: preemptions.
    pub preemptions: u64,
    /// Interrupts: timer ticks, softirqs; and idle.
    pub interrupts: u64,
}

impl SchedulingWeight {
    /// The sum over the stacks of `profile`.
    pub fn of(profile: &Profile) -> Self {
        let attributor = Attributor::new(&profile.stacks, profile.skid);
        let mut sum = Self::default();
        let mut after_switch = 0;
        for (stack, weight) in profile.stacks.iter() {
            let placed = attributor.place(stack);
            if !SCHEDULING.contains(&placed.role.id) {
                continue;
            }
            *match placed.role.id {
                RoleId::Timer | RoleId::Irq | RoleId::Softirq | RoleId::Idle => &mut sum.interrupts,
                _ if placed.frame == AFTER_SWITCH => &mut after_switch,
                _ if stack.frames().any(roles::preempts) => &mut sum.preemptions,
                _ => &mut sum.sleeps,
            } += weight;
        }
        // Stacks do not show which kind of switch it follows.
        let of_both = u128::from(sum.sleeps + sum.preemptions).max(1);
        let after_preemptions = u128::from(after_switch) * u128::from(sum.preemptions) / of_both;
        let after_preemptions = u64::try_from(after_preemptions).unwrap_or(u64::MAX);
        sum.preemptions += after_preemptions;
        sum.sleeps += after_switch.saturating_sub(after_preemptions);
        sum
    }

    pub fn total(&self) -> u64 {
        self.sleeps + self.preemptions + self.interrupts
    }
}

impl std::ops::AddAssign for SchedulingWeight {
    fn add_assign(&mut self, other: Self) {
        self.sleeps += other.sleeps;
        self.preemptions += other.preemptions;
        self.interrupts += other.interrupts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::Skid;
    use crate::{Folded, ProcessName, Unit};

    #[test]
    fn a_switch_is_a_sleep_or_a_preemption_by_its_caller() {
        let mut stacks = Folded::new();
        let call = "entry_SYSCALL_64_after_hwframe;do_syscall_64";
        stacks.add(format!("{call};ksys_write;vfs_write;pipe_write;schedule;__schedule;finish_task_switch"), 100);
        stacks.add(format!("{call};ksys_write;vfs_write;pipe_write;__wake_up_sync_key;try_to_wake_up"), 20);
        stacks.add(format!("{call};ksys_write;vfs_write;pipe_write;copy_page_from_iter"), 3);
        stacks.add(format!("{call};exit_to_user_mode_loop;schedule;__schedule"), 7000);
        stacks.add("asm_sysvec_apic_timer_interrupt;irqentry_exit;preempt_schedule_irq;__schedule", 80_000);
        stacks.add("asm_sysvec_apic_timer_interrupt;sysvec_apic_timer_interrupt;hrtimer_interrupt", 900_000);
        let mut profile = Profile {
            process: ProcessName::WRITER,
            collector: "insn".to_owned(),
            unit: Unit::Instructions,
            skid: Skid::None,
            stacks,
        };
        let weight = SchedulingWeight::of(&profile);
        assert_eq!(weight, SchedulingWeight { sleeps: 120, preemptions: 87_000, interrupts: 900_000 });
        assert_eq!(weight.total(), 987_120);
        // After a switch of unknown kind.
        profile.stacks.add(format!("{call};exit_to_user_mode_loop;[after-switch];__rseq_handle_notify_resume"), 1000);
        let weight = SchedulingWeight::of(&profile);
        assert_eq!(weight, SchedulingWeight { sleeps: 122, preemptions: 87_998, interrupts: 900_000 });
    }
}
