//! Shared parts of self-contained HTML pages: light and dark colours, table styles, and the script that shows packed
//! flame graphs. A page is a minijinja template that includes `head.html`, `style.css` and `graphs.js`.

use crate::util::text::clean_lines;
use anyhow::{Context as _, Result};
use base64::prelude::{BASE64_STANDARD, Engine as _};
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
    Ok(BASE64_STANDARD.encode(&bytes))
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
}
