//! SVG charts, drawn by plotters: grouped bars, and lines over a doubling axis; [`areas`] draws stacked areas. Equal
//! input gives equal bytes.

mod areas;

pub use areas::{AreaChart, AreaLayer};

use super::terminal::text::{lines, shortened};
use crate::util::text::clean;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A chart's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chart {
    /// A file name without extension.
    pub id: String,
    pub title: String,
    pub kind: ChartKind,
    /// Name and unit of the values.
    pub y: String,
    /// Name of the other axis; empty for bars.
    pub x: String,
    pub series: Vec<Series>,
    /// Number of runs, spread, machine. Drawn below the chart, so that a copied picture contains them.
    pub caption: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChartKind {
    /// Horizontal bars, one group per label.
    Bars,
    /// Lines over labelled positions, such as doubling sizes.
    Lines,
    /// Lines with their intervals as bands.
    Bands,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The position along the axis. Points with equal labels share a position; labels are in the order of first
    /// appearance.
    pub label: String,
    pub y: f64,
    /// An interval, or minimum and maximum; the caption says which.
    pub span: Option<[f64; 2]>,
}

/// The chart's destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// A separate file with a background, white or dark as the reader prefers.
    File,
    /// Inside a page of [`super::html`], with that page's colours.
    Page,
}

const WIDTH: i32 = 900;
const RIGHT: i32 = 84;
const TOP: i32 = 44;
/// Number of characters in a line of the footer, even with wide letters.
const FOOTER_CHARS: usize = 136;
const FOOTER_LINE: i32 = 17;
const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
const DIM: RGBColor = RGBColor(0x57, 0x60, 0x6a);
const FAINT: RGBColor = RGBColor(0xd5, 0xda, 0xe0);
/// One per series, distinguishable with all common colour deficiencies (Okabe and Ito, without yellow).
const SERIES: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x7a, 0x6a, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];
/// For dark windows: background, ink, dim, faint, and series, as those of the page.
const DARK: [&str; 10] =
    ["#14171a", "#e6e9ec", "#9aa4ae", "#3a424b", "#4fa8e0", "#f08a4b", "#35c79a", "#e39ac4", "#cdbb4a", "#8ccbf2"];
/// The page's names of the colours above, in the same order: `--ink`, `--dim`, `--faint`, `--s1` ...
const NAMES: [&str; 3] = ["var(--ink)", "var(--dim)", "var(--faint)"];

