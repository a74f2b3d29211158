//! Where the threads of a pipeline slept: the stack of the sleeper, and on top of it, upside down, that of who ended the
//! sleep, as offwaketime of the BPF Compiler Collection shows it.

use crate::collect::stacks::kernel_names;
use crate::kernel::symbols::Symbols;
use crate::profile::Folded;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::reason::name_of;
use crate::report::flamegraph::WOKEN_BY;
use std::collections::HashMap;

/// The frame for a sleep that has not ended, or whose end was not seen.
const STILL: &str = "[not woken]";

/// The waker's name if it was an interrupt, which can occur in any process.
const INTERRUPT: &str = "[interrupt]";

/// Sleeps of at least a microsecond, in microseconds, by stack.
pub(crate) fn folded(counts: &RecordedCounts, kernel: &Symbols) -> Folded {
    let mut names: HashMap<u64, Vec<String>> = HashMap::new();
    for (key, trace) in &counts.sampled.traces {
        names.insert(*key, frames(trace, kernel));
    }
    let none = Vec::new();
    let mut folded = Folded::new();
    for (sleep, wait) in &counts.off_cpu {
        let process = name_of(sleep.who.name);
        let sleeper = names.get(&sleep.trace).unwrap_or(&none);
        let waker = names.get(&sleep.waker_trace).unwrap_or(&none);
        let interrupt = waker.iter().position(|name| is_interrupt(name));
        let (waker, by) = match interrupt {
            Some(at) => (&waker[..=at], INTERRUPT.to_owned()),
            None if waker.is_empty() => (&waker[..], STILL.to_owned()),
            None => (&waker[..], name_of(sleep.waker)),
        };
        let stack = std::iter::once(process.as_str())
            .chain(sleeper.iter().rev().map(String::as_str))
            .chain([WOKEN_BY])
            .chain(waker.iter().map(String::as_str))
            .chain([by.as_str()]);
        folded.add_frames(stack, wait.ns / 1000);
    }
    folded
}

/// The names of a stack, innermost first, without what the tracepoint adds.
pub(crate) fn frames(trace: &[u64], kernel: &Symbols) -> Vec<String> {
    let mut names = kernel_names(trace, kernel);
    let added = names.iter().rposition(|name| is_tracing(name)).map_or(0, |last| last + 1);
    names.drain(..added);
    names
}

/// Frames of the tracepoint and of the program.
fn is_tracing(name: &str) -> bool {
    ["bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_", "__bpf_prog_", "bpf_get_stack"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Entries of interrupts (arch/x86/entry/entry_64.S, arch/x86/include/asm/idtentry.h).
fn is_interrupt(name: &str) -> bool {
    name.starts_with("asm_sysvec_")
        || ["el1h_64_irq", "el0t_64_irq", "el1_interrupt", "el0_interrupt"].iter().any(|start| name.starts_with(start))
        || matches!(name, "asm_common_interrupt" | "ret_from_intr" | "common_interrupt_return")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::samples::CountedSamples;
    use crate::record::observe::raw::{PrOffCpu, PrWait, PrWho};

    fn name(text: &[u8; 8]) -> [u64; 2] {
        [u64::from_le_bytes(*text), 0]
    }

    #[test]
    fn the_sleeper_is_below_its_waker() {
        let list = b"0000000000001000 t bpf_prog_1\n0000000000002000 T __schedule\n0000000000003000 T pipe_read\n\
            0000000000004000 T try_to_wake_up\n0000000000005000 T pipe_write\n0000000000006000 T asm_sysvec_timer\n\
            0000000000007000 T copy\n";
        let kernel = Symbols::read(&list[..]).unwrap();
        let who = PrWho { stage: 0, tgid: 7, name: name(b"wc\0\0\0\0\0\0") };
        let sleep = |waker_trace, waker| PrOffCpu { who, trace: 1, waker_trace, waker };
        let waker = name(b"dd\0\0\0\0\0\0");
        let traces = [
            (1, vec![0x1010, 0x2010, 0x3010]),
            (2, vec![0x1010, 0x4010, 0x5010]),
            (3, vec![0x1010, 0x4010, 0x6010, 0x7010]),
        ];
        let counts = RecordedCounts {
            off_cpu: vec![
                (sleep(2, waker), PrWait { count: 3, ns: 5000 }),
                (sleep(3, waker), PrWait { count: 1, ns: 2999 }),
                (sleep(0, [0; 2]), PrWait { count: 1, ns: 1000 }),
            ],
            sampled: CountedSamples { traces: traces.into(), ..CountedSamples::default() },
            ..RecordedCounts::default()
        };
        assert_eq!(
            folded(&counts, &kernel).to_text(),
            "wc;pipe_read;__schedule;--;[not woken] 1\nwc;pipe_read;__schedule;--;try_to_wake_up;asm_sysvec_timer;[interrupt] 2\n\
             wc;pipe_read;__schedule;--;try_to_wake_up;pipe_write;dd 5\n"
        );
    }
}
