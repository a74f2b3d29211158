//! The timeline of a recording as an SVG: for each process the state of its threads, for each pipe its fill, over time.

use crate::record::model::labels::labels;
use crate::record::model::stage_times;
use crate::record::model::stages;
use crate::record::say::states::{FILL, PATH, ProcessState};
use crate::record::say::{pipe_rows, words};
use crate::report::flamegraph::escape;
use crate::report::number::number;
use crate::report::terminal::text::shortened;
use crate::result::{Document, RecordedChannel, Timeline, TimelinePipe, TimelineProcess};
use crate::util::text::counted;
use std::collections::HashSet;
use std::fmt::Write as _;

/// As wide as the charts, so that text is still readable in half of the width.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 215.0;
const RIGHT: f64 = 20.0;
/// Height of the legend with its margins, and of a line of the title.
const LEGEND: f64 = 44.0;
const TITLE_LINE: f64 = 22.0;
/// Characters in a line of the title, even with wide letters.
const TITLE_CHARS: usize = 96;
const ROW: f64 = 26.0;
const GAP: f64 = 8.0;
const BOTTOM: f64 = 34.0;

/// Rows of processes, and of the pipes that each writes; result.json has more.
const ROWS: usize = 24;
const PIPES: usize = 4;

/// Longest name in characters, which fits into `LEFT` even with wide letters.
const NAME: usize = 25;

/// A process with at least this part of the path has a row.
const ON_PATH: f64 = 0.02;

/// The picture; `None` if nothing was recorded.
pub(crate) fn svg(recording: &Document) -> Option<String> {
    let timeline = &recording.timeline;
    let window: u64 = timeline.slice_ns.iter().sum();
    if window == 0 || timeline.processes.is_empty() {
        return None;
    }
    let rows = rows(recording);
    let scale = Scale { window: window as f64, starts: starts(timeline) };
    let title = recording.findings.first().map_or("", |first| &first.text).replace('`', "");
    // A number stays on the line of its sign.
    let title = shortened(&title, 2 * TITLE_CHARS).replace(" %", "\u{a0}%");
    let lines = textwrap::wrap(&title, TITLE_CHARS);
    let top_of_legend = 8.0 + lines.len() as f64 * TITLE_LINE;
    let top_of_rows = top_of_legend + LEGEND;
    let height = top_of_rows + rows.len() as f64 * (ROW + GAP) + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" style=\"max-width:100%;height:auto\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" shape-rendering=\"crispEdges\"><title>{}</title>\n\
         <style>.ink{{fill:#1b1f24}}.dim{{fill:#57606a}}.paper{{fill:#ffffff}}@media(prefers-color-scheme:dark)\
         {{.ink{{fill:#e6edf3}}.dim{{fill:#9aa4af}}.paper{{fill:#14181d}}}}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        escape(&title)
    );
    for (number, line) in lines.iter().enumerate() {
        let y = 24.0 + number as f64 * TITLE_LINE;
        let _ = writeln!(svg, "<text class=\"ink\" x=\"12\" y=\"{y}\" font-size=\"16\">{}</text>", escape(line));
    }
    legend(&mut svg, top_of_legend);
    for (number, row) in rows.iter().enumerate() {
        let top = top_of_rows + number as f64 * (ROW + GAP);
        let (name, class) = match row {
            Row::Process(name, _) => (name, "ink"),
            Row::Pipe(name, _) | Row::Rest(name) => (name, "dim"),
        };
        let _ = writeln!(
            svg,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            top + ROW * 0.7,
            escape(&shortened(name, NAME))
        );
        match row {
            Row::Process(_, process) => draw_process(&mut svg, recording, process, &scale, top),
            Row::Pipe(_, pipe) => draw_pipe(&mut svg, pipe, &scale, top),
            Row::Rest(_) => {}
        }
    }
    draw_path(&mut svg, recording, &rows, &scale, top_of_rows);
    axis(&mut svg, window, height);
    svg.push_str("</svg>\n");
    Some(svg)
}

