//! Names of one function: compiler suffixes, and renames between kernels.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Functions that kernels renamed, or split so that the work is now done under another name. The first name stands
/// for all; where the articles name the function, it is theirs.
const RENAMES: &[&[&str]] = &[
    // After 6.14; FIFOs have a wrapper around it, fifo_pipe_*.
    &["pipe_write", "anon_pipe_write"],
    &["pipe_read", "anon_pipe_read"],
    // 5.13, 6.10 (allocation profiling), 6.14 (frozen pages).
    &["__alloc_pages", "__alloc_pages_nodemask", "__alloc_pages_noprof", "__alloc_frozen_pages_noprof"],
    &["alloc_pages", "alloc_pages_current", "alloc_pages_noprof"],
    // Which of them runs depends on the CPU's flags, not on the kernel.
    &["clear_page", "clear_page_erms", "clear_page_rep", "clear_page_orig", "clear_pages", "__clear_pages_unrolled"],
    &["free_unref_page", "free_frozen_pages", "__free_frozen_pages"],
    &["free_unref_page_commit", "free_frozen_page_commit"],
    &["free_unref_page_list", "free_unref_folios"],
    // 5.16 and 5.17: pages became folios.
    &["__folio_put", "__put_page"],
    &["uncharge_folio", "uncharge_page"],
    &["try_grab_folio", "try_grab_compound_head", "try_grab_folio_fast"],
    &["__memcg_kmem_charge", "obj_cgroup_charge_pages"],
    &["__memcg_kmem_uncharge", "obj_cgroup_uncharge_pages"],
    &["try_charge_memcg", "try_charge"],
    // 6.0
    &["iov_iter_get_pages2", "iov_iter_get_pages"],
    &["_copy_from_iter", "copy_page_from_iter_iovec"],
    &["_copy_to_iter", "copy_page_to_iter_iovec"],
    // 6.4; before, the CPU's flags chose one of three.
    &[
        "copy_user_enhanced_fast_string",
        "copy_user_generic_string",
        "copy_user_generic_unrolled",
        "copy_user_fast_string",
        "rep_movs_alternative",
    ],
    // 6.10: gup_fast_*.
    &["internal_get_user_pages_fast", "gup_fast_fallback"],
    &["lockless_pages_from_mm", "gup_fast"],
    &["gup_pgd_range", "gup_fast_pgd_range"],
    &["gup_pud_range", "gup_fast_pud_range"],
    &["gup_pmd_range", "gup_fast_pmd_range"],
    &["gup_pte_range", "gup_fast_pte_range"],
    &["gup_huge_pmd", "gup_fast_pmd_leaf"],
    &["__do_sys_vmsplice", "__x64_sys_vmsplice", "__se_sys_vmsplice"],
    &["__do_sys_splice", "__x64_sys_splice", "__se_sys_splice"],
    &["do_splice_to", "do_splice_read"],
    &["__fdget_pos", "fdget_pos"],
    &["__fdget", "fdget"],
    &["scheduler_tick", "sched_tick"],
    &["tick_sched_timer", "tick_nohz_handler", "tick_nohz_highres_handler"],
    &["__do_softirq", "handle_softirqs"],
    &["kretprobe_trampoline", "__kretprobe_trampoline", "arch_rethook_trampoline"],
];

/// A frame's name without the suffixes that compilers add (`.constprop.0`, `.isra.0`, `.part.0`, `.llvm.123`) and
/// without inferno's annotations (`_[k]`); `.cold` stays, as it is another piece of code.
#[must_use]
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
#[must_use]
pub fn is_cold(name: &str) -> bool {
    let name = match name.rsplit_once('.') {
        Some((head, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => head,
        _ => name,
    };
    name.ends_with(".cold")
}

/// [`base_name`], and for a `.cold` part that of the function it belongs to.
#[must_use]
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
#[must_use]
pub fn canonical(frame: &str) -> &str {
    static CANONICAL: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    let table = CANONICAL
        .get_or_init(|| RENAMES.iter().flat_map(|group| group.iter().skip(1).map(|name| (*name, group[0]))).collect());
    let name = base_name(frame);
    match table.get(name) {
        Some(first) => first,
        // 6.10 gave every allocating function this suffix when it added allocation profiling.
        None => name.strip_suffix("_noprof").filter(|rest| !rest.is_empty()).unwrap_or(name),
    }
}

/// All names that [`canonical`] brings to the same one, that one first; empty where it knows of no rename.
#[must_use]
pub fn names_of(frame: &str) -> &'static [&'static str] {
    let name = canonical(frame);
    RENAMES.iter().find(|group| group[0] == name).copied().unwrap_or(&[])
}
