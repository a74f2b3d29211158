//! Which files the user code of counted programs is from, found by its content: a counted guest gives the executed code and its
//! addresses, but nobody in it says what is mapped where, and asking would be counted.

use super::function::Function;
use super::raw::{Block, Raw};
use crate::arch::calls_kernel_or_reads_clock;
use crate::util::regular;
use anyhow::{Context as _, Result};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use gimli::{BaseAddresses, EhFrameHdr, LittleEndian, Pointer};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, SegmentFlags, elf};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Larger files are no programs, in bytes.
const LARGEST: u64 = 1 << 30;

/// Files are mapped at whole pages, so code has the same place in its page everywhere (arch/x86/include/asm/page_types.h).
const PAGE: u64 = 4096;

/// Shorter code is in many files, in bytes.
const TELLING: usize = 12;

/// Blocks of one page of memory that are looked for in all files. Code that a program makes at run time is in none.
const TRIES: usize = 4;

/// Code that is in no file: a program made it while it ran, or the kernel gives it to processes (vdso(7)).
const JIT: &str = "[jit]";
const VDSO: &str = "[vdso]";

/// A function of a file.
#[derive(Debug, Clone)]
struct FileFunction {
    /// `deflate_fast`, or for code without a symbol the file and where its function begins, `gzip+0x4f20`.
    name: String,
    /// Addresses as in the file.
    range: Range<u64>,
}

/// Executable code of a file, at the address that the file gives it.
struct Segment {
    address: u64,
    code: Vec<u8>,
}

impl Segment {
    /// Whether it has `code` at `address`.
    fn holds(&self, address: u64, code: &[u8]) -> bool {
        let offset = address.checked_sub(self.address).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.code.get(offset..)).is_some_and(|rest| rest.starts_with(code))
    }
}

/// A program or library.
pub(super) struct CodeFile {
    name: String,
    path: PathBuf,
    segments: Vec<Segment>,
    /// The addresses at which functions begin, in ascending order, by the table for unwinding, which stripped files have, too.
    starts: Vec<u64>,
    /// Stubs through which functions of other files are called.
    stubs: Vec<Range<u64>>,
}

/// The files that a counted guest may execute.
#[derive(Default)]
pub struct UserFiles {
    files: Vec<CodeFile>,
}

impl fmt::Debug for UserFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files.iter().map(|file| &file.path)).finish()
    }
}

/// The user code of a counted guest, with the names of its functions.
#[derive(Debug)]
pub(super) struct PlacedCode {
    /// Of each block; `None` for kernel code and code that is in no file.
    places: Vec<Option<FilePlace>>,
    /// The name of each file, and its executed functions by the addresses at which they begin.
    files: Vec<(String, BTreeMap<u64, FileFunction>)>,
    paths: Vec<PathBuf>,
    /// Pages of code that is in no file and that the kernel gives to processes.
    vdso: HashSet<u64>,
}

/// Where a block of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FilePlace {
    file: usize,
    /// What is to be subtracted from addresses of the process, modulo 2^64.
    shift: u64,
}