enum Row<'a> {
    Process(String, &'a TimelineProcess),
    /// Of several, such as those of turns of a loop, the fullest is drawn.
    Pipe(String, Vec<&'a TimelinePipe>),
    /// What is not drawn.
    Rest(String),
}

/// The processes in the order of the stages, each followed by the pipes that it writes. Of many, only those whose pipes have a
/// row in the tables.
fn rows(recording: &Document) -> Vec<Row<'_>> {
    let timeline = &recording.timeline;
    let stages = stages::stages(recording);
    let times = stage_times::times(recording, &stages);
    let mut processes: Vec<&TimelineProcess> = timeline.processes.iter().collect();
    let on_path = |process: usize| {
        let parts = recording.path.iter().flat_map(|path| &path.parts).filter(|part| part.process == Some(process));
        parts.map(|part| part.ns).sum::<u64>() as f64 >= ON_PATH * recording.processes.window_ns as f64
    };
    processes.retain(|row| stages.of(row.process).is_some() || on_path(row.process));
    let of_tables = (processes.len() > pipe_rows::MANY).then(|| pipe_rows::rows(recording));
    let told = of_tables.map(|rows| -> Vec<&RecordedChannel> { rows.into_iter().flat_map(|row| row.pipes).collect() });
    if let Some(told) = &told {
        let users: HashSet<usize> = told.iter().flat_map(|pipe| pipe.ends()).map(|end| end.process).collect();
        processes.retain(|row| on_path(row.process) || users.contains(&row.process));
    }
    let told: Option<HashSet<_>> = told.map(|told| told.into_iter().map(std::ptr::from_ref).collect());
    processes.sort_by_key(|row| (stages.of(row.process), row.process));
    let labels = labels(recording);
    let mut rows = Vec::new();
    let (mut left, mut rest): (Vec<&TimelinePipe>, usize) = (timeline.pipes.iter().collect(), 0);
    // Of a pipe to a program that was not recorded, only waits for it are of interest. Looks tell how full a pipe is only while
    // somebody waits for it.
    left.retain(|pipe| {
        let of = &recording.channels[pipe.pipe];
        pipe.filled.iter().any(Option::is_some)
            && (!of.readers.is_empty() || of.writers.iter().any(|end| end.sleeps > 0))
            && told.as_ref().is_none_or(|told| told.contains(&std::ptr::from_ref(of)))
    });
    for row in processes.into_iter().take(ROWS) {
        rows.push(Row::Process(labels[row.process].clone(), row));
        let writes =
            |pipe: &TimelinePipe| recording.channels[pipe.pipe].writers.iter().any(|end| end.process == row.process);
        let (written, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|pipe| writes(pipe));
        left = others;
        let several = recording.recorded[row.process].pids.len() > 1;
        let mut drawn: Vec<(String, Vec<&TimelinePipe>)> = Vec::new();
        for pipe in written {
            let [_, readers] = stages::sides(&recording.channels[pipe.pipe], &stages);
            let noun = recording.channels[pipe.pipe].kind.noun();
            let name = readers.first().map_or(noun.to_owned(), |reader| format!("{noun} to {}", times[*reader].name));
            match drawn.iter_mut().find(|(other, _)| several && *other == name) {
                Some((_, pipes)) => pipes.push(pipe),
                None => drawn.push((name, vec![pipe])),
            }
        }
        rest += drawn.iter().skip(PIPES).map(|(_, pipes)| pipes.len()).sum::<usize>();
        rows.extend(drawn.into_iter().take(PIPES).map(|(name, pipes)| Row::Pipe(name, pipes)));
    }
    rest += recording.channels.iter().filter(|pipe| pipe.is_used()).count().saturating_sub(timeline.pipes.len());
    if rest > 0 {
        rows.push(Row::Rest(format!("and {}", counted(rest as u64, "more pipe"))));
    }
    rows
}

/// Begin of each slice, and the end of the last, ns.
fn starts(timeline: &Timeline) -> Vec<f64> {
    let mut at = 0;
    let mut starts = vec![0.0];
    for ns in &timeline.slice_ns {
        at += ns;
        starts.push(at as f64);
    }
    starts
}

struct Scale {
    window: f64,
    starts: Vec<f64>,
}

impl Scale {
    fn x(&self, ns: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (ns / self.window).min(1.0)
    }

    /// Begin and end of a slice.
    fn slice(&self, number: usize) -> (f64, f64) {
        (self.x(self.starts[number]), self.x(self.starts[number + 1]))
    }
}

