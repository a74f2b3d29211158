//! Command lines that repeat a measurement, for reports.

use super::Spec;
use super::axes::AXES;
use super::axis::Value;
use super::spec::{Amount, Pin};
use crate::util::size;

/// `pipeprof run` with the axes of `spec` that differ from the default, and `more`.
pub fn run(spec: &Spec, more: &str) -> String {
    let plain = Spec::default();
    let mut words = vec!["pipeprof run".to_owned()];
    for axis in AXES {
        let Some(value) = axis.value(spec) else { continue };
        // Both calls are always named.
        if axis.value(&plain).as_ref() == Some(&value) && !matches!(axis.name, "writer" | "reader") {
            continue;
        }
        words.push(match value {
            Value::Switch(_) => format!("--{}", axis.name),
            Value::Number(_) | Value::Text(_) => format!("--{} {}", axis.name, axis.format(&value)),
        });
    }
    words.extend(spec.verify.then(|| "--verify".to_owned()));
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
