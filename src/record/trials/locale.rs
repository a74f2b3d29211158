//! The locale in which programs compare characters.

use std::ffi::CString;

/// Their variables, by precedence.
const VARIABLES: [&str; 4] = ["LC_ALL", "LC_COLLATE", "LC_CTYPE", "LANG"];

/// Locales that compare bytes.
const BYTES: [&str; 4] = ["C", "POSIX", "C.UTF-8", "C.utf8"];

/// The locale that programs have from the environment, if it does not compare bytes. They have none if it does not exist.
pub(crate) fn own() -> Option<String> {
    let variable = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = VARIABLES.iter().find_map(variable)?;
    (!BYTES.contains(&&name[..]) && exists(&name)).then_some(name)
}

/// Whether the C library has a locale of this name.
fn exists(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name is a C string, and no base is given, so a new locale is made or none.
    let locale = unsafe { libc::newlocale(libc::LC_COLLATE_MASK, name.as_ptr(), std::ptr::null_mut()) };
    if !locale.is_null() {
        // SAFETY: nobody else has it.
        unsafe { libc::freelocale(locale) };
    }
    !locale.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_knows_which_locales_there_are() {
        assert!(exists("C") && exists("POSIX"));
        assert!(!exists("xx_YY.UTF-8") && !exists("a\0b") && !exists("no/such"));
    }
}
