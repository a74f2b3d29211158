//! How often roles are entered where one of two kernels inlined a function: calls of it then count with its caller on both
//! sides, as its instructions do.

use super::measure::{Measure, as_f64};
use super::model::Inlined;
use crate::result::Document;
use crate::result::code::ExecutedCode;
use crate::roles::{self, RoleId};
use std::collections::{BTreeMap, HashMap};

/// Direct calls between functions of the kernel, per MiB, by the canonical names of caller and callee.
pub(crate) type CallRates = BTreeMap<(String, String), f64>;

/// Those of `code`, which `document` has.
pub(crate) fn call_rates(code: &ExecutedCode, document: &Document) -> CallRates {
    let mib = as_f64(document.processes.first().bytes.max(1)) / f64::from(1 << 20);
    let functions = || code.functions.iter().filter(|function| function.address >> 63 == 1);
    let names: HashMap<u64, &str> =
        functions().map(|function| (function.address, roles::canonical(&function.name))).collect();
    let mut rates = CallRates::new();
    for function in functions() {
        for instruction in &function.instructions {
            // A call, or the jump of a tail call: its length, and the distance from its end.
            let Some([0xe8 | 0xe9, distance @ ..]) = instruction.bytes().first_chunk::<5>().copied() else { continue };
            let end = function.address.wrapping_add(instruction.offset).wrapping_add(5);
            let target = end.wrapping_add_signed(i32::from_le_bytes(distance).into());
            let (caller, Some(callee)) = (roles::canonical(&function.name), names.get(&target)) else { continue };
            let calls = as_f64(code.of_target(&instruction.counts)) / mib;
            if calls > 0.0 && caller != *callee {
                *rates.entry((caller.to_owned(), (*callee).to_owned())).or_default() += calls;
            }
        }
    }
    rates
}

/// By how much the entries of each role change, per MiB, if `inlined` functions of `measure` count with their callers.
pub(crate) fn changes(rates: &CallRates, measure: &Measure, inlined: &[&Inlined]) -> BTreeMap<RoleId, f64> {
    let mut changes: BTreeMap<RoleId, f64> = BTreeMap::new();
    let role_of = |name: &str| roles::of_frame(name).map(|role| role.id);
    for one in inlined {
        let Some(role) = role_of(&one.function) else { continue };
        let Some(calls) = rates.get(&(one.caller.clone(), one.function.clone())) else { continue };
        if is_within(measure, one, role) {
            continue;
        }
        *changes.entry(role).or_default() -= calls;
        // Its own callees of that role are entered by the caller now.
        let all: f64 = rates.iter().filter(|((_, callee), _)| *callee == one.function).map(|(_, calls)| calls).sum();
        let is_inlined =
            |callee: &str| inlined.iter().any(|other| other.caller == one.caller && other.function == callee);
        for ((_, callee), of_function) in rates.iter().filter(|((caller, _), _)| *caller == one.function) {
            if role_of(callee) == Some(role) && !is_inlined(callee) {
                *changes.entry(role).or_default() += of_function * calls / all;
            }
        }
    }
    changes
}

/// Whether the call is mostly made below another function of the role, so that it enters nothing.
fn is_within(measure: &Measure, one: &Inlined, role: RoleId) -> bool {
    let mut weights = [0.0; 2];
    for (process, part) in measure.processes.of_target() {
        for (stack, weight) in part.stacks.iter() {
            let mut above = false;
            let mut last = "";
            for frame in stack.frames() {
                if roles::canonical(last) == one.caller && roles::canonical(frame) == one.function {
                    weights[usize::from(above)] += measure.per_kib(process, weight);
                    break;
                }
                above |= roles::of_frame(frame).is_some_and(|found| found.id == role);
                last = frame;
            }
        }
    }
    weights[1] > weights[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::MeasuredPer;
    use crate::profile::ProcessName;

    #[test]
    fn an_inlined_function_is_not_called_less_often() {
        let call = "entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_vmsplice";
        let mut measure = Measure { per: MeasuredPer::Moved(1 << 20), ..Measure::default() };
        let part = measure.processes.get_or_default(ProcessName::WRITER);
        part.stacks.add(format!("{call};add_to_pipe"), 40);
        part.stacks.add(format!("{call};vfs_read;security_file_permission;fsnotify_perm"), 40);
        measure.scale_counts();
        let rates: CallRates = [
            (("__do_sys_vmsplice", "add_to_pipe"), 256.0),
            (("splice_to_pipe", "add_to_pipe"), 256.0),
            (("add_to_pipe", "generic_pipe_buf_release"), 20.0),
            (("add_to_pipe", "wake_up_process"), 4.0),
            (("security_file_permission", "fsnotify_perm"), 16.0),
        ]
        .map(|((caller, callee), calls)| ((caller.to_owned(), callee.to_owned()), calls))
        .into();
        let inlined = |caller: &str, function: &str| Inlined {
            function: function.to_owned(),
            caller: caller.to_owned(),
            before: false,
            weight: 1.0,
        };
        let one = inlined("__do_sys_vmsplice", "add_to_pipe");
        // Half of its calls, with half of what it calls of its own role.
        assert_eq!(changes(&rates, &measure, &[&one]), [(RoleId::PipeBuffers, 10.0 - 256.0)].into());
        // Below another function of its role it enters nothing.
        let nested = inlined("security_file_permission", "fsnotify_perm");
        assert_eq!(changes(&rates, &measure, &[&nested]), BTreeMap::new());
    }
}
