//! Commands that are counted, for a gate on programs: the stored ones again, or others in their place.

use crate::arch::Processor;
use crate::compare::Input;
use crate::record::MeasureRecording as _;
use crate::result::{
    Collector, GuestMachine, Measurement, Outcome, PipelineCommand, RecordingRequest, RecordingTarget, SentFile,
};
use crate::util::progress;
use crate::util::usage::UsageError;
use crate::vm::fetch::{self, Fetched};
use crate::vm::image::Kernel;
use crate::vm::store::KernelCache;
use anyhow::{Context as _, Result, bail};

/// The kernel in which commands are counted if none is fetched. Any does: it is stored, and what is compared has the same.
const SERIES: &str = "6.12";

/// What is counted of commands.
#[derive(Debug, Clone, Default)]
pub struct CommandSettings {
    /// As given.
    pub kernel: Option<String>,
    pub files: Vec<SentFile>,
    /// Of the guest, bytes.
    pub memory: Option<u64>,
    /// Counted runs of each command.
    pub runs: Option<u32>,
}

/// The newest kernel that was fetched; without any, one is fetched.
///
/// # Errors
/// When no kernel was fetched before, and none can be fetched now.
fn any_kernel() -> Result<String> {
    let store = KernelCache::open()?;
    let mut list = store.list()?;
    // Programs of this machine are counted.
    list.retain(|kernel| kernel.processor == Processor::HERE);
    if let Some(newest) = list.iter().find(|kernel| kernel.is_cloud()).or(list.first()) {
        return Ok(newest.release.clone());
    }
    Ok(fetched(&store, SERIES)?.release)
}

/// Fetch the kernel `name`, unless it is there.
///
/// # Errors
/// When it cannot be fetched.
fn present(name: &str) -> Result<()> {
    let Err(missing) = Kernel::find(name) else { return Ok(()) };
    // A file, or a name that was given to a build.
    if !name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(missing);
    }
    fetched(&KernelCache::open()?, name).map(drop)
}

fn fetched(store: &KernelCache, name: &str) -> Result<Kernel> {
    progress::note(&format!("fetching Linux {name}, in which the commands are counted"));
    let found = fetch::fetch(store, &[name.to_owned()], fetch::SMALLEST_FLAVOUR, &progress::note)?;
    let (_, found) = found.into_iter().next().context("no kernel was fetched")?;
    Ok(match found {
        Fetched::New(kernel) | Fetched::Kept(kernel) | Fetched::Stale(kernel, _) => kernel.kernel(),
    })
}

/// What counts `commands` for a baseline.
///
/// # Errors
/// When no kernel was fetched before, and none can be fetched now.
pub fn first(commands: Vec<PipelineCommand>, settings: &CommandSettings) -> Result<Vec<Measurement>> {
    let kernel = match &settings.kernel {
        Some(kernel) => kernel.clone(),
        None => any_kernel()?,
    };
    let request = |command| {
        let machine = GuestMachine::default();
        let request = RecordingRequest {
            target: RecordingTarget::Pipeline(command),
            kernel: Some(kernel.clone()),
            collect: Some(Collector::Insn),
            files: settings.files.clone(),
            runs: settings.runs,
            machine: GuestMachine { memory: settings.memory.unwrap_or(machine.memory), ..machine },
            ..RecordingRequest::default()
        };
        Measurement::Recording(Box::new(request))
    };
    Ok(commands.into_iter().map(request).collect())
}

/// What counts `commands` as those of `baseline` were counted, in the same order, and the baseline without what has no
/// command. Without commands, those of the baseline are counted again; a single one takes the place of a single one.
///
/// # Errors
/// A usage error: a command that the baseline does not have, or a baseline that has none.
pub fn again(
    commands: Vec<PipelineCommand>,
    settings: &CommandSettings,
    mut baseline: Input,
) -> Result<(Vec<Measurement>, Input)> {
    let request = |run: &Outcome| match &run.document.request {
        Some(Measurement::Recording(request)) => Some((**request).clone()),
        _ => None,
    };
    let text = |request: &RecordingRequest| match &request.target {
        RecordingTarget::Pipeline(command) => command.text(),
        RecordingTarget::Attached(_)
        | RecordingTarget::Cgroup(_)
        | RecordingTarget::Container(_)
        | RecordingTarget::All => String::new(),
    };
    let mut known = Vec::new();
    for (path, run) in std::mem::take(&mut baseline.runs) {
        let Some(request) = request(&run) else {
            bail!(UsageError::new(format!("--baseline {path} is a run of a built-in pair, which has no command")))
        };
        known.push((request, (path, run)));
    }
    let single = commands.len() == 1 && known.len() == 1;
    let mut wanted = Vec::new();
    for command in commands {
        let place = known.iter().position(|(request, _)| single || text(request) == command.text());
        let Some(place) = place else {
            let problem = format!("the baseline has no command '{}': store a new one with -o", command.text());
            bail!(UsageError::new(problem));
        };
        let (stored, run) = known.remove(place);
        let target = RecordingTarget::Pipeline(command);
        let mut request = RecordingRequest { target, runs: settings.runs.or(stored.runs), ..stored };
        request.count_as_often_as(&run.1.document);
        baseline.runs.push(run);
        for file in &settings.files {
            request.files.retain(|other| other.to != file.to);
            request.files.push(file.clone());
        }
        request.machine.memory = settings.memory.unwrap_or(request.machine.memory);
        request.kernel = settings.kernel.clone().or(request.kernel);
        if let Some(kernel) = &request.kernel {
            present(kernel)?;
        }
        wanted.push(Measurement::Recording(Box::new(request)));
    }
    Ok((wanted, baseline))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Document;

    fn stored(command: &str) -> (String, Outcome) {
        let target = RecordingTarget::Pipeline(PipelineCommand::parse(&[command.to_owned()]).unwrap());
        let request = RecordingRequest { target, runs: Some(2), ..RecordingRequest::default() };
        let request = Some(Measurement::Recording(Box::new(request)));
        (command.to_owned(), Outcome { document: Document { request, ..Document::default() }, ..Outcome::default() })
    }

    #[test]
    fn each_command_is_compared_with_the_same_one_and_a_single_one_with_any() {
        let input = |texts: &[&str]| Input { label: None, runs: texts.iter().map(|text| stored(text)).collect() };
        let of = |words: &str, texts: &[&str]| {
            let (wanted, baseline) = again(
                vec![PipelineCommand::parse(&[words.to_owned()]).unwrap()],
                &CommandSettings::default(),
                input(texts),
            )?;
            let names: Vec<String> = baseline.runs.into_iter().map(|(name, _)| name).collect();
            anyhow::Ok((wanted, names))
        };
        let error = of("cat b", &["cat a", "wc a"]).unwrap_err().to_string();
        assert!(error.contains("no command 'cat b'"), "{error}");
        let (wanted, names) = of("wc a", &["cat a", "wc a"]).unwrap();
        assert_eq!((wanted.len(), names), (1, vec!["wc a".to_owned()]));
        let (wanted, names) = of("wc b", &["cat a"]).unwrap();
        assert_eq!(names, ["cat a"]);
        let Measurement::Recording(request) = &wanted[0] else { panic!("a recording") };
        assert_eq!(request.runs, Some(2));
    }
}
