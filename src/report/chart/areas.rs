//! Stacked areas over labelled positions: what a total consists of, and how that changes.

use super::super::number::exact;
use super::super::terminal::text::shortened;
use super::{Area, DIM, FAINT, INK, RIGHT, Theme, WIDTH};
use super::{as_i32, framed, refused, short, shown_labels, text, ticks};
use crate::util::colour::rgb;
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// The chart's data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AreaChart {
    pub title: String,
    /// Name and unit of the values.
    pub y: String,
    /// The positions.
    pub labels: Vec<String>,
    /// From below to above.
    pub layers: Vec<AreaLayer>,
    /// The range of the total at each position.
    pub spans: Vec<[f64; 2]>,
    pub caption: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AreaLayer {
    pub name: String,
    /// `#rrggbb`.
    pub colour: &'static str,
    /// At each position.
    pub values: Vec<f64>,
}

const LEFT: i32 = 70;
/// Room for the names.
const NAMES: i32 = 230;
const TOP: i32 = 40;
const ROW: i32 = 19;
const LEAST: i32 = 360;
/// Height of a bar with blanks, and the room for labels before it.
const BAR: i32 = 40;
const BAR_LEFT: i32 = 190;

impl AreaChart {
    pub fn svg(&self, theme: Theme) -> Result<String> {
        let height = LEAST.max(TOP + as_i32(self.layers.len()) * ROW + 50);
        framed(height, [&self.title, &self.caption], theme, |area| self.draw(area, height))
    }

    /// The same data as one bar for each position, for a page.
    pub fn bars(&self) -> Result<String> {
        let height = TOP + as_i32(self.labels.len()) * BAR + 50;
        framed(height, [&self.title, &self.caption], Theme::Page, |area| self.draw_bars(area, height))
    }

    fn draw_bars(&self, area: &Area<'_>, height: i32) -> Result<()> {
        let sum = |place: usize| self.layers.iter().map(|layer| at(layer, place)).sum::<f64>();
        let (ticks, top) = ticks((0..self.labels.len()).map(sum).fold(0.0, f64::max));
        let (right, bottom) = (WIDTH - RIGHT, height - 44);
        let x_of = |value: f64| BAR_LEFT + (f64::from(right - BAR_LEFT) * value / top).round() as i32;
        for tick in &ticks {
            let x = x_of(*tick);
            area.draw(&PathElement::new([(x, TOP), (x, bottom)], FAINT)).map_err(refused)?;
            text(area, &short(*tick), (x, bottom + 12), 13, DIM, HPos::Center)?;
        }
        text(area, &self.y, ((BAR_LEFT + right) / 2, bottom + 32), 13, DIM, HPos::Center)?;
        for (place, label) in self.labels.iter().enumerate() {
            let y = TOP + as_i32(place) * BAR;
            text(area, &shortened(label, 24), (BAR_LEFT - 10, y + BAR / 2), 13, INK, HPos::Right)?;
            let mut end = 0.0;
            for layer in &self.layers {
                let (from, value) = (end, at(layer, place));
                end += value;
                let piece =
                    Rectangle::new([(x_of(from), y + 6), (x_of(end), y + BAR - 6)], parsed(layer.colour).filled());
                area.draw(&piece).map_err(refused)?;
            }
            text(area, &exact(end), (x_of(end) + 8, y + BAR / 2), 13, INK, HPos::Left)?;
        }
        Ok(())
    }

