//! Format a sweep as a table, a chart, or CSV.

use super::model::{Sweep, SweepAxis, SweepCell};
use crate::profile::listed;
use crate::report::chart::{Chart, ChartKind, Point, Series};
use crate::report::number::number;
use crate::report::table::Table;
use crate::report::terminal::{Style, paragraph};
use crate::run::BUSY;
use crate::util::styled_text::StyledText;
use crate::util::text::capitalized;

/// Maximum number of distinguishable lines in a chart.
const MOST_LINES: usize = 6;

/// A column of what the median run did besides its value: names in CSV, and headings in two lines each, so that the table
/// fits 80 columns.
type DetailColumn = (&'static str, &'static str, fn(&SweepCell) -> Option<f64>);

/// A column without a value is left out of the table.
const DETAILS: [DetailColumn; 9] = [
    ("writer_calls_per_mib", "writer\nsyscalls/MiB", |cell| cell.writer_calls_per_mib),
    ("reader_calls_per_mib", "reader\nsyscalls/MiB", |cell| cell.reader_calls_per_mib),
    ("writer_ns_per_kib", "writer\nns/KiB", |cell| cell.writer_ns_per_kib),
    ("reader_ns_per_kib", "reader\nns/KiB", |cell| cell.reader_ns_per_kib),
    ("instructions_per_writer_call", "writer\ninstr/syscall", |cell| cell.instructions_per_writer_call),
    ("cpu_s", "on CPU\ns", |cell| cell.cpu_seconds),
    ("user_minstr", "user\nM instr", |cell| cell.user_minstr),
    ("kernel_minstr", "kernel\nM instr", |cell| cell.kernel_minstr),
    ("scheduling_minstr", "scheduling\nM instr", |cell| cell.scheduling_minstr),
];

impl Sweep {
    /// CSV with a header and a line per combination (RFC 4180).
    pub fn csv(&self) -> String {
        self.csv_table().csv()
    }

    /// The table of [`Self::csv`].
    pub fn csv_table(&self) -> Table {
        let unit = self.unit.replace(['/', ' '], "_").to_lowercase();
        let mut table = Table::of("sweep", &self.cells);
        for axis in &self.axes {
            table = table.column(axis.name.replace('-', "_"), |cell| cell.labels.get(&axis.name).cloned());
        }
        table = table
            .column("n", |cell| cell.runs.len())
            .column(format!("median_{unit}"), |cell| cell.median)
            .column(format!("mad_{unit}"), |cell| cell.mad)
            .column(format!("least_{unit}"), |cell| cell.least())
            .column(format!("greatest_{unit}"), |cell| cell.greatest());
        for (name, _, value) in DETAILS {
            table = table.column(name, |cell| value(cell));
        }
        table.column("caveats", |cell| cell.caveats.join("; ")).column("reason", |cell| cell.reason.clone()).done()
    }

