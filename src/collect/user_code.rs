//! The user functions of sampled processes.

use super::bpf::shared::PrSample;
use super::code_files::{FileMapping, HeldFiles, mappings_of};
use super::code_maps::{CodeChange, CodeMapEvents};
use super::stacks::{FileSymbols, LocatedFrame, UNKNOWN};
use crate::util::text::counted;
use anyhow::Result;
use std::collections::HashMap;
use std::time::Duration;

/// The code that a process has mapped, since its start or its last exec.
#[derive(Debug, Clone, Default)]
struct Image {
    /// The program's name in the kernel, if it was executed while this recorded.
    name: Vec<u8>,
    mappings: Vec<FileMapping>,
}

/// The code of all processes, while they are sampled.
#[derive(Debug)]
pub struct UserCode {
    /// By process; the latest last.
    images: HashMap<u32, Vec<Image>>,
    files: HeldFiles,
    /// Of processes that were started while this recorded.
    parents: HashMap<u32, u32>,
    /// The events, or why the kernel gives none.
    events: Result<CodeMapEvents>,
}

/// How often events are read. A CPU can map about a thousand files in this time.
const PACE: Duration = Duration::from_millis(100);

/// Processes whose root is tried for a file: that of one that has ended, its parent's, and so on.
const ANCESTORS: usize = 4;

/// The code of all processes, and the names of its functions.
#[derive(Default)]
pub struct UserFunctions {
    images: HashMap<u32, Vec<Image>>,
    files: FileSymbols,
    /// Why the code of processes is not known.
    problem: Option<String>,
}

impl std::fmt::Debug for UserFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserFunctions").field("images", &self.images.len()).finish_non_exhaustive()
    }
}

impl UserCode {
    /// Follow all processes. `running`: processes that run already.
    pub fn follow(running: impl IntoIterator<Item = u32>) -> Self {
        let events = CodeMapEvents::start();
        let mut files = HeldFiles::default();
        let image = |pid| {
            let mappings = mappings_of(pid);
            mappings.iter().for_each(|mapping| files.look(mapping, [pid]));
            (pid, vec![Image { name: Vec::new(), mappings }])
        };
        Self { images: running.into_iter().map(image).collect(), files, parents: HashMap::new(), events }
    }

    /// Read what has happened. Returns when to do it again.
    pub fn step(&mut self) -> Duration {
        let Self { files, parents, events, .. } = self;
        let Ok(events) = events else { return PACE };
        let mut mapped = Vec::new();
        for change in events.step() {
            match change {
                CodeChange::Forked { pid, parent } => _ = parents.insert(*pid, *parent),
                CodeChange::Mapped { pid, mapping } => mapped.push((*pid, mapping)),
                CodeChange::Executed { .. } => {}
            }
        }
        for (pid, mapping) in mapped {
            let ancestors = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
            files.look(mapping, ancestors.take(ANCESTORS));
        }
        PACE
    }

    /// End, and keep the code. `files` names its functions.
    pub fn finish(self, files: FileSymbols) -> UserFunctions {
        let Self { mut images, files: held, events, .. } = self;
        let (changes, problem) = match events.map(CodeMapEvents::finish) {
            Ok((changes, 0)) => (changes, None),
            Ok((changes, lost)) => (
                changes,
                Some(format!(
                    "{} to memory maps not seen: names of user functions can be missing",
                    counted(lost, "change")
                )),
            ),
            Err(error) => (Vec::new(), Some(format!("user functions of new processes have no names: {error:#}"))),
        };
        changes.into_iter().for_each(|change| apply(change, &mut images));
        UserFunctions { images, files: files.with(held), problem }
    }
}

fn apply(change: CodeChange, images: &mut HashMap<u32, Vec<Image>>) {
    match change {
        CodeChange::Executed { pid, name } => {
            images.entry(pid).or_default().push(Image { name, mappings: Vec::new() });
        }
        CodeChange::Mapped { pid, mapping } => {
            let known = images.entry(pid).or_default();
            match known.last_mut() {
                Some(image) => image.mappings.push(mapping),
                None => known.push(Image { name: Vec::new(), mappings: vec![mapping] }),
            }
        }
        CodeChange::Forked { pid, parent } => {
            let inherited = images.get(&parent).and_then(|known| known.last()).cloned();
            // A new process with a number that was used before.
            images.insert(pid, inherited.into_iter().collect());
        }
    }
}

