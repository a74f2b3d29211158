//! Adds names, tooltips, colours and a legend to inferno's drawing, whose frames are named by numbers.

use crate::util::colour::luminance;
use crate::util::text::clean;
use anyhow::{Result, anyhow};
use std::fmt::Write as _;

/// inferno's width of a picture before a browser fits it to the window, and its padding at each side.
const WIDTH: f64 = 1200.0;
const PAD: f64 = 10.0;
/// Width of a character of the 12-pixel monospace font (inferno's default, in pixels).
const CHARACTER: f64 = 12.0 * 0.59;

/// Fits legend and headings to any width, and makes keys do what the mouse does.
const SCRIPT: &str = include_str!("picture.js");
/// What the keyboard has chosen, and colours for a dark window.
const STYLE: &str = include_str!("picture.css");

/// How one frame looks.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub name: String,
    /// In brackets after the name, in the tooltip. Contains no brackets: search and labels cut there.
    pub about: String,
    /// `#rrggbb`.
    pub fill: String,
}

/// One entry of the legend.
#[derive(Debug, Clone)]
pub(super) struct Swatch {
    pub colour: String,
    pub label: String,
    pub value: String,
    /// The term that a click searches for.
    pub search: Option<String>,
}

impl Swatch {
    pub(super) fn new(colour: &str, label: &str, value: impl Into<String>, search: Option<String>) -> Self {
        Self { colour: colour.to_owned(), label: label.to_owned(), value: value.into(), search }
    }
}

/// Everything added to the drawing.
#[derive(Debug, Clone)]
pub(super) struct Dress {
    /// By number, as [`super::FrameTree::painted`] makes them; `None` for those that are too narrow.
    pub frames: Vec<Option<Frame>>,
    pub legend: Vec<Swatch>,
    /// Lines below the legend.
    pub note: Vec<String>,
    /// In brackets after `all`, in the tooltip of the lowest frame.
    pub whole: String,
}

/// `text`, cleaned, as XML text or attribute. What XML 1.0 forbids is hidden.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Put names, colours, tooltips and legend into `svg`.
pub(super) fn dress(svg: &str, dress: &Dress) -> Result<String> {
    let frames_start = svg.find("<svg id=\"frames\"").ok_or_else(|| unexpected("no frames"))?;
    let (head, frames) = svg.split_at(frames_start);
    let frames_end = frames.rfind("</svg></svg>").ok_or_else(|| unexpected("no end"))?;
    let (frames, end) = frames.split_at(frames_end);

    let mut out = String::with_capacity(svg.len() * 2);
    let height: usize = number(between(head, " height=\"", "\"")?)?;
    let legend = legend(&dress.legend, &dress.note, height);
    out.push_str(&taller(head, height, height + legend.height)?);

    let mut rest = frames;
    while let Some(start) = rest.find("<g>") {
        out.push_str(&rest[..start]);
        let end = rest.find("</g>").ok_or_else(|| unexpected("a frame without end"))? + "</g>".len();
        frame(&rest[start..end], dress, &mut out)?;
        rest = &rest[end..];
    }
    out.push_str(rest);
    out.push_str("</svg>");
    out.push_str(&legend.svg);
    out.push_str(end.strip_prefix("</svg>").ok_or_else(|| unexpected("no end"))?);
    out.push('\n');
    Ok(out)
}

fn unexpected(what: &str) -> anyhow::Error {
    anyhow!("unexpected SVG from inferno ({what}): this is a bug in pipeprof")
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Result<&'a str> {
    let start = text.find(before).ok_or_else(|| unexpected(before))? + before.len();
    let end = text[start..].find(after).ok_or_else(|| unexpected(after))? + start;
    Ok(&text[start..end])
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| unexpected(text))
}

/// The part before the frames, with a new height of picture, view box and background, and what the keyboard needs.
fn taller(head: &str, height: usize, new: usize) -> Result<String> {
    let replacements = [
        (format!("\" height=\"{height}\" onload"), format!("\" height=\"{new}\" onload")),
        (format!("viewBox=\"0 0 1200 {height}\""), format!("viewBox=\"0 0 1200 {new}\"")),
        (
            format!("height=\"{height}\" fill=\"url(#background)\""),
            format!("id=\"paper\" height=\"{new}\" fill=\"url(#background)\""),
        ),
        // A hidden picture has no width, and inferno divides by the width.
        (
            "width.value = svg.width.baseVal.value - xpad * 2;".to_owned(),
            "width.value = Math.max(1, svg.width.baseVal.value - xpad * 2);".to_owned(),
        ),
        ("</style>".to_owned(), format!("{STYLE}</style>")),
        ("]]></script>".to_owned(), format!("\n{SCRIPT}]]></script>")),
        ("<text id=\"search\"".to_owned(), "<text id=\"search\" tabindex=\"0\" role=\"button\"".to_owned()),
        ("<text id=\"unzoom\"".to_owned(), "<text id=\"unzoom\" tabindex=\"0\" role=\"button\"".to_owned()),
    ];
    // inferno's search button is almost invisible until the pointer is over it.
    let mut head =
        head.replacen("#search { text-anchor:end; opacity:0.1;", "#search { text-anchor:end; opacity:0.6;", 1);
    for (old, new) in replacements {
        if !head.contains(&old) {
            return Err(unexpected(&old));
        }
        head = head.replacen(&old, &new, 1);
    }
    Ok(head)
}

