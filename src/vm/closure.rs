//! What a program needs to start, found by reading its file. (`ldd` would run it.)

use crate::util::find_program::find_program;
use crate::util::regular;
use crate::vm::{interpreters, loader_cache};
use anyhow::{Context as _, Result, bail};
use object::elf::{self, FileHeader64};
use object::endian::LittleEndian as LE;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Folders that the dynamic loader searches on every system, with those that Debian's has in addition (ld.so(8)).
const FOLDERS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Where the loader is told of other folders (ld.so(8)).
const CONFIGURATION: &str = "/etc/ld.so.conf";

/// glibc loads it when a thread is cancelled or ends by pthread_exit(3), without a note in any file.
const UNWINDER: &str = "libgcc_s.so.1";

/// Executable files larger than this are not read.
const LARGEST: u64 = 1 << 30;

/// Longer configurations of the loader are not read, bytes.
const LONGEST_CONFIGURATION: u64 = 1 << 20;

/// The files that the program or library at `path` needs directly: its interpreter and libraries, its modules if it is an
/// interpreter such as Python, or the program of a script's first line. Nothing for other files. Of a folder: what the programs
/// and libraries in it need, as far as it exists.
pub fn needs(path: &Path) -> Result<BTreeSet<PathBuf>> {
    if path.is_dir() {
        return Ok(needs_of_folder(path));
    }
    let unreadable = || format!("cannot read {}", path.display());
    // Data may be larger than memory.
    let mut start = [0; 4];
    let length = regular::open(path).and_then(|file| file.read_at(&mut start, 0)).with_context(unreadable)?;
    if length < start.len() || !(start.starts_with(b"#!") || start == elf::ELFMAG) {
        return Ok(BTreeSet::new());
    }
    let file = regular::read(path, LARGEST).with_context(unreadable)?;
    if let Some(line) = file.strip_prefix(b"#!") {
        return Ok(script(line));
    }
    let Some(dynamic) = Dynamic::read(&file) else { return Ok(BTreeSet::new()) };
    let mut found: BTreeSet<PathBuf> = dynamic.interpreter.iter().cloned().collect();
    let folders = dynamic.folders(path);
    for library in &dynamic.libraries {
        let name = Path::new(library);
        let place = if library.as_bytes().contains(&b'/') {
            Some(name.to_owned())
        } else {
            folders.iter().map(|folder| folder.join(name)).find(|place| is_elf_of(place, dynamic.machine))
        };
        match place {
            Some(place) => found.insert(place),
            None => bail!("{} needs the library {}, which does not exist", path.display(), name.display()),
        };
    }
    if dynamic.interpreter.is_some() {
        found
            .extend(folders.iter().map(|folder| folder.join(UNWINDER)).find(|place| is_elf_of(place, dynamic.machine)));
        found.extend(Some(PathBuf::from(loader_cache::PLACE)).filter(|cache| cache.is_file()));
        found.extend(interpreters::modules(path));
    }
    Ok(found)
}

/// What all programs and libraries below `folder` need. Links to folders are not followed, and scripts need nothing. It is no error
/// if a library needs one that is missing: perhaps nothing uses it.
fn needs_of_folder(folder: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut below) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = below.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, mut start) = (entry.path(), [0; 4]);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                below.push(path);
            } else if regular::open(&path).is_ok_and(|file| file.read_exact_at(&mut start, 0).is_ok())
                && start == elf::ELFMAG
            {
                found.extend(needs(&path).unwrap_or_default());
            }
        }
    }
    found
}

/// The program of a script's first line after `#!`, and with /usr/bin/env also the one that that starts.
fn script(text: &[u8]) -> BTreeSet<PathBuf> {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let first = words.next().map(str::to_owned);
    let second = first.as_ref().filter(|first| first.ends_with("/env")).and_then(|_| words.find(|word| *word != "-S"));
    [first.as_deref(), second].into_iter().flatten().filter_map(find_program).collect()
}