    fn draw(&self, area: &Area<'_>, height: i32) -> Result<()> {
        let (right, bottom) = (WIDTH - NAMES, height - 44);
        let sums: Vec<f64> =
            (0..self.labels.len()).map(|place| self.layers.iter().map(|layer| at(layer, place)).sum()).collect();
        let highest = self.spans.iter().map(|span| span[1]).chain(sums.iter().copied()).fold(0.0, f64::max);
        let (ticks, top) = ticks(highest);
        let step = f64::from(right - LEFT) / (self.labels.len().max(2) - 1) as f64;
        let x_of = |place: usize| LEFT + (step * place as f64).round() as i32;
        let y_of = |value: f64| bottom - (f64::from(bottom - TOP) * value / top).round() as i32;
        for tick in &ticks {
            let y = y_of(*tick);
            area.draw(&PathElement::new([(LEFT, y), (right, y)], FAINT)).map_err(refused)?;
            text(area, &short(*tick), (LEFT - 8, y), 13, DIM, HPos::Right)?;
        }
        text(area, &self.y, (12, 16), 13, DIM, HPos::Left)?;
        let labels: Vec<&str> = self.labels.iter().map(String::as_str).collect();
        for place in shown_labels(&labels, step) {
            text(area, labels[place], (x_of(place), bottom + 16), 13, DIM, HPos::Center)?;
        }
        let mut below = vec![0.0; self.labels.len()];
        for (index, layer) in self.layers.iter().enumerate() {
            let above: Vec<f64> = below.iter().enumerate().map(|(place, sum)| sum + at(layer, place)).collect();
            let points = |values: &[f64]| -> Vec<(i32, i32)> {
                values.iter().enumerate().map(|(place, value)| (x_of(place), y_of(*value))).collect()
            };
            let mut outline = points(&above);
            outline.extend(points(&below).into_iter().rev());
            let colour = parsed(layer.colour);
            area.draw(&Polygon::new(outline, colour.filled())).map_err(refused)?;
            area.draw(&PathElement::new(points(&above), FAINT)).map_err(refused)?;
            // In the order of the layers: the first is at the bottom.
            let y = TOP + as_i32(self.layers.len() - 1 - index) * ROW;
            area.draw(&Rectangle::new([(right + 18, y), (right + 30, y + 12)], colour.filled())).map_err(refused)?;
            text(area, &shortened(&layer.name, 27), (right + 36, y + 6), 13, INK, HPos::Left)?;
            below = above;
        }
        // The range in all windows, as a band at the top.
        let band = self.spans.iter().enumerate().map(|(place, span)| (x_of(place), y_of(span[1])));
        let under = self.spans.iter().enumerate().rev().map(|(place, span)| (x_of(place), y_of(span[0])));
        area.draw(&Polygon::new(band.chain(under).collect::<Vec<_>>(), INK.mix(0.35))).map_err(refused)?;
        let line: Vec<(i32, i32)> = sums.iter().enumerate().map(|(place, sum)| (x_of(place), y_of(*sum))).collect();
        area.draw(&PathElement::new(line.clone(), INK.stroke_width(2))).map_err(refused)?;
        for at in line {
            area.draw(&Circle::new(at, 3, INK.filled())).map_err(refused)?;
        }
        area.draw(&PathElement::new([(LEFT, bottom), (right, bottom)], DIM)).map_err(refused)
    }
}

fn at(layer: &AreaLayer, place: usize) -> f64 {
    layer.values.get(place).copied().unwrap_or(0.0)
}

/// The colour that `#rrggbb` stands for.
fn parsed(colour: &str) -> RGBColor {
    let [red, green, blue] = rgb(colour);
    RGBColor(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_drawn_with_names_and_a_band() {
        let layer =
            |name: &str, values: &[f64]| AreaLayer { name: name.into(), colour: "#7fb8e6", values: values.into() };
        let chart = AreaChart {
            title: "A <b>".into(),
            y: "instructions per KiB".into(),
            labels: vec!["6.1".into(), "<6.12>".into()],
            layers: vec![layer("copy in", &[10.0, 20.0]), layer("page & free", &[5.0, 5.0])],
            spans: vec![[14.0, 16.0], [25.0, 25.0]],
            caption: "Below.".into(),
        };
        for theme in [Theme::File, Theme::Page] {
            let svg = chart.svg(theme).unwrap();
            assert!(
                svg.contains("copy in") && svg.contains("page &amp; free") && svg.contains("&lt;6.12&gt;"),
                "{svg}"
            );
            assert!(svg.contains("#7FB8E6") && !svg.contains("<b>") && svg.matches("<polygon").count() == 3, "{svg}");
        }
        let bars = chart.bars().unwrap();
        assert!(bars.contains("25.00") && bars.contains("&lt;6.12&gt;") && bars.contains("var(--ink)"), "{bars}");
        assert!(AreaChart::default().svg(Theme::File).is_ok() && AreaChart::default().bars().is_ok());
        assert_eq!(parsed("#010203"), RGBColor(1, 2, 3));
    }
}
