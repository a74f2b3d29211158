//! Names of the frames of stacks.

use super::code_files::{FileIdentity, FileMapping, HeldFiles};
use crate::kernel::symbols::{Located, Symbols};
use crate::profile::folded;
use crate::profile::places::FramePlace;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The frame of an address that has no symbol.
pub const UNKNOWN: &str = "[unknown]";

/// The frame of user code whose functions have no names here.
pub const USER: &str = "[user]";

/// The name of a frame, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedFrame {
    pub name: String,
    pub place: Option<FramePlace>,
}

impl LocatedFrame {
    /// A frame of which only the name is known.
    pub fn of(name: impl Into<String>) -> Self {
        Self { name: name.into(), place: None }
    }
}

/// A file as a process has it. Files with other paths can have the same build id, with or without symbols.
type FileKey = (FileIdentity, PathBuf);

/// The functions of files.
#[derive(Default)]
pub struct FileSymbols {
    symbolizer: Symbolizer,
    debug_information: bool,
    held: HeldFiles,
    /// Where each file can be read; `None` if it was not found.
    paths: RefCell<HashMap<FileKey, Option<PathBuf>>>,
    /// By file and offset.
    known: RefCell<HashMap<(FileKey, u64), LocatedFrame>>,
}

impl FileSymbols {
    /// From symbol tables only, which is fast.
    pub(crate) fn from_symbol_tables() -> Self {
        Self::new(false)
    }

    /// Also from debug information, in the file itself or in /usr/lib/debug, with source lines.
    pub fn with_debug_information() -> Self {
        Self::new(true)
    }

    fn new(debug_information: bool) -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(debug_information).enable_inlined_fns(false).build();
        Self { symbolizer, debug_information, ..Self::default() }
    }

    /// Find the files of `held`, too.
    pub(super) fn with(self, held: HeldFiles) -> Self {
        Self { held, ..self }
    }

    /// How many files with functions to name were not found.
    pub(super) fn not_found(&self) -> usize {
        self.paths.borrow().values().filter(|path| path.is_none()).count()
    }

    /// The function at `address`, which is in `mapping`; the file in brackets if it has no symbol for it.
    pub fn frame(&self, mapping: &FileMapping, address: u64) -> LocatedFrame {
        let offset = address - mapping.start + mapping.offset;
        let file = (mapping.file.clone(), mapping.path.clone());
        let key = (file.clone(), offset);
        if let Some(frame) = self.known.borrow().get(&key) {
            return frame.clone();
        }
        let mut paths = self.paths.borrow_mut();
        let path = paths.entry(file).or_insert_with(|| self.held.path(mapping));
        let module = Some(mapping.path.to_string_lossy().into());
        let find = |path: &Path, debug_information: bool| {
            let mut elf = Elf::new(path);
            elf.debug_syms = debug_information;
            let found = self.symbolizer.symbolize_single(&Source::Elf(elf), Input::FileOffset(offset)).ok()?;
            let function = found.as_sym()?;
            let source = function.code_info.as_deref();
            let place = FramePlace {
                address: Some(function.addr + function.offset as u64),
                module: module.clone(),
                file: source.map(|source| source.to_path().to_string_lossy().into()),
                line: source.and_then(|source| source.line),
            };
            Some(LocatedFrame { name: function.name.clone().into_owned(), place: Some(place) })
        };
        // Debug information can be damaged, or compressed in a way that is not known here.
        let named = |path: &PathBuf| find(path, self.debug_information).or_else(|| find(path, false));
        let frame = path.as_ref().and_then(named).unwrap_or_else(|| {
            let file = mapping.path.file_name().filter(|_| path.is_some());
            let name = file.map_or_else(|| UNKNOWN.to_owned(), |file| format!("[{}]", file.to_string_lossy()));
            LocatedFrame { name, place: Some(FramePlace { module: module.clone(), ..FramePlace::default() }) }
        });
        self.known.borrow_mut().insert(key, frame.clone());
        frame
    }
}

/// The stack of a process, root first: its name, user frames, and kernel frames, both innermost first.
pub fn whole_stack<'a>(
    process: &'a str,
    user: &'a [LocatedFrame],
    kernel: &'a [LocatedFrame],
) -> impl Iterator<Item = (&'a str, Option<FramePlace>)> {
    let mark = kernel.last().filter(|entry| !folded::is_kernel_entry(&entry.name)).map(|_| folded::KERNEL);
    let frame = |frame: &'a LocatedFrame| (frame.name.as_str(), frame.place.clone());
    std::iter::once((process, None))
        .chain(user.iter().rev().map(frame))
        .chain(mark.map(|mark| (mark, None)))
        .chain(kernel.iter().rev().map(frame))
}

/// The functions of `frames`, innermost first. All except the innermost are return addresses, which follow their call.
fn located(frames: &[u64], find: impl Fn(u64, bool) -> Option<LocatedFrame>) -> Vec<LocatedFrame> {
    let find = |(index, address): (usize, &u64)| find(*address, index > 0).unwrap_or_else(|| LocatedFrame::of(UNKNOWN));
    frames.iter().enumerate().map(find).collect()
}

/// The functions of kernel `frames`, innermost first.
pub(crate) fn located_kernel_frames(frames: &[u64], kernel: &Symbols) -> Vec<LocatedFrame> {
    let text = kernel.functions("_text").first().map(|text| text.address);
    located(frames, |address, returning| Some(kernel_frame(kernel, text, address, returning)))
}

