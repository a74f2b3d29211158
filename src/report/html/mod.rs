//! Shared parts of self-contained HTML pages: light and dark colours, table styles, and the script that shows packed
//! flame graphs. A page is a minijinja template that includes `head.html`, `style.css` and `graphs.js`.

use crate::util::text::clean_lines;
use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use minijinja::{Environment, Value};
use std::io::Write as _;

/// A template environment with these shared parts. They are templates too, so they may not contain a brace
/// before `#` or `%`. Names that end in `.html` enable escaping.
///
/// # Errors
/// Never, if the tests pass.
pub(crate) fn environment() -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    let shared = [
        ("head.html", include_str!("head.html")),
        ("style.css", include_str!("style.css")),
        ("graphs.js", include_str!("graphs.js")),
    ];
    for (name, text) in shared {
        environment.add_template(name, text).with_context(|| format!("template {name}"))?;
    }
    // Names are from other programs: as in terminals, control characters are replaced.
    environment.set_formatter(|out, state, value| match value.as_str().map(|text| (text, clean_lines(text))) {
        Some((text, cleaned)) if text != cleaned => {
            let cleaned = if value.is_safe() { Value::from_safe_string(cleaned) } else { Value::from(cleaned) };
            minijinja::escape_formatter(out, state, &cleaned)
        }
        _ => minijinja::escape_formatter(out, state, value),
    });
    Ok(environment)
}

/// An SVG packed for `graphs.js`: gzip, then base64. Equal graphs give equal bytes.
///
/// # Errors
/// When compression fails.
pub(crate) fn pack(svg: &str) -> Result<String> {
    // No time stamp: equal graphs give equal bytes.
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(svg.as_bytes()).and_then(|()| encoder.try_finish()).context("cannot pack a flame graph")?;
    let bytes = encoder.finish().context("cannot pack a flame graph")?;
    Ok(base64(&bytes))
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().enumerate().fold(0u32, |word, (index, byte)| word | u32::from(*byte) << (16 - 8 * index));
        for index in 0..4 {
            let sextet = (word >> (18 - 6 * index)) & 63;
            out.push(if index <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_no_control_characters() {
        let mut environment = environment().unwrap();
        environment.add_template("x.html", "{{ name }} {{ name|safe }} {{ 7 }}").unwrap();
        let page =
            environment.get_template("x.html").unwrap().render(minijinja::context! { name => "<\u{1b}\n\t\u{7f}" });
        assert_eq!(page.unwrap(), "&lt;?\n\t? <?\n\t? 7");
    }

    #[test]
    fn base64_as_the_rfc_has_it() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
