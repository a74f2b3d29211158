use super::*;
use crate::util::text::is_hidden;
use std::collections::{BTreeMap, HashSet};

const WRITE: &str = include_str!("../reproduce/articles/santos_zeroes_pv.folded");
const VMSPLICE: &str = include_str!("../reproduce/articles/santos_vmsplice.folded");

fn role_of(stack: &str) -> RoleId {
    let facts: Vec<FrameFacts> = stack.split(';').map(FrameFacts::of).collect();
    let role = of_stack(stack.split(';')).0.id;
    assert_eq!(place(facts.iter().copied(), None).role.id, role, "{stack}");
    role
}

#[test]
fn each_id_has_a_role_with_its_own_name_and_colour() {
    let stored: tables::Stored = toml::from_str(include_str!("roles.toml")).unwrap();
    assert_eq!(stored.role.iter().map(|role| role.id).collect::<Vec<_>>(), RoleId::ALL, "in the order of id.rs");
    let mut titles = HashSet::new();
    let mut colours = HashSet::new();
    for role in all() {
        assert!(titles.insert(role.title), "two titles {}", role.title);
        assert!(colours.insert(role.colour), "{} shares its colour", role.id);
        let text = role.id.as_str();
        assert!(text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{text} is not in kebab case");
        assert_eq!((by_id(role.id), text.parse()), (role, Ok(role.id)));
        assert!(!role.doing.is_empty() && !role.doing.ends_with('.'), "{text}: no phrase");
        assert!(role.about.ends_with('.'), "{}: no sentence", role.id);
    }
}

#[test]
fn no_frame_stands_in_two_roles() {
    let mut seen: BTreeMap<&str, RoleId> = BTreeMap::new();
    for role in all() {
        for pattern in role.frames {
            let (Pattern::Exact(name) | Pattern::Prefix(name)) = *pattern;
            if let Some(other) = seen.insert(name, role.id) {
                panic!("{name} is in {other} and in {}", role.id);
            }
            assert_eq!(function_name(name), name, "patterns are matched without suffixes");
        }
    }
}

#[test]
fn every_candidate_is_booked_to_its_own_role() {
    for role in all() {
        for candidate in role.candidates {
            let found = of_frame(candidate).map(|role| role.id);
            let expected = if role.id == RoleId::MutexSleep { RoleId::Scheduler } else { role.id };
            assert_eq!(found, Some(expected), "{candidate}");
        }
    }
}

/// WCAG 2 contrast with black text: (L + 0.05) / 0.05, with L the relative luminance.
#[test]
fn black_text_is_readable_on_every_colour() {
    for role in all() {
        assert!(role.colour.len() == 7 && role.colour.starts_with('#'), "{}", role.id);
        let luminance = crate::util::colour::luminance(role.colour);
        assert!((luminance + 0.05) / 0.05 >= 7.0, "{} is too dark for black text", role.id);
    }
}

#[test]
fn an_id_is_its_text_in_documents() {
    for &id in RoleId::ALL {
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<RoleId>(&json).unwrap(), id);
    }
    assert!(RoleId::PageFault < RoleId::PageFree && RoleId::CopyIn < RoleId::User, "alphabetical");
    let error = serde_json::from_str::<RoleId>("\"page-aloc\"").unwrap_err().to_string();
    assert!(error.starts_with("unknown role \"page-aloc\""), "{error}");
    let hostile = "\u{1b}[2J".parse::<RoleId>().unwrap_err();
    assert!(!hostile.chars().any(is_hidden), "{hostile:?}");
}

