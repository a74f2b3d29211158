//! A row of [`super::axes`]: parse, format and check a value, read it from a [`Spec`]'s document and write it there.

use super::spec::Spec;
use crate::util::choice::Choice;
use crate::util::size;
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Value {
    Switch(bool),
    /// A count, or a size in bytes.
    Number(u64),
    /// One of a set, or a file.
    Text(String),
}

/// The kind of an axis's values.
#[derive(Debug, Clone, Copy)]
pub enum AxisKind {
    /// On or off.
    Switch,
    /// Bytes.
    Size {
        least: u64,
        most: u64,
    },
    Count {
        least: u64,
        most: u64,
    },
    /// One of a set: names with their help.
    Choice(fn() -> Vec<(&'static str, &'static str)>),
    File,
}

/// A requirement on the other axes, and the error if it is not met.
#[derive(Debug, Clone, Copy)]
struct Requirement {
    met: fn(&Spec) -> bool,
    refusal: &'static str,
}

/// A row of [`super::axes::AXES`].
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// The flag without its dashes; with underscores, the field of `workload` in `result.json`.
    pub name: &'static str,
    pub kind: AxisKind,
    about: &'static str,
    /// The default, if the axis has no value.
    unset: &'static str,
    needs: Option<Requirement>,
    /// Why a difference matters to a comparison; empty if the name is enough.
    pub matters: &'static str,
    /// Whether `sweep` varies it.
    pub swept: bool,
    /// Whether it is missing from the help.
    pub hidden: bool,
}

impl Axis {
    /// An axis that is swept, shown, and has no requirements.
    pub(super) const fn new(name: &'static str, kind: AxisKind, about: &'static str) -> Self {
        Self { name, kind, about, unset: "", needs: None, matters: "", swept: true, hidden: false }
    }

    /// Set the text of its default.
    pub(super) const fn unset(self, unset: &'static str) -> Self {
        Self { unset, ..self }
    }

    /// Reject it, when set, in a workload for which `met` is false.
    pub(super) const fn needs(self, met: fn(&Spec) -> bool, refusal: &'static str) -> Self {
        Self { needs: Some(Requirement { met, refusal }), ..self }
    }

    /// Set why it matters to a comparison.
    pub(super) const fn matters(self, matters: &'static str) -> Self {
        Self { matters, ..self }
    }

    pub(super) const fn not_swept(self) -> Self {
        Self { swept: false, ..self }
    }

    pub(super) const fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// Help text without its default.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Help text with its default. The mode has the defaults of switches and choices.
    pub fn help(&self) -> String {
        let default = match self.kind {
            AxisKind::Switch | AxisKind::Choice(_) => "set by --mode".to_owned(),
            _ => self.value(&Spec::default()).map_or_else(|| self.unset.to_owned(), |value| self.format(&value)),
        };
        if default.is_empty() { self.about.to_owned() } else { format!("{} [default: {default}]", self.about) }
    }

    /// Its value in `spec`; `None` if not set.
    pub fn value(&self, spec: &Spec) -> Option<Value> {
        let mut document = serde_json::to_value(spec).ok()?;
        serde_json::from_value(document.get_mut(self.field())?.take()).ok()
    }

    pub fn set(&self, spec: &mut Spec, value: &Value) -> Result<()> {
        self.check_bounds(value)?;
        let changed = || -> serde_json::Result<Spec> {
            let mut document = serde_json::to_value(&*spec)?;
            document[self.field()] = serde_json::to_value(value)?;
            serde_json::from_value(document)
        };
        let Ok(changed) = changed() else {
            bail!("--{} {}: not a value of this axis", self.name, self.format(value));
        };
        *spec = changed;
        Ok(())
    }

