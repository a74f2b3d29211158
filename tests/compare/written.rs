//! What is written of a comparison: names that try to be markup, mails, and pages.

use super::*;

fn hostile() -> (Outcome, Outcome) {
    const EVIL: &str = "<script>alert(1)</script>\"'`&{{1234567*3}}";
    let stack = format!("{EVIL};write;entry_SYSCALL_64_after_hwframe;do_syscall_64;{EVIL};pipe_write");
    let mut a = counted(&format!("6.1-{EVIL}"), EVIL, &[(&stack, 100_000)], &[(&stack, 7)]);
    let mut b = counted(&format!("6.2-{EVIL}"), EVIL, &[(&stack, 120_000)], &[(&stack, 7)]);
    for outcome in [&mut a, &mut b] {
        outcome.document.kernel.command_line =
            format!("init=/{EVIL} \u{1b}[31m ``` {}", outcome.document.kernel.release);
        outcome.document.warnings.push(Warning { code: WarningCode::Busy, message: EVIL.into(), action: EVIL.into() });
        outcome.document.command = EVIL.into();
    }
    (a, b)
}

#[test]
fn hostile_strings_stay_text() {
    let (a, b) = hostile();
    let options = CompareOptions { command: "<script>alert(2)</script>".into(), ..CompareOptions::default() };
    let compared = compare(&[input(a), input(b)], &options).unwrap();
    let page = html::render(&compared).unwrap();
    assert!(!page.contains("<script>alert"), "markup got through");
    assert!(!page.contains("3703701"), "a template ran inside a value");
    assert!(page.contains("&lt;script&gt;alert(1)"));
    let text = wide(&compared.comparison);
    assert!(!text.contains('\u{1b}'), "an escape sequence reached the terminal");
    let mail = markdown::render(&compared.comparison);
    assert!(!mail.contains('\u{1b}'));
    let fences = mail.lines().filter(|line| line.starts_with("```")).count();
    assert_eq!(fences % 2, 0, "a code block was broken up");
    let mut inside = false;
    for line in mail.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            assert!(!line.contains("<script>"), "{line}");
        }
    }
}

#[test]
fn the_mail_keeps_to_78_columns() {
    let (a, b) = hostile();
    for outcomes in [vec![older(), newer()], vec![a, b], vec![older(), older()]] {
        let mail = markdown::render(&of(outcomes).unwrap().comparison);
        for line in mail.lines() {
            assert!(line.chars().count() <= markdown::WIDTH, "{}: {line}", line.chars().count());
        }
    }
}

#[test]
fn the_page_is_one_file_without_network() {
    let page = html::render(&of(vec![older(), newer(), newer()]).unwrap()).unwrap();
    for reference in ["src=\"http", "href=\"http", "url(http", "@import", "<link", "<script src"] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("<svg class=\"chart\""));
}

#[test]
fn equal_runs_give_equal_reports() {
    let page = || html::render(&of(vec![older(), newer()]).unwrap()).unwrap();
    assert_eq!(page(), page());
}
