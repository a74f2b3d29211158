//! Processes by name, and values by process in the order of the target.

use crate::util::text::is_hidden;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// The name of a process, or of several with the same task: `writer`.
///
/// Each name is valid in file names and folded stacks: other characters are replaced by `_`. Names are few and are
/// never freed, so that they can be copied.
///
/// Names compare by text. Outputs have the order of a [`ByProcess`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessName(&'static str);

impl ProcessName {
    /// The built-in workload's writers.
    pub const WRITER: Self = Self("writer");
    /// The built-in workload's readers.
    pub const READER: Self = Self("reader");
    /// Everything outside the target's processes: idle, kernel threads, the controller.
    pub const OTHER: Self = Self("other");

    pub fn new(text: &str) -> Self {
        for known in [Self::WRITER, Self::READER, Self::OTHER] {
            if known.0 == text {
                return known;
            }
        }
        static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
        let safe = safe(text);
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.get_or_insert_default();
        if let Some(known) = names.get(&*safe) {
            return Self(known);
        }
        let kept: &'static str = Box::leak(safe.into_boxed_str());
        names.insert(kept);
        Self(kept)
    }

    /// As in file names and stacks.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Whether this is a process of the target, not [`Self::OTHER`].
    pub fn is_of_target(self) -> bool {
        self != Self::OTHER
    }
}

/// `text` without separators of paths, frames and weights, and without a dot at the start.
fn safe(text: &str) -> String {
    let plain = |c: char| (c.is_alphanumeric() && !is_hidden(c)) || "-_.+:@=".contains(c);
    let mut name = String::new();
    for c in text.chars().take(64).map(|c| if plain(c) { c } else { '_' }) {
        // With what is around it, it is the name of a file, which has at most 255 bytes (path_resolution(7)).
        if name.len() + c.len_utf8() <= 128 {
            name.push(c);
        }
    }
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

impl Default for ProcessName {
    fn default() -> Self {
        Self::OTHER
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Debug for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl Serialize for ProcessName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for ProcessName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&Cow::<str>::deserialize(deserializer)?))
    }
}

impl JsonSchema for ProcessName {
    fn schema_name() -> Cow<'static, str> {
        "ProcessName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "The name of a process: `writer`, `reader` or `other`." })
    }
}

/// Values by process, in the order of the target's processes, which is the order of insertion.
#[derive(Clone, PartialEq, Eq)]
pub struct ByProcess<T> {
    entries: Vec<(ProcessName, T)>,
}

