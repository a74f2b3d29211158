//! The files that a pipeline needs in a guest: which of them are in its memory, and which on a disk.

use crate::arch::Processor;
use crate::result::{PipelineCommand, SentFile};
use crate::run::MEMORY_SHARE;
use crate::util::{progress, size};
use crate::vm::bundle::FileBundle;
use crate::vm::closure;
use crate::vm::disk::DiskContent;
use anyhow::{Result, bail};
use easy_ext::ext;
use std::path::{Path, PathBuf};

#[ext(FilePlace)]
impl SentFile {
    /// With links that lead to it; they are those of this machine if it is at the same path.
    fn place(&self, bundle: &mut FileBundle) -> Result<PathBuf> {
        bundle.way_to(&self.to, self.is_here())
    }
}

/// A file, and where it is to be.
struct RequestedFile<'a> {
    file: &'a SentFile,
    on_disk: bool,
}

/// What the guest gets.
#[derive(Debug, Default)]
pub(crate) struct SentFiles {
    pub bundle: FileBundle,
    pub disk: DiskContent,
}

impl SentFiles {
    /// Everything that `pipeline` needs in `folder`, in a guest with this memory and processor: its programs and `files`, of which the
    /// largest are put on a disk if there is no room for all, and `disk`, on the disk in any case.
    ///
    /// # Errors
    /// When a file cannot be read, or there is no room for the programs.
    pub(crate) fn collect(
        pipeline: &PipelineCommand,
        folder: &Path,
        files: &[SentFile],
        disk: &[SentFile],
        memory_mib: u64,
        processor: Processor,
    ) -> Result<Self> {
        let mut programs = FileBundle::default();
        programs.folder(folder)?;
        // Programs of this machine are of no use to a guest with another processor.
        if processor == Processor::HERE {
            for program in pipeline.programs() {
                programs.program(&program)?;
            }
        } else if files.is_empty() && disk.is_empty() {
            bail!(
                "this machine's programs do not run in a guest of {debian}: give it programs for {debian} with --file FOLDER:/, \
                 such as a folder that `mmdebstrap --arch {debian}` has made",
                debian = processor.debian()
            );
        }
        let most = (memory_mib << 20) / MEMORY_SHARE;
        let mut all: Vec<RequestedFile<'_>> = disk.iter().map(|file| RequestedFile { file, on_disk: true }).collect();
        all.extend(files.iter().map(|file| RequestedFile { file, on_disk: false }));
        let mut sent = Self::place(&programs, &all)?;
        let needed = sent.bundle.bytes();
        if needed > most {
            let mut largest = Vec::new();
            for (index, candidate) in all.iter().enumerate().filter(|(_, candidate)| !candidate.on_disk) {
                let mut alone = DiskContent::default();
                alone.add(&candidate.file.from, &candidate.file.to)?;
                largest.push((alone.bytes(), index));
            }
            largest.sort_by_key(|(bytes, index)| (std::cmp::Reverse(*bytes), *index));
            let mut moved = Vec::new();
            for (bytes, index) in largest {
                if sent.bundle.bytes() <= most || bytes == 0 {
                    break;
                }
                all[index].on_disk = true;
                moved.push(format!("{} ({})", all[index].file.from.display(), size::rough(bytes)));
                sent = Self::place(&programs, &all)?;
            }
            let enough = (needed * MEMORY_SHARE).div_ceil(1 << 20);
            if sent.bundle.bytes() > most {
                bail!(
                    "the files for the guest have {}, and its memory has room for {}: give --memory {enough}M or more",
                    size::rough(sent.bundle.bytes()),
                    size::rough(most)
                );
            }
            progress::note(&format!(
                "on a disk, because files may take {} of the guest's memory: {}. Recordings with a disk are not exact; \
                 with --memory {enough}M all files are in memory",
                size::rough(most),
                moved.join(", ")
            ));
        }
        Ok(sent)
    }

