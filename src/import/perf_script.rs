//! The output of `perf script`. inferno folds it; here is decided which of its events is folded.

use super::{Commands, ImportFormat, ImportedProfile};
use crate::profile::Folded;
use anyhow::{Context as _, Result, bail};
use inferno::collapse::Collapse as _;
use inferno::collapse::perf;
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

/// # Errors
/// When there is no such event.
pub(super) fn parse(text: &str, event: Option<&str>) -> Result<ImportedProfile> {
    let mut events = BTreeMap::<String, u64>::new();
    // inferno weighs samples by their periods. Each is counted once here, since intervals depend on their number.
    let mut counted = String::with_capacity(text.len());
    let mut previous_is_empty = true;
    for line in text.lines() {
        match SampleHeader::parse(line).filter(|_| previous_is_empty) {
            Some(SampleHeader { start, event, rest }) => {
                *events.entry(event.to_owned()).or_default() += 1;
                counted.push_str(&format!("{start}: {event}:{rest}"));
            }
            None => counted.push_str(line),
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
    perf::Folder::from(options).collapse(counted.as_bytes(), &mut folded).context("this perf script output")?;
    let mut commands = Commands::default();
    for (stack, weight) in Folded::parse(&String::from_utf8_lossy(&folded)).context("the stacks of perf script")?.iter()
    {
        commands.add(stack.split(';'), weight);
    }
    let samples = events.remove(&chosen).unwrap_or_default();
    let folded: u64 = commands.0.values().map(Folded::total).sum();
    let release = text.lines().take_while(|line| line.starts_with('#')).find_map(|line| line.strip_prefix(RELEASE));
    Ok(ImportedProfile {
        format: ImportFormat::PerfScript,
        event: Some(chosen),
        other_events: events,
        without_stack: samples.saturating_sub(folded),
        release: release.map(|release| release.trim().to_owned()),
        commands: commands.0,
    })
}