impl CodeFile {
    /// Read the file at `path`; `None` if it is no ELF file with code.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let unreadable = || format!("cannot read {}", path.display());
        if !is_elf(path).with_context(unreadable)? {
            return Ok(None);
        }
        let bytes = regular::read(path, LARGEST).with_context(unreadable)?;
        let Ok(file) = object::File::parse(&*bytes) else { return Ok(None) };
        let executable = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & elf::PF_X != 0);
        let segments: Vec<Segment> = file
            .segments()
            .filter(|segment| executable(segment.flags()))
            .filter_map(|segment| Some(Segment { address: segment.address(), code: segment.data().ok()?.to_vec() }))
            .collect();
        if segments.is_empty() {
            return Ok(None);
        }
        let is_stub = |name: &[u8]| name.starts_with(b".plt");
        let stubs = file.sections().filter(|section| section.name_bytes().is_ok_and(is_stub));
        Ok(Some(Self {
            // `libz.so.1.2.13`, not the link to it.
            name: path
                .canonicalize()
                .as_deref()
                .unwrap_or(path)
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            path: path.to_owned(),
            segments,
            starts: starts(&file),
            stubs: stubs.map(|section| section.address()..section.address() + section.size()).collect(),
        }))
    }

    /// Whether it has `code` at `address`.
    pub(super) fn holds(&self, address: u64, code: &[u8]) -> bool {
        self.segments.iter().any(|segment| segment.holds(address, code))
    }

    fn function(&self, symbolizer: &Symbolizer, address: u64) -> FileFunction {
        self.named(symbolizer, address).unwrap_or_else(|| self.unnamed(address))
    }

    /// The function that has a symbol.
    fn named(&self, symbolizer: &Symbolizer, address: u64) -> Option<FileFunction> {
        if self.stubs.iter().any(|stubs| stubs.contains(&address)) {
            return None;
        }
        let mut elf = Elf::new(&self.path);
        // Debug information gives the same names, and takes long to read.
        elf.debug_syms = false;
        let found = symbolizer.symbolize_single(&Source::Elf(elf), Input::VirtOffset(address)).ok()?;
        let function = found.as_sym()?;
        let size = function.size.map_or(0, |size| size as u64).max(function.offset as u64 + 1);
        Some(FileFunction { name: function.name.clone().into_owned(), range: function.addr..function.addr + size })
    }

    /// The function that has none: it is known where it begins.
    fn unnamed(&self, address: u64) -> FileFunction {
        if let Some(stubs) = self.stubs.iter().find(|stubs| stubs.contains(&address)) {
            return FileFunction { name: format!("{}[plt]", self.name), range: stubs.clone() };
        }
        let after = self.starts.partition_point(|start| *start <= address);
        let segment = self.segments.iter().find(|segment| segment.holds(address, &[]));
        let bounds = segment
            .map_or(address..address + 1, |segment| segment.address..segment.address + segment.code.len() as u64);
        let start = after.checked_sub(1).and_then(|at| self.starts.get(at)).copied();
        let end = self.starts.get(after).copied().unwrap_or(bounds.end).min(bounds.end);
        let start = start.unwrap_or(bounds.start).max(bounds.start);
        FileFunction { name: format!("{}+{start:#x}", self.name), range: start..end.max(address + 1) }
    }
}

fn is_elf(path: &Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    let mut start = Vec::new();
    regular::open(path)?.take(4).read_to_end(&mut start)?;
    Ok(start == elf::ELFMAG)
}

/// Where the functions of `file` begin: the initial locations of `.eh_frame_hdr` (Linux Standard Base, Core, "Exception Frames").
fn starts(file: &object::File<'_>) -> Vec<u64> {
    let found = || {
        let section = file.section_by_name(".eh_frame_hdr")?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(section.address());
        let header = EhFrameHdr::new(section.data().ok()?, LittleEndian).parse(&bases, 8).ok()?;
        let table = header.table()?;
        let mut rows = table.iter(&bases);
        let mut starts = Vec::new();
        while let Ok(Some((Pointer::Direct(start), _))) = rows.next() {
            starts.push(start);
        }
        starts.sort_unstable();
        Some(starts)
    };
    found().unwrap_or_default()
}