    /// Its field of a [`Spec`], whose document has the same values as [`Value`].
    fn field(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Parse a value as typed.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            AxisKind::Size { .. } => size::parse(text).map(Value::Number),
            AxisKind::Count { .. } => {
                text.parse().map(Value::Number).map_err(|_| format!("'{text}' is not a whole number such as 2"))
            }
            AxisKind::Switch => {
                text.parse().map(Value::Switch).map_err(|_| format!("'{text}' is neither true nor false"))
            }
            AxisKind::File => Ok(Value::Text(text.to_owned())),
            AxisKind::Choice(choices) => {
                let choices = choices();
                if choices.iter().any(|(name, _)| *name == text) {
                    return Ok(Value::Text(text.to_owned()));
                }
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                Err(format!("unknown value '{text}'; choose one of {}", names.join(", ")))
            }
        }
    }

    /// A value as typed.
    pub fn format(&self, value: &Value) -> String {
        match (value, self.kind) {
            (Value::Number(bytes), AxisKind::Size { .. }) => size::format(*bytes),
            (Value::Number(number), _) => number.to_string(),
            (Value::Switch(on), _) => on.to_string(),
            (Value::Text(text), _) => text.clone(),
        }
    }

    /// Check this axis's value in `spec`.
    pub fn check(&self, spec: &Spec) -> Result<()> {
        let Some(value) = self.value(spec) else { return Ok(()) };
        self.check_bounds(&value)?;
        if let Some(needs) = self.needs
            && Some(&value) != self.value(&Spec::default()).as_ref()
        {
            let shown = if value == Value::Switch(true) { String::new() } else { format!(" {}", self.format(&value)) };
            let colon = if needs.refusal.starts_with("requires") { "" } else { ":" };
            ensure!((needs.met)(spec), "--{}{shown}{colon} {}", self.name, needs.refusal);
        }
        Ok(())
    }

    fn check_bounds(&self, value: &Value) -> Result<()> {
        let (Value::Number(number), AxisKind::Size { least, most } | AxisKind::Count { least, most }) =
            (value, self.kind)
        else {
            return Ok(());
        };
        if !(least..=most).contains(number) {
            let shown = |number| self.format(&Value::Number(number));
            let upper = if most == u64::MAX { String::from(" or more") } else { format!(" to {}", shown(most)) };
            let unit = if matches!(self.kind, AxisKind::Size { .. }) && least == 1 { " byte" } else { "" };
            bail!("--{} {}: give {}{unit}{upper}", self.name, shown(*number), shown(least));
        }
        Ok(())
    }
}

