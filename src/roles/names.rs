//! Names of one function: compiler suffixes, and renames between kernels.

use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The form of `renames.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRenames {
    /// Each with the names of one function on several kernels.
    renames: Vec<String>,
}

struct Renames {
    groups: Vec<Vec<&'static str>>,
    /// The first name of a function that was renamed, by the others.
    first: HashMap<&'static str, &'static str>,
}

static RENAMES: LazyLock<Renames> = LazyLock::new(|| {
    // The tests know some of them.
    let StoredRenames { renames } = toml::from_str(include_str!("renames.toml")).unwrap_or_default();
    let group = |names: String| names.leak().split_whitespace().collect::<Vec<_>>();
    let groups: Vec<Vec<&str>> = renames.into_iter().map(group).collect();
    let first = groups.iter().flat_map(|group| group.iter().skip(1).map(|name| (*name, group[0]))).collect();
    Renames { groups, first }
});

/// A frame's name without the suffixes that compilers add (`.constprop.0`, `.isra.0`, `.part.0`, `.llvm.123`) and
/// without inferno's annotations (`_[k]`); `.cold` stays, as it is another piece of code.
pub fn base_name(frame: &str) -> &str {
    let mut name = frame;
    for annotation in ["_[k]", "_[i]", "_[j]"] {
        name = name.strip_suffix(annotation).unwrap_or(name);
    }
    if !name.contains('.') || is_cold(name) {
        return name;
    }
    while let Some(shorter) = strip_one(name) {
        name = shorter;
    }
    name
}

/// Whether this is the part of a function that the compiler moved out of the way (`.cold`, `.cold.12`).
pub fn is_cold(name: &str) -> bool {
    let name = match name.rsplit_once('.') {
        Some((head, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => head,
        _ => name,
    };
    name.ends_with(".cold")
}

/// [`base_name`], and for a `.cold` part that of the function it belongs to.
pub fn function_name(frame: &str) -> &str {
    let name = base_name(frame);
    match name.find(".cold") {
        Some(at) if is_cold(name) => base_name(&name[..at]),
        _ => name,
    }
}

/// `name` without its last compiler suffix, if it has one.
fn strip_one(name: &str) -> Option<&str> {
    const KINDS: [&str; 5] = [".constprop", ".isra", ".part", ".llvm", ".lto_priv"];
    const BARE: [&str; 2] = [".localalias", ".clone"];
    if let Some((head, number)) = name.rsplit_once('.')
        && !head.is_empty()
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        let function = KINDS.iter().find_map(|kind| head.strip_suffix(kind)).unwrap_or(head);
        return (!function.is_empty()).then_some(function);
    }
    KINDS.iter().chain(&BARE).find_map(|kind| name.strip_suffix(kind)).filter(|head| !head.is_empty())
}

/// One name for a function that kernels renamed: `pipe_write` for `anon_pipe_write`, `__alloc_pages` for
/// `__alloc_frozen_pages_noprof`; the base name itself where nothing is known of a rename.
pub fn canonical(frame: &str) -> &str {
    let name = base_name(frame);
    match RENAMES.first.get(name) {
        Some(first) => first,
        // 6.10 gave every allocating function this suffix when it added allocation profiling.
        None => name.strip_suffix("_noprof").filter(|rest| !rest.is_empty()).unwrap_or(name),
    }
}

/// All names that [`canonical`] brings to the same one, that one first; empty where it knows of no rename.
pub fn names_of(frame: &str) -> &'static [&'static str] {
    let name = canonical(frame);
    RENAMES.groups.iter().find(|group| group[0] == name).map_or(&[], Vec::as_slice)
}