    fn place(programs: &FileBundle, all: &[RequestedFile<'_>]) -> Result<Self> {
        let mut sent = Self { bundle: programs.clone(), disk: DiskContent::default() };
        let mut on_disk = Vec::new();
        for RequestedFile { file, .. } in all.iter().filter(|candidate| candidate.on_disk) {
            on_disk.push((file.place(&mut sent.bundle)?, *file));
        }
        // A folder before what is in it.
        on_disk.sort_by(|one, other| one.0.cmp(&other.0));
        for (at, file) in on_disk {
            sent.disk.add(&file.from, &at)?;
            if file.is_here() {
                for needed in closure::needs(&file.from)? {
                    // What is on the disk is not in memory, too.
                    if !sent.disk.covers(&sent.bundle.clone().way_to(&needed, true)?) {
                        sent.bundle.executable(&needed)?;
                    }
                }
            }
        }
        for RequestedFile { file, .. } in all.iter().filter(|candidate| !candidate.on_disk) {
            let at = file.place(&mut sent.bundle.clone())?;
            if sent.disk.covers(&at) {
                // In memory, the disk would hide it.
                if !sent.disk.contains(&at) {
                    sent.disk.add(&file.from, &at)?;
                }
            } else if file.is_here() {
                sent.bundle.executable(&file.from)?;
            } else {
                sent.bundle.file(&file.from, &file.to)?;
            }
        }
        Ok(sent)
    }

    /// Whether the guest has something at this path of this machine.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let place = self.bundle.clone().way_to(path, true);
        place.is_ok_and(|at| self.bundle.contains(&at) || self.disk.contains(&at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file at the same path in the guest.
    fn here(path: PathBuf) -> SentFile {
        SentFile { to: path.clone(), from: path }
    }

    #[test]
    fn files_for_the_guest_have_a_place_in_it() {
        let file = SentFile::parse("/etc/passwd:/data/x").unwrap();
        assert_eq!((file.from, file.to), ("/etc/passwd".into(), "/data/x".into()));
        let here = SentFile::parse("Cargo.toml").unwrap();
        assert!(here.is_here() && here.to.is_absolute());
        assert!(SentFile::parse("no-such-file").unwrap_err().contains("does not exist"));
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a:b");
        fs::write(&odd, "").unwrap();
        assert_eq!(SentFile::parse(odd.to_str().unwrap()).unwrap().to, odd);
    }

    #[test]
    fn files_outside_of_a_folder_are_found_also_by_way_of_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let own = root.join("own");
        fs::create_dir_all(own.join("inner")).unwrap();
        for name in ["secret", "other", "own/data", "own/inner/data"] {
            fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("../../secret", own.join("inner/link")).unwrap();
        std::os::unix::fs::symlink("..", own.join("inner/loop")).unwrap();
        std::os::unix::fs::symlink("missing", own.join("inner/gone")).unwrap();
        let found = |paths: &[&str]| {
            let files: Vec<SentFile> = paths.iter().map(|path| here(own.join(path))).collect();
            SentFile::outside(&files, &own).into_iter().collect::<Vec<_>>()
        };
        assert!(found(&["data", "inner/data", "inner/../data"]).is_empty());
        assert_eq!(found(&["data", "inner"]), [root.join("secret")]);
        assert_eq!(found(&["../other", "../own/inner/link"]), [root.join("other"), root.join("secret")]);
        assert_eq!(found(&[".."]), [root]);
    }

    #[test]
    fn the_largest_files_go_on_a_disk_if_there_is_no_room_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = |name: &str, mib: u64| {
            fs::File::create(root.join(name)).unwrap().set_len(mib << 20).unwrap();
            here(root.join(name))
        };
        let [small, middle, large] = [file("small", 1), file("middle", 40), file("large", 90)];
        fs::create_dir(root.join("folder")).unwrap();
        let inner = file("folder/inner", 2);
        let pipeline = PipelineCommand::parse(&["true".to_owned()]).unwrap();
        let files = [small, middle, large];
        let placed = |disk: &[SentFile], files: &[SentFile], memory| {
            let sent = SentFiles::collect(&pipeline, &root, files, disk, memory, Processor::HERE)?;
            let mut names: Vec<_> = sent.disk.places().iter().map(|place| place.at.clone()).collect();
            names.sort();
            let all = files.iter().chain(disk).all(|file| sent.contains(&file.to));
            assert!(all && !sent.contains(&root.join("other")));
            anyhow::Ok(names)
        };
        assert!(placed(&[], &files, 1024).unwrap().is_empty());
        assert_eq!(placed(&[], &files, 256).unwrap(), [root.join("large")]);
        assert_eq!(placed(&[], &files, 128).unwrap(), [root.join("large"), root.join("middle")]);
        assert!(placed(&[], &files, 4).unwrap_err().to_string().contains("give --memory"));
        assert_eq!(placed(&files[..1], &files[1..], 1024).unwrap(), [root.join("small")]);
        // What would be hidden by a folder of the disk is on the disk, too.
        let whole = here(root.join("folder"));
        let within = SentFile { from: root.join("small"), to: root.join("folder/new") };
        assert_eq!(placed(std::slice::from_ref(&whole), &[inner, within], 1024).unwrap(), [root.join("folder")]);
    }
}
