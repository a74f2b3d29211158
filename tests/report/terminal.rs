use super::sample;
use pipeprof::profile::ProcessName;
use pipeprof::report::terminal::{Style, render};
use pipeprof::result::{Emulator, HeldCalls, LockKind, LockUse};
use pipeprof::roles::RoleId;

#[test]
fn a_sampled_run_on_hardware() {
    insta::assert_snapshot!(render(&sample::sampled_run().document, None, Style::PLAIN));
}

#[test]
fn an_exact_run_in_an_emulated_guest() {
    let mut document = sample::counted_run().document;
    let arguments = ["-machine", "pc", "-cpu", "qemu64", "-smp", "1"].map(str::to_owned).into();
    document.environment.emulator = Some(Emulator { version: "QEMU emulator version 7.2.22".to_owned(), arguments });
    let text = render(&document, None, Style::PLAIN);
    assert!(!text.contains("GiB/s"), "{text}");
    assert!(!text.contains(" ns"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn what_is_executed_under_the_mutex_is_printed() {
    let mut document = sample::counted_run().document;
    let calls = document.processes.of(ProcessName::WRITER).calls;
    let pages =
        HeldCalls { function: "__alloc_pages".to_owned(), role: RoleId::PageAlloc, held: 48 * calls, all: 56 * calls };
    document.locks = vec![LockUse {
        process: ProcessName::WRITER,
        lock: LockKind::Mutex,
        taken: calls,
        instructions: 12_345 * calls,
        without_scheduling: 12_300 * calls,
        unknown: 0,
        calls: vec![pages],
    }];
    let text = render(&document, None, Style::PLAIN);
    assert!(text.contains("Under the pipe's mutex") && text.contains("writer: 12,300 instructions, "), "{text}");
    assert!(text.contains("page allocation 48 of 56"), "{text}");
    document.locks[0].unknown = 7;
    assert!(render(&document, None, Style::PLAIN).contains("unknown: 7 instructions could not be followed"));
}

#[test]
fn emulation_shows_no_speed_even_where_the_document_has_one() {
    let mut document = sample::sampled_run().document;
    document.executed_on = pipeprof::result::ExecutedOn::Tcg;
    assert!(!render(&document, None, Style::PLAIN).contains("GiB/s"));
}

#[test]
fn narrow_terminals_are_not_overrun() {
    let text = render(&sample::sampled_run().document, None, Style { width: Some(72), colour: false });
    let tables = text.lines().filter(|line| line.contains(" %  ") && !line.contains("CI ["));
    for line in tables {
        assert!(line.chars().count() <= 72, "{line}");
    }
}

#[test]
fn very_narrow_terminals_lose_functions_before_shares() {
    let text = render(&sample::sampled_run().document, None, Style { width: Some(40), colour: false });
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" %  ") || line.ends_with(" %")).collect();
    assert!(rows.iter().any(|row| row.contains("wake-up")), "{text}");
    assert!(rows.iter().all(|row| !row.contains("__wake_up") && row.chars().count() <= 44), "{text}");
}

#[test]
fn no_escape_reaches_a_terminal_from_a_document() {
    let mut document = sample::sampled_run().document;
    let hostile = "\u{1b}[2Jx\u{7}".to_owned();
    document.mode.clone_from(&hostile);
    document.kernel.release.clone_from(&hostile);
    document.attribution.collector.clone_from(&hostile);
    document.attribution.processes.get_mut(ProcessName::WRITER).unwrap()[0].symbols = vec![hostile.clone()];
    document.functions[0].symbol.clone_from(&hostile);
    document.collectors[0].notes = vec![hostile.clone()];
    document.collectors[1].reason = Some(hostile.clone());
    document.warnings[0].message.clone_from(&hostile);
    let text = render(&document, None, Style::PLAIN);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn colours_are_used_only_on_request() {
    let document = sample::sampled_run().document;
    assert!(!render(&document, None, Style::PLAIN).contains('\u{1b}'));
    assert!(render(&document, None, Style { width: None, colour: true }).contains("\u{1b}[38;2;"));
}