fn draw_process(svg: &mut String, recording: &Document, process: &TimelineProcess, scale: &Scale, top: f64) {
    let life = &recording.recorded[process.process];
    let (begin, end) = (scale.x(life.begin_ns as f64), scale.x(life.end_ns as f64));
    let _ = writeln!(
        svg,
        "<rect x=\"{begin:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{ROW}\" fill=\"{}\"/>",
        (end - begin).max(0.5),
        ProcessState::Other.colour()
    );
    let states = [&process.running, &process.runnable, &process.empty, &process.full];
    let mut paths: [String; 4] = Default::default();
    for slice in 0..process.running.len() {
        let (left, right) = scale.slice(slice);
        let shares = states.map(|shares| shares[slice]);
        // Of several threads, the parts of what they do together.
        let all = shares.iter().sum::<f64>().max(1.0);
        let mut base = top + ROW;
        for (path, share) in paths.iter_mut().zip(shares) {
            let height = ROW * share / all;
            if height >= 0.05 {
                base -= height;
                let _ = write!(path, "M{left:.1} {base:.1}H{right:.1}V{:.1}H{left:.1}z", base + height);
            }
        }
    }
    for (path, state) in paths.iter().zip(ProcessState::KNOWN).filter(|(path, _)| !path.is_empty()) {
        let (name, colour) = (state.title(), state.colour());
        let _ = writeln!(svg, "<path fill=\"{colour}\" d=\"{path}\"><title>{name}</title></path>");
    }
}

/// The critical path, as a line through the process that holds up the end at each moment.
fn draw_path(svg: &mut String, recording: &Document, rows: &[Row<'_>], scale: &Scale, top: f64) {
    let Some(path) = &recording.path else { return };
    let middle = |process: usize| {
        let row = rows.iter().position(|row| matches!(row, Row::Process(_, of) if of.process == process))?;
        Some(top + row as f64 * (ROW + GAP) + ROW / 2.0)
    };
    let (mut line, mut at, mut last) = (String::new(), 0, None);
    for (main, ns) in words::mains(path).into_iter().zip(&path.slice_ns) {
        let left = scale.x(at as f64);
        at += ns;
        let y = main.and_then(|(process, ..)| middle(process?));
        match y {
            Some(y) if last.is_none() => {
                let _ = write!(line, "M{left:.1} {y:.1}");
            }
            Some(y) if last != Some(y) => {
                let _ = write!(line, "H{left:.1}V{y:.1}");
            }
            _ => {}
        }
        if y.is_some() {
            let _ = write!(line, "H{:.1}", scale.x(at as f64));
        }
        last = y;
    }
    for (colour, width) in [("#ffffff", 5), (PATH.1, 2)].into_iter().filter(|_| !line.is_empty()) {
        let _ = writeln!(
            svg,
            "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" d=\"{line}\"><title>{}</title></path>",
            PATH.0
        );
    }
}

fn draw_pipe(svg: &mut String, pipes: &[&TimelinePipe], scale: &Scale, top: f64) {
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{ROW}\" fill=\"none\" stroke=\"{}\"/>",
        WIDTH - LEFT - RIGHT,
        ProcessState::Other.colour()
    );
    let mut path = String::new();
    let bottom = top + ROW;
    let slices = pipes.iter().map(|pipe| pipe.filled.len()).max().unwrap_or(0);
    for slice in 0..slices {
        let (left, right) = scale.slice(slice);
        let filled = pipes.iter().filter_map(|pipe| pipe.filled.get(slice).copied().flatten()).fold(0.0, f64::max);
        let height = ROW * filled.min(1.0);
        if height >= 0.05 {
            let _ = write!(path, "M{left:.1} {:.1}H{right:.1}V{bottom:.1}H{left:.1}z", bottom - height);
        }
    }
    let _ = writeln!(svg, "<path fill=\"{}\" d=\"{path}\"><title>{}</title></path>", FILL.1, FILL.0);
}

fn legend(svg: &mut String, top: f64) {
    let mut x = 12.0;
    let states = ProcessState::KNOWN.into_iter().chain([ProcessState::Other]);
    for (name, colour) in states.map(|state| (state.title(), state.colour())).chain([FILL, PATH]) {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"13\" height=\"13\" fill=\"{colour}\"/>\
             <text class=\"ink\" x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            top + 12.0,
            x + 18.0,
            top + 23.0
        );
        x += 42.0 + 7.2 * name.len() as f64;
    }
}

