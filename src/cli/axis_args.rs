//! The flags that give axes of the workload several values.

use crate::util::usage::UsageError;
use crate::workload::axes::AXES;
use crate::workload::axis::{Axis, AxisKind, Value};
use crate::workload::grid;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// A flag for each axis that can be swept, with the values given.
#[derive(Debug, Default)]
pub(crate) struct AxisArgs(pub Vec<(&'static Axis, Vec<Value>)>);

/// The axis that pipelines of one's own have, too.
pub(super) const PIPE_SIZE: &str = "pipe-size";

impl AxisArgs {
    /// Whether no values are given.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, values)| values.is_empty())
    }

    pub(super) fn check_for_pipelines(&self) -> anyhow::Result<()> {
        let other = self.0.iter().find(|(axis, values)| axis.name != PIPE_SIZE && !values.is_empty());
        let refused = |axis: &Axis| {
            UsageError::new(format!(
                "--{} is for modes; of the axes of the workload, --pipeline has only --{PIPE_SIZE}: leave it out",
                axis.name
            ))
        };
        other.map_or(Ok(()), |(axis, _)| Err(refused(axis).into()))
    }
}

impl clap::Args for AxisArgs {
    fn augment_args(command: Command) -> Command {
        let command = command.next_help_heading("Workload");
        AXES.iter().filter(|axis| axis.swept).fold(command, |command, axis| command.arg(flag(axis)))
    }
    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for AxisArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |axis: &Axis| -> Vec<Value> {
            matches.get_many::<Vec<Value>>(axis.name).into_iter().flatten().flatten().cloned().collect()
        };
        Ok(Self(AXES.iter().filter(|axis| axis.swept).map(|axis| (axis, given(axis))).collect()))
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag that gives `axis` several values.
fn flag(axis: &'static Axis) -> Arg {
    let (value_name, choices) = match axis.kind {
        AxisKind::Switch => ("BOOL,...", String::new()),
        AxisKind::Size { .. } => ("SIZES", String::new()),
        AxisKind::Count { .. } => ("NUMBERS", String::new()),
        AxisKind::File => ("FILE,...", String::new()),
        AxisKind::Choice(choices) => {
            let names: Vec<String> = choices().iter().map(|(name, _)| (*name).to_owned()).collect();
            ("CALL,...", format!(": {}", names.join(", ")))
        }
    };
    Arg::new(axis.name)
        .long(axis.name)
        .value_name(value_name)
        .action(ArgAction::Append)
        .allow_negative_numbers(true)
        .help(format!("{}{choices}", axis.about()))
        .value_parser(|text: &str| grid::values(axis, text))
}
