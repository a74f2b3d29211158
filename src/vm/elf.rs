//! This binary without its debug sections, so that guests boot faster: line tables make a build ten times larger.
//! Symbols stay, because stacks of user frames need them.

use object::elf;
use object::endian::LittleEndian as LE;
use object::pod;

type FileHeader = elf::FileHeader64<LE>;
type SectionHeader = elf::SectionHeader64<LE>;

/// `file` without the sections named `.debug_*`. `None` if this code cannot parse the file; the caller then uses it
/// unchanged.
pub(crate) fn without_debug(file: &[u8]) -> Option<Vec<u8>> {
    let (header, _) = pod::from_bytes::<FileHeader>(file).ok()?;
    if header.e_ident.magic != elf::ELFMAG || usize::from(header.e_shentsize.get(LE)) != size_of::<SectionHeader>() {
        return None;
    }
    let table = usize::try_from(header.e_shoff.get(LE)).ok()?;
    let count = usize::from(header.e_shnum.get(LE));
    let (sections, _) = pod::slice_from_bytes::<SectionHeader>(file.get(table..)?, count).ok()?;
    let data = |section: &SectionHeader| {
        let start = usize::try_from(section.sh_offset.get(LE)).ok()?;
        file.get(start..start.checked_add(usize::try_from(section.sh_size.get(LE)).ok()?)?)
    };
    let names = data(sections.get(usize::from(header.e_shstrndx.get(LE)))?)?;
    let is_debug = |section: &SectionHeader| {
        let name = names.get(section.sh_name.get(LE) as usize..).unwrap_or_default();
        // Despite its name, `.debug_gdb_scripts` is loaded with the program.
        name.starts_with(b".debug_") && section.sh_flags.get(LE) & u64::from(elf::SHF_ALLOC) == 0
    };
    // Loaded sections keep their offsets; the sections behind them move up.
    let loaded = |section: &&SectionHeader| {
        section.sh_flags.get(LE) & u64::from(elf::SHF_ALLOC) != 0 && section.sh_type.get(LE) != elf::SHT_NOBITS
    };
    let end =
        sections.iter().filter(loaded).map(|section| section.sh_offset.get(LE) + section.sh_size.get(LE)).max()?;
    let mut out = file.get(..usize::try_from(end).ok()?)?.to_vec();
    let mut moved = sections.to_vec();
    for section in &mut moved {
        if is_debug(section) {
            // Keep an empty entry, so that the indices of the other sections stay valid.
            section.sh_type.set(LE, elf::SHT_NULL);
            section.sh_size.set(LE, 0);
            section.sh_offset.set(LE, 0);
        } else if section.sh_offset.get(LE) >= end && section.sh_type.get(LE) != elf::SHT_NOBITS {
            let content = data(section)?;
            out.resize(out.len().next_multiple_of(16), 0);
            section.sh_offset.set(LE, out.len() as u64);
            out.extend_from_slice(content);
        }
    }
    out.resize(out.len().next_multiple_of(16), 0);
    let mut header = *header;
    header.e_shoff.set(LE, out.len() as u64);
    out.extend_from_slice(pod::bytes_of_slice(&moved));
    out.get_mut(..size_of::<FileHeader>())?.copy_from_slice(pod::bytes_of(&header));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSection, ObjectSymbol};

    #[test]
    fn symbols_survive_and_debug_sections_do_not() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let small = without_debug(&file).unwrap();
        assert!(small.len() < file.len());
        let (before, after) = (object::File::parse(&*file).unwrap(), object::File::parse(&*small).unwrap());
        assert!(before.sections().any(|section| section.name() == Ok(".debug_line")));
        let debug = |section: &object::Section| {
            let loaded = matches!(section.flags(), object::SectionFlags::Elf { sh_flags } if sh_flags & u64::from(elf::SHF_ALLOC) != 0);
            section.size() > 0 && !loaded && section.name().is_ok_and(|name| name.starts_with(".debug"))
        };
        assert!(before.sections().any(|section| debug(&section)));
        assert!(!after.sections().any(|section| debug(&section)));
        let symbols = |file: &object::File| -> Vec<(String, u64)> {
            file.symbols().map(|symbol| (symbol.name().unwrap().to_owned(), symbol.address())).collect()
        };
        assert_eq!(symbols(&before), symbols(&after));
        let text = |file: &object::File| file.section_by_name(".text").unwrap().data().unwrap().to_vec();
        assert!(text(&before) == text(&after));
    }

    proptest::proptest! {
        // Each case reads this test program, about 30 MiB.
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
        #[test]
        fn no_file_panics(noise: Vec<u8>, at: proptest::sample::Index, byte: u8) {
            let _ = without_debug(&noise);
            let mut small = std::fs::read("/proc/self/exe").unwrap();
            small.truncate(4096);
            let at = at.index(64);
            small[at] = byte;
            let _ = without_debug(&small);
        }
    }
}
