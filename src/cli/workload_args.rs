//! The axes of a workload on the command line.

use crate::util::size;
use crate::workload::Spec;
use crate::workload::modes::{MODES, Mode, names};
use crate::workload::spec::{Amount, Pin, Reader, Writer};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// What moves the bytes. `--mode` is a named setting of the axes; an axis given beside it overrides it. Axes that are on or
/// off are turned off by `=false`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArgs {
    #[arg(long, default_value = "write", value_parser = clap::builder::PossibleValuesParser::new(names()),
        help = format!("A preset of the axes below [default: write]\n{}", about_modes()), hide_default_value = true, hide_possible_values = true)]
    pub mode: String,
    /// The call that puts bytes into the pipe
    #[arg(long, value_enum)]
    pub writer: Option<Writer>,
    /// The call that takes bytes out of the pipe
    #[arg(long, value_enum)]
    pub reader: Option<Reader>,
    /// Buffers in 2 MiB pages; how many were got is checked and said
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub huge_pages: Option<bool>,
    /// Never sleep: non-blocking calls, tried again at once
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub busy_loop: Option<bool>,
    /// poll(2) the pipe before each call
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub poll: Option<bool>,
    /// SPLICE_F_GIFT for vmsplice, SPLICE_F_MOVE for splice
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub gift: Option<bool>,
    /// Lock buffers into memory
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub mlock: Option<bool>,
    /// Leave buffers untouched: every page is the kernel's zero page
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub no_touch: Option<bool>,
    /// Both halves of vmsplice in one buffer, instead of two that share no page table
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub contiguous: Option<bool>,
    /// What one call is asked to move; vmsplice moves one half of it per call [default: 256K]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    pub buffer_size: Option<u64>,
    /// The reader's buffer [default: as --buffer-size]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    pub reader_buffer_size: Option<u64>,
    /// Set the pipe to this size [default: the kernel's 64K; for vmsplice one half of the buffer]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    pub pipe_size: Option<u64>,
    /// What --writer splice, read-write and stdio read, from its beginning again at its end [default: /dev/zero]
    #[arg(long, value_name = "FILE")]
    pub source: Option<PathBuf>,
    /// Bytes per pair, divided among its writers
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse, conflicts_with_all = ["duration", "calls"])]
    pub bytes: Option<u64>,
    /// Length of the measured window: 500ms, 1s [default: 1s; `run`: 300ms, in guests less or a number of calls]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "calls")]
    pub duration: Option<u64>,
    /// Transfers of each writer: calls that move bytes into the pipe
    #[arg(long, value_name = "N")]
    pub calls: Option<u64>,
    /// CPUs of writer and reader: 0,1; `none` leaves them to the scheduler [default: two CPUs chosen by topology]
    #[arg(long, value_name = "W,R|none", value_parser = parse_pin)]
    pub pin: Option<Pin>,
    /// Stamp every block and check it at the reader (--reader read): torn or reused pages are reported
    #[arg(long)]
    pub verify: bool,
    /// Moved by each writer before the window opens [default: 32M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    pub warmup: Option<u64>,
    /// Independent pipes at once, on CPUs of their own
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pub pairs: u32,
    /// Writers on each pipe
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pub writers: u32,
    /// Readers on each pipe
    #[arg(long, value_name = "M", default_value_t = 1, hide_default_value = true)]
    pub readers: u32,
    /// A planted regression: one system call more per N transfers
    #[arg(long, value_name = "N", hide = true)]
    pub extra_call_every: Option<u64>,
    /// For tests of --verify: a vmsplice pipe larger than one half
    #[arg(long, hide = true)]
    pub unsafe_pipe: bool,
}

impl WorkloadArgs {
    /// The mode's name for headings, with the axes that override it (`write (writer=stdio)`), and the workload.
    ///
    /// # Errors
    /// A contradiction among the axes, by flag, with the way out.
    pub fn spec(&self) -> Result<(String, Spec)> {
        let mode = Mode::find(&self.mode).with_context(|| {
            format!("--mode {}: there is no such mode; choose one of {}", self.mode, names().join(", "))
        })?;
        let preset = mode.spec();
        let mut spec = preset.clone();
        let mut overridden: Vec<String> = Vec::new();
        let mut note = |name: &str, value: String| overridden.push(format!("{name}={value}"));
        if let Some(writer) = self.writer.filter(|&writer| writer != preset.writer) {
            spec.writer = writer;
            note("writer", value_name(&writer));
        }
        if let Some(reader) = self.reader.filter(|&reader| reader != preset.reader) {
            spec.reader = reader;
            note("reader", value_name(&reader));
        }
        for (name, given, axis) in [
            ("huge-pages", self.huge_pages, &mut spec.huge_pages),
            ("busy-loop", self.busy_loop, &mut spec.busy_loop),
            ("poll", self.poll, &mut spec.poll),
            ("gift", self.gift, &mut spec.gift),
            ("mlock", self.mlock, &mut spec.mlock),
            ("no-touch", self.no_touch, &mut spec.no_touch),
            ("contiguous", self.contiguous, &mut spec.contiguous),
        ] {
            if let Some(value) = given.filter(|value| value != axis) {
                *axis = value;
                note(name, value.to_string());
            }
        }
        if let Some(bytes) = self.buffer_size.filter(|&bytes| bytes != preset.buffer_size) {
            spec.buffer_size = bytes;
            note("buffer-size", size::format(bytes));
        }
        for (name, given, axis) in [
            ("reader-buffer-size", self.reader_buffer_size, &mut spec.reader_buffer_size),
            ("pipe-size", self.pipe_size, &mut spec.pipe_size),
        ] {
            if let Some(bytes) = given {
                *axis = Some(bytes);
                note(name, size::format(bytes));
            }
        }
        if let Some(source) = &self.source {
            spec.source = Some(source.clone());
            note("source", source.display().to_string());
        }
        for (name, given, axis) in [
            ("pairs", self.pairs, &mut spec.pairs),
            ("writers", self.writers, &mut spec.writers),
            ("readers", self.readers, &mut spec.readers),
        ] {
            if given != 1 {
                *axis = given;
                note(name, given.to_string());
            }
        }
        if let Some(every) = self.extra_call_every {
            spec.extra_call_every = Some(every);
            note("extra-call-every", every.to_string());
        }
        if let Some(amount) = self.amount() {
            spec.amount = amount;
        }
        spec.pin = self.pin.unwrap_or(spec.pin);
        spec.verify = self.verify;
        spec.warmup_bytes = self.warmup.unwrap_or(spec.warmup_bytes);
        spec.unsafe_pipe = self.unsafe_pipe;
        spec.check()?;
        let name = if overridden.is_empty() {
            mode.name.to_owned()
        } else {
            format!("{} ({})", mode.name, overridden.join(", "))
        };
        Ok((name, spec))
    }