#[test]
fn suffixes() {
    for (frame, base, function) in [
        ("pipe_write", "pipe_write", "pipe_write"),
        ("__mutex_lock.constprop.0", "__mutex_lock", "__mutex_lock"),
        ("splice_from_pipe_next.part.0", "splice_from_pipe_next", "splice_from_pipe_next"),
        ("subbuf_splice_actor.constprop.0.isra.0", "subbuf_splice_actor", "subbuf_splice_actor"),
        ("foo.llvm.1234567890", "foo", "foo"),
        ("foo.123", "foo", "foo"),
        ("rmqueue.cold", "rmqueue.cold", "rmqueue"),
        ("rmqueue.cold.12", "rmqueue.cold.12", "rmqueue"),
        (
            "__alloc_pages_slowpath.constprop.0.cold",
            "__alloc_pages_slowpath.constprop.0.cold",
            "__alloc_pages_slowpath",
        ),
        ("pipe_write_[k]", "pipe_write", "pipe_write"),
        ("finish_task_switch.isra.0_[k]", "finish_task_switch", "finish_task_switch"),
        (".constprop.0", ".constprop.0", ".constprop.0"),
        ("", "", ""),
    ] {
        assert_eq!(base_name(frame), base, "{frame}");
        assert_eq!(function_name(frame), function, "{frame}");
    }
}

#[test]
fn renames() {
    for (old, new) in [
        ("pipe_write", "anon_pipe_write"),
        ("__alloc_pages", "__alloc_frozen_pages_noprof"),
        ("__alloc_pages_nodemask", "__alloc_pages_noprof"),
        ("iov_iter_get_pages", "iov_iter_get_pages2"),
        ("internal_get_user_pages_fast", "gup_fast_fallback"),
        ("free_unref_page", "free_frozen_pages"),
        ("copy_user_enhanced_fast_string", "rep_movs_alternative"),
        ("__kmalloc", "__kmalloc_noprof"),
    ] {
        assert_eq!(canonical(old), canonical(new), "{old} and {new}");
    }
    assert_eq!(canonical("anon_pipe_write"), "pipe_write");
    assert_eq!(canonical("__mutex_lock.constprop.0"), "__mutex_lock");
    assert_eq!(canonical("unheard_of"), "unheard_of");
    assert_ne!(canonical("alloc_pages"), canonical("__alloc_pages"));
    assert!(names_of("__alloc_pages_noprof").contains(&"__alloc_pages_nodemask"));
}

#[test]
fn a_stack_goes_to_its_deepest_frame_with_a_role() {
    let at = |tail: &str| role_of(&format!("main;write;entry_SYSCALL_64;do_syscall_64;ksys_write;vfs_write;{tail}"));
    assert_eq!(at("pipe_write"), RoleId::PipeWrite);
    assert_eq!(at("pipe_write;_raw_spin_lock_irq"), RoleId::PipeWrite);
    assert_eq!(
        at("pipe_write;__alloc_pages;get_page_from_freelist;rmqueue_bulk;__list_del_entry_valid"),
        RoleId::PageAlloc
    );
    assert_eq!(at("pipe_write;__alloc_pages;__memcg_kmem_charge_page;memcg_account_kmem"), RoleId::MemcgCharge);
    assert_eq!(at("pipe_write;copy_page_from_iter;_copy_from_iter;rep_movs_alternative"), RoleId::CopyIn);
    assert_eq!(at("pipe_write;__mutex_lock.constprop.0"), RoleId::MutexSlow);
    assert_eq!(at("pipe_write;__mutex_lock.constprop.0;osq_lock"), RoleId::MutexSpin);
    assert_eq!(at("pipe_write;schedule;__schedule;update_rq_clock"), RoleId::Scheduler);
    assert_eq!(at("rw_verify_area;security_file_permission;apparmor_file_permission;aa_file_perm"), RoleId::Lsm);
    assert_eq!(at("pipe_write;__x86_return_thunk"), RoleId::PipeWrite);
    assert_eq!(at("pipe_write;asm_sysvec_apic_timer_interrupt;sysvec_apic_timer_interrupt;foo"), RoleId::Irq);
}

#[test]
fn sleeping_on_the_mutex_is_apart_from_spinning_and_from_other_sleeps() {
    let sleep = "w;entry_SYSCALL_64;pipe_write;__mutex_lock.constprop.0;schedule_preempt_disabled;schedule;__schedule";
    assert_eq!(role_of(sleep), RoleId::MutexSleep);
    assert_eq!(of_stack(sleep.split(';')).1, "__schedule");
    assert_eq!(role_of("w;entry_SYSCALL_64;pipe_write;schedule;__schedule"), RoleId::Scheduler);
    assert_eq!(role_of(&format!("{sleep};psi_task_switch")), RoleId::Psi);
}