impl<T> ByProcess<T> {
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub fn get(&self, name: ProcessName) -> Option<&T> {
        self.entries.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, name: ProcessName) -> Option<&mut T> {
        self.entries.iter_mut().find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    /// The value of `name`; if missing, it is inserted last.
    pub fn get_or_insert_with(&mut self, name: ProcessName, value: impl FnOnce() -> T) -> &mut T {
        let place = self.place(name).unwrap_or_else(|| {
            self.entries.push((name, value()));
            self.entries.len() - 1
        });
        &mut self.entries[place].1
    }

    /// The value of `name`; if missing, it is inserted last.
    pub fn get_or_default(&mut self, name: ProcessName) -> &mut T
    where
        T: Default,
    {
        self.get_or_insert_with(name, T::default)
    }

    /// Replace the value of `name`, or insert it last.
    pub fn insert(&mut self, name: ProcessName, value: T) {
        match self.get_mut(name) {
            Some(old) => *old = value,
            None => self.entries.push((name, value)),
        }
    }

    /// The index of `name` in the order.
    pub fn place(&self, name: ProcessName) -> Option<usize> {
        self.entries.iter().position(|(of, _)| *of == name)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ProcessName, &T)> + ExactSizeIterator {
        self.entries.iter().map(|(name, value)| (*name, value))
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (ProcessName, &mut T)> {
        self.entries.iter_mut().map(|(name, value)| (*name, value))
    }

    pub fn names(&self) -> impl DoubleEndedIterator<Item = ProcessName> {
        self.entries.iter().map(|(name, _)| *name)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// The entries of the target's processes, without [`ProcessName::OTHER`].
    pub fn of_target(&self) -> impl DoubleEndedIterator<Item = (ProcessName, &T)> {
        self.iter().filter(|(name, _)| name.is_of_target())
    }

    /// The same processes with values mapped by `f`.
    pub fn map<U>(&self, mut f: impl FnMut(ProcessName, &T) -> U) -> ByProcess<U> {
        self.iter().map(|(name, value)| (name, f(name, value))).collect()
    }

    pub fn contains(&self, name: ProcessName) -> bool {
        self.place(name).is_some()
    }
}

impl<T> Default for ByProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for ByProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> FromIterator<(ProcessName, T)> for ByProcess<T> {
    fn from_iter<I: IntoIterator<Item = (ProcessName, T)>>(entries: I) -> Self {
        let mut all = Self::new();
        all.extend(entries);
        all
    }
}

impl<T> Extend<(ProcessName, T)> for ByProcess<T> {
    fn extend<I: IntoIterator<Item = (ProcessName, T)>>(&mut self, entries: I) {
        for (name, value) in entries {
            self.insert(name, value);
        }
    }
}

impl<T> IntoIterator for ByProcess<T> {
    type Item = (ProcessName, T);
    type IntoIter = std::vec::IntoIter<(ProcessName, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<T: Serialize> Serialize for ByProcess<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByProcess<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = ByProcess<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("values by the names of processes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = ByProcess::new();
                while let Some((name, value)) = map.next_entry()? {
                    if all.contains(name) {
                        return Err(A::Error::custom(format!("two values of the process {name}")));
                    }
                    all.entries.push((name, value));
                }
                Ok(all)
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for ByProcess<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ByProcess_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": value })
    }
}

/// Names in a sentence: `writer and reader`.
pub fn listed<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    match &names[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// As [`listed`], of at most three: `a, b, c and 7 more`.
pub fn few<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let first: Vec<String> = names.by_ref().take(3).map(|name| name.to_string()).collect();
    let more = names.count();
    listed(first.into_iter().chain((more > 0).then(|| format!("{more} more"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_for_one_text_and_safe_in_files_and_stacks() {
        assert_eq!(ProcessName::new("writer"), ProcessName::WRITER);
        assert_eq!(ProcessName::new("tr"), ProcessName::new("tr"));
        assert!(std::ptr::eq(ProcessName::new("tr-2").as_str(), ProcessName::new("tr-2").as_str()));
        assert_eq!(ProcessName::new("../a b;c 12").as_str(), "_.._a_b_c_12");
        assert_eq!(ProcessName::new("").as_str(), "_");
        assert_eq!(listed([ProcessName::WRITER]), "writer");
        assert_eq!(listed(["sort", "uniq", "head"].map(ProcessName::new)), "sort, uniq and head");
        assert_eq!([few(1..3), few(1..4), few(1..9)], ["1 and 2", "1, 2 and 3", "1, 2, 3 and 5 more"]);
        assert_eq!(format!("{:>7}|{:?}", ProcessName::WRITER, ProcessName::OTHER), " writer|\"other\"");
    }

    #[test]
    fn values_keep_the_order_in_which_they_came() {
        let mut values: ByProcess<u32> = ByProcess::new();
        for name in ["writer", "cat", "reader", "cat"] {
            *values.get_or_default(ProcessName::new(name)) += 1;
        }
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(json, r#"{"writer":1,"cat":2,"reader":1}"#);
        assert_eq!(serde_json::from_str::<ByProcess<u32>>(&json).unwrap(), values);
        assert!(serde_json::from_str::<ByProcess<u32>>(r#"{"a":1,"a":2}"#).is_err());
        assert_eq!(values.map(|name, n| name.as_str().len() as u32 * n).get(ProcessName::new("cat")), Some(&6));
    }
}
