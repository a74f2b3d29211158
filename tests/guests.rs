//! Real guests: each kernel boots, answers, and repeats itself; failures are reported in time, and nothing remains.

use crate::common::{
    self, binary, children, guest, guest_with_programs, is_alive, job, kernel, listing, pipeprof, wait_until,
};
use pipeprof::vm::job::GuestFacts;
use pipeprof::vm::{GuestOptions, Job, Kernel, run_job};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// An upper limit for busy machines; without the limit under test, each test would take longer.
const LATE: Duration = Duration::from_secs(100);

/// The error of a guest that must fail, and the time until then.
fn failure(options: &GuestOptions, job: &Job) -> (String, Duration) {
    let begun = Instant::now();
    let error = run_job(options, job).expect_err("a guest that fails");
    (format!("{error:#}"), begun.elapsed())
}

fn facts(options: &GuestOptions) -> (GuestFacts, String) {
    let reply = run_job(options, &Job::Facts).expect("facts");
    assert_eq!(reply.release, options.kernel.release);
    (reply.parse().expect("facts"), reply.console)
}

#[test]
#[ignore = "boots guests: make test"]
fn every_kernel_boots_with_what_collectors_need() {
    for series in common::SERIES {
        // Two CPUs: QEMU 7.2 needs help to bring up the second.
        let (facts, _) = facts(&GuestOptions { cpus: 2, ..guest(series) });
        assert_eq!(facts.cpus, 2, "{series}");
        assert!(facts.mount_errors.is_empty(), "{series}: {:?}", facts.mount_errors);
        assert!(facts.controllers.contains("memory"), "{series}: {}", facts.controllers);
        assert!(facts.clock_source.starts_with("tsc"), "{series}: {}", facts.clock_source);
        assert!(facts.memory_kib > 900 << 10, "{series}: {} KiB", facts.memory_kib);
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn an_emulated_guest_repeats_itself_with_two_cpus_too() {
    let options =
        GuestOptions { cpus: 2, memory_mib: 512, append: vec!["psi=0".into()], snapshot: false, ..guest("6.1") };
    let (first, first_console) = facts(&options);
    let (second, second_console) = facts(&options);
    assert_eq!(first.cpus, 2);
    assert!(first.command_line.ends_with("psi=0"), "{}", first.command_line);
    assert!(first.memory_kib < 512 << 10);
    assert_eq!(first, second);
    assert_eq!(first_console, second_console);
}

#[test]
#[ignore = "boots guests: make test"]
fn long_answers_arrive_whole() {
    // Hard to compress: unlike a profile, and the worst case for the port.
    let mut state = 1_u32;
    let text: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + (state >> 24) as u8 % 90)
    })
    .take(300_000)
    .collect();
    let reply = run_job(&guest("6.1"), &Job::Echo(text.clone())).expect("an echo");
    assert!(reply.body == text.as_bytes());
    assert!(reply.emulator.version.contains("version"), "{}", reply.emulator.version);
    assert!(reply.emulator.arguments.iter().all(|argument| !argument.contains("pipeprof-guest-")));
}

#[test]
#[ignore = "boots guests: make test"]
fn errors_and_ends_of_the_program_are_reported_as_such() {
    let options = guest("6.1");
    let (error, _) = failure(&options, &job(&["flamegraph", "/nonexistent"]));
    assert_eq!(error, format!("in the guest ({}): /nonexistent: file does not exist", options.kernel.release));
    let (error, _) = failure(&guest_with_programs("6.1"), &job(&["restart"]));
    assert!(error.contains("ended without an answer; its last lines:"), "{error}");
}

#[test]
#[ignore = "boots guests: make test"]
fn a_kernel_panic_is_reported_with_the_last_lines() {
    let options = GuestOptions { append: vec!["rdinit=/nonexistent".into()], ..guest("6.1") };
    let (error, _) = failure(&options, &Job::Facts);
    let first = error.lines().next().unwrap_or_default();
    assert!(first.contains("Kernel panic - not syncing"), "{error}");
    assert!((5..20).contains(&error.lines().count()), "{error}");
    // This kernel would wait forever after its panic.
    let options = GuestOptions { append: vec!["rdinit=/nonexistent panic=0".into()], ..guest("6.1") };
    let (again, _) = failure(&options, &Job::Facts);
    assert!(again.contains("Kernel panic - not syncing"), "{again}");
}

#[test]
#[ignore = "boots guests: make test"]
fn a_guest_that_hangs_is_ended_in_time() {
    let options = GuestOptions { time_limit: Duration::from_secs(1), ..guest("6.1") };
    let (error, _) = failure(&options, &job(&["run", "--collect", "none", "--duration", "1h"]));
    assert!(error.contains("did not finish within 1 s") && error.contains("--time-limit"), "{error}");
    let options = GuestOptions { boot_limit: Duration::from_millis(200), snapshot: false, ..guest("6.1") };
    let (error, took) = failure(&options, &Job::Facts);
    assert!(error.contains("did not reach init within 0.2 s") && error.contains("--boot-limit"), "{error}");
    assert!(took < LATE, "{took:?}");
}