impl UserFiles {
    /// Read those of `paths` that are programs or libraries.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<Self> {
        let mut files = Vec::new();
        let mut seen = HashSet::new();
        for path in paths {
            if seen.insert(path) {
                files.extend(CodeFile::read(path)?);
            }
        }
        Ok(Self { files })
    }

    /// The place of each block of `raw`.
    fn places(&self, raw: &Raw) -> Vec<Option<FilePlace>> {
        let is_user = |block: &usize| raw.blocks[*block].address >> 63 == 0;
        let users: Vec<usize> = (0..raw.blocks.len()).filter(is_user).collect();
        let holds = |place: FilePlace, block: usize| {
            let block = &raw.blocks[block];
            self.files[place.file].holds(block.address.wrapping_sub(place.shift), &block.code)
        };
        let mut pages: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for block in &users {
            pages.entry(raw.blocks[*block].address / PAGE).or_default().push(*block);
        }
        // How many blocks each place explains.
        let mut found: Vec<(usize, FilePlace)> = Vec::new();
        for blocks in pages.values_mut() {
            blocks.sort_by_key(|block| std::cmp::Reverse(raw.blocks[*block].code.len()));
            let mut tries = 0;
            for block in blocks.iter().copied().filter(|block| raw.blocks[*block].code.len() >= TELLING) {
                if tries == TRIES || found.iter().any(|(_, place)| holds(*place, block)) {
                    continue;
                }
                tries += 1;
                let explained = |place: FilePlace| users.iter().filter(|block| holds(place, **block)).count();
                let places = self.everywhere(raw.blocks[block].address, &raw.blocks[block].code);
                let best = places.into_iter().map(|place| (explained(place), place)).max_by_key(|(count, _)| *count);
                found.extend(best);
            }
        }
        found.sort_by_key(|(count, place)| (std::cmp::Reverse(*count), *place));
        let executed_by = processes(raw);
        let mut places = vec![None; raw.blocks.len()];
        for block in users {
            // Short code is in several files at the same place of a page: who executed it has most of that page from one of them.
            let near = &pages[&(raw.blocks[block].address / PAGE)];
            let near = near.iter().filter(|other| executed_by[**other] & executed_by[block] != 0);
            let bytes = |place: FilePlace| -> usize {
                near.clone().filter(|other| holds(place, **other)).map(|other| raw.blocks[*other].code.len()).sum()
            };
            let holding: Vec<FilePlace> =
                found.iter().map(|(_, place)| *place).filter(|place| holds(*place, block)).collect();
            places[block] = match &holding[..] {
                [one] => Some(*one),
                // The first of those with as many.
                all => all.iter().rev().copied().max_by_key(|place| bytes(*place)),
            };
        }
        places
    }

    /// All places in which `code`, which is at `address` of a process, could be.
    fn everywhere(&self, address: u64, code: &[u8]) -> Vec<FilePlace> {
        let mut places = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            for segment in &file.segments {
                let first = address.wrapping_sub(segment.address) % PAGE;
                let end = segment.address + segment.code.len() as u64;
                let candidates = (segment.address + first..end).step_by(PAGE as usize);
                let here = candidates.filter(|own| segment.holds(*own, code));
                places.extend(here.map(|own| FilePlace { file: index, shift: address.wrapping_sub(own) }));
            }
        }
        places
    }

    /// The user code of `raw`, and its functions.
    pub(super) fn placed(&self, raw: &Raw) -> PlacedCode {
        let places = self.places(raw);
        // Each thread has its own.
        let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
        let mut functions: Vec<BTreeMap<u64, FileFunction>> = vec![BTreeMap::new(); self.files.len()];
        for (block, place) in raw.blocks.iter().zip(&places) {
            let Some(place) = place else { continue };
            let known = &mut functions[place.file];
            for (address, _) in block.instructions() {
                let own = place.address(address);
                if function_of(known, own).is_none() {
                    let found = self.files[place.file].function(&symbolizer, own);
                    known.insert(found.range.start, found);
                }
            }
        }
        let names = self.files.iter().map(|file| file.name.clone());
        // Compilers leave it to libraries to call the kernel and to read clocks.
        let is_vdso =
            |block: &Block| block.instructions().any(|(_, code)| calls_kernel_or_reads_clock(raw.processor, code));
        let strange =
            raw.blocks.iter().zip(&places).filter(|(block, place)| place.is_none() && block.address >> 63 == 0);
        let vdso = strange.filter(|(block, _)| is_vdso(block)).map(|(block, _)| block.address / PAGE);
        let vdso = vdso.flat_map(|page| page.saturating_sub(1)..=page + 1).collect();
        let paths = self.files.iter().map(|file| file.path.clone()).collect();
        PlacedCode { places, files: names.zip(functions).collect(), paths, vdso }
    }
}

