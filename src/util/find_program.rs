//! Programs of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// The path of a program as a shell finds it: an executable file, by path or in one of the folders of PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let executable =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(executable);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(executable)
}
