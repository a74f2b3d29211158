//! Draw the screen.

use crate::record::live::frame::{LiveChannel, LiveProcess, mib};
use crate::record::live::history::SECONDS;
use crate::record::live::state::{ScreenRow, ScreenState};
use crate::record::say::states::{FILL, ProcessState};
use crate::report::block::{self, ReportBlock};
use crate::report::number::percent;
use crate::report::terminal::text::shortened;
use crate::report::terminal::{Style as ReportStyle, colour};
use crate::util::colour::rgb;
use crate::util::text::clean;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Widget as _};

/// Widths in columns: the bar of a channel, and names in a narrow and in a wide terminal.
const BAR: u16 = 10;
const NAMES: [u16; 2] = [22, 48];
const WIDE: u16 = 120;

/// Lines of a sentence, and of all of them.
const SAID: usize = 2;
const MOST_SAID: usize = 5;

/// Lines of what was printed, at least.
const PRINTED: u16 = 4;

/// How colours are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScreenColours {
    None,
    /// The 256 of xterm.
    Indexed,
    All,
}

impl ScreenColours {
    /// What the terminal can show, and the user wants.
    pub(crate) fn of_terminal() -> Self {
        let names_all = std::env::var("COLORTERM").is_ok_and(|value| matches!(&value[..], "truecolor" | "24bit"));
        match (colour::on_screen(), names_all) {
            (false, _) => Self::None,
            (true, false) => Self::Indexed,
            (true, true) => Self::All,
        }
    }

    fn of(self, colour: &str) -> Style {
        let [red, green, blue] = rgb(colour);
        match self {
            Self::None => Style::new(),
            Self::All => Style::new().fg(Color::Rgb(red, green, blue)),
            Self::Indexed => {
                // The cube of 6 by 6 by 6 colours begins at 16; its levels are 0, 95, 135, ..., 255.
                let level = |part: u8| if part < 48 { 0 } else { (part.max(55) - 35) / 40 };
                Style::new().fg(Color::Indexed(16 + 36 * level(red) + 6 * level(green) + level(blue)))
            }
        }
    }
}

/// A character for a state, so that colours are not needed.
fn sign(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Running => "█",
        ProcessState::Runnable => "▓",
        ProcessState::PipeFull => "▒",
        ProcessState::PipeEmpty => "░",
        ProcessState::Other => "·",
    }
}

/// What is drawn, and how.
pub(crate) struct ScreenView<'a> {
    pub state: &'a ScreenState,
    /// The last lines that the pipeline printed; `None` if it prints elsewhere.
    pub printed: Option<Vec<String>>,
    pub colours: ScreenColours,
}