#[test]
#[ignore = "boots guests: make test"]
fn too_little_memory_is_an_error_in_time() {
    let options = GuestOptions { memory_mib: 40, boot_limit: Duration::from_secs(30), ..guest("6.1") };
    let (error, _) = failure(&options, &Job::Facts);
    assert!(error.contains("--memory"), "{error}");
}

#[test]
#[ignore = "boots guests: make test"]
fn files_that_are_not_kernels_are_rejected_or_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    let whole = std::fs::read(kernel("6.1").image).expect("an image");
    let expectations = [
        (write("text", b"hello"), "neither a bzImage nor an arm64 Image"),
        (write("elf", b"\x7fELF"), "give arch/x86/boot/bzImage"),
        (write("short", &whole[..whole.len() / 2]), "is truncated"),
        (folder.path().join("nothing").to_str().expect("a path").to_owned(), "file does not exist"),
        ("4.4".to_owned(), "pipeprof kernel fetch 4.4"),
        ("../x.deb".to_owned(), "file does not exist"),
        (write("bad.deb", b"!<arch>\nx"), "not a complete Debian package"),
    ];
    for (name, says) in expectations {
        let error = format!("{:#}", Kernel::find(&name).expect_err("no kernel"));
        assert!(error.contains(says) && error.lines().count() == 1, "{name}: {error}");
    }
    // They have the header of an image, but no code, or only a jump to itself. Silence ends that one before its limit.
    let setup = 512 * (usize::from(whole[0x1f1]) + 1);
    let (mut hollow, mut endless) = (whole.clone(), whole);
    hollow[0x1_0000..].fill(0);
    endless[setup..].chunks_exact_mut(2).for_each(|jump| jump.copy_from_slice(&[0xeb, 0xfe]));
    for (name, image, limit, says) in [
        ("hollow", hollow, 3, "it printed nothing"),
        ("endless", endless, 60, "did not reach init, and has printed nothing for 10 s"),
    ] {
        let kernel = Kernel::find(&write(name, &image)).expect("a header");
        let boot_limit = Duration::from_secs(limit);
        let (error, took) =
            failure(&GuestOptions { init: binary(), boot_limit, ..GuestOptions::of(kernel) }, &Job::Facts);
        assert!(error.contains(says), "{error}");
        assert!(took < LATE, "{took:?}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn bad_flags_of_qemu_and_no_qemu_are_one_line() {
    let options = GuestOptions { cpu: Some("nonsense".into()), ..guest("6.1") };
    let (error, _) = failure(&options, &Job::Facts);
    assert!(error.contains("QEMU failed:") && error.contains("nonsense"), "{error}");
    let output = pipeprof(&["kernel", "boot", &options.kernel.release])
        .env("PIPEPROF_QEMU", "/nonexistent/qemu")
        .output()
        .expect("pipeprof");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("cannot start /nonexistent/qemu: install QEMU"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// A controller whose guest never ends, with its temporary files in `folder`, and the guest's process.
fn endless(folder: &Path) -> (Child, u32) {
    let release = kernel("6.1").release;
    // No init, and a kernel that does not reset after its panic.
    let mut controller = pipeprof(&["kernel", "boot", &release, "--append", "rdinit=/nonexistent panic=0"])
        .env("TMPDIR", folder)
        .stderr(Stdio::piped())
        .spawn()
        .expect("pipeprof");
    let found = wait_until(LATE, || !qemus(controller.id()).is_empty());
    if !found {
        let _ = controller.kill();
        panic!("no QEMU was started");
    }
    let qemu = qemus(controller.id())[0];
    (controller, qemu)
}

fn qemus(parent: u32) -> Vec<u32> {
    let is_qemu = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
    };
    // Wait for the guest's own arguments: the `qemu --version` of the start has ended.
    let boots = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.len() > 200);
    children(parent).into_iter().filter(|pid| is_qemu(pid) && boots(pid)).collect()
}

#[test]
#[ignore = "boots guests: make test"]
fn a_killed_controller_leaves_no_guest_and_the_next_start_cleans_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut controller, qemu) = endless(folder.path());
    assert!(is_alive(qemu));
    controller.kill().expect("SIGKILL");
    controller.wait().expect("its end");
    assert!(wait_until(LATE, || !is_alive(qemu)), "QEMU {qemu} survived");
    assert_eq!(listing(folder.path()).len(), 1, "{:?}", listing(folder.path()));
    let (mut controller, qemu) = endless(folder.path());
    // Its own folder, and no other.
    assert_eq!(listing(folder.path()).len(), 1, "{:?}", listing(folder.path()));
    let begun = Instant::now();
    // SAFETY: a signal to a child that has not been waited for.
    unsafe { libc::kill(controller.id().cast_signed(), libc::SIGINT) };
    let status = controller.wait().expect("its end");
    assert!(begun.elapsed() < LATE);
    assert_eq!(status.code(), Some(128 + libc::SIGINT));
    assert!(wait_until(LATE, || !is_alive(qemu)), "QEMU {qemu} survived");
    assert!(listing(folder.path()).is_empty(), "{:?}", listing(folder.path()));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut controller.stderr.take().expect("stderr"), &mut said).expect("stderr");
    assert!(said.contains("removed temporary files of killed runs (1)"), "{said}");
    assert!(said.contains("interrupted"), "{said}");
}