/// The opacity of a band.
const BAND: f64 = 0.2;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Chart {
    pub fn svg(&self, theme: Theme) -> Result<String> {
        let height = self.height();
        framed(height, [&self.title, &self.caption], theme, |area| {
            self.legend(area)?;
            match self.kind {
                ChartKind::Bars => self.bars(area, height),
                ChartKind::Lines | ChartKind::Bands => self.lines(area, height),
            }
        })
    }

    /// The distinct labels along the axis.
    pub fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for point in self.series.iter().flat_map(|series| &series.points) {
            if !labels.contains(&point.label.as_str()) {
                labels.push(&point.label);
            }
        }
        labels
    }

    fn height(&self) -> i32 {
        match self.kind {
            ChartKind::Bars => TOP + self.labels().iter().map(|label| self.group(label)).sum::<i32>() + 50,
            ChartKind::Lines | ChartKind::Bands => 420,
        }
    }

    /// The points at `label`, each with the index of its series.
    fn at<'a>(&'a self, label: &'a str) -> impl Iterator<Item = (usize, &'a Point)> {
        let points = self.series.iter().enumerate();
        points.filter_map(move |(index, series)| Some((index, series.points.iter().find(|p| p.label == label)?)))
    }

    /// Height of one group of bars.
    fn group(&self, label: &str) -> i32 {
        as_i32(self.at(label).count()) * 17 + 13
    }

    fn largest(&self) -> f64 {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.map(|point| point.span.map_or(point.y, |span| span[1].max(point.y))).fold(0.0, f64::max)
    }

    fn legend(&self, area: &Area<'_>) -> Result<()> {
        let mut x = 12;
        for (index, series) in self.series.iter().enumerate() {
            let colour = SERIES[index % SERIES.len()];
            area.draw(&Rectangle::new([(x, 12), (x + 12, 24)], colour.filled())).map_err(refused)?;
            text(area, &series.name, (x + 18, 18), 14, INK, HPos::Left)?;
            x += 18 + as_i32(series.name.chars().count()) * 8 + 22;
        }
        Ok(())
    }

    fn bars(&self, area: &Area<'_>, height: i32) -> Result<()> {
        let labels = self.labels();
        let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let left = (as_i32(longest) * 7 + 24).min(380);
        let bottom = height - 50;
        let (ticks, top) = ticks(self.largest());
        let at = |value: f64| left + ((f64::from(WIDTH - RIGHT - left) * value / top).round() as i32).max(0);
        for tick in &ticks {
            let x = at(*tick);
            area.draw(&PathElement::new([(x, TOP), (x, bottom)], FAINT)).map_err(refused)?;
            text(area, &short(*tick), (x, bottom + 12), 13, DIM, HPos::Center)?;
        }
        text(area, &self.y, ((left + WIDTH - RIGHT) / 2, bottom + 34), 13, DIM, HPos::Center)?;
        let mut below = TOP;
        for label in &labels {
            let y = below + 6;
            below += self.group(label);
            let middle = (y + below - 7) / 2;
            text(area, &shortened(label, 52), (left - 12, middle), 13, INK, HPos::Right)?;
            for (place, (index, point)) in self.at(label).enumerate() {
                let (from, to) = (y + as_i32(place) * 17, y + as_i32(place) * 17 + 15);
                let colour = SERIES[index % SERIES.len()];
                area.draw(&Rectangle::new([(left, from), (at(point.y), to)], colour.filled())).map_err(refused)?;
                let mut end = at(point.y);
                if let Some([low, high]) = point.span {
                    let centre = (from + to) / 2;
                    end = end.max(at(high));
                    let whisker = INK.stroke_width(1);
                    for line in [
                        [(at(low), centre), (at(high), centre)],
                        [(at(low), centre - 3), (at(low), centre + 4)],
                        [(at(high), centre - 3), (at(high), centre + 4)],
                    ] {
                        area.draw(&PathElement::new(line, whisker)).map_err(refused)?;
                    }
                }
                text(area, &short(point.y), (end + 7, (from + to) / 2), 13, INK, HPos::Left)?;
            }
        }
        area.draw(&PathElement::new([(left, TOP), (left, bottom)], DIM)).map_err(refused)
    }

    fn lines(&self, area: &Area<'_>, height: i32) -> Result<()> {
        let labels = self.labels();
        // Below the legend and the name of the values.
        let (left, bottom, highest) = (70, height - 64, TOP + 14);
        let (ticks, top) = ticks(self.largest());
        let step = f64::from(WIDTH - RIGHT - left - 40) / (labels.len().max(2) - 1) as f64;
        let x_of = |place: usize| left + 20 + (step * place as f64).round() as i32;
        let y_of = |value: f64| bottom - (f64::from(bottom - highest) * value / top).round() as i32;
        for tick in &ticks {
            let y = y_of(*tick);
            area.draw(&PathElement::new([(left, y), (WIDTH - RIGHT, y)], FAINT)).map_err(refused)?;
            text(area, &short(*tick), (left - 8, y), 13, DIM, HPos::Right)?;
        }
        for place in shown_labels(&labels, step) {
            text(area, labels[place], (x_of(place), bottom + 16), 13, DIM, HPos::Center)?;
        }
        text(area, &self.x, ((left + WIDTH - RIGHT) / 2, bottom + 42), 13, DIM, HPos::Center)?;
        text(area, &self.y, (12, 38), 13, DIM, HPos::Left)?;
        for (index, series) in self.series.iter().enumerate() {
            let colour = SERIES[index % SERIES.len()];
            let mut path: Vec<(i32, i32)> = Vec::new();
            let (mut above, mut below) = (Vec::new(), Vec::new());
            for (place, label) in labels.iter().enumerate() {
                let Some(point) = series.points.iter().find(|point| point.label == *label) else { continue };
                let at = (x_of(place), y_of(point.y));
                if let Some([low, high]) = point.span {
                    let bar = [(at.0, y_of(low)), (at.0, y_of(high))];
                    area.draw(&PathElement::new(bar, colour.stroke_width(1))).map_err(refused)?;
                    below.push(bar[0]);
                    above.push(bar[1]);
                }
                path.push(at);
            }
            if self.kind == ChartKind::Bands && above.len() > 1 {
                above.extend(below.into_iter().rev());
                area.draw(&Polygon::new(above, colour.mix(BAND))).map_err(refused)?;
            }
            area.draw(&PathElement::new(path.clone(), colour.stroke_width(2))).map_err(refused)?;
            for at in path {
                area.draw(&Circle::new(at, 4, colour.filled())).map_err(refused)?;
            }
        }
        area.draw(&PathElement::new([(left, bottom), (WIDTH - RIGHT, bottom)], DIM)).map_err(refused)
    }
}

