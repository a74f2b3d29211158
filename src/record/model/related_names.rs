//! Uses of names that matter because of another name: of the folder, or of the same file.

use crate::result::{NameError, NameUse, NamedFile};

/// What SQLite appends to the name of a database for the file that has its newest changes (sqlite.org/wal.html).
pub(crate) const NEWEST: &str = "-wal";

/// The path of the folder in which a path is; `.` of one that has no folder, None of `/`.
pub(crate) fn folder_of(path: &str) -> Option<&str> {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => Some("/"),
        Some((folder, _)) => Some(folder),
        None => Some(".").filter(|_| !path.starts_with('/')),
    }
}

/// The same use of the folder.
fn in_folder(file: &NamedFile) -> Option<NamedFile> {
    Some(NamedFile { path: folder_of(&file.path)?.to_owned(), ..file.clone() })
}

/// Of uses of names by time, which matter beside those that are `kept`: a file that was not found in a folder that another process made
/// later; watches of a folder, of who watches a file in it; and what opened a file by another name after its own was given away.
pub(crate) fn related(used: &[NamedFile], kept: &[usize]) -> Vec<usize> {
    let makes: Vec<&NamedFile> =
        used.iter().filter(|file| file.does == NameUse::Makes && file.error.is_none()).collect();
    let too_early = |file: &NamedFile| {
        let is_missing = file.error == Some(NameError::Missing) && file.does == NameUse::Opens;
        let later = |folder: &NamedFile| {
            makes.iter().any(|made| made.pid != file.pid && made.at_ns[0] > file.at_ns[0] && made.is_same_place(folder))
        };
        is_missing && !makes.is_empty() && in_folder(file).is_some_and(|folder| later(&folder))
    };
    let watched: Vec<NamedFile> = kept
        .iter()
        .filter_map(|at| used.get(*at).filter(|file| file.does == NameUse::Watches).and_then(in_folder))
        .collect();
    let watches_folder = |file: &NamedFile| {
        file.does == NameUse::Watches && watched.iter().any(|other| other.pid == file.pid && other.is_same_place(file))
    };
    // Inode and device of what had a name, and when that was given to another file.
    let given_away: Vec<(u64, u32, u64)> = used
        .iter()
        .filter(|file| file.does == NameUse::Renames && file.error.is_none())
        .flat_map(|renames| {
            let before = used.iter().filter(|file| {
                file.inode > 0
                    && file.error.is_none()
                    && file.at_ns[0] < renames.at_ns[0]
                    && file.is_same_place(renames)
            });
            before.map(|file| (file.inode, file.device, renames.at_ns[0]))
        })
        .collect();
    let by_other_name = |file: &NamedFile| {
        given_away
            .iter()
            .any(|(inode, device, at)| (file.inode, file.device) == (*inode, *device) && file.at_ns[1] > *at)
    };
    // Of a database that others use.
    let newest = |file: &NamedFile| file.path.ends_with(NEWEST);
    let matters = |(_, file): &(usize, &NamedFile)| {
        too_early(file) || watches_folder(file) || by_other_name(file) || newest(file)
    };
    used.iter().enumerate().filter(matters).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_path_is_found() {
        let folders = ["a/b", "/a", "a", "a/b/", "/"].map(folder_of);
        assert_eq!(folders, [Some("a"), Some("/"), Some("."), Some("a"), None]);
    }

    #[test]
    fn uses_of_related_names_are_kept() {
        let file = |pid: u32, path: &str, does: NameUse, at: u64, inode: u64| NamedFile {
            pid,
            path: path.to_owned(),
            folder: 7,
            does,
            at_ns: [at; 2],
            inode,
            ..NamedFile::default()
        };
        let missing = NamedFile { error: Some(NameError::Missing), ..file(1, "out/a.o", NameUse::Opens, 1, 0) };
        let mut used = vec![
            missing,
            file(2, "out", NameUse::Makes, 2, 0),
            file(3, "x/conf", NameUse::Watches, 3, 0),
            file(3, "x", NameUse::Watches, 4, 0),
            file(4, "old", NameUse::Reads, 5, 9),
            file(5, "old", NameUse::Renames, 6, 0),
            file(6, "link", NameUse::Reads, 7, 9),
        ];
        assert_eq!(related(&used, &[2]), [0, 3, 6]);
        used[1].at_ns = [0; 2];
        used[3].pid = 4;
        used[6].inode = 8;
        assert_eq!(related(&used, &[2]), [0; 0]);
    }
}