    /// What `--bytes`, `--duration` or `--calls` says; `None` where none is given, so that a caller may choose better
    /// than the default for where the workload runs.
    #[must_use]
    pub fn amount(&self) -> Option<Amount> {
        let bytes = self.bytes.map(Amount::Bytes);
        bytes.or(self.duration.map(Amount::DurationNs)).or(self.calls.map(Amount::Calls))
    }
}

fn value_name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn about_modes() -> String {
    let lines: Vec<String> = MODES.iter().map(|mode| format!("- {}: {}", mode.name, mode.about)).collect();
    lines.join("\n")
}

/// `1s`, `500ms`, `2m`, `100us`, in nanoseconds.
///
/// # Errors
/// A sentence that says what is wrong; clap names the flag.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(format!("'{text}' lacks a unit: write {text}s or {text}ms")),
        _ => return Err(format!("'{unit}' is no unit of time: use ms, s or m, such as 500ms")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is not a time: write 500ms or 1.5s"))?;
    let ns = number * scale as f64;
    // A year and more is a slip of the keyboard.
    if ns > 3.2e16 { Err(format!("'{text}' is longer than a year")) } else { Ok(ns.round() as u64) }
}

/// `0,1` or `none`.
///
/// # Errors
/// A sentence that says what is wrong; clap names the flag.
pub fn parse_pin(text: &str) -> Result<Pin, String> {
    if text == "none" {
        return Ok(Pin::None);
    }
    let cpu = |text: &str| text.trim().parse::<u32>().ok();
    match text.split_once(',').map(|(writer, reader)| (cpu(writer), cpu(reader))) {
        Some((Some(writer), Some(reader))) => Ok(Pin::Cpus { writer, reader }),
        _ => Err(format!("'{text}' is not two CPUs: write the writer's and the reader's, such as 0,1, or none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        workload: WorkloadArgs,
    }

    fn spec(line: &str) -> Result<(String, Spec)> {
        Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?.workload.spec()
    }

    fn refused(line: &str) -> String {
        spec(line).unwrap_err().to_string()
    }

    #[test]
    fn a_preset_is_a_setting_of_the_axes() {
        for mode in MODES {
            assert_eq!(spec(&format!("--mode {}", mode.name)).unwrap(), (mode.name.to_owned(), mode.spec()));
        }
        let (_, by_axes) = spec("--writer vmsplice --reader splice --huge-pages --busy-loop").unwrap();
        assert_eq!(by_axes, spec("--mode vmsplice-huge-busy").unwrap().1);
    }

    #[test]
    fn axes_override_and_are_named() {
        let (name, overridden) = spec("--mode vmsplice-huge-busy --busy-loop=false").unwrap();
        assert_eq!(name, "vmsplice-huge-busy (busy-loop=false)");
        assert_eq!(overridden, spec("--mode vmsplice-huge").unwrap().1);
        assert_eq!(spec("--writer stdio --buffer-size 4K").unwrap().0, "write (writer=stdio, buffer-size=4K)");
        // What the preset has anyway is no override.
        assert_eq!(spec("--writer write --buffer-size 256K --poll=false").unwrap().0, "write");
        assert_eq!(
            spec("--bytes 1G").unwrap(),
            ("write".into(), Spec { amount: Amount::Bytes(1 << 30), ..Spec::default() })
        );
    }

    #[test]
    fn slips_name_the_flag() {
        assert!(refused("--mode wriet").contains("--mode"));
        assert!(refused("--buffer-size 99999999999T").contains("--buffer-size"));
        assert!(refused("--buffer-size=-1").contains("--buffer-size"));
        assert!(refused("--duration 5").contains("lacks a unit"));
        assert!(refused("--duration 0s").starts_with("--duration 0"));
        assert!(refused("--bytes 1G --calls 7").contains("--calls"));
        assert!(refused("--pin 1").contains("0,1"));
        assert!(refused("--mode vmsplice --buffer-size 12K").starts_with("--buffer-size 12K"));
        assert!(refused("--pairs 0").starts_with("--pairs 0"));
    }

    #[test]
    fn times_are_read() {
        assert_eq!(parse_duration("500ms"), Ok(500_000_000));
        assert_eq!(parse_duration("1.5s"), Ok(1_500_000_000));
        assert!(parse_duration("9999999h").is_err());
        assert!(parse_duration("s").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = parse_duration(&text);
            let _ = parse_pin(&text);
        }
    }
}