/// A chart of this height: what `draw` draws, and the caption below it.
fn framed(
    height: i32,
    [title, caption]: [&str; 2],
    theme: Theme,
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
    let footer = lines(caption, FOOTER_CHARS);
    let whole = if footer.is_empty() { height } else { height + as_i32(footer.len()) * FOOTER_LINE + 10 };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH.unsigned_abs(), whole.unsigned_abs())).into_drawing_area();
        if theme == Theme::File {
            area.fill(&WHITE).map_err(refused)?;
        }
        draw(&area)?;
        for (line, words) in footer.iter().enumerate() {
            text(&area, words, (12, height + as_i32(line) * FOOTER_LINE + 8), 13, DIM, HPos::Left)?;
        }
        area.present().map_err(refused)?;
    }
    let title = format!("{title}. {caption}");
    Ok(match theme {
        Theme::File => fitting(svg, &title),
        Theme::Page => themed(svg, &title),
    })
}

/// The places of the labels that fit next to each other, `step` apart.
fn shown_labels(labels: &[&str], step: f64) -> impl Iterator<Item = usize> {
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let every = ((longest.max(4) * 7 + 14) as f64 / step.max(1.0)).ceil().max(1.0) as usize;
    (0..labels.len()).step_by(every)
}

/// Text of others is cleaned here.
fn text(area: &Area<'_>, what: &str, at: (i32, i32), size: i32, colour: RGBColor, side: HPos) -> Result<()> {
    let style = TextStyle::from(("sans-serif", size).into_font()).color(&colour).pos(Pos::new(side, VPos::Center));
    area.draw_text(&clean(what), &style, at).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw the chart: {error}")
}

fn as_i32(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Round tick values from 0 to at least `largest`, and the end of the axis.
fn ticks(largest: f64) -> (Vec<f64>, f64) {
    if !(largest.is_finite() && largest > 0.0) {
        return (vec![0.0, 1.0], 1.0);
    }
    let rough = largest / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(rough);
    let count = (largest / step).ceil().max(1.0) as usize;
    ((0..=count).map(|index| index as f64 * step).collect(), count as f64 * step)
}

/// A value at a bar or a tick.
fn short(value: f64) -> String {
    let size = value.abs();
    let trimmed = |text: String| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match () {
        () if size >= 1e9 => format!("{}G", trimmed(format!("{:.2}", value / 1e9))),
        () if size >= 1e6 => format!("{}M", trimmed(format!("{:.2}", value / 1e6))),
        () if size >= 1e4 => format!("{}k", trimmed(format!("{:.1}", value / 1e3))),
        () if size >= 100.0 => format!("{value:.0}"),
        () if size >= 10.0 => trimmed(format!("{value:.1}")),
        () => trimmed(format!("{value:.2}")),
    }
}

/// A file's colours in dark windows, and a width that fits narrow ones. Programs that do not know the style draw the
/// light chart.
fn fitting(svg: String, title: &str) -> String {
    let mut rules = String::new();
    let light = [WHITE, INK, DIM, FAINT].into_iter().chain(SERIES);
    for (light, dark) in light.zip(DARK) {
        let light = hex(light);
        rules.push_str(&format!("[fill={light}]{{fill:{dark}}}[stroke={light}]{{stroke:{dark}}}"));
    }
    let style = format!("<style>@media(prefers-color-scheme:dark){{{rules}}}</style>\n");
    let svg = svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{}\" style=\"max-width:100%;height:auto\" ", label(title)),
        1,
    );
    match svg.split_once(">\n") {
        Some((head, rest)) => format!("{head}>\n{style}{rest}"),
        None => svg,
    }
}