    /// The chart: the axis with the most values is horizontal, each combination of the others is a line. `None` if
    /// nothing was measured, or with too many lines.
    pub fn chart(&self) -> Option<Chart> {
        let along = self.axes.iter().max_by_key(|axis| axis.values.len())?;
        let varied: Vec<&SweepAxis> = self.axes.iter().filter(|axis| *axis != along && axis.values.len() > 1).collect();
        let mut series: Vec<Series> = Vec::new();
        for value in &along.values {
            for cell in self.cells.iter().filter(|cell| cell.labels.get(&along.name) == Some(value)) {
                let Some(y) = cell.median else { continue };
                let mut name: Vec<String> = Vec::new();
                for axis in &varied {
                    let value = cell.labels.get(&axis.name).map_or("", String::as_str);
                    let plain = ["mode", "pipeline"].contains(&&*axis.name);
                    name.push(if plain { value.to_owned() } else { format!("{}={value}", axis.name) });
                }
                let name = if name.is_empty() { self.unit.clone() } else { name.join(" ") };
                let span = cell.least().zip(cell.greatest()).filter(|_| cell.runs.len() > 1);
                let point = Point { label: value.clone(), y, span: span.map(|(low, high)| [low, high]) };
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push(point),
                    None => series.push(Series { name, points: vec![point] }),
                }
            }
        }
        let n = self.cells.iter().map(|cell| cell.runs.len()).max().unwrap_or(0);
        (!series.is_empty() && series.len() <= MOST_LINES).then(|| Chart {
            id: "sweep".into(),
            title: format!("{} over {}", self.unit, along.name),
            kind: ChartKind::Lines,
            y: format!("{} · {}, Linux {}", self.unit, self.cpu, self.kernel),
            x: format!("{} · n {n}, median, bars from least to greatest", along.name),
            series,
            caption: String::new(),
        })
    }

    /// The table on the terminal, and what is special about combinations below it.
    pub fn table(&self, style: Style) -> StyledText {
        let axes: Vec<&SweepAxis> = self.axes.iter().filter(|axis| axis.values.len() > 1).collect();
        let mut table = Table::of("", &self.cells);
        for axis in &axes {
            table = table.column(&*axis.name, |cell| cell.labels.get(&axis.name).cloned().unwrap_or_default());
        }
        table = table
            .column(&*self.unit, |cell| cell.median)
            .column("MAD", |cell| cell.mad)
            .column("n", |cell| cell.runs.len());
        for (_, heading, value) in DETAILS {
            table = table.if_any(0, heading, |cell| value(cell));
        }
        let mut text = table.done().text(style);
        let notes = self.notes();
        if !notes.is_empty() {
            text.push_str("\n");
        }
        for (note, cells) in notes {
            let names: Vec<String> = cells.iter().map(|cell| cell_name(cell, &axes)).collect();
            text.push_str(&paragraph("  ", &format!("{}: {note}", names.join(", ")), style));
        }
        text
    }

    /// Why the values may be doubted: other programs used the CPUs.
    pub fn caution(&self) -> Option<String> {
        let others = self.others.filter(|others| *others > BUSY)?;
        let percent = 100.0 * others;
        Some(format!("Other programs used {percent:.0} % of the CPUs' time: repeat this on an idle machine."))
    }

    /// The best combination, and by how much it differs from the worst; of several kernels, in each setting that has two or
    /// more. With several equal within their intervals, all of them.
    pub fn answers(&self) -> Vec<String> {
        let varied = self.axes.iter().filter(|axis| axis.values.len() > 1);
        let (kernels, settings): (Vec<&SweepAxis>, Vec<_>) = varied.partition(|axis| axis.name == "kernel");
        let mut alike: Vec<(String, Vec<&SweepCell>)> = Vec::new();
        for cell in &self.cells {
            let setting = if kernels.is_empty() { String::new() } else { cell_name(cell, &settings) };
            match alike.iter_mut().find(|(known, _)| *known == setting) {
                Some((_, cells)) => cells.push(cell),
                None => alike.push((setting, vec![cell])),
            }
        }
        let axes = if kernels.is_empty() { settings } else { kernels };
        let answer = |(setting, cells): &(String, Vec<&SweepCell>)| {
            let place = if setting.is_empty() { String::new() } else { format!("with {setting}, ") };
            Some(capitalized(&format!("{place}{}", self.answer(cells, &axes)?)))
        };
        alike.iter().filter_map(answer).collect()
    }

    fn answer(&self, cells: &[&SweepCell], axes: &[&SweepAxis]) -> Option<String> {
        let speed = self.unit == "GiB/s";
        let mut cells: Vec<(&SweepCell, f64)> = cells.iter().filter_map(|cell| Some((*cell, cell.median?))).collect();
        cells.sort_by(|(_, a), (_, b)| if speed { b.total_cmp(a) } else { a.total_cmp(b) });
        let [(best, first), .., (worst, last)] = cells[..] else { return None };
        let interval = |cell: &SweepCell| cell.ci95.or(cell.least().zip(cell.greatest()).map(|(a, b)| [a, b]));
        let [low, high] = interval(best)?;
        let near: Vec<String> = cells
            .iter()
            .filter(|(cell, _)| interval(cell).is_some_and(|other| other[0] <= high && low <= other[1]))
            .map(|(cell, _)| cell_name(cell, axes))
            .collect();
        let timed = speed || self.unit == "s";
        let (what, unit) = (if timed { "fastest" } else { "fewest instructions" }, &self.unit);
        let worst = cell_name(worst, axes);
        Some(if near.len() == cells.len() {
            format!("undecided: the values of all {} combinations overlap; more runs (--runs) may tell.", cells.len())
        } else if near.len() > 1 {
            format!(
                "{what}: {}, whose values overlap, {} {} {unit}; {worst} has {}.",
                listed(&near),
                if speed { "up to" } else { "from" },
                number(first),
                number(last)
            )
        } else {
            let times = if speed { first / last.max(f64::MIN_POSITIVE) } else { last / first.max(f64::MIN_POSITIVE) };
            let how = if timed { "times as fast as" } else { "times fewer than" };
            format!("{what}: {}, {} {unit}, {} {how} {worst}.", near.join(""), number(first), number(times))
        })
    }

    /// Why combinations have no value, and what differs from what was asked for: each text once, with its combinations.
    fn notes(&self) -> Vec<(&str, Vec<&SweepCell>)> {
        let mut notes: Vec<(&str, Vec<&SweepCell>)> = Vec::new();
        for cell in &self.cells {
            let reason = cell.reason.as_ref().filter(|_| cell.median.is_none());
            for text in reason.into_iter().chain(&cell.caveats) {
                match notes.iter_mut().find(|(note, _)| *note == text) {
                    Some((_, cells)) => cells.push(cell),
                    None => notes.push((text, vec![cell])),
                }
            }
        }
        notes
    }
}

