//! Names for addresses: functions of the guest's kernel, and of this program, which is the guest's workload.

use super::function::Function;
use super::raw::{DEEPER, REST, Raw};
use super::user_files::{PlacedCode, UserFiles};
use crate::arch::marker_places;
use crate::collect::stacks::USER;
use crate::kernel::symbols::Symbols;
use crate::util::regular;
use anyhow::{Context, Result};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where an instruction is. Programs share addresses, so user code of known files has the addresses of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CodePlace {
    file: Option<usize>,
    pub(super) address: u64,
}

/// Names of one guest.
#[derive(Debug)]
pub struct Names {
    kernel: Symbols,
    user: Option<Program>,
    /// The user code of foreign programs.
    files: Option<PlacedCode>,
}

impl Names {
    /// `kernel`: the guest's symbols; `program`: the file that its processes executed.
    pub fn new(kernel: Symbols, program: Option<Program>, raw: &Raw) -> Self {
        let user = program.and_then(|program| program.placed(raw));
        Self { kernel, user, files: None }
    }

    /// With the functions of `files`, which the processes of `raw` executed.
    #[must_use]
    pub fn with_files(self, files: &UserFiles, raw: &Raw) -> Self {
        Self { files: Some(files.placed(raw)), ..self }
    }

    /// Where the code at `address` of this block is.
    pub(super) fn place(&self, block: u32, address: u64) -> CodePlace {
        let found = self.files.as_ref().and_then(|code| code.place(block, address));
        found.map_or(CodePlace { file: None, address }, |(file, address)| CodePlace { file: Some(file), address })
    }

    /// Where the files of foreign programs are, by their names.
    pub(super) fn paths(&self) -> BTreeMap<String, PathBuf> {
        self.files.as_ref().map_or_else(BTreeMap::new, PlacedCode::paths)
    }

    /// Whether the user code is of foreign programs.
    pub(super) fn is_of_programs(&self) -> bool {
        self.files.is_some()
    }

    /// How many bytes from `address` of this block on are in the same function for sure.
    pub(super) fn rest(&self, block: u32, address: u64) -> u64 {
        if address >> 63 == 1 {
            let at = self.kernel.at(address);
            return at.and_then(|at| at.size?.checked_sub(at.offset)).unwrap_or(0);
        }
        let place = self.place(block, address);
        let end = self.files.as_ref().zip(place.file).and_then(|(code, file)| code.end(file, place.address));
        end.map_or(0, |end| end - place.address)
    }

    /// The function that contains this code.
    pub(super) fn function_at(&self, place: CodePlace) -> Function<'_> {
        let found = self.files.as_ref().zip(place.file).and_then(|(code, file)| code.function(file, place.address));
        let elsewhere = self.files.as_ref().filter(|_| place.file.is_none() && place.address >> 63 == 0);
        let elsewhere = elsewhere.map(|code| Function::of(code.elsewhere(place.address), None));
        found.or(elsewhere).unwrap_or_else(|| self.function(place.address))
    }

    /// The function that contains `address`, or `[user]` or `[kernel]` for code without symbols.
    pub fn function(&self, address: u64) -> Function<'_> {
        if address == DEEPER {
            return Function::of(REST, None);
        }
        if address >> 63 == 0 {
            let found = self.user.as_ref().and_then(|program| program.function(address));
            return found.unwrap_or_else(|| Function::of(USER, None));
        }
        match self.kernel.at(address) {
            Some(at) => Function::of(at.symbol.name, Some(at.symbol.address)),
            None => Function::of("[kernel code]", None),
        }
    }
}

/// Larger images are rejected, in bytes. Those of distributions have 400 MiB to 1 GiB with debugging information.
const LONGEST_IMAGE: u64 = 4 << 30;

/// The symbols of an uncompressed kernel image with a symbol table, in the form of /proc/kallsyms.
pub fn vmlinux(path: &Path) -> Result<Symbols> {
    let bytes =
        regular::read(path, LONGEST_IMAGE).with_context(|| format!("--vmlinux: cannot read {}", path.display()))?;
    let wrong = || {
        format!("--vmlinux {}: not an ELF file with a symbol table; give the uncompressed kernel image", path.display())
    };
    let file = object::File::parse(&*bytes).with_context(wrong)?;
    let text: Vec<_> = file
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .map(|section| section.address()..section.address() + section.size())
        .collect();
    let mut list = String::new();
    for symbol in file.symbols() {
        // Entry points in assembly code have no type.
        let code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown);
        let Ok(name) = symbol.name() else { continue };
        // In files for arm64, `$x` and `$d` say where code and data begin (AAELF64, "Mapping symbols").
        if !code || name.is_empty() || name.starts_with('$') || name.contains(char::is_whitespace) {
            continue;
        }
        if text.iter().any(|section| section.contains(&symbol.address())) {
            let kind = if symbol.is_global() { 'T' } else { 't' };
            let _ = writeln!(list, "{:016x} {kind} {name}", symbol.address());
        }
    }
    Symbols::read(list.as_bytes()).with_context(wrong)
}