#[test]
fn reading_the_source_is_not_copying_out() {
    let source = "w;entry_SYSCALL_64;do_splice;generic_file_splice_read;shmem_file_read_iter;copy_page_to_iter";
    assert_eq!(of_stack(source.split(';')), (by_id(RoleId::Device), "copy_page_to_iter"));
    assert_eq!(role_of(&format!("{source};sanity")), RoleId::Device);
    assert_eq!(role_of("w;entry_SYSCALL_64;vfs_read;pipe_read;copy_page_to_iter;_copy_to_iter"), RoleId::CopyOut);
}

#[test]
fn user_code_and_unknown_kernel_code() {
    assert_eq!(of_stack("main;schedule;pipe_write".split(';')), (by_id(RoleId::User), "pipe_write"));
    assert_eq!(role_of("main"), RoleId::User);
    assert_eq!(role_of(""), RoleId::User);
    assert_eq!(of_stack("main;[kernel];some_driver".split(';')), (by_id(RoleId::OtherKernel), "some_driver"));
    assert_eq!(role_of("main;mmap;entry_SYSCALL_64;do_syscall_64;__x64_sys_mmap;foo"), RoleId::OtherKernel);
    assert_eq!(role_of("main;write;entry_SYSCALL_64;do_syscall_64;__x64_sys_write"), RoleId::Vfs);
    assert_eq!(role_of("main;write_[j];pipe_write_[k];memset_[k]"), RoleId::PipeWrite);
}

/// `stack` with the frame that a tail call took away on 6.5 and newer kernels.
fn restored(stack: &str) -> String {
    let mut frames: Vec<&str> = stack.split(';').collect();
    newest().restore(&mut frames);
    frames.join(";")
}

