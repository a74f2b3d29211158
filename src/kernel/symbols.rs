//! Kernel symbols from /proc/kallsyms: find the function at an address, and the address of a function.

use crate::roles;
use crate::util::regular;
use crate::util::text::fnv1a;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// Addresses from here on belong to the kernel (x86-64, Documentation/arch/x86/x86_64/mm.rst).
pub const KERNEL_START: u64 = 0xffff_8000_0000_0000;

/// The running kernel's list of symbols.
pub const KALLSYMS: &str = "/proc/kallsyms";

/// Larger files are not lists of kernel symbols.
const MAX_BYTES: u64 = 256 << 20;
/// No function is longer: the kernel's largest have about ten thousand bytes.
const LARGEST_FUNCTION: u64 = 1 << 20;

/// The symbols of one kernel, by address and by name.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// The list as read. Names are slices of it.
    text: String,
    /// In the order of the list.
    entries: Vec<SymbolEntry>,
    /// Functions (indices into `entries`) by address, one per address.
    by_address: Vec<u32>,
    hidden: bool,
    by_name: OnceLock<HashMap<u64, Vec<u32>>>,
}

#[derive(Debug, Clone, Copy)]
struct SymbolEntry {
    address: u64,
    /// Offset of the name in `text`.
    name: u32,
    name_len: u16,
    /// Length of the module's name, which follows the name in brackets; 0 for the kernel itself.
    module_len: u16,
    kind: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    pub name: &'a str,
    pub address: u64,
    /// nm's letter: `T` and `t` are functions; upper case is global.
    pub kind: char,
    /// The symbol's module; absent for the kernel itself.
    pub module: Option<&'a str>,
}

impl Symbol<'_> {
    pub fn is_function(&self) -> bool {
        is_function(self.kind as u8)
    }
}

/// An address within a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<'a> {
    pub symbol: Symbol<'a>,
    /// Offset from the function's start, in bytes.
    pub offset: u64,
    /// The function's length in bytes, up to the next function; absent for the last one.
    pub size: Option<u64>,
}

/// Why a symbol list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    #[error("cannot read kernel symbols from {path}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("cannot parse kernel symbols, line {line}: {what}")]
    Line { line: usize, what: &'static str },
    #[error("the list of kernel symbols is empty: mount /proc, or use a kernel with CONFIG_KALLSYMS")]
    Empty,
    #[error("not a list of kernel symbols: larger than {} MiB", MAX_BYTES >> 20)]
    TooLong,
    #[error(
        "kernel addresses are hidden (all zero in /proc/kallsyms): run as root, or have root run \
         `sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1`"
    )]
    Hidden,
}