/// The processes that executed each block of `raw`, a bit for each; the last one is for all from the 64th on.
fn processes(raw: &Raw) -> Vec<u64> {
    let mut executed_by = vec![0; raw.blocks.len()];
    for count in &raw.counts {
        if let (Some(all), Some(root)) = (executed_by.get_mut(count.block as usize), raw.root(count.node)) {
            *all |= 1u64 << root.place(raw.processes).min(63);
        }
    }
    executed_by
}

/// The function that contains `address`.
fn function_of(functions: &BTreeMap<u64, FileFunction>, address: u64) -> Option<&FileFunction> {
    let (_, last) = functions.range(..=address).next_back()?;
    last.range.contains(&address).then_some(last)
}

impl FilePlace {
    /// The address within its file of an `address` of a process.
    fn address(self, address: u64) -> u64 {
        address.wrapping_sub(self.shift)
    }
}

impl PlacedCode {
    /// The number of the file, and the address in it, of the code at `address` of this block.
    pub(super) fn place(&self, block: u32, address: u64) -> Option<(usize, u64)> {
        let place = (*self.places.get(block as usize)?)?;
        Some((place.file, place.address(address)))
    }

    /// Where the function at an address of a file ends.
    pub(super) fn end(&self, file: usize, address: u64) -> Option<u64> {
        let (_, functions) = self.files.get(file)?;
        // Another one may begin in it.
        let next = functions.range(address + 1..).next().map(|(start, _)| *start);
        let end = function_of(functions, address)?.range.end;
        Some(next.map_or(end, |next| next.min(end)))
    }

    /// The paths of the files of which code was executed, by their names.
    pub(super) fn paths(&self) -> BTreeMap<String, PathBuf> {
        let executed = self.files.iter().zip(&self.paths).filter(|((_, functions), _)| !functions.is_empty());
        executed.map(|((name, _), path)| (name.clone(), path.clone())).collect()
    }

