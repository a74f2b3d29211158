//! Command lines that do again what was measured: for people, in reports.

use super::Spec;
use super::spec::{Amount, Pin};
use crate::util::size;
use clap::ValueEnum;

/// `pipeprof run` with the axes of `spec` that differ from the default, and `more`.
#[must_use]
pub fn run(spec: &Spec, more: &str) -> String {
    let plain = Spec::default();
    let mut words = vec!["pipeprof run".to_owned()];
    words.push(format!("--writer {}", name(spec.writer)));
    words.push(format!("--reader {}", name(spec.reader)));
    let flags = [
        (spec.huge_pages, "--huge-pages"),
        (spec.busy_loop, "--busy-loop"),
        (spec.poll, "--poll"),
        (spec.gift, "--gift"),
        (spec.mlock, "--mlock"),
        (spec.no_touch, "--no-touch"),
        (spec.contiguous, "--contiguous"),
        (spec.verify, "--verify"),
    ];
    words.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned()));
    if spec.buffer_size != plain.buffer_size {
        words.push(format!("--buffer-size {}", size::format(spec.buffer_size)));
    }
    let sizes = [("--pipe-size", spec.pipe_size), ("--reader-buffer-size", spec.reader_buffer_size)];
    words.extend(sizes.iter().filter_map(|(flag, size)| Some(format!("{flag} {}", size::format((*size)?)))));
    if let Some(source) = &spec.source {
        words.push(format!("--source {}", source.display()));
    }
    for (flag, value) in [("--pairs", spec.pairs), ("--writers", spec.writers), ("--readers", spec.readers)] {
        if value != 1 {
            words.push(format!("{flag} {value}"));
        }
    }
    match spec.amount {
        Amount::Bytes(bytes) => words.push(format!("--bytes {}", size::format(bytes))),
        Amount::DurationNs(ns) if Amount::DurationNs(ns) != plain.amount => {
            words.push(format!("--duration {}ms", ns / 1_000_000));
        }
        Amount::DurationNs(_) | Amount::Calls(_) => {}
    }
    match spec.pin {
        Pin::Auto => {}
        Pin::None => words.push("--pin none".to_owned()),
        Pin::Cpus { writer, reader } => words.push(format!("--pin {writer},{reader}")),
    }
    if !more.is_empty() {
        words.push(more.to_owned());
    }
    words.join(" ")
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::spec::{Reader, Writer};

    #[test]
    fn only_what_differs_is_said() {
        let spec = Spec {
            writer: Writer::Vmsplice,
            reader: Reader::Splice,
            huge_pages: true,
            buffer_size: 64 << 10,
            amount: Amount::DurationNs(250_000_000),
            ..Spec::default()
        };
        assert_eq!(
            run(&spec, "--runs 3"),
            "pipeprof run --writer vmsplice --reader splice --huge-pages --buffer-size 64K --duration 250ms --runs 3"
        );
    }
}