/// An ELF program.
#[derive(Debug)]
pub struct Program {
    /// Functions by address within the file.
    functions: Vec<(u64, u64, String)>,
    /// The code's address within the file, and its bytes.
    text: (u64, Vec<u8>),
    /// The address in the guest's processes of the file's address 0.
    base: u64,
}

impl Program {
    /// The guest's init, which is its workload as well.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = regular::read(path, LONGEST_IMAGE)
            .with_context(|| format!("cannot read {} for its symbols", path.display()))?;
        Self::parse(&bytes)
    }

    /// Read an ELF file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let file = object::File::parse(bytes)?;
        let section = file.section_by_name(".text").context("no section .text")?;
        let text = (section.address(), section.data()?.to_vec());
        let mut functions: Vec<(u64, u64, String)> = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
                Some((symbol.address(), symbol.size(), name))
            })
            .collect();
        // The shortest of several names of one function, independent of their order.
        functions.sort_by(|a, b| (a.0, a.2.len(), &a.2).cmp(&(b.0, b.2.len(), &b.2)));
        functions.dedup_by_key(|function| function.0);
        Ok(Self { functions, text, base: 0 })
    }

    /// Find the program's address in the guest's processes: there, its markers are those that were executed, and most
    /// of the code around them is the same. `None` if it is not found.
    fn placed(mut self, raw: &Raw) -> Option<Self> {
        let user = || raw.blocks.iter().filter(|block| block.address >> 63 == 0);
        let markers =
            |code: &[u8]| -> Vec<u64> { marker_places(raw.processor, code).into_iter().map(|at| at as u64).collect() };
        let in_file: Vec<u64> = markers(&self.text.1).iter().map(|offset| self.text.0 + offset).collect();
        let in_guest = user().flat_map(|block| markers(&block.code).into_iter().map(|offset| block.address + offset));
        let mut bases: Vec<u64> = in_guest
            .flat_map(|guest| in_file.iter().filter_map(move |file| guest.checked_sub(*file)))
            .filter(|base| base % 4096 == 0)
            .collect();
        bases.sort_unstable();
        bases.dedup();
        let alike = |base: u64| user().filter(|block| self.holds(base, block.address, &block.code)).count();
        let best = bases.into_iter().map(|base| (alike(base), base)).max()?;
        self.base = best.1;
        (best.0 > 0).then_some(self)
    }

    fn holds(&self, base: u64, address: u64, code: &[u8]) -> bool {
        let offset = address.checked_sub(base).and_then(|address| address.checked_sub(self.text.0));
        let text = offset.and_then(|offset| self.text.1.get(usize::try_from(offset).ok()?..));
        text.is_some_and(|text| text.starts_with(code))
    }

    fn function(&self, address: u64) -> Option<Function<'_>> {
        let address = address.checked_sub(self.base)?;
        let after = self.functions.partition_point(|function| function.0 <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        (address < start + size).then(|| Function::of(name.as_str(), Some(start + self.base)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::insn::raw::{Block, BlockCount, tests::file};

    #[test]
    fn this_program_is_found_where_it_ran() {
        // So this program has a marker.
        std::hint::black_box(crate::arch::marker::emit::<{ crate::arch::marker::begin(0) }> as fn());
        let program = Program::open(Path::new("/proc/self/exe")).unwrap();
        let (start, text) = program.text.clone();
        let at = *marker_places(crate::arch::Processor::HERE, &text).first().expect("the marker above");
        let base = 0x5555_5555_4000;
        let block = |offset: usize, len: usize| Block {
            address: base + start + offset as u64,
            code: text[offset..offset + len].to_vec(),
            lengths: vec![8],
        };
        let count = BlockCount { node: 1, block: 0, from: 0, to: 1, times: 1, tapered: 1 };
        let raw = Raw::parse(&file("", 1, &[], &[block(at, 8)], &[count], &[])).unwrap();
        let names = Names::new(Symbols::read("ffffffff81000000 T _text\n".as_bytes()).unwrap(), Some(program), &raw);
        let here = names.function(base + start + at as u64);
        assert!(here.start.is_some() && here.name.contains("::"), "{here:?}");
        assert_eq!(names.function(0x10).name, "[user]");
        assert_eq!(names.function(0xffff_ffff_8100_0010).name, "_text");
    }

    #[test]
    fn an_image_with_a_symbol_table_names_its_functions() {
        let symbols = vmlinux(Path::new("/proc/self/exe")).unwrap();
        let main = symbols.functions("main").first().unwrap().address;
        let inside = symbols.at(main + 1).unwrap();
        assert_eq!((inside.symbol.name, inside.offset), ("main", 1));
        assert!(symbols.functions("environ").is_empty(), "data has no code");
        let error = vmlinux(Path::new("/etc/passwd")).unwrap_err().to_string();
        assert!(error.contains("not an ELF file"), "{error}");
    }
}
