//! On lists recorded from Debian's kernels (tests/data/kallsyms-*.txt, traceable-*.txt).

use super::*;
use crate::kernel::reach::{Listed, traceable_functions};
use crate::kernel::symbols::Symbols;
use crate::roles::{Pattern, RoleId, by_id};

macro_rules! kernel {
    ($version:literal) => {
        (
            Symbols::read(&include_bytes!(concat!("../../tests/data/kallsyms-", $version, ".txt"))[..]).unwrap(),
            Listed {
                traceable: Some(traceable_functions(include_str!(concat!(
                    "../../tests/data/traceable-",
                    $version,
                    ".txt"
                )))),
                blacklisted: None,
            },
        )
    };
}

fn kernels() -> [(&'static str, (Symbols, Listed)); 4] {
    [("5.10", kernel!("5.10")), ("6.1", kernel!("6.1")), ("6.12", kernel!("6.12")), ("7.2", kernel!("7.2"))]
}

fn resolution(kernel: &(Symbols, Listed), role: RoleId) -> Resolution {
    resolve(&kernel.0, &kernel.1).into_iter().find(|resolution| resolution.role == role).unwrap()
}

#[test]
fn the_four_named_targets_resolve_everywhere() {
    let expected = [
        ("5.10", ["pipe_write", "__alloc_pages_nodemask", "__mutex_lock.constprop.0", "iov_iter_get_pages"]),
        ("6.1", ["pipe_write", "__alloc_pages", "__mutex_lock.constprop.0", "iov_iter_get_pages2"]),
        ("6.12", ["pipe_write", "__alloc_pages_noprof", "__mutex_lock.constprop.0", "iov_iter_get_pages2"]),
        ("7.2", ["anon_pipe_write", "__alloc_frozen_pages_noprof", "__mutex_lock.constprop.0", "iov_iter_get_pages2"]),
    ];
    for ((version, kernel), (same, symbols)) in kernels().iter().zip(expected) {
        assert_eq!(*version, same);
        for (role, symbol) in NAMED_TARGETS.iter().zip(symbols) {
            let found = resolution(kernel, *role);
            assert_eq!(found.symbol.as_deref(), Some(symbol), "{role} on {version}");
            let kprobe = found.reach.contains(&Reach::Kprobe);
            assert_eq!(kprobe, *role != RoleId::UserPages, "{role} on {version}: {:?}", found.why_not);
            assert!(found.reach.contains(&Reach::HardwareBreakpoint), "{role} on {version}");
        }
    }
}

#[test]
fn no_role_with_candidates_is_lost_but_those_that_a_kernel_has_not() {
    for (version, kernel) in &kernels() {
        for found in resolve(&kernel.0, &kernel.1) {
            // These lists of functions were made before that role.
            if !by_id(found.role).candidates.is_empty() && found.role != RoleId::IoUring {
                assert!(found.symbol.is_some(), "{} on {version}: {:?}", found.role, found.rejected);
                assert_ne!(found.reach, [Reach::SamplingOnly], "{} on {version}", found.role);
            }
        }
    }
}

#[test]
fn the_trap_of_frozen_pages() {
    let [.., (_, kernel)] = kernels();
    let alloc = resolution(&kernel, RoleId::PageAlloc);
    assert_eq!(alloc.symbol.as_deref(), Some("__alloc_frozen_pages_noprof"));
    assert!(alloc.rejected.contains(&"__alloc_pages: not in this kernel".to_owned()), "{:?}", alloc.rejected);
    assert!(alloc.rejected.contains(&"__alloc_pages_noprof: not needed".to_owned()), "{:?}", alloc.rejected);
}

#[test]
fn ambiguous_cold_and_partial_functions_are_refused() {
    let text = "1000 t pipe_write\n2000 t pipe_write\n3000 t anon_pipe_write.cold\n4000 t pipe_read.part.0\n";
    let symbols = Symbols::read(text.as_bytes()).unwrap();
    let kernel = (symbols, Listed::default());
    let write = resolution(&kernel, RoleId::PipeWrite);
    assert_eq!(write.symbol, None);
    assert_eq!(write.rejected, ["anon_pipe_write: not in this kernel", "pipe_write: 2 functions have this name"]);
    assert_eq!(resolution(&kernel, RoleId::PipeRead).rejected[1], "pipe_read: inlined, except for a part");
}

#[test]
fn hidden_addresses_close_breakpoints_only() {
    let symbols = Symbols::read(&b"0 T pipe_write\n0 T iov_iter_get_pages2\n"[..]).unwrap();
    let kernel = (symbols, Listed { traceable: Some(["pipe_write".to_owned()].into()), blacklisted: None });
    let write = resolution(&kernel, RoleId::PipeWrite);
    assert_eq!(write.reach, [Reach::Kprobe, Reach::Fentry]);
    let pages = resolution(&kernel, RoleId::UserPages);
    assert_eq!((pages.symbol.as_deref(), pages.reach), (Some("iov_iter_get_pages2"), vec![Reach::SamplingOnly]));
    assert!(pages.why_not[0].starts_with("kprobe: notrace"), "{:?}", pages.why_not);
}

/// Each function named by a frame exists in some kernel: a typing error would be a name that none of the recorded
/// kernels has. Few names are only inlined, older or newer.
#[test]
fn most_names_of_frames_exist_somewhere() {
    let kernels = kernels();
    let names: Vec<_> = all().iter().flat_map(|role| role.frames).collect();
    let missing: Vec<_> = names
        .iter()
        .filter_map(|pattern| match pattern {
            Pattern::Exact(name) => Some(*name),
            Pattern::Prefix(_) => None,
        })
        .filter(|name| kernels.iter().all(|(_, (symbols, _))| symbols.functions(name).is_empty()))
        .collect();
    assert!(missing.len() * 4 < names.len(), "{} of {}: {missing:?}", missing.len(), names.len());
}

#[test]
fn resolutions_travel_in_a_comment_of_the_list() {
    let (_, kernel) = &kernels()[2];
    let resolutions = resolve(&kernel.0, &kernel.1);
    let list = format!("# a header\n{}ffffffff81000000 T pipe_write\n", to_comment(&resolutions));
    assert_eq!(from_comment(&list), Some(resolutions));
    assert_eq!(Symbols::read(list.as_bytes()).unwrap().len(), 1);
    assert_eq!(from_comment(&list.replace(&rules(), "0-00000000")), None, "of other roles");
    assert_eq!(from_comment("ffffffff81000000 T pipe_write\n# roles x []"), None);
}

proptest::proptest! {
    #[test]
    fn what_is_written_of_roles_is_read(texts: Vec<String>, hits: Option<u64>, symbol: Option<String>, all: bool) {
        let mut resolution = Resolution {
            role: RoleId::PipeWrite, article_name: texts.concat(), symbol, reach: vec![Reach::Kprobe],
            why_not: texts.clone(), rejected: texts, hits,
        };
        if all {
            resolution.reach.extend([Reach::Fentry, Reach::HardwareBreakpoint, Reach::SamplingOnly]);
        }
        let list = format!("# other\n{}ffffffff81000000 T _text\n", to_comment(std::slice::from_ref(&resolution)));
        proptest::prop_assert_eq!(from_comment(&list), Some(vec![resolution]));
    }
}
