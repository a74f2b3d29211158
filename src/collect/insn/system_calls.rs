//! The system calls of counted programs, by the kernel's functions that they are.

use super::profile::Counted;
use crate::arch::{Flow, decoded};
use crate::profile::ProcessName;
use crate::result::SystemCallCount;
use crate::result::code::{ExecutedCode, ExecutedFunction, ExecutedInstruction};
use std::collections::BTreeMap;

/// What the names of these functions begin with (arch/*/include/asm/syscall_wrapper.h, include/linux/syscalls.h). Compilers
/// decide which of them are functions of their own, and the symbols of one address have several of these names.
const PREFIXES: [&str; 4] = ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_"];

/// Jumps from one function to the next that are followed.
const MOST_JUMPS: usize = 3;

/// The system call that a function of the kernel is, by the name that strace(1) has for it.
fn of_function(name: &str) -> Option<&str> {
    let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    // The kernel has older ones of these names.
    Some(match name {
        "newstat" | "newfstat" | "newlstat" | "newuname" => &name["new".len()..],
        "sendfile64" => "sendfile",
        _ => name,
    })
}

/// The system calls of each process, but for others.
pub fn of(counted: &Counted) -> Vec<SystemCallCount> {
    let mut found: BTreeMap<(ProcessName, &str), SystemCallCount> = BTreeMap::new();
    for function in counted.code.functions.iter().filter(|function| function.file.is_none()) {
        let Some(name) = of_function(&function.name) else { continue };
        for (process, calls) in counted.code.processes.iter().zip(function.calls()) {
            if *calls > 0 && process.is_of_target() {
                let count = found.entry((*process, name)).or_insert_with(|| SystemCallCount::none(*process, name));
                // The function of one prefix calls that of another.
                count.calls = count.calls.max(*calls);
                count.range = [count.calls; 2];
            }
        }
    }
    let continued = continued(&counted.code);
    for profile in &counted.profiles {
        for (stack, weight) in profile.stacks.iter() {
            let call = stack.frames().find_map(|frame| of_function(frame).or_else(|| *continued.get(frame)?));
            if let Some(count) = call.and_then(|name| found.get_mut(&(profile.process, name))) {
                count.instructions += weight;
            }
        }
    }
    found.into_values().collect()
}

/// The functions to which those of system calls jump at their end, which leaves no frame of the latter: `ksys_write` is write.
/// `None` for one in which several system calls end.
fn continued(code: &ExecutedCode) -> BTreeMap<&str, Option<&str>> {
    let kernel = || code.functions.iter().filter(|function| function.file.is_none());
    let starts: BTreeMap<u64, &ExecutedFunction> = kernel().map(|function| (function.address, function)).collect();
    let jumps = |function: &ExecutedFunction| {
        let target = |instruction: &ExecutedInstruction| {
            let bytes = instruction.bytes();
            let decoded = decoded(code.processor, &bytes, function.address + instruction.offset);
            (decoded.flow == Flow::Jump).then(|| starts.get(&decoded.target).copied()).flatten()
        };
        function.instructions.iter().filter_map(target).collect::<Vec<_>>()
    };
    let mut found: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for function in kernel() {
        let Some(name) = of_function(&function.name) else { continue };
        let mut next = vec![function];
        for _ in 0..MOST_JUMPS {
            next = next.into_iter().flat_map(jumps).filter(|to| of_function(&to.name).is_none()).collect();
            for to in &next {
                found
                    .entry(&to.name)
                    .and_modify(|known| *known = known.filter(|known| *known == name))
                    .or_insert(Some(name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::code::CODE_SCHEMA;

    #[test]
    fn functions_of_the_kernel_are_system_calls_by_their_usual_names() {
        let names = ["__x64_sys_newfstat", "__do_sys_getppid", "__se_sys_write.isra.0", "ksys_write", "sys_call_table"];
        assert_eq!(names.map(of_function), [Some("fstat"), Some("getppid"), Some("write"), None, None]);
        assert_eq!(of_function("__x64_sys_newfstatat"), Some("newfstatat"));
    }

    #[test]
    fn a_function_that_a_system_call_jumps_to_is_that_system_call() {
        let start = 0xffff_ffff_8100_0000;
        let jump = |from: u64, to: u64| {
            let code: String =
                (to.wrapping_sub(from + 5) as u32).to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            ExecutedInstruction { offset: 0, code: format!("e9{code}"), counts: vec![1], iterations: Vec::new() }
        };
        let names =
            ["__x64_sys_write", "ksys_write", "__x64_sys_open", "__x64_sys_openat", "do_sys_open", "do_sys_openat2"];
        let at = |name: &str| start + 64 * names.iter().position(|own| *own == name).unwrap() as u64;
        let function = |name: &&str| {
            let to = match *name {
                "__x64_sys_write" => Some("ksys_write"),
                "__x64_sys_open" | "__x64_sys_openat" => Some("do_sys_open"),
                "do_sys_open" => Some("do_sys_openat2"),
                _ => None,
            };
            let instructions = to.map(|to| jump(at(name), at(to))).into_iter().collect();
            ExecutedFunction { name: (*name).to_owned(), file: None, address: at(name), instructions }
        };
        let functions = names.iter().map(function).collect();
        let code = ExecutedCode {
            schema: CODE_SCHEMA.to_owned(),
            processor: crate::arch::Processor::X86_64,
            processes: Vec::new(),
            files: std::collections::BTreeMap::new(),
            functions,
        };
        let expected = [("do_sys_open", None), ("do_sys_openat2", None), ("ksys_write", Some("write"))];
        assert_eq!(continued(&code), expected.into());
    }
}
