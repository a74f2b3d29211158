//! Files with stacks: `NAME.folded`, and `NAME.places.json.gz` with the places of their frames, if those are known.

use super::RESULT_FILE;
use crate::profile::Folded;
use crate::profile::places::StoredPlaces;
use crate::util::{gzip_json, regular};
use anyhow::{Context as _, Result, anyhow};
use flate2::Compression;
use std::path::Path;

/// Larger files are rejected before memory runs out; pipeprof writes none.
pub const LARGEST: u64 = 1 << 30;

/// The end of the names of files with stacks.
pub const FOLDED: &str = ".folded";

/// The name of the file with the sleeps of a recording, without its ending.
pub const OFF_CPU: &str = "off-cpu";

/// The name of the file with the critical path of a recording, without its ending.
pub const CRITICAL_PATH: &str = "critical-path";

/// The end of the names of files with places.
pub const PLACES: &str = ".places.json.gz";

/// The files of these stacks, called `stem`: names and contents.
pub fn files(stem: &str, stacks: &Folded) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = vec![(format!("{stem}{FOLDED}"), stacks.to_text().into_bytes())];
    if let Some(places) = stacks.stored_places() {
        let bytes = gzip_json::to_bytes(&places, Compression::default());
        files.push((format!("{stem}{PLACES}"), bytes.context("cannot write the places of frames")?));
    }
    Ok(files)
}

/// The stacks called `stem` in `folder`, with the places of their frames if they are stored.
///
/// # Errors
/// As [`load_folded`]; places that are damaged or of other stacks.
pub fn load(folder: &Path, stem: &str) -> Result<Folded> {
    let file = folder.join(format!("{stem}{FOLDED}"));
    let mut stacks = parsed(&file, &read(&file)?)?;
    let places = folder.join(format!("{stem}{PLACES}"));
    if places.exists() {
        let stored: StoredPlaces = gzip_json::from_bytes(&read(&places)?, "places of frames")
            .with_context(|| format!("{}: the file is damaged: remove it, or run again", places.display()))?;
        stacks.restore_places(&stored).map_err(|error| {
            anyhow!("{} does not belong to {}: {error}: remove it, or run again", places.display(), file.display())
        })?;
    }
    Ok(stacks)
}

/// Read a folded file that a user named.
///
/// # Errors
/// Names the file and the line.
pub fn load_folded(path: &Path) -> Result<Folded> {
    let bytes = regular::read(path, LARGEST).with_context(|| path.display().to_string())?;
    parsed(path, &bytes)
}

/// Read a file of a stored result.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    read_owned(path).map(|(bytes, _)| bytes)
}

/// [`read`], with the user whose file it is.
pub(super) fn read_owned(path: &Path) -> Result<(Vec<u8>, u32)> {
    regular::read_owned(path, LARGEST).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound if path.ends_with(RESULT_FILE) => {
                "file does not exist; give a folder written by `pipeprof run` or `pipeprof record`".to_owned()
            }
            std::io::ErrorKind::NotFound => "file does not exist".to_owned(),
            _ => format!("cannot read: {error}"),
        };
        anyhow!("{}: {reason}", path.display())
    })
}

fn parsed(path: &Path, bytes: &[u8]) -> Result<Folded> {
    let text = String::from_utf8_lossy(bytes);
    Folded::parse(&text).map_err(|error| {
        anyhow!("{}, {error}: each line of a folded file is a stack, a space and a weight", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::places::FramePlace;

    #[test]
    fn places_are_stored_beside_the_text_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = FramePlace { address: Some(7), ..FramePlace::default() };
        let mut stacks = Folded::new();
        stacks.add_located([("dd", None), ("main", Some(place))], 3);
        let files = files("dd", &stacks).unwrap();
        assert_eq!(files.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(), ["dd.folded", "dd.places.json.gz"]);
        for (name, bytes) in &files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        assert_eq!(load(folder.path(), "dd").unwrap(), stacks);

        std::fs::write(folder.path().join("dd.folded"), "dd;other 3\n").unwrap();
        let error = load(folder.path(), "dd").unwrap_err().to_string();
        assert!(error.ends_with("dd.folded: it has a stack that is missing there: remove it, or run again"), "{error}");
        std::fs::write(folder.path().join("dd.places.json.gz"), b"x").unwrap();
        let error = load(folder.path(), "dd").unwrap_err().to_string();
        assert!(error.ends_with("dd.places.json.gz: the file is damaged: remove it, or run again"), "{error}");
        std::fs::remove_file(folder.path().join("dd.places.json.gz")).unwrap();
        assert_eq!(load(folder.path(), "dd").unwrap().to_text(), "dd;other 3\n");
        let plain = super::files("dd", &Folded::parse("a 1").unwrap()).unwrap();
        assert_eq!(plain.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_of_stacks_is_read(
            stacks in proptest::collection::vec((".{1,9}", ".{1,9}", 1..1_u64 << 60, proptest::option::of(0..u64::MAX)), 1..6),
        ) {
            let mut written = Folded::new();
            for (process, frame, weight, address) in &stacks {
                let place = address.map(|address| FramePlace { address: Some(address), ..FramePlace::default() });
                written.add_located([(&**process, None), (&**frame, place)], *weight);
            }
            let folder = tempfile::tempdir().unwrap();
            for (name, bytes) in files("x", &written).unwrap() {
                std::fs::write(folder.path().join(name), bytes).unwrap();
            }
            proptest::prop_assert_eq!(load(folder.path(), "x").unwrap(), written);
        }
    }
}
