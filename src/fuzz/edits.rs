//! Changes of values in JSON, chosen by bytes.

use serde_json::{Value, json};

/// The largest count: sums of larger ones are not checked, and other readers of JSON do not keep them.
const MOST: u64 = 1 << 53;

/// Longer texts do not grow: repeated again and again, one would fill the memory.
const LONG_TEXT: usize = 1 << 12;

/// `base` with a change for each three of `bytes`: two choose a place, one the new value.
pub(super) fn edited(base: &str, bytes: &[u8]) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(base) else { return String::new() };
    for change in bytes.chunks_exact(3).take(16) {
        let &[high, low, what] = change else { continue };
        let place = usize::from(u16::from_be_bytes([high, low])) % count(&document);
        // Places count from the root, in the order of the text.
        if let Some(value) = find(&mut document, &mut place.clone()) {
            apply(value, what);
        }
    }
    document.to_string()
}

fn apply(value: &mut Value, what: u8) {
    let odd_values = [
        Value::Null,
        json!(0),
        json!(1),
        json!(-1),
        json!(u32::MAX),
        json!(MOST),
        json!(i64::MIN),
        json!(1e308),
        json!(-1e-308),
        json!(0.5),
        json!(true),
        json!(""),
        json!("other"),
        json!("a;b 1\u{1b}[2J\n../\u{20ac}\u{202e}\u{200b}"),
        json!([]),
        json!({}),
    ];
    let what = usize::from(what);
    if let Some(odd) = odd_values.get(what) {
        *value = odd.clone();
        return;
    }
    match value {
        Value::Array(items) => match what % 4 {
            0 => drop(items.pop()),
            1 => items.reverse(),
            2 => items.extend(items.first().cloned()),
            _ => items.truncate(1),
        },
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            if let Some(name) = names.get(what % names.len().max(1)) {
                fields.remove(name);
            }
        }
        // A multiple of the value, from 1 / 2^10 to 2^64.
        Value::Number(number) => {
            let old = number.as_f64().unwrap_or_default();
            let new = old * 2f64.powi(i32::try_from(what % 75).unwrap_or_default() - 10);
            *value = if number.is_u64() { json!((new as u64).min(MOST)) } else { json!(new) };
        }
        Value::String(text) => match what % 3 {
            0 => text.push('\u{0}'),
            1 => text.truncate(text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at)),
            _ if text.len() < LONG_TEXT => *text = text.repeat(20),
            _ => {}
        },
        Value::Null | Value::Bool(_) => *value = json!(what),
    }
}

/// The number of values in `value`, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The value that comes `after` others.
fn find<'v>(value: &'v mut Value, after: &mut usize) -> Option<&'v mut Value> {
    if *after == 0 {
        return Some(value);
    }
    *after -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| find(item, after)),
        Value::Object(fields) => fields.values_mut().find_map(|field| find(field, after)),
        _ => None,
    }
}