/// Ticks below the rows, in seconds or milliseconds.
fn axis(svg: &mut String, window: u64, height: f64) {
    let (unit, per) = if window >= 2_000_000_000 { ("s", 1e9) } else { ("ms", 1e6) };
    let all = window as f64 / per;
    let rough = all / 8.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(rough);
    let mut at = 0.0;
    while at <= all * 1.0001 {
        let x = LEFT + (WIDTH - LEFT - RIGHT) * at / all;
        let _ = writeln!(
            svg,
            "<text class=\"dim\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"12\">{} {unit}</text>",
            height - 12.0,
            if at == 0.0 { "0".to_owned() } else { number(at) }
        );
        at += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::model::stages::tests::shell;
    use crate::result::{Finding, FindingKind};

    #[test]
    fn each_state_has_its_share_of_the_row() {
        let row = |process, running: [f64; 2], empty: [f64; 2]| TimelineProcess {
            running: running.to_vec(),
            empty: empty.to_vec(),
            ..TimelineProcess::new(process, 2)
        };
        let recording = Document {
            findings: vec![Finding::new(FindingKind::Path, None, "The 2 ms were `a<b`.".to_owned())],
            timeline: Timeline {
                slice_ns: vec![1_000_000; 2],
                processes: vec![row(0, [1.0, 0.5], [0.0; 2]), row(1, [0.0, 4.0], [1.0, 0.0])],
                pipes: vec![TimelinePipe { pipe: 0, bytes: vec![1, 1], filled: vec![Some(0.5), None] }],
            },
            ..shell(["a<b", "c"], &[[&[0], &[1]]])
        };
        let svg = svg(&recording).unwrap();
        assert!(svg.contains("<title>The 2 ms were a&lt;b.</title>") && !svg.contains("a<b"), "{svg}");
        // Two slices of 332.5 units; the second thread's four CPUs are one row.
        let running = "M215.0 74.0H547.5V100.0H215.0zM547.5 87.0H880.0V100.0H547.5z";
        assert!(svg.contains(running), "{svg}");
        assert!(svg.contains("<path fill=\"#e0652c\" d=\"M547.5 142.0H880.0V168.0H547.5z\">"), "{svg}");
        assert!(svg.contains("<path fill=\"#7a9a5b\" d=\"M215.0 121.0H547.5V134.0H215.0z\">"), "{svg}");
        assert_eq!(super::svg(&Document::default()), None);
    }

    #[test]
    fn of_many_processes_those_with_a_row_in_the_tables_are_drawn() {
        let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
        let ends: Vec<[usize; 2]> = (0..10).map(|number| [2 * number, 2 * number + 1]).collect();
        let pipes: Vec<[&[usize]; 2]> = ends.iter().map(|ends| [&ends[..1], &ends[1..]]).collect();
        let mut recording = shell(names, &pipes);
        for (number, pipe) in recording.channels.iter_mut().enumerate() {
            pipe.readers[0].bytes = if number == 4 { 60_000 } else { 5 };
        }
        recording.timeline = Timeline {
            slice_ns: vec![1000],
            processes: (0..20).map(|process| TimelineProcess::new(process, 1)).collect(),
            pipes: (0..10).map(|pipe| TimelinePipe { pipe, bytes: vec![1], filled: vec![Some(0.5)] }).collect(),
        };
        let drawn: Vec<String> = rows(&recording)
            .into_iter()
            .map(|row| match row {
                Row::Process(name, _) | Row::Pipe(name, _) | Row::Rest(name) => name,
            })
            .collect();
        assert_eq!(drawn, ["p8", "pipe to p9", "p9"]);
    }

    #[test]
    fn pipes_of_turns_of_a_loop_are_one_row() {
        let drawn = |pids: Vec<u32>| {
            let names = ["seq", "wc"].map(str::to_owned).to_vec();
            let mut recording = shell(names, &[[&[0], &[1]], [&[0], &[1]], [&[0], &[1]]]);
            recording.recorded[0].pids = pids;
            let pipe = |pipe: usize| TimelinePipe { pipe, bytes: vec![1], filled: vec![Some(0.2 * pipe as f64)] };
            recording.timeline = Timeline {
                slice_ns: vec![1000],
                processes: (0..2).map(|process| TimelineProcess::new(process, 1)).collect(),
                pipes: (0..3).map(pipe).collect(),
            };
            let rows = rows(&recording);
            rows.iter()
                .filter_map(|row| if let Row::Pipe(_, pipes) = row { Some(pipes.len()) } else { None })
                .collect::<Vec<_>>()
        };
        assert_eq!(drawn(vec![1, 2, 3]), [3]);
        assert_eq!(drawn(vec![1]), [1, 1, 1], "a program with three outputs");
    }
}