impl UserFunctions {
    /// Why names are missing, after stacks were named.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let missing = (self.files.not_found() > 0).then(|| {
            let files = counted(self.files.not_found() as u64, "file");
            format!("functions of {files} have no names: replaced since, or of a mount namespace that has ended")
        });
        self.problem.clone().into_iter().chain(missing)
    }

    /// The mapping at `address` of the process of `sample`: of the program that it executed last under the sample's
    /// name, or else of any.
    fn mapping(&self, sample: &PrSample, address: u64) -> Option<&FileMapping> {
        let known = self.images.get(&u32::try_from(sample.pid).ok()?)?;
        let words: &[u8] = bytemuck::bytes_of(&sample.who.name);
        let name = words.split(|byte| *byte == 0).next().unwrap_or_default();
        let at = |image: &&Image| image.mappings.iter().any(|mapping| mapping.contains(address));
        let image = known.iter().rev().filter(|image| image.name == name).find(at).or(known.iter().rev().find(at))?;
        // The latest one: mappings may replace each other.
        image.mappings.iter().rev().find(|mapping| mapping.contains(address))
    }

    /// The user stack `addresses` of `sample`, innermost first. It ends where an
    /// address is not in code: without frame pointers, the kernel takes other words of the stack for return addresses.
    pub(super) fn frames(&self, sample: &PrSample, addresses: &[u64]) -> Vec<LocatedFrame> {
        let mut frames = Vec::new();
        for (place, address) in addresses.iter().enumerate() {
            // Return addresses follow their call.
            let address = address.saturating_sub(u64::from(place > 0));
            match self.mapping(sample, address) {
                Some(mapping) => frames.push(self.files.frame(mapping, address)),
                None if place == 0 => frames.push(LocatedFrame::of(UNKNOWN)),
                None => break,
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::bpf::shared::PrWho;
    use crate::collect::code_files::FileIdentity;
    use std::path::PathBuf;

    fn sample(pid: u64, name: &[u8; 8]) -> PrSample {
        let who = PrWho { stage: 0, tgid: 1, name: [u64::from_le_bytes(*name), 0] };
        PrSample { who, trace: 0, user_trace: 0, pid }
    }

    fn mapping(start: u64, path: &str) -> FileMapping {
        let file = FileIdentity::BuildId(path.into());
        FileMapping { start, end: start + 0x1000, offset: 0, path: PathBuf::from(path), file }
    }

    #[test]
    fn a_child_has_its_parents_code_until_it_executes_another_program() {
        let mut code = UserCode::follow([]);
        code.images.insert(1, vec![Image { name: Vec::new(), mappings: vec![mapping(0x1000, "/sh")] }]);
        let change = |change| {
            let mut images = code.images.clone();
            apply(CodeChange::Forked { pid: 2, parent: 1 }, &mut images);
            [change].into_iter().flatten().for_each(|change| apply(change, &mut images));
            let code = UserFunctions { images, ..UserFunctions::default() };
            [0x1800, 0x2800].map(|address| code.mapping(&sample(2, b"sh\0\0\0\0\0\0"), address).is_some())
        };
        assert_eq!(change(None), [true, false]);
        assert_eq!(change(Some(CodeChange::Mapped { pid: 2, mapping: mapping(0x2000, "/libc") })), [true, true]);
        let own = code.finish(FileSymbols::default());
        assert!(own.mapping(&sample(2, b"sh\0\0\0\0\0\0"), 0x1800).is_none(), "it was not forked");
    }

    #[test]
    fn the_code_is_that_of_the_sampled_program() {
        let image = |name: &[u8], mappings| Image { name: name.to_vec(), mappings };
        let images = [(
            7,
            vec![
                image(b"", vec![mapping(0x1000, "/sh")]),
                image(b"dd", vec![mapping(0x1000, "/dd"), mapping(0x2000, "/libc")]),
                image(b"wc", vec![mapping(0x1000, "/wc")]),
            ],
        )];
        let code = UserFunctions { images: images.into(), ..UserFunctions::default() };
        let path = |name, address| {
            code.mapping(&sample(7, name), address).map(|mapping| mapping.path.to_string_lossy().into_owned())
        };
        assert_eq!(path(b"dd\0\0\0\0\0\0", 0x1800).as_deref(), Some("/dd"));
        assert_eq!(path(b"wc\0\0\0\0\0\0", 0x1800).as_deref(), Some("/wc"));
        assert_eq!(path(b"renamed\0", 0x2000).as_deref(), Some("/libc"), "programs can change their names");
        assert_eq!(path(b"dd\0\0\0\0\0\0", 0x3000), None);
        assert!(code.mapping(&sample(8, b"dd\0\0\0\0\0\0"), 0x1800).is_none());
        let frames = code.frames(&sample(7, b"dd\0\0\0\0\0\0"), &[0x9000, 0x1001, 0x5]);
        assert_eq!(frames.iter().map(|frame| frame.name.as_str()).collect::<Vec<_>>(), [UNKNOWN, UNKNOWN]);
        assert_eq!(frames[1].place.as_ref().unwrap().module.as_deref(), Some("/dd"));
        assert_eq!(code.problems().count(), 1, "/dd was not found");
    }
}