/// Whether the file is one that the loader takes for programs of this machine (`e_machine`): others of its name are those of
/// foreign architectures.
fn is_elf_of(path: &Path, machine: u16) -> bool {
    let mut start = [0; 20];
    regular::open(path).is_ok_and(|mut file| std::io::Read::read_exact(&mut file, &mut start).is_ok())
        // 64-bit, as this program is for.
        && start.starts_with(b"\x7fELF\x02")
        && start.ends_with(&machine.to_le_bytes())
}

/// What the dynamic loader reads of a file.
#[derive(Debug, Default)]
struct Dynamic<'a> {
    interpreter: Option<PathBuf>,
    machine: u16,
    libraries: Vec<&'a OsStr>,
    /// Values of DT_RPATH and DT_RUNPATH.
    search: Vec<&'a [u8]>,
}

impl<'a> Dynamic<'a> {
    /// `None` if it is not an ELF file of 64 bits with a dynamic section.
    fn read(file: &'a [u8]) -> Option<Self> {
        let header = FileHeader64::<LE>::parse(file).ok()?;
        let endian = LE;
        let segments = header.program_headers(endian, file).ok()?;
        let mut dynamic = Self { machine: header.e_machine(endian), ..Self::default() };
        let interpreter = segments.iter().find_map(|segment| segment.interpreter(endian, file).ok().flatten());
        dynamic.interpreter = interpreter.map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let entries = segments.iter().find_map(|segment| segment.dynamic(endian, file).ok().flatten())?;
        let value =
            |tag: u32| entries.iter().find(|entry| entry.tag32(endian) == Some(tag)).map(|entry| entry.d_val(endian));
        let table = value(elf::DT_STRTAB)?;
        let strings = segments.iter().find_map(|segment| {
            let start = table.checked_sub(segment.p_vaddr(endian))?;
            (segment.p_type(endian) == elf::PT_LOAD && start < segment.p_filesz(endian)).then_some(())?;
            file.get(usize::try_from(segment.p_offset(endian).checked_add(start)?).ok()?..)
        })?;
        let text = |at: u64| strings.get(usize::try_from(at).ok()?..)?.split(|byte| *byte == 0).next();
        for entry in entries {
            match entry.tag32(endian) {
                Some(elf::DT_NEEDED) => {
                    dynamic.libraries.extend(text(entry.d_val(endian)).map(OsStr::from_bytes));
                }
                Some(elf::DT_RPATH | elf::DT_RUNPATH) => dynamic.search.extend(text(entry.d_val(endian))),
                _ => {}
            }
        }
        Some(dynamic)
    }

    /// The folders in which the loader looks for libraries of the file at `path`.
    fn folders(&self, path: &Path) -> Vec<PathBuf> {
        let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let origin = origin.parent().unwrap_or(Path::new("/")).display().to_string();
        let own = self.search.iter().flat_map(|search| search.split(|byte| *byte == b':')).map(|folder| {
            let folder = String::from_utf8_lossy(folder);
            PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
        });
        own.chain(configured(Path::new(CONFIGURATION), 4)).chain(FOLDERS.map(PathBuf::from)).collect()
    }
}