impl ScreenView<'_> {
    pub(crate) fn draw(&self, buffer: &mut Buffer) {
        let area = buffer.area;
        let (shown, _) = self.state.shown();
        let frozen = if self.state.is_frozen() { "stands still · " } else { "" };
        let elapsed = if shown.elapsed.is_empty() { "0 s" } else { &shown.elapsed };
        let right = format!("{frozen}by {} · {elapsed}", self.state.order.title());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let width = usize::from(area.width);
        let room = width.saturating_sub(right.chars().count() + 1);
        let title = fitted(&clean(&shown.title), room);
        let title = Line::from(vec![Span::styled(format!("{title:<room$} "), bold), Span::raw(right)]);
        let said = self.said(width);
        let [first, middle, body, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(said.len() as u16),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(area);
        title.render(first, buffer);
        Paragraph::new(said).render(middle, buffer);
        match &self.state.opened {
            Some(row) => self.draw_opened(buffer, row, body),
            None => self.draw_rows(buffer, body),
        }
        let does = if self.state.opened.is_some() { "Enter, Esc close" } else { "Enter open" };
        let keys_text = format!("q end   s sort   space stop and go on   ↑↓ select   {does}");
        Line::styled(fitted(&keys_text, width), Style::new().add_modifier(Modifier::DIM)).render(keys, buffer);
    }

    /// The critical path, then what else there is to say.
    fn said(&self, width: usize) -> Vec<Line<'static>> {
        let (shown, _) = self.state.shown();
        if shown.elapsed.is_empty() {
            return vec![Line::raw(fitted("The first second is not over.", width))];
        }
        let mut lines = Vec::new();
        for (number, text) in shown.said.iter().enumerate() {
            // A number stays on the line of its sign.
            let text = clean(text).replace(" %", "\u{a0}%");
            let style = if number == 0 { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
            let wrapped = textwrap::wrap(&text, width.max(1));
            let is_cut = wrapped.len() > SAID;
            for (at, line) in wrapped.into_iter().take(SAID).enumerate() {
                let end = if is_cut && at + 1 == SAID { " …" } else { "" };
                lines.push(Line::styled(fitted(&format!("{line}{end}").replace('\u{a0}', " "), width), style));
            }
        }
        if lines.len() > MOST_SAID {
            lines.truncate(MOST_SAID);
            if let Some(last) = lines.last_mut() {
                let text = fitted(&format!("{last} …"), width);
                *last = Line::raw(text);
            }
        }
        lines
    }

    /// How many lines the channels, the processes and what was printed get of so many.
    fn shares(&self, lines: u16) -> [u16; 3] {
        let channels = self.state.channels().len() as u16 + 1;
        let processes = self.state.processes().len() as u16;
        // A line of names, and one of what the signs mean.
        let processes = if processes > 0 { processes + 2 } else { 0 };
        let printed = if self.printed.is_some() { PRINTED.min(lines / 3) } else { 0 };
        let left = lines.saturating_sub(printed);
        let of_processes = processes.min(left.saturating_sub(channels.min(left / 2)));
        let of_channels = channels.min(left - of_processes);
        [of_channels, of_processes, lines - of_channels - of_processes]
    }

    fn draw_rows(&self, buffer: &mut Buffer, area: Rect) {
        let [channels, processes, printed] = self.shares(area.height);
        let [channels, processes, printed] =
            Layout::vertical([channels, processes, printed].map(Constraint::Length)).areas(area);
        self.draw_channels(buffer, channels);
        self.draw_processes(buffer, processes);
        self.draw_printed(buffer, printed);
    }

    fn names(width: u16) -> u16 {
        NAMES[usize::from(width >= WIDE)]
    }

    /// The rows for which there is room, so that the selected one is among them.
    fn visible<T>(rows: Vec<&T>, room: u16, selected: impl Fn(&T) -> bool) -> Vec<&T> {
        let room = usize::from(room);
        let at = rows.iter().position(|row| selected(row)).unwrap_or(0);
        let first = (at + 1).saturating_sub(room).min(rows.len().saturating_sub(room));
        rows.into_iter().skip(first).take(room).collect()
    }

    fn marked(&self, row: &ScreenRow, text: &str, width: usize) -> Span<'static> {
        let is_selected = self.state.selected.as_ref() == Some(row);
        let mark = if is_selected { ">" } else { " " };
        let style = if is_selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Span::styled(format!("{mark}{:<1$}", fitted(text, width - 1), width - 1), style)
    }

    fn draw_channels(&self, buffer: &mut Buffer, area: Rect) {
        if area.height == 0 {
            return;
        }
        let (_, history) = self.state.shown();
        let channels = self.state.channels();
        let has_cause = channels.iter().any(|row| !row.cause.is_empty());
        let names = Self::names(area.width);
        // name, bar, fill, rate over time, rate, full, empty, cause.
        let fixed = names + BAR + 5 + 8 + 6 + 6 + 3;
        let cause = if has_cause && area.width >= WIDE { 24 } else { 0 };
        let spark = area.width.saturating_sub(fixed + cause + 1).min(SECONDS as u16);
        let columns = [names + 1, BAR + 1, 5, spark + 1, 8, 6, 6, cause].map(Constraint::Length);
        let cells = |y: u16| Layout::horizontal(columns).areas::<8>(Rect { y, height: 1, ..area });
        let dim = Style::new().add_modifier(Modifier::DIM);
        let seconds = format!("last {spark} s");
        let heads = [" channel", "fill", "", &seconds, "  MiB/s", " full", "empty", " waits for"];
        for (cell, head) in cells(area.y).into_iter().zip(heads) {
            Line::styled(fitted(head, usize::from(cell.width)), dim).render(cell, buffer);
        }
        let is_selected = |row: &LiveChannel| self.state.selected == Some(ScreenRow::Channel(row.name.clone()));
        for (number, row) in (1..).zip(Self::visible(channels, area.height - 1, is_selected)) {
            let [name, bar, fill, over_time, rate, full, empty, cause] = cells(area.y + number);
            let id = ScreenRow::Channel(row.name.clone());
            Line::from(self.marked(&id, &clean(&row.name), usize::from(names))).render(name, buffer);
            if let Some(part) = row.fill {
                let used = (f64::from(BAR) * part).round().min(f64::from(BAR)) as usize;
                let bars = [("█", used), ("░", usize::from(BAR) - used)];
                let bars = bars.map(|(sign, count)| Span::styled(sign.repeat(count), self.colours.of(FILL.1)));
                Line::from(bars.to_vec()).render(bar, buffer);
                Line::raw(format!("{:>4}", whole(part))).render(fill, buffer);
            }
            let rates = history.rates(&row.name, usize::from(spark));
            Sparkline::default().data(rates).style(self.colours.of(FILL.1)).render(over_time, buffer);
            let text = row.rate.map_or("-".to_owned(), mib);
            Line::raw(format!("{text:>7}")).render(rate, buffer);
            for (share, state, cell) in
                [(row.full, ProcessState::PipeFull, full), (row.empty, ProcessState::PipeEmpty, empty)]
            {
                let style = if share >= 0.005 { self.colours.of(state.colour()) } else { Style::new() };
                Line::styled(format!("{:>5}", whole(share)), style).render(cell, buffer);
            }
            let width = usize::from(cause.width);
            Line::raw(fitted(&format!(" {}", clean(&row.cause)), width)).render(cause, buffer);
        }
    }

    fn draw_processes(&self, buffer: &mut Buffer, area: Rect) {
        if area.height < 2 {
            return;
        }
        let (_, history) = self.state.shown();
        // name, strip, share, waits.
        let strip = (SECONDS as u16).min(area.width.saturating_sub(20));
        let names = Self::names(area.width).min(area.width.saturating_sub(strip + 6)).max(2);
        let dim = Style::new().add_modifier(Modifier::DIM);
        let columns =
            [Constraint::Length(names), Constraint::Length(strip + 1), Constraint::Length(5), Constraint::Min(0)];
        let cells = |y: u16| Layout::horizontal(columns).areas::<4>(Rect { y, height: 1, ..area });
        let heads = [" process", "the last minute, critical path underlined", " CPU", " other waits"];
        for (cell, head) in cells(area.y).into_iter().zip(heads) {
            Line::styled(fitted(head, usize::from(cell.width)), dim).render(cell, buffer);
        }
        let is_selected = |row: &LiveProcess| self.state.selected == Some(ScreenRow::Process(row.name.clone()));
        for (number, row) in (1..).zip(Self::visible(self.state.processes(), area.height - 2, is_selected)) {
            let [name, states, cpu, waits] = cells(area.y + number);
            let id = ScreenRow::Process(row.name.clone());
            Line::from(self.marked(&id, &clean(&row.name), usize::from(names))).render(name, buffer);
            let cell = |state: Option<(ProcessState, bool)>| match state {
                None => Span::raw(" "),
                Some((state, is_on_path)) => {
                    let style = self.colours.of(state.colour());
                    let style = if is_on_path { style.add_modifier(Modifier::UNDERLINED) } else { style };
                    Span::styled(sign(state), style)
                }
            };
            let strip: Vec<Span<'_>> = history.states(&row.name, usize::from(strip)).into_iter().map(cell).collect();
            Line::from(strip).render(states, buffer);
            Line::raw(format!("{:>4}", whole(row.cpu))).render(cpu, buffer);
            Line::raw(fitted(&format!(" {}", row.waits), usize::from(waits.width))).render(waits, buffer);
        }
        let mut legend = Vec::new();
        for state in ProcessState::KNOWN.into_iter().chain([ProcessState::Other]) {
            legend.push(Span::styled(format!(" {}", sign(state)), self.colours.of(state.colour())));
            legend.push(Span::styled(format!(" {} ", state.title()), dim));
        }
        let below = Rect { y: area.y + area.height - 1, height: 1, ..area };
        Line::from(legend).render(below, buffer);
    }

    fn draw_printed(&self, buffer: &mut Buffer, area: Rect) {
        let Some(printed) = self.printed.as_ref().filter(|_| area.height > 1) else { return };
        let dim = Style::new().add_modifier(Modifier::DIM);
        let lines = printed.iter().skip(printed.len().saturating_sub(usize::from(area.height) - 1));
        let head = Line::styled("─ printed ".to_owned() + &"─".repeat(usize::from(area.width).saturating_sub(10)), dim);
        let lines = [head].into_iter().chain(lines.map(|line| Line::raw(line.clone())));
        Paragraph::new(lines.collect::<Vec<Line<'_>>>()).render(area, buffer);
    }

    /// One row, with all that is known of it.
    fn draw_opened(&self, buffer: &mut Buffer, row: &ScreenRow, area: Rect) {
        let (shown, history) = self.state.shown();
        let width = area.width.min(SECONDS as u16);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let [title, strip, rest] =
            Layout::vertical([Constraint::Length(2), Constraint::Length(3), Constraint::Min(0)]).areas(area);
        let strip = Rect { width, ..strip };
        let details: &[ReportBlock] = match row {
            ScreenRow::Channel(name) => {
                let rates = history.rates(name, usize::from(width));
                Sparkline::default().data(rates).style(self.colours.of(FILL.1)).render(strip, buffer);
                shown.channels.iter().find(|row| row.name == *name).map_or(&[], |row| &row.details)
            }
            ScreenRow::Process(name) => {
                let states = history.states(name, usize::from(width)).into_iter();
                let cell = |state: Option<(ProcessState, bool)>| match state {
                    Some((state, _)) => Span::styled(sign(state), self.colours.of(state.colour())),
                    None => Span::raw(" "),
                };
                Line::from(states.map(cell).collect::<Vec<_>>()).render(strip, buffer);
                shown.processes.iter().find(|row| row.name == *name).map_or(&[], |row| &row.details)
            }
        };
        let (ScreenRow::Channel(name) | ScreenRow::Process(name)) = row;
        Line::styled(fitted(&clean(name), usize::from(area.width)), bold)
            .render(Rect { y: title.y + 1, height: 1, ..title }, buffer);
        let text = if details.is_empty() {
            "It was not there in this second.".to_owned()
        } else {
            String::from(block::text(details, ReportStyle { width: Some(area.width), colour: false }))
        };
        Paragraph::new(text).render(rest, buffer);
    }
}

