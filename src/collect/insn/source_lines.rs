//! Where the executed instructions of programs are in their sources, by the debug information of their files.

use super::user_files::CodeFile;
use crate::result::code::{ExecutedCode, ExecutedFunction, ExecutedInstruction, SourceLines, SourcePlace};
use crate::util::regular;
use anyhow::{Context as _, Result, bail};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use std::path::{Path, PathBuf};

/// Larger files are no sources, in bytes.
const LARGEST: u64 = 64 << 20;

/// The lines of the instructions of `function`; empty if its file has no debug information, or is the kernel.
///
/// # Errors
/// When the file cannot be read, or has changed since it was counted.
pub fn of(function: &ExecutedFunction, code: &ExecutedCode) -> Result<SourceLines> {
    let Some(path) = function.file.as_ref().and_then(|file| code.files.get(file)) else {
        return Ok(SourceLines::default());
    };
    let all: Vec<&ExecutedInstruction> = function.instructions.iter().collect();
    let addresses = addresses(path, function.address, &all)?;
    let modified = std::fs::metadata(path).and_then(|of| of.modified()).ok();
    let symbolizer = with_lines();
    // Debug information can be damaged, or compressed in a way that is not known here: then there are no lines.
    let found = symbolizer.symbolize(&Source::Elf(Elf::new(path)), Input::VirtOffset(&addresses));
    let mut lines = SourceLines::default();
    for (one, found) in function.instructions.iter().zip(found.unwrap_or_default()) {
        let Some(symbol) = found.as_sym() else { continue };
        let Some(place) = innermost(symbol) else { continue };
        let functions = symbol.inlined.iter().map(|inlined| inlined.name.clone().into_owned()).collect();
        let (file, line) = (whole(place), place.line.unwrap_or(0));
        if !lines.sources.contains_key(&file) {
            // What was changed since has other lines.
            let is_older =
                std::fs::metadata(&file).and_then(|of| of.modified()).ok().zip(modified).is_some_and(|(a, b)| a <= b);
            let text = regular::read(Path::new(&file), LARGEST).ok().filter(|_| is_older);
            let text = text.map(|text| String::from_utf8_lossy(&text).lines().map(str::to_owned).collect());
            lines.sources.insert(file.clone(), text.unwrap_or_default());
        }
        lines.places.insert(one.offset, SourcePlace { file, line, functions });
    }
    Ok(lines)
}

/// The line of one instruction of the function at `address` in the file at `path`, as `sort.c:12`; `None` if that is not known.
pub fn of_one(path: &Path, address: u64, one: &ExecutedInstruction) -> Option<String> {
    let addresses = addresses(path, address, &[one]).ok()?;
    let symbolizer = with_lines();
    let found = symbolizer.symbolize_single(&Source::Elf(Elf::new(path)), Input::VirtOffset(addresses[0])).ok()?;
    let place = innermost(found.as_sym()?)?;
    Some(format!("{}:{}", place.file.to_string_lossy(), place.line?))
}

fn with_lines() -> Symbolizer {
    Symbolizer::builder().enable_code_info(true).enable_inlined_fns(true).build()
}

/// Where `instructions` of the function at `address` are in the file at `path`.
///
/// # Errors
/// When the file cannot be read, or does not hold these instructions.
fn addresses(path: &Path, address: u64, instructions: &[&ExecutedInstruction]) -> Result<Vec<u64>> {
    let file = CodeFile::read(path)?.with_context(|| format!("{} is no program", path.display()))?;
    if !instructions.iter().all(|one| file.holds(address + one.offset, &one.bytes())) {
        bail!("{} has changed since it was counted", path.display());
    }
    Ok(instructions.iter().map(|one| address + one.offset).collect())
}

/// The place in the function that is inlined last, or in that of the symbol.
fn innermost<'a>(symbol: &'a Sym<'_>) -> Option<&'a CodeInfo<'a>> {
    symbol.inlined.last().map_or(symbol.code_info.as_deref(), |inlined| inlined.code_info.as_ref())
}

fn whole(place: &CodeInfo<'_>) -> String {
    let folder = place.dir.as_deref().map_or_else(PathBuf::new, Path::to_owned);
    folder.join(&*place.file).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Processor;
    use crate::result::code::CODE_SCHEMA;

    /// This program's own function, as if its first instructions had been counted.
    fn counted(name: &str) -> ExecutedCode {
        use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let is = |own: &str| format!("{:#}", rustc_demangle::demangle(own)).ends_with(name);
        let symbol = file.symbols().find(|symbol| symbol.name().is_ok_and(is)).unwrap();
        let segment =
            file.segments().find(|of| (of.address()..of.address() + of.size()).contains(&symbol.address())).unwrap();
        let at = usize::try_from(symbol.address() - segment.address()).unwrap();
        let code = format!("{:02x}", segment.data().unwrap()[at]);
        let one = ExecutedInstruction { offset: 0, code, counts: vec![1], iterations: Vec::new() };
        let function = ExecutedFunction {
            name: name.to_owned(),
            file: Some("own".to_owned()),
            address: symbol.address(),
            instructions: vec![one],
        };
        ExecutedCode {
            schema: CODE_SCHEMA.to_owned(),
            processor: Processor::HERE,
            processes: Vec::new(),
            files: [("own".to_owned(), path)].into(),
            functions: vec![function],
        }
    }

    #[test]
    fn instructions_have_their_lines() {
        let code = counted("source_lines::of");
        let lines = of(&code.functions[0], &code).unwrap();
        let place = &lines.places[&0];
        assert!(place.file.ends_with("source_lines.rs") && place.line > 1, "{place:?}");
        let one = of_one(&code.files["own"], code.functions[0].address, &code.functions[0].instructions[0]);
        assert_eq!(one, Some(format!("source_lines.rs:{}", place.line)));
        // Where the tests run, the sources may be newer than they.
        assert!(lines.sources.contains_key(&place.file));
    }

    #[test]
    fn a_file_that_has_changed_has_no_lines() {
        let mut code = counted("source_lines::of");
        code.functions[0].instructions[0].code = "00000000".to_owned();
        let error = of(&code.functions[0], &code).unwrap_err().to_string();
        assert!(error.contains("has changed since it was counted"), "{error}");
        assert_eq!(of_one(&code.files["own"], code.functions[0].address, &code.functions[0].instructions[0]), None);
        code.functions[0].file = None;
        assert_eq!(of(&code.functions[0], &code).unwrap(), SourceLines::default());
    }
}