/// One `<g>`: `<title>NUMBER (...)</title><rect .../><text x= y=>...</text>`.
fn frame(drawn: &str, dress: &Dress, out: &mut String) -> Result<()> {
    let title = between(drawn, "<title>", "</title>")?;
    let rect = between(drawn, "<rect ", "/>")?;
    let fill = between(rect, "fill=\"", "\"")?;
    let width: f64 = number(between(rect, " width=\"", "%\"")?)?;
    let text_at = between(drawn, "<text ", ">")?;
    let node = title.split(' ').next().unwrap_or_default();
    let (name, about, colour) = if node == "all" {
        ("all", dress.whole.as_str(), "#e4e4e4")
    } else {
        let frame = dress.frames.get(number::<usize>(node)?).and_then(Option::as_ref);
        let frame = frame.ok_or_else(|| unexpected("an unknown frame"))?;
        (frame.name.as_str(), frame.about.as_str(), frame.fill.as_str())
    };
    let rect = rect.replacen(&format!("fill=\"{fill}\""), &format!("fill=\"{colour}\""), 1);
    let ink = if is_dark(colour) { " fill=\"#ffffff\"" } else { "" };
    let _ = writeln!(
        out,
        "<g><title>{} ({})</title><rect {rect}/><text{ink} {text_at}>{}</text></g>",
        escape(name),
        escape(&about.replace('(', "[").replace(')', "]")),
        escape(&label(name, width)),
    );
    Ok(())
}

/// The part of `name` that fits into a frame of `width` percent.
fn label(name: &str, width: f64) -> String {
    let fits = ((width / 100.0 * (WIDTH - 2.0 * PAD) - 4.0) / CHARACTER).max(0.0) as usize;
    if name.chars().count() <= fits {
        return name.to_owned();
    }
    if fits < 4 { String::new() } else { name.chars().take(fits - 2).chain(['.', '.']).collect() }
}

/// Whether white text is easier to read on this colour than black: both have the same contrast at this luminance.
fn is_dark(colour: &str) -> bool {
    luminance(colour) < 0.179
}

struct Legend {
    svg: String,
    height: usize,
}

/// Swatches in columns from `top` downwards, then the lines of `note`.
fn legend(swatches: &[Swatch], note: &[String], top: usize) -> Legend {
    const COLUMNS: usize = 5;
    const ROW: usize = 18;
    if swatches.is_empty() {
        return Legend { svg: String::new(), height: 0 };
    }
    let mut svg = String::from("<g id=\"legend\">\n");
    for (index, swatch) in swatches.iter().enumerate() {
        // In percent, because browsers fit the picture to their window.
        let x = 0.8 + 99.2 * (index % COLUMNS) as f64 / COLUMNS as f64;
        let y = top + index / COLUMNS * ROW;
        let click = swatch.search.as_ref().map_or(String::new(), |term| {
            // Inside an attribute, inside a JavaScript string.
            let term = term.replace('\\', "\\\\").replace('\'', "\\'");
            format!(
                " style=\"cursor:pointer\" tabindex=\"0\" role=\"button\" onclick=\"{}\"",
                escape(&format!("reset_search();search('{term}')"))
            )
        });
        let _ = writeln!(
            svg,
            "<g{click}><rect x=\"{x:.2}%\" y=\"{y}\" width=\"14\" height=\"12\" rx=\"2\" fill=\"{}\" stroke=\"#777777\" \
             stroke-width=\"0.5\"/><text x=\"{x:.2}%\" dx=\"19\" y=\"{}\">{} {}</text></g>",
            escape(&swatch.colour),
            y + 10,
            escape(&swatch.label),
            escape(&swatch.value),
        );
    }
    let mut rows = swatches.len().div_ceil(COLUMNS);
    for line in note {
        let _ = writeln!(svg, "<text x=\"0.80%\" y=\"{}\">{}</text>", top + rows * ROW + 10, escape(line));
        rows += 1;
    }
    svg.push_str("</g>\n");
    Legend { svg, height: rows * ROW + 8 }
}
