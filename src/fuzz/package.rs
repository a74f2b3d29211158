//! Debian packages.

use crate::vm::deb::unpack;

/// What must not be read or changed by unpacking a package.
const SECRET: &[u8] = b"a file of the user";

/// A Debian package: its bytes if they begin as one. Else the list of its files: each line is a kind (`f` file, `d`
/// folder, `s` symbolic link, `h` hard link), a name and what a link points to.
///
/// Properties: unpacking changes nothing outside of its folder; what it finds is a file in there.
///
/// # Panics
/// If one does not hold.
pub fn deb(bytes: &[u8]) {
    let package = if bytes.starts_with(b"!<arch>\n") { bytes.to_vec() } else { package(bytes) };
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = |name: &str| folder.path().join(name);
    let written = std::fs::write(path("package.deb"), package).is_ok()
        && std::fs::write(path("secret"), SECRET).is_ok()
        && std::fs::create_dir(path("into")).is_ok();
    if !written {
        return;
    }
    let found = unpack(&path("package.deb"), &path("into"));
    assert_eq!(std::fs::read(path("secret")).ok().as_deref(), Some(SECRET));
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["into", "package.deb", "secret"]);
    let Ok(found) = found else { return };
    for file in [found.image, found.config].into_iter().flatten() {
        assert!(std::fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file()), "{}", file.display());
        let real = file.canonicalize().unwrap_or_default();
        let into = path("into").canonicalize().unwrap_or_default();
        assert!(real.starts_with(&into) && real != into, "{}", real.display());
        assert_ne!(std::fs::read(&file).ok().as_deref(), Some(SECRET), "{}", file.display());
    }
}

/// A package of the files in `list`.
fn package(list: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for line in list.split(|byte| *byte == b'\n').take(16) {
        let mut words = line.split(|byte| *byte == b' ');
        let [kind, name, link] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let content = if kind == b"f" { b"content" } else { &b""[..] };
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(match kind {
            b"d" => tar::EntryType::Directory,
            b"s" => tar::EntryType::Symlink,
            b"h" => tar::EntryType::Link,
            b"p" => tar::EntryType::Fifo,
            _ => tar::EntryType::Regular,
        });
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        // The methods that set names refuse those that leave the folder.
        let old = header.as_old_mut();
        fill(&mut old.name, name);
        fill(&mut old.linkname, link);
        header.set_cksum();
        // Memory can be written to.
        let _ = tar.append(&header, content);
    }
    let mut package = b"!<arch>\n".to_vec();
    let data = tar.into_inner().unwrap_or_default();
    let control = tar::Builder::new(Vec::new()).into_inner().unwrap_or_default();
    for (name, content) in [("debian-binary", &b"2.0\n"[..]), ("control.tar", &control), ("data.tar", &data)] {
        package.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len()).bytes());
        package.extend(content);
        package.resize(package.len().next_multiple_of(2), b'\n');
    }
    package
}

fn fill(field: &mut [u8], text: &[u8]) {
    for (place, byte) in field.iter_mut().zip(text) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs dpkg-deb: make test"]
    fn lists_become_packages() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("package.deb");
        std::fs::write(&file, package(b"d ./boot\nf ./boot/vmlinuz-6.1")).unwrap();
        assert_eq!(unpack(&file, folder.path()).unwrap().image, Some(folder.path().join("boot/vmlinuz-6.1")));
    }
}