/// The values of `cell` on `axes`, as in the first columns of its row.
fn cell_name(cell: &SweepCell, axes: &[&SweepAxis]) -> String {
    let values: Vec<&str> = axes.iter().filter_map(|axis| cell.labels.get(&axis.name)).map(String::as_str).collect();
    values.join(" ")
}

impl SweepCell {
    fn least(&self) -> Option<f64> {
        self.runs.iter().copied().min_by(f64::total_cmp)
    }

    fn greatest(&self) -> Option<f64> {
        self.runs.iter().copied().max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCHEMA;
    use crate::result::ExecutedOn;

    fn sweep() -> Sweep {
        let combinations = ["write", "vmsplice"].into_iter().flat_map(|mode| {
            let value = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            ["4K", "8K", "16K"].map(|size| [value("mode", mode), value("buffer-size", size)])
        });
        let combinations: Vec<[(String, String); 2]> = combinations.collect();
        let axes = SweepAxis::all(combinations.iter().flatten());
        let cells = combinations.into_iter().enumerate().map(|(index, values)| {
            let mut cell = SweepCell {
                labels: values.into_iter().collect(),
                runs: vec![index as f64 + 1.0, index as f64 + 2.0],
                ..SweepCell::default()
            };
            if index == 4 {
                cell.caveats = vec!["the pipe held 8K instead of 64K".into()];
            }
            if index == 5 {
                (cell.runs, cell.reason) = (Vec::new(), Some("the pipe said \"no\", twice".into()));
            }
            cell.summarise();
            cell
        });
        let cells = cells.collect();
        Sweep {
            schema: SCHEMA.into(),
            version: "0".into(),
            command: "pipeprof sweep".into(),
            executed_on: ExecutedOn::Hardware,
            unit: "GiB/s".into(),
            kernel: "6.1".into(),
            cpu: "a CPU".into(),
            axes,
            cells,
            ending: None,
            others: None,
        }
    }

    #[test]
    fn csv_quotes_and_has_a_line_per_combination() {
        let csv = sweep().csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 7);
        assert!(
            lines[0].starts_with("mode,buffer_size,n,median_gib_s,mad_gib_s,least_gib_s,greatest_gib_s,"),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with("write,4K,2,1.5,0.5,1,2,"), "{}", lines[1]);
        assert!(lines[6].ends_with("\"the pipe said \"\"no\"\", twice\""), "{}", lines[6]);
        let width = lines[0].split(',').count();
        assert!(lines[1..6].iter().all(|line| line.split(',').count() == width));
    }

