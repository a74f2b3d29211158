//! JSON documents from outside: with a known schema, and with counts whose sums cannot overflow.

use super::regular;
use anyhow::{Context as _, Result, anyhow, bail};
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::Path;

/// The longest document that [`load`] reads, bytes.
const LONGEST: u64 = 256 << 20;

/// No count is as high: 2^53 ns are 104 days. Up to here a JSON number is exact in every program (RFC 8259, section 6).
const HIGHEST: u64 = 1 << 53;

/// The one number that users choose freely.
const SEED: &str = "seed";

/// Read the document in `file`. `what` names what it should be: `a recording`.
///
/// # Errors
/// Names the file: when it is no such document, of another schema, or not readable.
pub(crate) fn load<T: DeserializeOwned>(file: &Path, what: &str, schema: &str) -> Result<T> {
    #[derive(Deserialize)]
    struct StoredHead {
        schema: String,
    }
    let shown = file.display();
    let bytes = regular::read(file, LONGEST).with_context(|| shown.to_string())?;
    let broken = |error| anyhow!("{shown}: not {what} ({error})");
    let head: StoredHead = serde_json::from_slice(&bytes).map_err(broken)?;
    if head.schema != schema {
        bail!("{shown}: the schema is {}, and this version reads {schema}: make it again", head.schema);
    }
    parse(&bytes).map_err(broken)
}

/// A document without counts from [`HIGHEST`] on, so that sums of a thousand of them fit into 64 bits.
///
/// # Errors
/// When it is not of this type, or a count is too high.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice::<PossibleCounts>(bytes)?;
    serde_json::from_slice(bytes)
}

/// Any JSON value, of whose numbers only the size is looked at.
struct PossibleCounts;

impl<'de> Deserialize<'de> for PossibleCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountsVisitor).map(|()| Self)
    }
}

struct CountsVisitor;

impl<'de> Visitor<'de> for CountsVisitor {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        if number < HIGHEST {
            return Ok(());
        }
        Err(E::custom(format_args!("{number} is not a possible count")))
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
        while items.next_element::<PossibleCounts>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            if name == SEED {
                fields.next_value::<IgnoredAny>()?;
            } else {
                fields.next_value::<PossibleCounts>()?;
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
    }
}
