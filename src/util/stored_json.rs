//! JSON documents from outside: with a known schema, and with counts whose sums cannot overflow.

use super::regular;
use super::text::clean_json;
use anyhow::{Context as _, Result, anyhow, bail};
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::cell::Cell;
use std::fmt;
use std::path::Path;

/// The longest document that [`load`] reads, bytes.
const LONGEST: u64 = 256 << 20;

/// No count is as high: 2^53 ns are 104 days. Up to here a JSON number is exact in every program (RFC 8259, section 6).
pub const HIGHEST: u64 = 1 << 53;

/// Counts of a document are less than this together, so that no sum overflows.
const HIGHEST_SUM: u64 = 1 << 62;

/// Numbers that are no counts: users choose seeds freely, and file systems the numbers of their files.
const FREE: [&str; 2] = ["seed", "inode"];

/// Read the document in `file`. `what` names what it should be: `a recording`.
pub fn load<T: DeserializeOwned>(file: &Path, what: &str, schema: &str) -> Result<T> {
    #[derive(Deserialize)]
    struct StoredHead {
        schema: String,
    }
    let shown = file.display();
    let bytes = regular::read_stored(file, LONGEST).with_context(|| shown.to_string())?;
    let broken = |error| anyhow!("{shown}: not {what} ({error})");
    let head: StoredHead = serde_json::from_slice(&bytes).map_err(broken)?;
    if head.schema != schema {
        bail!("{shown}: the schema is {}, and this version reads {schema}: make it again", head.schema);
    }
    parse(&bytes).map_err(broken)
}

/// The text of a document. A terminal can show it, whatever texts are in it.
pub fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| clean_json(&text))
}

/// [`json_text`] of what [`parse`] reads as the same, whatever its numbers are: JSON has no form for infinite ones, for
/// example, and they become `null`. All files of JSON that pipeprof reads again are written by it, or by
/// [`super::gzip_json::to_bytes`].
///
/// # Errors
/// When it would be refused, or read as something else.
pub fn stored_text<T: Serialize + DeserializeOwned>(value: &T) -> serde_json::Result<String> {
    stored_text_as::<T>(value)
}

/// [`stored_text`] of what has the form of a `T`, such as a `T` with references.
pub fn stored_text_as<T: Serialize + DeserializeOwned>(value: &impl Serialize) -> serde_json::Result<String> {
    let text = json_text(value)?;
    if json_text(&parse::<T>(text.as_bytes())?)? != text {
        return Err(serde::de::Error::custom("it would be read as something else"));
    }
    Ok(text)
}

/// A number, or what JSON has no form for: `null`.
pub fn or_no_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// A document without counts from [`HIGHEST`] on, whose sum fits into 64 bits.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    PossibleCounts(&Cell::new(0)).deserialize(&mut reader)?;
    serde_json::from_slice(bytes)
}

/// Any JSON value, of whose numbers only the size is looked at. The sum of those before.
#[derive(Clone, Copy)]
struct PossibleCounts<'s>(&'s Cell<u64>);

impl<'de> DeserializeSeed<'de> for PossibleCounts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PossibleCounts<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        if number >= HIGHEST {
            return Err(E::custom(format_args!("{number} is not a possible count")));
        }
        self.0.set(self.0.get() + number);
        if self.0.get() >= HIGHEST_SUM {
            return Err(E::custom("the sum of all counts is not possible"));
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.visit_u64(number.unsigned_abs())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            if FREE.contains(&name.as_str()) {
                fields.next_value::<IgnoredAny>()?;
            } else {
                fields.next_value_seed(self)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn counts_that_no_run_can_have_are_refused() {
        let why = |text: &str| parse::<Value>(text.as_bytes()).err().map(|error| error.to_string());
        assert_eq!(
            why(r#"{"a": [{"b": 9007199254740991, "c": 1e300}, "x", null, true], "seed": 18446744073709551615}"#),
            None
        );
        for count in ["9007199254740992", "18446744073709551615", "-9007199254740992"] {
            let text = format!(r#"{{"a": [{{"b": {count}}}]}}"#);
            assert!(
                why(&text).is_some_and(|why| why.contains("not a possible count") && why.contains("line 1")),
                "{text}"
            );
        }
        assert!(why("{").is_some());
        // Each of them is possible.
        let many = |count: usize| format!("[{}0]", "9007199254740991,".repeat(count));
        assert_eq!(why(&many(512)), None);
        assert!(why(&many(513)).is_some_and(|why| why.contains("the sum of all counts")));
        assert_eq!(why(r#"{"inode": 18446744073709551615}"#), None);
        assert!(stored_text(&vec![HIGHEST - 1]).is_ok() && stored_text(&vec![HIGHEST]).is_err());
        assert!(stored_text(&vec![f64::MAX]).is_ok() && stored_text(&vec![f64::INFINITY]).is_err());
    }

    #[test]
    fn what_would_be_read_as_something_else_is_not_written() {
        #[derive(Serialize, Deserialize)]
        struct Forgets {
            #[serde(skip_deserializing)]
            count: u64,
        }
        assert!(stored_text(&Forgets { count: 0 }).is_ok());
        let error = stored_text(&Forgets { count: 1 }).unwrap_err().to_string();
        assert_eq!(error, "it would be read as something else");
    }
}