/// The folders that a configuration of the loader lists, with those of the files that it includes.
fn configured(path: &Path, depth: u32) -> Vec<PathBuf> {
    let text =
        if depth > 0 { regular::read_text(path, LONGEST_CONFIGURATION).unwrap_or_default() } else { String::new() };
    let mut folders = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        match line.split_once(char::is_whitespace) {
            Some(("include", pattern)) => {
                // The only pattern in use is `FOLDER/*.conf`.
                let pattern = path.parent().unwrap_or(Path::new("/")).join(pattern.trim());
                let (Some(folder), Some(ending)) = (pattern.parent(), pattern.extension()) else { continue };
                let mut files: Vec<PathBuf> =
                    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
                files.retain(|file| file.extension() == Some(ending));
                files.sort();
                folders.extend(files.iter().flat_map(|file| configured(file, depth - 1)));
            }
            _ if line.starts_with('/') => folders.push(PathBuf::from(line)),
            _ => {}
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_foreign_architectures_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libx.so");
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(18, 0);
        file.extend(elf::EM_AARCH64.to_le_bytes());
        fs::write(&path, &file).unwrap();
        assert!(is_elf_of(&path, elf::EM_AARCH64) && !is_elf_of(&path, elf::EM_X86_64));
        fs::write(&path, &file[..19]).unwrap();
        assert!(!is_elf_of(&path, elf::EM_AARCH64));
    }

    #[test]
    fn the_needs_of_a_program_are_those_that_ldd_names() {
        let shell = find_program("sh").unwrap();
        let found = needs(&shell).unwrap();
        let names: Vec<String> =
            found.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert!(names.iter().any(|name| name.starts_with("ld-linux-x86-64")), "{names:?}");
        let said = std::process::Command::new("ldd").arg(&shell).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let listed = said.lines().filter_map(|line| line.split_once(" => ")?.1.split(' ').next());
        for library in listed {
            let library = Path::new(library).canonicalize().unwrap();
            assert!(found.iter().any(|path| path.canonicalize().unwrap() == library), "{}", library.display());
        }
        assert!(needs(Path::new("/etc/passwd")).unwrap().is_empty());
        // This program itself is static.
        assert_eq!(find_program("no-such-program"), None);
        assert_eq!(find_program("/etc/passwd"), None, "not executable");
    }

    #[test]
    fn a_script_needs_its_interpreter() {
        let sh = find_program("sh").unwrap();
        assert_eq!(script(b"/bin/sh -e\necho"), [PathBuf::from("/bin/sh")].into());
        assert!(script(b"/usr/bin/env sh\n").contains(&sh));
        assert!(script(b"/usr/bin/env -S sh -e\n").contains(&sh));
        assert!(script(b"").is_empty());
    }

    #[test]
    fn a_folder_needs_what_its_programs_need() {
        let folder = tempfile::tempdir().unwrap();
        let [below, link] = ["below", "below/link"].map(|name| folder.path().join(name));
        fs::create_dir(&below).unwrap();
        assert!(needs(folder.path()).unwrap().is_empty());
        let program = find_program("cat").unwrap().canonicalize().unwrap();
        fs::copy(&program, below.join("program")).unwrap();
        std::os::unix::fs::symlink("..", link).unwrap();
        fs::write(below.join("script"), "#!/bin/sh\n").unwrap();
        fs::write(below.join("broken"), "\x7fELF").unwrap();
        assert_eq!(needs(folder.path()).unwrap(), needs(&program).unwrap());
    }

    #[test]
    fn a_missing_library_is_named_and_its_folders_are_searched() {
        // A library that no folder has.
        let own = fs::read(find_program("sh").unwrap()).unwrap();
        let at = own.windows(8).position(|bytes| bytes == b"libc.so.").unwrap();
        let mut changed = own.clone();
        changed[at] = b'x';
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, changed).unwrap();
        let error = needs(&path).unwrap_err().to_string();
        assert!(error.contains("needs the library xibc.so.6"), "{error}");
        let dynamic = Dynamic { search: vec![b"$ORIGIN/../lib:/opt/x"], ..Dynamic::default() };
        let folders = dynamic.folders(&path);
        assert!(folders[0].ends_with("../lib") && folders[1] == Path::new("/opt/x"), "{folders:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(noise: Vec<u8>, at: proptest::sample::Index, byte: u8) {
            let _ = Dynamic::read(&noise);
            let mut small = fs::read(find_program("sh").unwrap()).unwrap();
            let at = at.index(small.len().min(1024));
            small[at] = byte;
            let _ = Dynamic::read(&small);
            let _ = script(&noise);
        }
    }
}
