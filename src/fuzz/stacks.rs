//! Files with stacks and code.

use crate::profile::places::StoredPlaces;
use crate::profile::{Folded, Unit};
use crate::report::annotate;
use crate::report::flamegraph::{self, GraphOptions};
use crate::result::code::{CODE_SCHEMA, ExecutedCode, SourceLines};
use crate::roles::Skid;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// Longer files are not drawn here: drawing takes most of the time.
const DRAWN: usize = 512;

/// A file of folded stacks.
///
/// Properties: what is read is written so that it reads the same; pruning keeps the weight; what the reader accepts can
/// be drawn. Frames of any text are written so that they are read.
///
/// # Panics
/// If one does not hold.
pub fn folded(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(stacks) = Folded::parse(&text) {
        assert_eq!(Folded::parse(&stacks.to_text()).as_ref(), Ok(&stacks));
        for least in [0, 2, stacks.total() / 2, u64::MAX] {
            let pruned = stacks.pruned(least);
            assert_eq!(pruned.total(), stacks.total());
            assert!(pruned.len() <= stacks.len());
        }
        if bytes.len() <= DRAWN && !stacks.is_empty() {
            let mut options = GraphOptions::new("title", "subtitle", Unit::Samples, Skid::CpuClock);
            options.reverse = bytes.len().is_multiple_of(2);
            match flamegraph::render(&stacks, &options) {
                Ok(svg) => assert!(svg.contains("</svg>")),
                Err(error) => assert!(stacks.total() > 1 << 50, "{error:#}\n{text}"),
            }
        }
    }
    let mut stacks = Folded::new();
    for (index, frames) in text.split('\n').enumerate() {
        stacks.add_frames(frames.split('\t'), index as u64 + 1);
    }
    assert_eq!(Folded::parse(&stacks.to_text()), Ok(stacks));
}

/// A `NAME.places.json.gz`, decompressed.
///
/// Properties: places that can be read belong to their own stacks; they change no weight; what is written of them reads
/// the same.
///
/// # Panics
/// If one does not hold.
pub fn stack_places(bytes: &[u8]) {
    let Ok(stored) = serde_json::from_slice::<StoredPlaces>(bytes) else { return };
    let Ok(plain) = stored.names() else { return };
    let mut located = plain.clone();
    // The sum of a stack's weights can be larger than 64 bits hold.
    if located.restore_places(&stored).is_err() {
        assert!(plain.total() == u64::MAX);
        return;
    }
    assert!(located.iter().map(|(_, weight)| weight).eq(plain.iter().map(|(_, weight)| weight)));
    let sum = located.located().fold(0u64, |sum, part| sum.saturating_add(part.weight));
    assert_eq!(sum, plain.total());
    let mut again = plain;
    match located.stored_places().map(|stored| again.restore_places(&stored)) {
        Some(Ok(())) | None => assert_eq!(again, located),
        Some(Err(error)) => panic!("{error}"),
    }
}

/// A `code.json.gz`. Bytes that are not compressed are its content.
///
/// Properties: what is read is written so that it reads the same, and can be shown.
///
/// # Panics
/// If one does not hold.
pub fn code_json_gz(bytes: &[u8]) {
    let file = if bytes.starts_with(&[0x1f, 0x8b]) { bytes.to_vec() } else { compressed(bytes) };
    let Ok(code) = ExecutedCode::from_bytes(&file) else { return };
    assert_eq!(code.schema, CODE_SCHEMA);
    match code.to_bytes().and_then(|bytes| ExecutedCode::from_bytes(&bytes)) {
        Ok(again) => assert_eq!(again, code),
        Err(error) => panic!("{error:#}"),
    }
    for function in &code.functions {
        let _ = function.total();
        for process in std::iter::once(None).chain(code.processes.iter().copied().map(Some)) {
            let shown = annotate::render(function, &code, "6.12", process, &SourceLines::default());
            assert!(shown.lines().count() >= function.instructions.len());
        }
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    // Memory can be written to.
    let _ = out.write_all(bytes);
    out.finish().unwrap_or_default()
}