/// All values of a set, with their help.
pub(super) fn choices<T: Choice>() -> Vec<(&'static str, &'static str)> {
    T::VARIANTS.iter().map(|value| (value.name(), value.about())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::axes::{AXES, Overrides, name_with_overrides};
    use crate::workload::modes::MODES;
    use crate::workload::spec::{Reader, Writer};
    use strum::VariantArray as _;

    /// Specs of all calls; one of them meets each axis's requirement.
    fn specs() -> Vec<Spec> {
        let readers = |writer| {
            let spec = move |&reader: &Reader| Spec { writer, reader, ..Spec::default() };
            Reader::VARIANTS.iter().map(spec)
        };
        Writer::VARIANTS.iter().flat_map(|&writer| readers(writer)).collect()
    }

    /// A value other than that of `spec`, as typed.
    fn other(axis: &Axis, spec: &Spec) -> String {
        let now = axis.value(spec).map(|value| axis.format(&value));
        let candidates = match axis.kind {
            AxisKind::Switch => vec!["true".to_owned(), "false".to_owned()],
            AxisKind::Size { most, .. } => vec![size::format(most.min(64 << 10))],
            AxisKind::Count { most, .. } => vec![most.min(2).to_string()],
            AxisKind::Choice(choices) => choices().iter().map(|(name, _)| (*name).to_owned()).collect(),
            AxisKind::File => vec!["/dev/null".to_owned()],
        };
        candidates.into_iter().find(|text| Some(text) != now.as_ref()).unwrap()
    }

    #[test]
    fn every_axis_is_read_as_it_is_written() {
        for axis in AXES {
            for mut spec in specs() {
                let before = axis.value(&spec);
                let text = other(axis, &spec);
                let value = axis.parse(&text).unwrap();
                assert_eq!(axis.format(&value), text, "{}", axis.name);
                axis.set(&mut spec, &value).unwrap();
                assert_eq!(axis.value(&spec), Some(value), "{}", axis.name);
                if let Some(before) = before {
                    assert_eq!(axis.parse(&axis.format(&before)), Ok(before.clone()), "{}", axis.name);
                    axis.set(&mut spec, &before).unwrap();
                }
            }
        }
    }

    #[test]
    fn every_axis_is_a_field_of_the_document_and_has_a_help_text() {
        let document = serde_json::to_value(Spec::default()).unwrap();
        let mut names: Vec<&str> = AXES.iter().map(|axis| axis.name).collect();
        for axis in AXES {
            let field = axis.name.replace('-', "_");
            let mut spec = Spec::default();
            let value = axis.parse(&other(axis, &spec)).unwrap();
            axis.set(&mut spec, &value).unwrap();
            assert_ne!(serde_json::to_value(&spec).unwrap()[&field], document[&field], "{field}");
            assert_eq!(Axis::of_field(&field).unwrap().name, axis.name);
            let plain = matches!(axis.kind, AxisKind::Switch | AxisKind::Choice(_));
            assert!(plain || axis.help().contains("[default: "), "{}", axis.name);
            assert!(axis.help().len() <= 200 && !axis.help().ends_with('.'), "{}", axis.help());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), AXES.len());
    }

    #[test]
    fn every_override_is_named_and_only_overrides_are() {
        for mode in &MODES {
            assert_eq!(name_with_overrides(mode, &mode.spec()), mode.name);
            for axis in AXES {
                let mut overrides = Overrides::default();
                let text = other(axis, &mode.spec());
                overrides.put(axis, axis.parse(&text).unwrap());
                let mut spec = mode.spec();
                overrides.apply(&mut spec).unwrap();
                assert_eq!(name_with_overrides(mode, &spec), format!("{} ({}={text})", mode.name, axis.name));
            }
        }
    }

    #[test]
    fn every_error_names_the_flag() {
        for axis in AXES {
            let flag = format!("--{}", axis.name);
            if let AxisKind::Size { least, most } | AxisKind::Count { least, most } = axis.kind {
                for wrong in [least.checked_sub(1), most.checked_add(1)].into_iter().flatten() {
                    let error = axis.set(&mut Spec::default(), &Value::Number(wrong)).unwrap_err().to_string();
                    assert!(error.starts_with(&format!("{flag} ")) && error.contains(": give "), "{error}");
                }
            }
            // Some spec accepts it; otherwise the error begins with its flag.
            let set = |mut spec: Spec| {
                let value = axis.parse(&other(axis, &spec)).unwrap();
                axis.set(&mut spec, &value).unwrap();
                axis.check(&spec).map_err(|error| error.to_string())
            };
            let results: Vec<Result<(), String>> = specs().into_iter().map(set).collect();
            assert!(results.iter().any(Result::is_ok), "{flag}");
            assert_eq!(results.iter().any(Result::is_err), axis.needs.is_some(), "{flag}");
            for error in results.into_iter().filter_map(Result::err) {
                assert!(error.starts_with(&flag), "{error}");
            }
        }
    }

    #[test]
    fn values_of_another_kind_and_unknown_axes_are_refused() {
        for axis in AXES {
            let wrong = if matches!(axis.kind, AxisKind::Switch) { Value::Number(1) } else { Value::Switch(true) };
            assert!(axis.set(&mut Spec::default(), &wrong).is_err(), "{}", axis.name);
        }
        let overrides: Overrides = serde_json::from_str(r#"{"buffer-size": 4096, "poll": true}"#).unwrap();
        assert_eq!(overrides.get("buffer-size"), Some(&Value::Number(4096)));
        assert_eq!(serde_json::to_string(&overrides).unwrap(), r#"{"buffer-size":4096,"poll":true}"#);
        assert!(serde_json::from_str::<Overrides>(r#"{"colour": 1}"#).unwrap_err().to_string().contains("colour"));
    }
}
