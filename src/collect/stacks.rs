//! Names of the frames of stacks.

use crate::kernel::symbols::{Located, Symbols};
use crate::profile::folded;
use crate::profile::places::FramePlace;
use crate::util::regular;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

/// The frame of an address that has no symbol.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// The frame of user code whose functions have no names here.
pub(crate) const USER: &str = "[user]";

/// The name of a frame, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocatedFrame {
    pub name: String,
    pub place: Option<FramePlace>,
}

impl LocatedFrame {
    /// A frame of which only the name is known.
    pub(crate) fn of(name: impl Into<String>) -> Self {
        Self { name: name.into(), place: None }
    }
}

/// Code that a process has mapped from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileMapping {
    pub start: u64,
    pub end: u64,
    /// In the file, of `start`.
    pub offset: u64,
    pub path: PathBuf,
}

impl FileMapping {
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The functions of files.
#[derive(Default)]
pub(crate) struct FileSymbols {
    symbolizer: Symbolizer,
    debug_information: bool,
    /// By file and offset.
    known: RefCell<HashMap<(PathBuf, u64), Option<LocatedFrame>>>,
}

impl FileSymbols {
    /// From symbol tables only, which is fast.
    pub(crate) fn from_symbol_tables() -> Self {
        Self::new(false)
    }

    /// Also from debug information, in the file itself or in /usr/lib/debug, with source lines.
    pub(crate) fn with_debug_information() -> Self {
        Self::new(true)
    }

    fn new(debug_information: bool) -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(debug_information).enable_inlined_fns(false).build();
        Self { symbolizer, debug_information, known: RefCell::default() }
    }

    /// The function at `address`, which is in `mapping`.
    pub(crate) fn frame(&self, mapping: &FileMapping, address: u64) -> Option<LocatedFrame> {
        let offset = address - mapping.start + mapping.offset;
        let key = (mapping.path.clone(), offset);
        if let Some(frame) = self.known.borrow().get(&key) {
            return frame.clone();
        }
        let find = |debug_information: bool| {
            let mut elf = Elf::new(&mapping.path);
            elf.debug_syms = debug_information;
            let found = self.symbolizer.symbolize_single(&Source::Elf(elf), Input::FileOffset(offset)).ok()?;
            let function = found.as_sym()?;
            let source = function.code_info.as_deref();
            let place = FramePlace {
                address: Some(function.addr + function.offset as u64),
                module: Some(mapping.path.to_string_lossy().into()),
                file: source.map(|source| source.to_path().to_string_lossy().into()),
                line: source.and_then(|source| source.line),
            };
            Some(LocatedFrame { name: function.name.clone().into_owned(), place: Some(place) })
        };
        // Debug information can be damaged, or compressed in a way that is not known here.
        let named = || find(self.debug_information).or_else(|| find(false));
        // By now another file may have this name, even a FIFO.
        let frame = regular::open(&mapping.path).ok().and_then(|_| named());
        self.known.borrow_mut().insert(key, frame.clone());
        frame
    }
}

/// The executable mappings in a `/proc/PID/maps`. Malformed lines are skipped.
fn parse_maps(text: &str) -> Vec<FileMapping> {
    let line = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let executable = fields.next()?.contains('x');
        let offset = fields.next()?;
        let path = fields.nth(2)?.trim_start();
        (executable && path.starts_with('/')).then_some(())?;
        Some(FileMapping {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            path: PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path)),
        })
    };
    text.lines().filter_map(line).collect()
}

/// The code that `pid` has mapped now; nothing if it cannot be read.
pub(crate) fn mappings_of(pid: u32) -> Vec<FileMapping> {
    parse_maps(&std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default())
}

/// The stack of a process, root first: its name, user frames, and kernel frames, both innermost first.
pub(crate) fn whole_stack<'a>(
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
pub(crate) fn kernel_names(frames: &[u64], kernel: &Symbols) -> Vec<String> {
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

    #[test]
    fn executable_mappings_only() {
        let maps = "\
55d0a0000000-55d0a0010000 r--p 00000000 08:01 1234   /usr/bin/pipe prof
55d0a0010000-55d0a0020000 r-xp 00010000 08:01 1234   /usr/bin/pipe prof (deleted)
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0      [vdso]
garbage
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
";
        let mappings = parse_maps(maps);
        assert_eq!(mappings.len(), 1);
        assert_eq!(mappings[0].path, PathBuf::from("/usr/bin/pipe prof"));
        assert_eq!(mappings[0].offset, 0x10000);
        assert_eq!(mappings[0].start, 0x55d0_a001_0000);
    }

    #[test]
    fn own_functions_have_names() {
        let address = parse_maps as *const () as u64;
        let mappings = mappings_of(std::process::id());
        let mapping = mappings.iter().find(|mapping| mapping.contains(address)).unwrap();
        let frame = FileSymbols::from_symbol_tables().frame(mapping, address).unwrap();
        assert!(frame.name.contains("parse_maps"), "{frame:?}");
        let place = frame.place.unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(place.module.as_deref(), program.to_str());
        assert_eq!((place.file, place.line), (None, None));
        // The program's own address, which is the mapped one less where it was mapped.
        assert_eq!(place.address.map(|own| (address - own) % 4096), Some(0));
        let full = FileSymbols::with_debug_information().frame(mapping, address).unwrap();
        assert!(full.name.contains("parse_maps"), "{full:?}");
        let full = full.place.unwrap();
        assert_eq!(full.address, place.address);
        assert!(full.file.unwrap().ends_with("src/collect/stacks.rs"));
        assert!((80..200).contains(&full.line.unwrap()), "{:?}", full.line);
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