/// Names of kernel `frames`, innermost first.
pub fn kernel_names(frames: &[u64], kernel: &Symbols) -> Vec<String> {
    located_kernel_frames(frames, kernel).into_iter().map(|frame| frame.name).collect()
}

/// Where the kernel's `_text` is in its ELF file: `__START_KERNEL`, arch/x86/include/asm/page_types.h, with the default
/// `CONFIG_PHYSICAL_START`.
const LINKED_TEXT: u64 = 0xffff_ffff_8100_0000;

/// The kernel's function at `address`. The byte before a return address is inside the call, even if the call ends its
/// function. A return diverted by a kretprobe is an exception: it points to the start of its trampoline.
///
/// Addresses are stored as in the kernel's ELF file. Where the running kernel is in memory, `text`, is a secret of root.
fn kernel_frame(kernel: &Symbols, text: Option<u64>, address: u64, returning: bool) -> LocatedFrame {
    let diverted = |at: &Located<'_>| at.offset == 0 && at.symbol.name.ends_with("_trampoline");
    let is_call = returning && !kernel.at(address).is_some_and(|at| diverted(&at));
    let address = address.saturating_sub(u64::from(is_call));
    let Some(at) = kernel.at(address) else { return LocatedFrame::of(UNKNOWN) };
    let place = match at.symbol.module {
        Some(module) => FramePlace { module: Some(format!("[{module}]").into()), ..FramePlace::default() },
        None => FramePlace {
            address: text.and_then(|text| LINKED_TEXT.checked_add(address.checked_sub(text)?)),
            ..FramePlace::default()
        },
    };
    LocatedFrame { name: at.symbol.name.to_owned(), place: place.if_known() }
}

/// Remove the frames of the C and Rust runtimes at the root, which all programs have.
pub(crate) fn without_start_up(frames: &mut Vec<LocatedFrame>) {
    let start_up = |frame: &LocatedFrame| {
        let name = frame.name.as_str();
        matches!(name, "_start" | "main" | "__libc_start_call_main" | "__libc_start_main_impl")
            || name.starts_with("std::rt::lang_start")
            || name.contains("__rust_begin_short_backtrace")
    };
    if let Some(innermost) = frames.iter().position(start_up) {
        frames.truncate(innermost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::code_files::mappings_of;

    #[test]
    fn own_functions_have_names() {
        let address = without_start_up as *const () as u64;
        let mappings = mappings_of(std::process::id());
        let mapping = mappings.iter().find(|mapping| mapping.contains(address)).unwrap();
        let frame = FileSymbols::from_symbol_tables().frame(mapping, address);
        assert!(frame.name.contains("without_start_up"), "{frame:?}");
        let place = frame.place.unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(place.module.as_deref(), program.to_str());
        assert_eq!((place.file, place.line), (None, None));
        // The program's own address, which is the mapped one less where it was mapped.
        assert_eq!(place.address.map(|own| (address - own) % 4096), Some(0));
        let full = FileSymbols::with_debug_information().frame(mapping, address);
        assert!(full.name.contains("without_start_up"), "{full:?}");
        let full = full.place.unwrap();
        assert_eq!(full.address, place.address);
        assert!(full.file.unwrap().ends_with("src/collect/stacks.rs"));
        assert!((80..200).contains(&full.line.unwrap()), "{:?}", full.line);
        // As a process of a container maps it, in which the path is of another file.
        let symbols = FileSymbols::from_symbol_tables();
        let other = FileMapping { file: FileIdentity::BuildId(vec![1; 20]), ..mapping.clone() };
        let place = Some(FramePlace { module: place.module, ..FramePlace::default() });
        assert_eq!(symbols.frame(&other, address), LocatedFrame { name: UNKNOWN.to_owned(), place });
        assert_eq!(symbols.not_found(), 1);
    }

    #[test]
    fn return_addresses_belong_to_the_call_before_them() {
        let kallsyms = "ffffffff9a001000 T _text\nffffffff9a001100 T a\nffffffff9a001200 T b\n\
            ffffffff9a001300 T kretprobe_trampoline\nffffffff9a001400 T end\n\
            ffffffffc0000000 t in_module\t[nf_tables]\n";
        let kernel = Symbols::read(kallsyms.as_bytes()).unwrap();
        let at = |low: u64| 0xffff_ffff_9a00_0000 + low;
        let stack = [at(0x1200), at(0x1200), at(0x1300), 0xffff_ffff_c000_0010, 0x10];
        let names = ["b", "a", "kretprobe_trampoline", "in_module", UNKNOWN];
        assert_eq!(kernel_names(&stack, &kernel), names);
        let places = located_kernel_frames(&stack, &kernel).into_iter().map(|frame| frame.place).collect::<Vec<_>>();
        // As in the ELF file, wherever the kernel is.
        let linked = |low: u64| {
            let address = Some(0xffff_ffff_8100_0000 + low);
            Some(FramePlace { address, ..FramePlace::default() })
        };
        let module = Some(FramePlace { module: Some("[nf_tables]".into()), ..FramePlace::default() });
        assert_eq!(places, [linked(0x200), linked(0x1ff), linked(0x300), module, None]);
    }

    #[test]
    fn runtimes_are_left_out() {
        let mut frames: Vec<LocatedFrame> =
            ["write", "pipeprof::write_loop", "std::rt::lang_start_internal", "main", "__libc_start_call_main", "junk"]
                .map(LocatedFrame::of)
                .to_vec();
        without_start_up(&mut frames);
        assert_eq!(frames, ["write", "pipeprof::write_loop"].map(LocatedFrame::of));
    }
}