    /// What code at `address` of a process is, if it is in no file.
    pub(super) fn elsewhere(&self, address: u64) -> &'static str {
        if self.vdso.contains(&(address / PAGE)) { VDSO } else { JIT }
    }

    /// The function at an address of a file.
    pub(super) fn function(&self, file: usize, address: u64) -> Option<Function<'_>> {
        let (name, functions) = self.files.get(file)?;
        let found = function_of(functions, address)?;
        Some(Function { name: (&*found.name).into(), start: Some(found.range.start), file: Some(name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::insn::raw::{BlockCount, tests::file};
    use std::process::Command;

    /// Blocks of `length` bytes at addresses of a program, which is mapped at `base`, and what is known of them.
    fn placed(path: &Path, base: u64, addresses: &[u64], length: usize) -> Vec<Option<(String, u64)>> {
        let read = CodeFile::read(path).unwrap().unwrap();
        let code = |address: u64| {
            let segment = read.segments.iter().find(|segment| segment.holds(address, &[])).unwrap();
            let offset = usize::try_from(address - segment.address).unwrap();
            segment.code[offset..offset + length].to_vec()
        };
        let block = |address: &u64| Block {
            address: base + address,
            code: code(*address),
            lengths: vec![u8::try_from(length).unwrap()],
        };
        let mut blocks: Vec<Block> = addresses.iter().map(block).collect();
        // Made at run time, and the kernel's.
        blocks.push(Block { address: 0x7000, code: (0..40).map(|byte| byte * 5 + 3).collect(), lengths: vec![40] });
        blocks.push(Block { address: u64::MAX - 9, code: vec![0x90], lengths: vec![1] });
        let count = BlockCount { node: 1, block: 0, from: 0, to: 1, times: 1, tapered: 1 };
        let raw = Raw::parse(&file("", 1, &[], &blocks, &[count], &[])).unwrap();
        let other = Path::new("/bin/sh");
        let files = UserFiles::read([path, other, Path::new("/etc/passwd")]).unwrap();
        let placed = files.placed(&raw);
        let name = |block: u32| {
            let (file, address) = placed.place(block, raw.blocks[block as usize].address)?;
            let function = placed.function(file, address)?;
            assert_eq!(function.file, Some(&*read.name));
            Some((function.name.into_owned(), function.start?))
        };
        (0..u32::try_from(blocks.len()).unwrap()).map(name).collect()
    }

    /// Address and size of a function of this program.
    fn own(name: &str) -> (u64, u64) {
        use object::ObjectSymbol as _;
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let parsed = object::File::parse(&*bytes).unwrap();
        let is = |own: &str| format!("{:#}", rustc_demangle::demangle(own)).ends_with(name);
        let found = parsed.symbols().find(|symbol| symbol.name().is_ok_and(is)).unwrap();
        (found.address(), found.size())
    }

    #[test]
    fn code_is_that_of_the_file_that_has_it() {
        let (start, size) = own("user_files::tests::placed");
        assert!(size > 64);
        let found = placed(&std::env::current_exe().unwrap(), 0x5555_0000_0000, &[start, start + 32], 32);
        let [Some(first), Some(second), None, None] = &found[..] else { panic!("{found:?}") };
        assert!(first.0.contains("user_files::tests::placed"), "{first:?}");
        assert_eq!((first, first.1), (second, start));
    }

    #[test]
    fn code_of_several_files_is_that_of_who_executes_its_page() {
        // Each has the same byte at 0x80 of a page.
        let code =
            |seed: usize| (0..0x2000).map(|at| if at == 0x80 { 0xc3 } else { (at * at / 7 * seed) as u8 }).collect();
        let file_of = |name: &str, seed: usize| CodeFile {
            name: name.to_owned(),
            path: PathBuf::new(),
            segments: vec![Segment { address: 0x1000, code: code(seed) }],
            starts: Vec::new(),
            stubs: Vec::new(),
        };
        let files = UserFiles { files: vec![file_of("first", 3), file_of("second", 5)] };
        let block = |seed: usize, at: usize, length: usize| Block {
            address: 0x1000 + at as u64,
            code: code(seed)[at..at + length].to_vec(),
            lengths: vec![length as u8],
        };
        // Of the first file, more is executed.
        let blocks =
            [block(3, 0, 40), block(3, 0x1000, 40), block(3, 0x1100, 40), block(5, 0x40, 40), block(5, 0x80, 1)];
        // The roots of both processes.
        let count = |node: u32, block: u32| BlockCount { node, block, from: 0, to: 1, times: 1, tapered: 1 };
        let counts = [count(3, 0), count(3, 1), count(3, 2), count(5, 3), count(5, 4)];
        let raw = Raw::parse(&file("", 5, &[], &blocks, &counts, &[])).unwrap();
        let numbers: Vec<_> = files.places(&raw).into_iter().map(|place| place.map(|place| place.file)).collect();
        assert_eq!(numbers, [Some(0), Some(0), Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn functions_without_a_symbol_have_the_address_at_which_they_begin() {
        let folder = tempfile::tempdir().unwrap();
        let stripped = folder.path().join("stripped");
        let own_program = std::env::current_exe().unwrap();
        let status = Command::new("strip").arg("-o").arg(&stripped).arg(own_program).status().unwrap();
        assert!(status.success());
        let (start, _) = own("user_files::tests::placed");
        let found = placed(&stripped, 0x5555_0000_0000, &[start, start + 32], 32);
        let name = format!("stripped+{start:#x}");
        assert_eq!(found[..2], [Some((name.clone(), start)), Some((name, start))]);
    }
}
