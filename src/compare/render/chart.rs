//! The chart of stacked bars: one bar per column, one piece per role, as an SVG drawn by plotters.

use crate::compare::model::{Comparison, Section};
use crate::profile::listed;
use crate::report::number;
use crate::report::table::rgb;
use crate::report::terminal::text::shortened;
use crate::roles::RoleId;
use crate::util::text::clean;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Write as _;

const WIDTH: u32 = 1000;
const BAR: u32 = 46;
const LABELS: i32 = 190;
const VALUES: i32 = 100;
const TOP: i32 = 8;
const AXIS: i32 = 44;

/// Placeholders for the page's colours, so that the chart follows its light and dark theme.
const INK: RGBColor = RGBColor(1, 2, 3);
const FAINT: RGBColor = RGBColor(1, 2, 4);

/// The chart of one section as an `<svg>` element. The SVG backend escapes its text.
///
/// # Errors
/// When the drawing library fails.
pub(crate) fn stacked(comparison: &Comparison, section: &Section) -> Result<String> {
    let present: Vec<usize> = (0..section.cells.len()).filter(|column| section.cells[*column].is_some()).collect();
    let sum = |column: usize| {
        section.cells[column].as_ref().map_or(0.0, |cell| cell.roles.iter().map(|role| role.value).sum::<f64>())
    };
    let longest = present.iter().map(|column| sum(*column)).fold(0.0, f64::max);
    if longest <= 0.0 {
        return Ok(String::new());
    }
    let count = u32::try_from(present.len()).unwrap_or(1);
    let height = BAR * count + TOP.unsigned_abs() + AXIS.unsigned_abs();
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| anyhow!("cannot draw the chart: {error}");
    let mut chart = ChartBuilder::on(&area)
        .margin_top(TOP)
        .margin_right(VALUES)
        .x_label_area_size(AXIS)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(0.0..longest, 0.0..f64::from(count))
        .map_err(|error| failed(&error))?;
    let label = TextStyle::from(("sans-serif", 14).into_font()).color(&INK);
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(FAINT)
        .x_desc(format!("{} of {}, by role", comparison.per_kib(), listed(section.processes())))
        .x_label_style(label.clone())
        .axis_desc_style(label.clone())
        .x_label_formatter(&|value| {
            if *value > 0.0 && *value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
        })
        .draw()
        .map_err(|error| failed(&error))?;
    for (index, column) in present.iter().enumerate() {
        let Some(cell) = &section.cells[*column] else { continue };
        let row = f64::from(count) - 1.0 - f64::from(u32::try_from(index).unwrap_or(0));
        let mut at = 0.0;
        // Largest role of the whole section first, so that pieces have the same order in every bar.
        for role in role_order(section) {
            let Some(value) = cell.roles.iter().find(|value| value.role == role) else { continue };
            let colour = rgb(&value.colour).map_or(RGBColor(0x99, 0x99, 0x99), |[r, g, b]| RGBColor(r, g, b));
            let piece = Rectangle::new([(at, row + 0.14), (at + value.value, row + 0.86)], colour.filled());
            chart.draw_series(std::iter::once(piece)).map_err(|error| failed(&error))?;
            at += value.value;
        }
        let y = chart.backend_coord(&(0.0, row + 0.5)).1;
        let end = chart.backend_coord(&(at, row + 0.5)).0;
        let name = shortened(&comparison.columns[*column].label, 24);
        let right = label.pos(Pos::new(HPos::Right, VPos::Center));
        area.draw_text(&name, &right, (LABELS - 10, y)).map_err(|error| failed(&error))?;
        let left = label.pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(&number::exact(at), &left, (end + 8, y)).map_err(|error| failed(&error))?;
    }
    area.present().map_err(|error| failed(&error))?;
    drop(chart);
    drop(area);
    Ok(themed(&svg, &section.title()))
}

/// Ids of the roles of a section, ordered by their largest value in any column.
#[must_use]
pub(crate) fn role_order(section: &Section) -> Vec<RoleId> {
    let mut largest: Vec<(RoleId, f64)> = Vec::new();
    for value in section.cells.iter().flatten().flat_map(|cell| &cell.roles) {
        match largest.iter_mut().find(|(role, _)| *role == value.role) {
            Some((_, most)) => *most = most.max(value.value),
            None => largest.push((value.role, value.value)),
        }
    }
    largest.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    largest.into_iter().map(|(role, _)| role).collect()
}

fn themed(svg: &str, mode: &str) -> String {
    let mut name = String::new();
    for c in clean(mode).chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == ' ') {
        let _ = write!(name, "{c}");
    }
    svg.replace("#010203", "currentColor").replace("#010204", "var(--faint)").replacen(
        "<svg ",
        &format!("<svg class=\"chart\" role=\"img\" aria-label=\"{name}: stacked bars by role; the table below has the values\" "),
        1,
    )
}
