//! The output of `perf script`. inferno folds it; this module chooses one of its events.

use super::{Commands, ImportFormat, ImportedProfile};
use crate::profile::Folded;
use crate::profile::places::FramePlace;
use anyhow::{Context as _, Result, bail};
use indexmap::IndexSet;
use inferno::collapse::Collapse as _;
use inferno::collapse::perf;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Events that sample time or its like, best first.
const PREFERRED: [&str; 5] = ["cycles", "cpu-cycles", "cpu-clock", "task-clock", "cpu_core/cycles/"];

/// Where `perf script --header` has the kernel's release.
const RELEASE: &str = "# os release : ";

/// The first line of a sample: `dd 19770 [001] 56804.087587:     200040 cpu-clock:pppH: `.
#[derive(Debug, PartialEq, Eq)]
struct SampleHeader<'t> {
    /// Command, ids and time.
    start: &'t str,
    /// Without modifiers.
    event: &'t str,
    /// Modifiers, and the stack if it is in this line.
    rest: &'t str,
}

impl<'t> SampleHeader<'t> {
    /// As inferno reads it: the command is what stands before the first number, and the event between the first two
    /// colons after it.
    fn parse(line: &'t str) -> Option<Self> {
        let is_number =
            |word: &str| word.split('/').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        let mut begin = 0;
        for word in line.split(' ') {
            let first = begin == 0;
            begin += word.len() + 1;
            if is_number(word) && !first {
                break;
            }
        }
        let colon = begin + line.get(begin..)?.find(':')?;
        let (period_and_event, rest) = line.get(colon + 1..)?.split_once(':')?;
        let event = period_and_event.rsplit(' ').next().filter(|event| !event.is_empty())?;
        Some(Self { start: &line[..colon], event, rest })
    }
}

/// Whether `line` is the first one of a sample.
pub(super) fn is_header(line: &str) -> bool {
    SampleHeader::parse(line).is_some()
}

pub(super) fn parse(text: &str, event: Option<&str>) -> Result<ImportedProfile> {
    let mut events = BTreeMap::<String, u64>::new();
    // inferno weighs samples by their periods. Each is counted once here, since intervals depend on their number.
    let mut counted = String::with_capacity(text.len());
    let mut places = FramePlaces::default();
    let (mut previous_is_empty, mut is_innermost, mut is_java) = (true, false, false);
    for line in text.lines() {
        match SampleHeader::parse(line).filter(|_| previous_is_empty && !line.starts_with('#')) {
            Some(SampleHeader { start, event, rest }) => {
                *events.entry(event.to_owned()).or_default() += 1;
                counted.push_str(&format!("{start}: {event}:{rest}"));
                // inferno reads Java's names from their begin.
                (is_innermost, is_java) = (true, start.trim_start().starts_with("java"));
            }
            None => {
                let marked = places.marked(line, is_innermost).filter(|_| !is_java);
                counted.push_str(marked.as_deref().unwrap_or(line));
                // What is inlined into a function has its address.
                is_innermost &= line.ends_with("(inlined)");
            }
        }
        counted.push('\n');
        previous_is_empty = line.trim().is_empty() || line.starts_with('#');
    }
    let known = || events.iter().map(|(event, samples)| format!("{event} ({samples})")).collect::<Vec<_>>().join(", ");
    let chosen = match event {
        Some(event) if events.contains_key(event) => event.to_owned(),
        Some(event) => bail!("--event {event}: the file has {}", known()),
        None => {
            let preferred = PREFERRED.into_iter().find(|event| events.contains_key(*event)).map(str::to_owned);
            let most = || events.iter().max_by_key(|(_, samples)| **samples).map(|(event, _)| event.clone());
            preferred.or_else(most).context("it has no samples")?
        }
    };
    let mut options = perf::Options::default();
    options.annotate_kernel = true;
    options.event_filter = Some(chosen.clone());
    options.nthreads = 1;
    let mut folded = Vec::new();
    perf::Folder::from(options).collapse(ascii(&counted).as_bytes(), &mut folded).context("this perf script output")?;
    let folded = Folded::parse(&from_ascii(&String::from_utf8_lossy(&folded))).context("the stacks of perf script")?;
    let mut commands = Commands::default();
    for (stack, weight) in folded.iter() {
        commands.add(stack.frames().map(|frame| places.of(frame)), weight);
    }
    let samples = events.remove(&chosen).unwrap_or_default();
    let release = text.lines().take_while(|line| line.starts_with('#')).find_map(|line| line.strip_prefix(RELEASE));
    Ok(ImportedProfile {
        format: ImportFormat::PerfScript,
        event: Some(chosen),
        other_events: events,
        without_stack: samples.saturating_sub(folded.total()),
        release: release.map(|release| release.trim().to_owned()),
        commands: commands.0,
    })
}