fn is_function(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

impl Symbols {
    /// The running kernel's symbols. They may be [hidden](Self::hidden).
    pub fn running() -> Result<Self, SymbolsError> {
        Self::open(Path::new(KALLSYMS))
    }

    /// The symbols of a file in the format of /proc/kallsyms.
    pub fn open(path: &Path) -> Result<Self, SymbolsError> {
        let file =
            regular::open(path).map_err(|source| SymbolsError::Io { path: path.display().to_string(), source })?;
        Self::read(file)
    }

    /// Read lines of `address kind name [module]`, the format of /proc/kallsyms. Skip empty lines and lines that
    /// start with `#`.
    pub fn read(reader: impl Read) -> Result<Self, SymbolsError> {
        let mut text = String::new();
        let read = reader
            .take(MAX_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|source| SymbolsError::Io { path: KALLSYMS.to_owned(), source })?;
        if read as u64 > MAX_BYTES {
            return Err(SymbolsError::TooLong);
        }
        let mut entries = Vec::with_capacity(text.len() / 42);
        let mut start = 0;
        for (index, line) in text.split('\n').enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                let error = |what| SymbolsError::Line { line: index + 1, what };
                entries.push(parse_line(line.as_bytes(), start).map_err(error)?);
            }
            start += line.len() + 1;
        }
        if entries.is_empty() {
            return Err(SymbolsError::Empty);
        }
        let hidden = entries.iter().all(|entry| entry.address == 0);
        let mut symbols = Self { text, entries, hidden, ..Self::default() };
        if !hidden {
            symbols.by_address = symbols.order();
        }
        Ok(symbols)
    }

    /// Functions by address. If several names have the same address, choose the clearest.
    fn order(&self) -> Vec<u32> {
        let functions =
            self.entries.iter().enumerate().filter(|(_, entry)| is_function(entry.kind) && entry.address != 0);
        let mut order: Vec<u32> = functions.map(|(index, _)| index as u32).collect();
        let key = |index: &u32| self.entries[*index as usize].address;
        if !order.is_sorted_by_key(key) {
            order.sort_by_key(key);
        }
        order.dedup_by(|later, kept| {
            let same = key(later) == key(kept);
            if same && plainness(self.symbol(*later).name) < plainness(self.symbol(*kept).name) {
                *kept = *later;
            }
            same
        });
        order
    }

    /// Whether all addresses are zero, which the kernel shows to unprivileged users.
    pub fn hidden(&self) -> bool {
        self.hidden
    }

    /// Return the symbols if their addresses are known.
    pub fn with_addresses(self) -> Result<Self, SymbolsError> {
        if self.hidden { Err(SymbolsError::Hidden) } else { Ok(self) }
    }

    /// The number of symbols, including data and modules.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn symbol(&self, index: u32) -> Symbol<'_> {
        let entry = self.entries[index as usize];
        let start = entry.name as usize;
        let end = start + usize::from(entry.name_len);
        // A tab and a bracket separate the name from the module.
        let module = (entry.module_len > 0).then(|| &self.text[end + 2..end + 2 + usize::from(entry.module_len)]);
        Symbol { name: &self.text[start..end], address: entry.address, kind: entry.kind as char, module }
    }

    /// All symbols, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        (0..self.entries.len()).map(|index| self.symbol(index as u32))
    }

    /// The function that contains `address`. `None` before the first, far behind the last, and if addresses are
    /// hidden.
    pub fn at(&self, address: u64) -> Option<Located<'_>> {
        let after = self.by_address.partition_point(|index| self.entries[*index as usize].address <= address);
        let symbol = self.symbol(*self.by_address.get(after.checked_sub(1)?)?);
        let next = self.by_address.get(after).map(|index| self.entries[*index as usize].address);
        let size = next.map(|next| next - symbol.address);
        // Addresses far behind the last symbol of the kernel or of a module belong to other code: compiled BPF
        // programs, trampolines without a name.
        if address - symbol.address > LARGEST_FUNCTION {
            return None;
        }
        Some(Located { symbol, offset: address - symbol.address, size })
    }

    /// The functions that a user means by `function`: with that name, or with that name and a compiler's suffix
    /// (`.constprop.0`, `.isra.0`, `.part.0`, never `.cold`). Whole functions come before parts.
    pub fn functions(&self, function: &str) -> Vec<Symbol<'_>> {
        let index = self.name_index().get(&fnv1a(function)).map(Vec::as_slice).unwrap_or(&[]);
        let mut found: Vec<Symbol<'_>> = index
            .iter()
            .map(|index| self.symbol(*index))
            .filter(|symbol| symbol.is_function() && symbol.module.is_none())
            .filter(|symbol| symbol.name == function || roles::base_name(symbol.name) == function)
            .collect();
        found.sort_by_key(|symbol| (symbol.name.contains(".part"), symbol.name != function, symbol.name));
        found
    }

    /// Symbols by the hash of their name; functions with suffixes also by the hash of their base name.
    fn name_index(&self) -> &HashMap<u64, Vec<u32>> {
        self.by_name.get_or_init(|| {
            let mut index: HashMap<u64, Vec<u32>> = HashMap::with_capacity(self.entries.len());
            for at in 0..self.entries.len() as u32 {
                let symbol = self.symbol(at);
                index.entry(fnv1a(symbol.name)).or_default().push(at);
                let base = roles::base_name(symbol.name);
                if base.len() != symbol.name.len() && symbol.is_function() {
                    index.entry(fnv1a(base)).or_default().push(at);
                }
            }
            index
        })
    }
}

/// Sort key for the names of one address; lower is better: not a section marker, not a generated alias, short.
fn plainness(name: &str) -> (bool, usize, usize, &str) {
    let marker = matches!(name, "_text" | "_stext" | "_etext" | "_sinittext" | "_einittext")
        || name.ends_with("_start")
        || name.ends_with("_end")
        || name.ends_with("_begin")
        || ["__pi_", "__pfx_", "__cfi_", "__ia32_", "__SCT__"].iter().any(|prefix| name.starts_with(prefix));
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
    (marker, underscores, name.len(), name)
}

/// `line` starts at byte `start` of the list.
fn parse_line(line: &[u8], start: usize) -> Result<SymbolEntry, &'static str> {
    let mut address: u64 = 0;
    let mut at = 0;
    while let Some(digit) = line.get(at).and_then(|byte| (*byte as char).to_digit(16)) {
        if at == 16 {
            return Err("the address has more than 16 digits");
        }
        address = address << 4 | u64::from(digit);
        at += 1;
    }
    if at == 0 || line.get(at) != Some(&b' ') {
        return Err("it does not start with a hexadecimal address");
    }
    let kind = *line.get(at + 1).ok_or("it ends after the address")?;
    if !kind.is_ascii_alphabetic() && kind != b'?' && kind != b'-' || line.get(at + 2) != Some(&b' ') {
        return Err("the address is not followed by a letter for the kind");
    }
    let rest = &line[at + 3..];
    let name_len = rest.iter().position(|byte| *byte == b'\t').unwrap_or(rest.len());
    let module_len = match &rest[name_len..] {
        [] => 0,
        [b'\t', b'[', module @ .., b']'] => module.len(),
        _ => return Err("the name is followed by something other than a [module]"),
    };
    if name_len == 0 {
        return Err("no name");
    }
    Ok(SymbolEntry {
        address,
        name: u32::try_from(start + at + 3).map_err(|_| "it is more than 4 GiB behind the start of the list")?,
        name_len: u16::try_from(name_len).map_err(|_| "the name is longer than 65535 bytes")?,
        module_len: u16::try_from(module_len).map_err(|_| "the module's name is longer than 65535 bytes")?,
        kind,
    })
}

#[cfg(test)]
mod tests;
