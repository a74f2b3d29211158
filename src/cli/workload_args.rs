//! The workload on the command line: `--mode`, a flag per axis of [`AXES`], the amount, and a few switches.

use crate::util::size;
use crate::workload::WorkloadRequest;
use crate::workload::axes::{AXES, Overrides};
use crate::workload::axis::{Axis, AxisKind, Value};
use crate::workload::modes::{MODES, names};
use crate::workload::spec::{Amount, Pin};
use clap::builder::{BoolValueParser, PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::{Arg, ArgMatches, Command};

/// `--mode` is a preset of the axes, which the axes' own flags override. `=false` disables a switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkloadArgs {
    /// The request, in the first of the modes.
    pub request: WorkloadRequest,
    /// The other modes of `--mode`.
    pub further_modes: Vec<String>,
}

/// Before the axes.
#[derive(Debug, clap::Args)]
struct ModeArgs {
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names()), hide_possible_values = true,
        help = format!("Preset of the flags below; several are compared [default: {}]:\n{}",
            WorkloadRequest::DEFAULT_MODE, about_modes()))]
    mode: Vec<String>,
}

/// After the axes.
#[derive(Debug, clap::Args)]
struct AmountArgs {
    /// Bytes to move through each pipe while measuring, such as 1G (instead of --duration)
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse, conflicts_with_all = ["duration", "calls"])]
    bytes: Option<u64>,
    /// Measured time of each run, such as 500ms [default: 300ms; in guests 200ms, or 50ms with only
    /// --collect fgraph; with --collect insn, see --precision]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "calls")]
    duration: Option<u64>,
    /// Number of calls of each writer to measure; calls that move no bytes do not count
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// CPUs of writer and reader, such as 0,1; `none` does not pin them [default: chosen by topology]
    #[arg(long, value_name = "W,R|none", value_parser = parse_pin)]
    pin: Option<Pin>,
    /// Verify the bytes at the reader (requires --reader read); report torn and reused pages
    #[arg(long)]
    verify: bool,
    /// Bytes that each writer moves before the measurement starts [default: 32M, or 65,536 calls if
    /// that is less]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    warmup: Option<u64>,
    /// Allow a vmsplice pipe larger than one half (for tests of --verify)
    #[arg(long, hide = true)]
    unsafe_pipe: bool,
}

impl WorkloadArgs {
    /// Set what was given.
    pub(crate) fn apply(&self, request: &mut WorkloadRequest) {
        let given = self.request.clone();
        request.mode = given.mode.or(request.mode.take());
        request.overrides.extend(given.overrides);
        request.amount = given.amount.or(request.amount);
        request.pin = given.pin.or(request.pin);
        request.warmup_bytes = given.warmup_bytes.or(request.warmup_bytes);
        request.verify |= given.verify;
        request.unsafe_pipe |= given.unsafe_pipe;
    }
}

impl clap::Args for WorkloadArgs {
    fn augment_args(command: Command) -> Command {
        let command = ModeArgs::augment_args(command.next_help_heading("Workload"));
        AmountArgs::augment_args(AXES.iter().fold(command, |command, axis| command.arg(flag(axis))))
    }
    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for WorkloadArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let ModeArgs { mode } = ModeArgs::from_arg_matches(matches)?;
        let amount = AmountArgs::from_arg_matches(matches)?;
        let mut overrides = Overrides::default();
        for axis in AXES {
            if let Some(value) = matches.get_one::<Value>(axis.name) {
                overrides.put(axis, value.clone());
            }
        }
        let bytes = amount.bytes.map(Amount::Bytes);
        let mut modes = mode.into_iter();
        let request = WorkloadRequest {
            mode: modes.next(),
            overrides,
            amount: bytes.or(amount.duration.map(Amount::DurationNs)).or(amount.calls.map(Amount::Calls)),
            pin: amount.pin,
            verify: amount.verify,
            warmup_bytes: amount.warmup,
            unsafe_pipe: amount.unsafe_pipe,
        };
        Ok(Self { request, further_modes: modes.collect() })
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag that sets `axis` to one value.
fn flag(axis: &'static Axis) -> Arg {
    let arg = Arg::new(axis.name).long(axis.name).help(axis.help()).hide(axis.hidden);
    let text = move |text: &str| axis.parse(text);
    match axis.kind {
        AxisKind::Switch => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_possible_values(true)
            .value_parser(BoolValueParser::new().map(Value::Switch)),
        AxisKind::Choice(choices) => arg.value_name("CALL").value_parser(
            PossibleValuesParser::new(choices().into_iter().map(|(name, about)| PossibleValue::new(name).help(about)))
                .map(Value::Text),
        ),
        AxisKind::Size { .. } => arg.value_name("SIZE").allow_negative_numbers(true).value_parser(text),
        AxisKind::Count { .. } => arg.value_name("N").allow_negative_numbers(true).value_parser(text),
        AxisKind::File => arg.value_name("FILE").value_parser(text),
    }
}

fn about_modes() -> String {
    let lines: Vec<String> = MODES.iter().map(|mode| format!("- {}: {}", mode.name, mode.about)).collect();
    lines.join("\n")
}

/// Check that each mode is given once.
pub(crate) fn check_distinct(modes: &[String]) -> anyhow::Result<()> {
    for (index, mode) in modes.iter().enumerate() {
        anyhow::ensure!(!modes[..index].contains(mode), "--mode {mode} is given twice");
    }
    Ok(())
}

/// `1s`, `500ms`, `2m`, `100us`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(format!("'{text}' has no unit: use {text}s or {text}ms")),
        _ => return Err(format!("unknown unit '{unit}': use ms, s or m, such as 500ms")),
    };
    let number: f64 =
        number.parse().map_err(|_| format!("'{text}' is not a time: use a form such as 500ms or 1.5s"))?;
    let ns = number * scale as f64;
    // More than a year is a typing error.
    if ns > 3.2e16 { Err(format!("'{text}' is longer than a year")) } else { Ok(ns.round() as u64) }
}

/// `0,1` or `none`.
pub(crate) fn parse_pin(text: &str) -> Result<Pin, String> {
    if text == "none" {
        return Ok(Pin::None);
    }
    let cpu = |text: &str| text.trim().parse::<u32>().ok();
    match text.split_once(',').map(|(writer, reader)| (cpu(writer), cpu(reader))) {
        Some((Some(writer), Some(reader))) => Ok(Pin::Cpus { writer, reader }),
        _ => Err(format!("'{text}' is not a pair of CPUs: give the writer's and the reader's, such as 0,1, or none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Spec;
    use anyhow::Result;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        workload: WorkloadArgs,
    }

    fn spec(line: &str) -> Result<(String, Spec)> {
        Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?.workload.request.spec()
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
        // A value equal to the preset's is not an override.
        assert_eq!(spec("--writer write --buffer-size 256K --poll=false").unwrap().0, "write");
        assert_eq!(
            spec("--bytes 1G").unwrap(),
            ("write".into(), Spec { amount: Amount::Bytes(1 << 30), ..Spec::default() })
        );
    }

    #[test]
    fn times_are_read() {
        assert_eq!(parse_duration("500ms"), Ok(500_000_000));
        assert_eq!(parse_duration("1.5s"), Ok(1_500_000_000));
        assert!(parse_duration("9999999h").is_err());
        assert!(parse_duration("s").is_err());
    }
}