/// `"#1B1F24"`: a colour as an attribute's value.
fn hex(colour: RGBColor) -> String {
    format!("\"#{:02X}{:02X}{:02X}\"", colour.0, colour.1, colour.2)
}

/// `title` as an attribute's value.
fn label(title: &str) -> String {
    clean(title).chars().filter(|c| c.is_alphanumeric() || " ,.:-()".contains(*c)).collect()
}

/// Replace fixed colours by the page's, and add a description for screen readers.
fn themed(svg: String, title: &str) -> String {
    let mut svg = svg;
    for (colour, name) in [INK, DIM, FAINT].into_iter().zip(NAMES) {
        svg = svg.replace(&hex(colour), &format!("\"{name}\""));
    }
    for (index, colour) in SERIES.into_iter().enumerate() {
        svg = svg.replace(&hex(colour), &format!("\"var(--s{})\"", index + 1));
    }
    svg.replacen("<svg ", &format!("<svg class=\"chart\" role=\"img\" aria-label=\"{}\" ", label(title)), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(kind: ChartKind) -> Chart {
        let point = |label: &str, y: f64| Point { label: label.to_owned(), y, span: Some([y * 0.9, y * 1.1]) };
        Chart {
            id: "x".into(),
            title: "A <b>".into(),
            kind,
            y: "GiB/s".into(),
            x: "size".into(),
            series: vec![
                Series { name: "theirs".into(), points: vec![point("4K", 3.0), point("<8K>", 4.0)] },
                Series { name: "ours".into(), points: vec![point("4K", 5.0), point("16K", 7.5)] },
            ],
            caption: "Median of 9 pairs on \"A & B\".".into(),
        }
    }

    #[test]
    fn the_caption_stands_below_the_chart() {
        for kind in [ChartKind::Bars, ChartKind::Lines, ChartKind::Bands] {
            let height = |svg: &str| -> u32 {
                let (_, rest) = svg.split_once("height=\"").unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            };
            let (with, without) = (chart(kind), Chart { caption: String::new(), ..chart(kind) });
            let (with, without) = (with.svg(Theme::File).unwrap(), without.svg(Theme::File).unwrap());
            assert!(with.contains("Median of 9 pairs on") && !without.contains("Median of 9"), "{with}");
            assert_eq!(height(&with), height(&without) + 27);
        }
    }

    #[test]
    fn charts_are_whole_escaped_and_follow_the_page() {
        for kind in [ChartKind::Bars, ChartKind::Lines, ChartKind::Bands] {
            let file = chart(kind).svg(Theme::File).unwrap();
            assert!(file.starts_with("<svg ") && file.trim_end().ends_with("</svg>"));
            assert!(file.contains("&lt;8K&gt;") && !file.contains("<8K>"), "{file}");
            assert!(file.contains("#0072B2") && !file.contains("var("));
            assert_eq!(file, chart(kind).svg(Theme::File).unwrap());
            assert!(file.contains("[fill=\"#FFFFFF\"]{fill:#14171a}") && file.contains("max-width:100%"), "{file}");
            let page = chart(kind).svg(Theme::Page).unwrap();
            assert!(page.contains("var(--s1)") && page.contains("var(--ink)") && !page.contains("#0072B2"), "{page}");
            assert!(!page.contains("A <b>"));
        }
    }

    #[test]
    fn a_file_is_as_dark_as_a_page() {
        let dark = include_str!("../html/style.css").split("@media").nth(1).unwrap();
        let names = ["page", "ink", "dim", "faint", "s1", "s2", "s3", "s4", "s5", "s6"];
        for (name, colour) in names.into_iter().zip(DARK) {
            assert!(dark.contains(&format!("--{name}: {colour};")), "--{name}: {colour}");
        }
    }

    #[test]
    fn axes_end_at_or_above_the_largest_value() {
        for largest in [0.0, 0.003, 1.0, 7.5, 62.5, 99.9, 1e10] {
            let (ticks, top) = ticks(largest);
            assert!(top >= largest && ticks.len() >= 2 && ticks.len() <= 12, "{largest}: {ticks:?}");
        }
        assert_eq!(ticks(62.5).1, 80.0);
        assert_eq!(short(31_859_864_089.0), "31.86G");
        assert_eq!(short(40.0), "40");
        assert_eq!(short(100.0), "100");
    }
}