/// `text` in so many columns.
fn fitted(text: &str, width: usize) -> String {
    if width == 0 { String::new() } else { shortened(text, width) }
}

/// A share in whole percent, in at most four columns.
fn whole(share: f64) -> String {
    percent(share).replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::live::frame::LiveFrame;
    use crate::record::live::keys::ScreenKey;

    fn state() -> ScreenState {
        let mut state = ScreenState::default();
        for second in 1..=30 {
            let channel = LiveChannel {
                name: "head to gzip".to_owned(),
                fill: Some(0.75),
                rate: Some(second << 20),
                full: 0.4,
                empty: 0.001,
                details: vec![ReportBlock::Note("all that is known".to_owned())],
                ..LiveChannel::default()
            };
            let process = |name: &str, state, is_on_path| LiveProcess {
                name: name.to_owned(),
                state: Some(state),
                is_on_path,
                cpu: 0.98,
                waits: "files 1 %".to_owned(),
                ..LiveProcess::default()
            };
            state.add(LiveFrame {
                title: "head -c 1G /dev/zero | gzip".to_owned(),
                elapsed: format!("{second} s"),
                said: vec!["Now: 97 % `gzip` on a CPU and 3 % other parts.".to_owned(), "x ".repeat(400)],
                channels: vec![channel],
                processes: vec![
                    process("head", ProcessState::PipeFull, false),
                    process("gzip", ProcessState::Running, true),
                ],
            });
        }
        state
    }

    fn drawn(state: &ScreenState, width: u16, height: u16, colours: ScreenColours) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let printed = Some(vec!["first".to_owned(), "second".to_owned()]);
        ScreenView { state, printed, colours }.draw(&mut buffer);
        buffer
    }

    fn lines(buffer: &Buffer) -> Vec<String> {
        let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..buffer.area.height).map(row).collect()
    }

    #[test]
    fn a_narrow_and_a_wide_terminal_show_all_parts() {
        for (width, height, strip) in [(80, 24, 30), (200, 60, 30)] {
            let shown = lines(&drawn(&state(), width, height, ScreenColours::None));
            let text = shown.join("\n");
            assert!(
                shown[0].starts_with("head -c 1G /dev/zero | gzip ") && shown[0].ends_with("by place · 30 s"),
                "{text}"
            );
            assert_eq!(shown[1], "Now: 97 % `gzip` on a CPU and 3 % other parts.");
            let row =
                |begin: &str| shown.iter().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{text}"));
            let channel = row(" head to gzip ");
            assert!(channel.contains("████████░░  75%") && channel.contains("30.0   40%   <1%"), "{text}");
            assert!(channel.contains("▅▅▆▆") && channel.contains('█'), "{text}");
            assert!(
                row(" gzip ").contains(&"█".repeat(strip)) && row(" head  ").contains(&"▒".repeat(strip)),
                "{text}"
            );
            assert_eq!(row(" gzip ").contains("files 1 %"), width == 200, "{text}");
            assert!(text.contains("▒ pipe full") && text.contains("\nfirst\nsecond"), "{text}");
            assert!(shown.last().is_some_and(|line| line.starts_with("q end ")), "{text}");
        }
    }

    #[test]
    fn colours_are_those_of_pages() {
        let colour_of = |buffer: &Buffer, symbol: &str| {
            buffer.content().iter().rev().find(|cell| cell.symbol() == symbol).map(|cell| cell.fg)
        };
        let all = drawn(&state(), 80, 24, ScreenColours::All);
        assert_eq!(colour_of(&all, "▒"), Some(Color::Rgb(0x2f, 0x6e, 0xa5)));
        // 208 of 256 is orange.
        let indexed = drawn(&state(), 80, 24, ScreenColours::Indexed);
        assert_eq!(colour_of(&indexed, "█"), Some(Color::Indexed(166)));
        assert_eq!(colour_of(&drawn(&state(), 80, 24, ScreenColours::None), "▒"), Some(Color::Reset));
        let is_underlined = |symbol| {
            all.content().iter().any(|cell| cell.symbol() == symbol && cell.modifier.contains(Modifier::UNDERLINED))
        };
        assert!(is_underlined("█") && !is_underlined("▒"));
    }

    #[test]
    fn every_size_can_be_drawn() {
        let mut state = state();
        for key in [ScreenKey::Down, ScreenKey::Open] {
            for (width, height) in (0..100).flat_map(|width| [0, 1, 2, 3, 5, 8, 24].map(|height| (width, height))) {
                drawn(&state, width, height, ScreenColours::All);
            }
            state.key(key);
        }
        drawn(&state, 3, 3, ScreenColours::All);
        let text = lines(&drawn(&state, 80, 24, ScreenColours::None)).join("\n");
        assert!(
            text.contains("\nhead to gzip") && text.contains("all that is known") && text.contains("Esc close"),
            "{text}"
        );
    }
}