/// The rule of 6.5 and newer kernels.
fn newest() -> TailCall {
    TailCall::of(std::iter::empty::<std::str::Split<'_, char>>())
}

/// The role of a sample of a kernel of 6.5 or newer, the frame that decided it, and whether it skidded.
fn sampled(stack: &str) -> (RoleId, &str, bool) {
    let tail_call = Some(newest());
    let placed = place(stack.split(';'), tail_call);
    let facts: Vec<FrameFacts> = stack.split(';').map(FrameFacts::of).collect();
    let by_facts = place(facts.iter().copied(), tail_call);
    assert_eq!((by_facts.role, by_facts.interrupts_off), (placed.role, placed.interrupts_off), "{stack}");
    assert_eq!(by_facts.frame, FrameFacts::of(placed.frame));
    (placed.role.id, placed.frame, placed.interrupts_off)
}

#[test]
fn time_with_interrupts_off_goes_to_the_caller() {
    let write = "w;entry_SYSCALL_64;pipe_write";
    let stack = format!("{write};__wake_up_common_lock;_raw_spin_unlock_irqrestore");
    assert_eq!(sampled(&stack), (RoleId::WakeUp, "__wake_up_common_lock", true));
    let deeper = format!("{stack};asm_sysvec_apic_timer_interrupt");
    assert_eq!(sampled(&deeper), (RoleId::Irq, "asm_sysvec_apic_timer_interrupt", false));
    let pages = format!("{write};__alloc_pages;get_page_from_freelist;rmqueue_bulk;_raw_spin_unlock_irqrestore");
    assert_eq!(sampled(&pages).0, RoleId::PageAlloc);
    let switch = format!("{write};schedule;__schedule;finish_task_switch.isra.0");
    assert_eq!(sampled(&switch), (RoleId::Scheduler, "__schedule", true));
    let mutex = format!("{write};__mutex_lock.constprop.0;schedule;__schedule;finish_task_switch");
    assert_eq!(sampled(&mutex).0, RoleId::MutexSleep);
    assert_eq!(sampled("main;_raw_spin_unlock_irq"), (RoleId::User, "_raw_spin_unlock_irq", false));
}

#[test]
fn a_caller_that_the_stack_does_not_show_is_unknown() {
    assert_eq!(sampled("w;entry_SYSCALL_64;do_syscall_64;_raw_spin_unlock_irq").0, RoleId::IrqOff);
    assert_eq!(sampled("w;[kernel];some_driver;_raw_spin_unlock_irq").0, RoleId::IrqOff);
    // This function has one role, whoever calls it.
    assert_eq!(sampled("w;[kernel];finish_task_switch.isra.0"), (RoleId::Scheduler, "finish_task_switch.isra.0", true));
}

#[test]
fn a_frame_that_a_tail_call_took_away_is_put_back() {
    let entry = "w;entry_SYSCALL_64;do_syscall_64";
    let visible = format!("{entry};pipe_write;__wake_up_common_lock;_raw_spin_unlock_irqrestore");
    // 5.10 and 6.1 release the lock in __wake_up_common_lock, whose frame is there; 6.12 and 7.2 do not have it.
    let (old, new) = (TailCall::of(std::iter::once(visible.split(';'))), newest());
    let bare = format!("{entry};anon_pipe_read;_raw_spin_unlock_irqrestore");
    let placed = |tail_call| {
        let placed = place(bare.split(';'), Some(tail_call));
        (placed.role.id, placed.frame)
    };
    assert_eq!(placed(new), (RoleId::WakeUp, "__wake_up_sync_key"));
    assert_eq!(placed(old), (RoleId::Wait, "finish_wait"));
    let whole = format!("{entry};anon_pipe_read;__wake_up_sync_key;_raw_spin_unlock_irqrestore");
    assert_eq!(restored(&bare), whole);
    assert_eq!(restored(&format!("{bare};asm_x")), format!("{whole};asm_x"));
    for text in ["pipe_wait_readable;_raw_spin_unlock_irqrestore", "pipe_write;_raw_spin_unlock_irq", "pipe_write"] {
        let same = format!("{entry};{text}");
        assert_eq!(restored(&same), same);
    }
    for same in [whole, visible] {
        assert_eq!(restored(&same), same);
        assert_eq!(sampled(&same).0, RoleId::WakeUp);
    }
}

/// Per cent of the weight that goes to each role.
fn shares(folded: &str) -> BTreeMap<RoleId, f64> {
    let mut weights: BTreeMap<RoleId, f64> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        *weights.entry(role_of(stack)).or_default() += weight.parse::<f64>().unwrap();
    }
    let total: f64 = weights.values().sum();
    weights.into_iter().map(|(role, weight)| (role, 100.0 * weight / total)).collect()
}

/// The article prints inclusive shares; a role's share is what remains without deeper roles.
#[test]
fn the_article_s_stacks_give_the_article_s_shares() {
    let write = shares(WRITE);
    let near = |share: f64, printed: f64| (share - printed).abs() < 0.3;
    // __alloc_pages 36.3, of which the charge has its own role; the role also has its caller alloc_pages, about 0.8.
    assert!(near(write[&RoleId::PageAlloc] + write[&RoleId::MemcgCharge] - 0.8, 36.3), "{write:?}");
    assert!(near(write[&RoleId::MutexSlow] + write[&RoleId::MutexSpin], 25.3), "{write:?}");
    assert!(near(write[&RoleId::CopyIn], 20.3), "{write:?}");
    let vmsplice = shares(VMSPLICE);
    assert!(near(vmsplice[&RoleId::MutexSlow] + vmsplice[&RoleId::MutexSpin], 36.8), "{vmsplice:?}");
    assert!(near(vmsplice[&RoleId::UserPages], 14.9), "{vmsplice:?}");
    // add_to_pipe 17.2 and import_iovec 6.5 are one role.
    assert!(vmsplice[&RoleId::PipeBuffers] > 17.2 + 6.5, "{vmsplice:?}");
    for shares in [&write, &vmsplice] {
        assert!(shares.get(&RoleId::OtherKernel).copied().unwrap_or(0.0) < 0.5, "{shares:?}");
    }
}
