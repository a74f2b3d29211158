//! The locale in which programs compare characters.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Where the C library has its locales: folders, and a file with several.
const LOCALES: &str = "/usr/lib/locale";
const ARCHIVE: &str = "locale-archive";

/// Their variables, by precedence.
const VARIABLES: [&str; 4] = ["LC_ALL", "LC_COLLATE", "LC_CTYPE", "LANG"];

/// Locales that compare bytes.
const BYTES: [&str; 4] = ["C", "POSIX", "C.UTF-8", "C.utf8"];

/// The begin of the archive, in numbers of 32 bits: glibc's locale/locarchive.h, `struct locarhead`.
const MAGIC: u32 = 0xde02_0109;
const HEAD: usize = 7;
/// Place and length of the names.
const NAMES: [usize; 2] = [5, 6];

/// More bytes of names than any archive has.
const MOST_NAMES: u32 = 1 << 20;

/// The locale that programs have from the environment, if it does not compare bytes. They have none if it does not exist.
pub(super) fn own() -> Option<String> {
    let variable = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = VARIABLES.iter().find_map(variable)?;
    (!BYTES.contains(&&name[..]) && exists(&name, Path::new(LOCALES))).then_some(name)
}

/// Whether there is a locale of this name in `folder`.
fn exists(name: &str, folder: &Path) -> bool {
    let names = [name.to_owned(), normalized(name)];
    if name.contains('/') || names.iter().any(|name| folder.join(name).is_dir()) {
        return true;
    }
    let archived = File::open(folder.join(ARCHIVE)).and_then(archived).unwrap_or_default();
    names.iter().any(|name| archived.contains(name))
}

/// With the codeset as files have it: `de_DE.UTF-8@euro` is `de_DE.utf8@euro`.
fn normalized(name: &str) -> String {
    let Some((language, rest)) = name.split_once('.') else { return name.to_owned() };
    let (codeset, modifier) = rest.split_at(rest.find('@').unwrap_or(rest.len()));
    let mut plain: String = codeset.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.make_ascii_lowercase();
    let iso = if plain.chars().all(|c| c.is_ascii_digit()) { "iso" } else { "" };
    format!("{language}.{iso}{plain}{modifier}")
}

/// The names of the locales in an archive.
fn archived(mut archive: impl Read + Seek) -> io::Result<BTreeSet<String>> {
    let mut words = [0; HEAD];
    archive.read_exact(bytemuck::bytes_of_mut(&mut words))?;
    let [from, length] = NAMES.map(|at| words[at]);
    if words[0] != MAGIC || length > MOST_NAMES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    archive.seek(SeekFrom::Start(from.into()))?;
    let mut names = vec![0; length as usize];
    archive.read_exact(&mut names)?;
    Ok(names.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_exists_as_a_folder_or_in_the_archive() {
        let place = tempfile::tempdir().unwrap();
        let known = |name: &str| exists(name, place.path());
        assert!(!known("xx_YY") && !known("de_DE.UTF-8"));
        std::fs::create_dir(place.path().join("fr_FR.utf8")).unwrap();
        assert!(known("fr_FR.UTF-8") && !known("fr_FR"));
        let names = b"de_DE.utf8\0de_DE@euro\0";
        let head = [MAGIC, 0, 0, 0, 0, 4 * HEAD as u32, names.len() as u32];
        let archive: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).chain(*names).collect();
        std::fs::write(place.path().join(ARCHIVE), archive).unwrap();
        assert!(known("de_DE.UTF-8") && known("de_DE@euro") && !known("de_DE") && !known("xx_YY"));
    }

    #[test]
    fn codesets_are_normalized_as_the_c_library_does() {
        let names = ["de_DE.UTF-8@euro", "de_DE.ISO-8859-1", "ru_RU.8859-5", "de_DE"].map(normalized);
        assert_eq!(names, ["de_DE.utf8@euro", "de_DE.iso88591", "ru_RU.iso88595", "de_DE"]);
    }
}
