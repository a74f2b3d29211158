//! Flags whose value is one of a set.

use crate::export::{ExportFormat, FORMATS, format_named};
use crate::util::choice::Choice;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parse the name of one of `known`: names with their help.
fn one_of<T: Clone + Send + Sync + 'static>(
    known: impl Iterator<Item = (&'static str, &'static str)>,
    named: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    let values = known.map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values).try_map(move |name| named(&name).ok_or("unknown value"))
}

pub(super) fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    one_of(T::VARIANTS.iter().map(|value| (value.name(), value.about())), T::named)
}

pub(super) fn export_format() -> impl TypedValueParser<Value = ExportFormat> {
    one_of(FORMATS.iter().map(|format| (format.name, format.about)), format_named)
}