/// Around the number of a frame's place, before its name.
const PLACE: [char; 2] = ['\u{3}', '\u{4}'];

/// The places of frames. inferno keeps names only, so that they are a part of these while it works.
#[derive(Debug, Default)]
struct FramePlaces(IndexSet<FramePlace>);

impl FramePlaces {
    /// The `line` of a frame, `\tffffffff8162e4c8 __schedule+0x138 ([kernel.kallsyms])`, with the number of its place.
    /// `None` for other lines, and for names that have a meaning for inferno.
    fn marked(&mut self, line: &str, is_innermost: bool) -> Option<String> {
        let (digits, rest) = line.strip_prefix([' ', '\t'])?.trim_start().split_once(' ')?;
        let address = u64::from_str_radix(digits, 16).ok()?;
        let (name, module) = rest.trim_start().rsplit_once(" (")?;
        let module = module.strip_suffix(')')?;
        if name.is_empty() || name.starts_with(['[', '(']) || name.starts_with("_$") {
            return None;
        }
        let known = !module.starts_with("[kernel") && !matches!(module, "[unknown]" | "inlined");
        let place = FramePlace {
            // Those of callers are return addresses, which follow the call.
            address: Some(address.saturating_sub(u64::from(!is_innermost))),
            module: known.then(|| module.into()),
            ..FramePlace::default()
        };
        let (number, _) = self.0.insert_full(place);
        // inferno takes the last word for the file, and leaves out frames whose file has several.
        let module = module.replace(char::is_whitespace, "_");
        Some(format!("\t{digits} {}{number:x}{}{name} ({module})", PLACE[0], PLACE[1]))
    }

    /// The name and the place of a frame.
    fn of<'f>(&self, frame: &'f str) -> (&'f str, Option<FramePlace>) {
        let split = frame.strip_prefix(PLACE[0]).and_then(|rest| rest.split_once(PLACE[1]));
        let Some((number, name)) = split else { return (frame, None) };
        let number = usize::from_str_radix(number, 16).ok();
        (name, number.and_then(|number| self.0.get_index(number)).cloned())
    }
}

/// Around the code of a character that is not ASCII.
const CHARACTER: [char; 2] = ['\u{1}', '\u{2}'];

/// `text` with characters as their codes if they are not ASCII: inferno 0.12.8 panics if the 17th last byte of a name is
/// inside a character.
fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.push_str(&format!("{}{:x}{}", CHARACTER[0], u32::from(c), CHARACTER[1]));
        }
    }
    Cow::Owned(out)
}

/// The inverse of [`ascii`].
fn from_ascii(text: &str) -> String {
    let mut parts = text.split(CHARACTER[0]);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once(CHARACTER[1]).unwrap_or(("", part));
        out.extend(u32::from_str_radix(code, 16).ok().and_then(char::from_u32));
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_not_be_ascii() {
        // The 17th last byte of the name is inside a character.
        let name = "naïve_é0123456789abcdef";
        let script = format!(
            "qemu 7 [000] 5.08: 1 cpu-clock: \n\tffff8162 {name}+0x1 (/usr/bin/äpfel)\n\tffff kfree+0x2 ([k])\n\n"
        );
        let profile = parse(&script, None).unwrap();
        let names: Vec<&str> =
            profile.commands.values().flat_map(Folded::iter).flat_map(|(stack, _)| stack.frames()).collect();
        assert!(names.iter().any(|frame| frame.starts_with(name)), "{names:?}");
        for text in ["", "plain", "é", "a\u{1}b", "größe\u{2}"] {
            assert_eq!(from_ascii(&ascii(text)).replace('\u{1}', ""), text.replace('\u{1}', ""));
        }
    }
}