    #[test]
    fn the_chart_runs_along_the_longest_axis() {
        let chart = sweep().chart().unwrap();
        assert_eq!(chart.labels(), ["4K", "8K", "16K"]);
        assert_eq!(chart.series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["write", "vmsplice"]);
        assert_eq!(chart.series[1].points.len(), 2, "what failed has no point");
    }

    #[test]
    fn the_answer_names_the_best_or_those_that_overlap() {
        let mut sweep = sweep();
        // vmsplice 4K has 4 to 5, vmsplice 8K 5 to 6, which overlap.
        assert_eq!(
            sweep.answers().concat(),
            "Fastest: vmsplice 8K and vmsplice 4K, whose values overlap, up to 5.50 GiB/s; write 4K has 1.50."
        );
        sweep.cells[4].runs = vec![9.0, 9.1];
        sweep.cells[4].summarise();
        assert_eq!(sweep.answers().concat(), "Fastest: vmsplice 8K, 9.05 GiB/s, 6.03 times as fast as write 4K.");
        // Of times, the least is best.
        let seconds = Sweep { unit: "s".into(), ..sweep.clone() };
        assert_eq!(
            seconds.answers().concat(),
            "Fastest: write 4K and write 8K, whose values overlap, from 1.50 s; vmsplice 8K has 9.05."
        );
        sweep.cells.iter_mut().for_each(|cell| cell.runs = vec![1.0, 9.0]);
        sweep.cells.iter_mut().for_each(SweepCell::summarise);
        assert!(sweep.answers().concat().starts_with("Undecided: the values of all 6 combinations overlap"));
        sweep.cells.truncate(1);
        assert!(sweep.answers().is_empty());
        assert_eq!(sweep.caution(), None);
        sweep.others = Some(0.4);
        assert!(sweep.caution().unwrap().contains("40 %"));
    }

    #[test]
    fn kernels_are_compared_in_one_setting() {
        let mut sweep = sweep();
        sweep.unit = "instructions per KiB".into();
        for cell in &mut sweep.cells {
            let kernel = if cell.labels.remove("mode").unwrap() == "write" { "6.1" } else { "6.12" };
            cell.labels.insert("kernel".into(), kernel.into());
            cell.runs.truncate(1);
            cell.summarise();
        }
        sweep.axes[0] = SweepAxis { name: "kernel".into(), values: vec!["6.1".into(), "6.12".into()] };
        let [first, second] = &sweep.answers()[..] else { panic!("{:?}", sweep.answers()) };
        assert_eq!(first, "With 4K, fewest instructions: 6.1, 1.00 instructions per KiB, 4.00 times fewer than 6.12.");
        assert_eq!(second, "With 8K, fewest instructions: 6.1, 2.00 instructions per KiB, 2.50 times fewer than 6.12.");
        sweep.axes.truncate(1);
        assert_eq!(sweep.answers().len(), 1, "without a setting, all of them");
    }

    #[test]
    fn what_is_special_stands_below_the_table() {
        let mut sweep = sweep();
        sweep.cells[3].caveats = sweep.cells[4].caveats.clone();
        let table = sweep.table(Style::PLAIN);
        assert!(table.contains("\n  vmsplice 4K, vmsplice 8K: the pipe held 8K instead of 64K\n"), "{table}");
        assert!(table.ends_with("\n  vmsplice 16K: the pipe said \"no\", twice\n"), "{table}");
        let row = table.lines().find(|line| line.contains("16K") && line.contains("vmsplice")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["vmsplice", "16K", "-", "-", "0"]);
    }
}
