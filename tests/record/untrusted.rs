//! Names that a program may choose, and the rights that a recording needs.

use super::record_with;
use crate::common::{binary, copy_program, pipeprof};
use pipeprof::result::Document;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
#[ignore = "needs root: make test"]
fn names_cannot_change_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("ü\u{1b}[31m");
    copy_program(Path::new("/bin/cat"), &program);
    let hostile = record_with(&[program.to_str().unwrap(), "|", "wc", "-c"], b"12345");
    assert_eq!(hostile.stdout(), "5");
    assert!(!hostile.stderr().contains('\u{1b}') && hostile.stderr().contains("ü?[31m"), "{}", hostile.stderr());
}

#[test]
#[ignore = "needs root: make test"]
fn names_cannot_change_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let (program, target) = (folder.path().join("<b>`x"), folder.path().join("recording"));
    copy_program(Path::new("/bin/cat"), &program);
    let mut command = pipeprof(&["record", "--collect", "sample", "-o", target.to_str().unwrap(), "--"]);
    command.args([program.to_str().unwrap(), "|", "wc", "-c"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(target.join("record.html")).unwrap();
    assert!(page.contains("&lt;b&gt;`x") && !page.contains("<b>`x"), "{page}");
    assert!(
        page.contains("What its time was made of") && page.contains("Over time") && page.contains("Calls on pipes")
    );
}

/// A user without root records and samples by the capabilities of the program's file; what is recorded has none.
#[test]
#[ignore = "needs root: make test"]
fn three_capabilities_are_enough_and_stay_here() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    // Version 2, effective; CAP_SYSLOG (34), CAP_PERFMON (38) and CAP_BPF (39), in the upper words
    // (include/uapi/linux/capability.h, struct vfs_cap_data).
    let capabilities: [u32; 5] = [0x0200_0001, 0, 0, 1 << (34 - 32) | 1 << (38 - 32) | 1 << (39 - 32), 0];
    let folder = tempfile::tempdir().unwrap();
    let everybody = || std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everybody()).unwrap();
    let program = folder.path().join("pipeprof");
    copy_program(&binary(), &program);
    std::fs::set_permissions(&program, everybody()).unwrap();
    let bytes: Vec<u8> = capabilities.iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::fs::setxattr(&program, "security.capability", &bytes, rustix::fs::XattrFlags::empty()).unwrap();
    let line = "grep Cap /proc/self/status; grep CapPrm /proc/$PPID/status; head -c 30M /dev/zero | wc -c";
    let mut command = Command::new(&program);
    command.args(["record", "--collect", "sample", "-o", "out", "--", line]).current_dir(folder.path());
    let output = command.uid(65_534).gid(65_534).output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("out/result.json"));
    let recording: Document = serde_json::from_str(&text.unwrap_or_else(|error| panic!("{error}: {said}"))).unwrap();
    // Neither the program has them nor, once everything is attached, pipeprof. It keeps CAP_BPF on kernels before 5.19.
    let none = |set: &str| out.matches(&format!("{set}:\t0000000000000000")).count();
    assert_eq!(["CapInh", "CapPrm", "CapEff", "CapAmb"].map(none), [1, 2, 1, 1], "{out}");
    assert!(out.contains("31457280") && recording.channels.iter().any(|pipe| pipe.bytes() == 30 << 20), "{said}");
    let report = &recording.collectors[0];
    assert!(report.samples > 0 && !report.notes.iter().any(|note| note.contains("no names")), "{said}");
}
