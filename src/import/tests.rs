use super::*;
use crate::export::{Exported, format_named};
use crate::profile::ProcessName;
use crate::roles::{RoleId, Skid};
use std::collections::BTreeMap;

/// Lines as perf 6.1 prints them, with a command whose name has a space, an event that is not sampled, and one line
/// samples.
const SCRIPT: &str = "# ========
# os release : 6.1.0-56-cloud-amd64
# captured on    : Mon Nov 23 00:08:41 2026
# ========
#
dd 19770 [001] 56804.087587:     200040 cpu-clock: 
	ffffffff8162e4c8 copy_page_from_iter+0x138 ([kernel.kallsyms])
	ffffffff816b6c0c pipe_write+0x19c ([kernel.kallsyms])
	ffffffff821ecc51 do_syscall_64+0x71 ([kernel.kallsyms])
	ffffffff81000130 entry_SYSCALL_64_after_hwframe+0x76 ([kernel.kallsyms])
	           fddfd __GI___write+0x4d (/usr/lib/x86_64-linux-gnu/libc.so.6)

dd 19770 [001] 56804.087781:     200040 cpu-clock: 
	ffffffff8162e4c8 _raw_spin_unlock_irqrestore+0x13 ([kernel.kallsyms])
	ffffffff8162e4c8 __wake_up_common_lock+0x13 ([kernel.kallsyms])
	ffffffff816b6c0c pipe_write+0x19c ([kernel.kallsyms])
	           fddfd main+0x4d (/usr/bin/dd)

CPU 0/KVM 19751/19760 [000] 56804.087985:     200040 cpu-clock: 
	          986b75 [unknown] (/usr/bin/qemu-system-x86_64)

dd 19770 [001] 56804.087990:          1 sched:sched_switch: 
	ffffffff8162e4c8 __schedule+0x138 ([kernel.kallsyms])

";

fn command(profile: &ImportedProfile, name: &str) -> String {
    profile.commands[&ProcessName::new(name)].to_text()
}

#[test]
fn the_output_of_perf_script_is_folded_with_marks_where_the_kernel_begins() {
    let profile = parse(SCRIPT.as_bytes(), None).unwrap();
    assert_eq!((profile.format, profile.event.as_deref()), (ImportFormat::PerfScript, Some("cpu-clock")));
    assert_eq!(profile.release.as_deref(), Some("6.1.0-56-cloud-amd64"));
    assert_eq!(profile.other_events, BTreeMap::from([("sched".to_owned(), 1)]));
    assert_eq!(
        command(&profile, "dd"),
        "dd;__GI___write;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_write;copy_page_from_iter 1\n\
         dd;main;[kernel];pipe_write;__wake_up_common_lock;_raw_spin_unlock_irqrestore 1\n"
    );
    assert_eq!(command(&profile, "CPU_0_KVM"), "CPU_0_KVM;[qemu-system-x86_64] 1\n");
    assert_eq!(parse(SCRIPT.as_bytes(), Some("sched")).unwrap().commands.len(), 1);
    let error = parse(SCRIPT.as_bytes(), Some("cycles")).unwrap_err().to_string();
    assert_eq!(error, "--event cycles: the file has cpu-clock (3), sched (1)");
}

#[test]
fn the_rule_for_late_samples_follows_the_event() {
    let profile = parse(SCRIPT.as_bytes(), None).unwrap();
    assert_eq!(profile.skid(), Skid::CpuClock);
    let role = |skid| {
        let outcome = recording::outcome(&profile, "x", skid);
        let dd = outcome.document.attribution.of(ProcessName::new("dd"));
        dd.iter().map(|share| (share.role, share.weight)).collect::<Vec<_>>()
    };
    assert_eq!(role(Skid::None).len(), 2);
    assert!(role(Skid::CpuClock).contains(&(RoleId::WakeUp, 1)), "{:?}", role(Skid::CpuClock));
    let cycles = SCRIPT.replace("cpu-clock", "cycles:P");
    assert_eq!(parse(cycles.as_bytes(), None).unwrap().skid(), Skid::None);
}

#[test]
fn folded_stacks_of_several_tools_have_the_same_kernel_part() {
    let entry = "dd;main;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_write 3";
    for (line, stack) in [
        (entry, "dd;main;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_write"),
        ("dd;main;write;do_syscall_64_[k];pipe_write_[k] 3", "dd;main;write;do_syscall_64;pipe_write"),
        ("dd;main;write;vfs_write_[k];pipe_write_[k] 3", "dd;main;write;[kernel];vfs_write;pipe_write"),
        ("dd;main;write;-;vfs_write;pipe_write 3", "dd;main;write;[kernel];vfs_write;pipe_write"),
    ] {
        let profile = parse(line.as_bytes(), None).unwrap();
        assert_eq!(command(&profile, "dd"), format!("{stack} 3\n"), "{line}");
    }
}

#[test]
fn what_is_neither_is_refused_with_the_way_out() {
    let error = |text: &str, event| format!("{:#}", parse(text.as_bytes(), event).unwrap_err());
    assert!(error("PERFILE2abc", None).contains("perf script -i FILE"));
    assert_eq!(error("# only\n", None), "it is empty");
    assert!(error("hello world\n", None).contains("neither perf script output nor folded stacks"));
    assert!(error("a;b 1\n", Some("cycles")).contains("leave out --event"));
}

#[test]
fn what_a_profile_lacks_is_a_caution() {
    let cautions = |text: &str| {
        let profile = parse(text.as_bytes(), None).unwrap();
        recording::outcome(&profile, "x", Skid::None).document.cautions.join(" ")
    };
    assert!(cautions("dd;main 5\n").contains("No sample is in the kernel"));
    let flat = cautions("dd;vfs_write_[k] 5\ndd;[unknown] 3\n");
    assert!(flat.contains("No sample has callers") && flat.contains("38 % of the samples"), "{flat}");
    assert!(cautions(SCRIPT).contains("other events, too, which are left out: sched (1)"));
    assert_eq!(cautions("dd;main;entry_SYSCALL_64_after_hwframe;do_syscall_64;vfs_write 5\n"), "");
}

#[test]
fn an_exported_profile_is_read_again_with_the_same_stacks() {
    let profile = parse(SCRIPT.as_bytes(), None).unwrap();
    let outcome = recording::outcome(&profile, "x", profile.skid());
    let format = format_named("pprof").unwrap();
    let exported = format.files(&Exported::Result(&outcome)).unwrap().remove(0).1;
    let again = parse(&exported, None).unwrap();
    assert_eq!(again.format, ImportFormat::Pprof);
    assert_eq!(again.commands, profile.commands);
    let error = parse(&exported, Some("cycles")).unwrap_err().to_string();
    assert!(error.starts_with("--event cycles: the profile has samples/count"), "{error}");
    assert!(parse(&exported[..exported.len() / 2], None).is_err());
}

#[test]
fn addresses_and_files_of_perf_script_reach_the_formats_that_hold_them() {
    let profile = parse(SCRIPT.as_bytes(), None).unwrap();
    let dd = &profile.commands[&ProcessName::new("dd")];
    let place = |name: &str| {
        let mut frames = dd.located().flat_map(|part| part.frames().collect::<Vec<_>>());
        let place = frames.find(|(frame, _)| *frame == name).unwrap().1.unwrap();
        (place.address.unwrap(), place.module.as_deref())
    };
    assert_eq!(place("copy_page_from_iter"), (0xffff_ffff_8162_e4c8, None));
    assert_eq!(place("pipe_write"), (0xffff_ffff_816b_6c0b, None), "the call, not the return address");
    assert_eq!(place("main"), (0xf_ddfc, Some("/usr/bin/dd")));

    let outcome = recording::outcome(&profile, "x", profile.skid());
    let format = format_named("perf-script").unwrap();
    let text = String::from_utf8(format.files(&Exported::Result(&outcome)).unwrap().remove(0).1).unwrap();
    assert!(text.contains("\t           fddfd main (/usr/bin/dd)\n"), "{text}");
    assert!(text.contains("\tffffffff816b6c0c pipe_write ([kernel.kallsyms])\n"), "{text}");
    assert!(text.contains("\tffffffff8162e4c8 copy_page_from_iter ([kernel.kallsyms])\n"), "{text}");
}

#[test]
fn source_lines_of_pprof_are_kept() {
    use crate::export::proto::{PprofFunction, PprofLine, PprofLocation, PprofProfile, PprofSample, PprofValueType};
    use prost::Message as _;
    let texts = ["", "samples", "count", "main.copy", "/src/main.go", "io.Copy", "/src/io.go"];
    let function = |id, name, filename| PprofFunction { id, name, filename, ..PprofFunction::default() };
    let line = |function_id, line| PprofLine { function_id, line };
    // io.Copy is inlined into main.copy.
    let location =
        PprofLocation { id: 1, address: 0x48_0010, line: vec![line(2, 7), line(1, 30)], ..Default::default() };
    let go = PprofProfile {
        sample_type: vec![PprofValueType { kind: 1, unit: 2 }],
        sample: vec![PprofSample { location_id: vec![1], value: vec![5], label: Vec::new() }],
        location: vec![location],
        function: vec![function(1, 3, 4), function(2, 5, 6)],
        string_table: texts.map(str::to_owned).to_vec(),
        ..PprofProfile::default()
    };
    let profile = pprof::decoded(&go.encode_to_vec(), None).unwrap();
    let outcome = recording::outcome(&profile, "x", Skid::None);
    let files = |name| format_named(name).unwrap().files(&Exported::Result(&outcome)).unwrap();
    let again = parse(&files("pprof")[0].1, None).unwrap();
    assert_eq!(again.commands, profile.commands);
    let (_, stacks) = again.commands.first_key_value().unwrap();
    let frames: Vec<_> = stacks.located().flat_map(|part| part.frames().skip(1).collect::<Vec<_>>()).collect();
    let lines: Vec<_> = frames
        .iter()
        .map(|(name, place)| {
            let place = place.unwrap();
            (*name, place.file.as_deref().unwrap(), place.line.unwrap(), place.address.unwrap())
        })
        .collect();
    assert_eq!(lines, [("main.copy", "/src/main.go", 30, 0x48_0010), ("io.Copy", "/src/io.go", 7, 0x48_0010)]);
    let speedscope = String::from_utf8(files("speedscope").remove(0).1).unwrap();
    assert!(speedscope.contains(r#"{"name":"io.Copy","file":"/src/io.go","line":7}"#), "{speedscope}");
}

#[test]
fn addresses_of_callers_are_those_of_their_calls() {
    let text = "dd 1 [000] 1.0: 1 cpu-clock: \n\
        \t 401005 [unknown] (/usr/lib/libx.so)\n\t 402010 caller+0x10 (/usr/bin/dd)\n\n\
        dd 1 [000] 2.0: 1 cpu-clock: \n\
        \t 501005 inner (inlined)\n\t 501005 outer+0x5 (/usr/bin/my dd)\n\t 403010 main+0x1 (/usr/bin/my dd)\n\n";
    let profile = parse(text.as_bytes(), None).unwrap();
    let places = |profile: &ImportedProfile| -> Vec<(String, u64)> {
        let dd = &profile.commands[&ProcessName::new("dd")];
        let frames = dd.located().flat_map(|part| part.frames().collect::<Vec<_>>());
        frames.filter_map(|(name, place)| Some((name.to_owned(), place?.address?))).collect()
    };
    let named = |name: &str, address| (name.to_owned(), address);
    let found = places(&profile);
    assert!(found.contains(&named("caller", 0x40_200f)) && found.contains(&named("outer", 0x50_1005)), "{found:x?}");
    assert!(found.contains(&named("main", 0x40_300f)), "{found:x?}");

    // Programs whose path has a space are read again, too.
    let outcome = recording::outcome(&profile, "x", profile.skid());
    let format = format_named("perf-script").unwrap();
    let again = parse(&format.files(&Exported::Result(&outcome)).unwrap().remove(0).1, None).unwrap();
    let names = |profile: &ImportedProfile| command(profile, "dd").lines().count();
    assert_eq!(names(&again), names(&profile));
    assert!(places(&again).contains(&named("main", 0x40_300f)), "{:x?}", places(&again));
}

/// Names of commands that are also those of files, processes or nothing, and hostile ones.
const COMMANDS: [&str; 16] = [
    "dd",
    "writer",
    "other",
    "all",
    "both",
    "off-cpu",
    "critical-path",
    "timeline",
    "result",
    "windows",
    "sample-dd",
    "../../x",
    "-o",
    "\u{1b}[31m\u{202e}",
    "\u{10330}\u{10330}",
    "",
];

/// Weights around what 53, 63 and 64 bits hold.
fn weight() -> impl proptest::strategy::Strategy<Value = u64> {
    let edges = [53, 62, 63, 64].map(|bits| u64::MAX >> (64 - bits));
    let near = move |(edge, less): (usize, u64)| edges[edge % 4].saturating_add(1).saturating_sub(less);
    proptest::prop_oneof![3 => 0..9_u64, 1 => proptest::strategy::Strategy::prop_map((0..4_usize, 0..3_u64), near)]
}

/// Check that what `bytes` become can be read, and is what was written.
fn read_back(bytes: &[u8]) -> bool {
    let profile = match parse(bytes, None) {
        Ok(profile) if profile.commands.is_empty() => return false,
        Ok(profile) => profile,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return false;
        }
    };
    let mut outcome = recording::outcome(&profile, "file", profile.skid());
    let files = crate::record::contents::files(&mut outcome, Vec::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, bytes)| std::fs::write(folder.path().join(name), bytes).unwrap());
    let stored = crate::result::open(folder.path()).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(stored.document, outcome.document);
    for profile in outcome.profiles.iter().filter(|profile| !profile.stacks.is_empty()) {
        assert!(stored.profiles.contains(profile), "{profile:?}");
    }
    true
}

proptest::proptest! {
    #[test]
    fn what_is_written_of_a_profile_is_read(
        stacks in proptest::collection::vec((0..COMMANDS.len(), "[ab](;[ab]){0,2}", weight()), 1..6),
    ) {
        let long = COMMANDS[14].repeat(40);
        let name = |at: usize| if at == 14 { &*long } else { COMMANDS[at] };
        let folded: String =
            stacks.iter().map(|(at, stack, weight)| format!("{};{stack} {weight}\n", name(*at))).collect();
        let written = read_back(folded.as_bytes());
        let total = stacks.iter().map(|(_, _, weight)| u128::from(*weight)).sum::<u128>();
        proptest::prop_assert_eq!(written, (1..1 << 53).contains(&total), "{}", folded);
        // Of perf script, each sample counts once.
        let script: String = stacks.iter().map(|(at, stack, weight)| {
            let frames: String = stack.split(';').map(|name| format!("\tffff {name}+0x1 (/bin/x)\n")).collect();
            format!("{} 7 [000] 5.08: {weight} cpu-clock: \n{frames}\n", name(*at))
        }).collect();
        read_back(script.as_bytes());
        // As it is exported.
        if written {
            let profile = parse(folded.as_bytes(), None).unwrap();
            let outcome = recording::outcome(&profile, "file", Skid::None);
            for format in ["pprof", "perf-script"] {
                let exported = format_named(format).unwrap().files(&Exported::Result(&outcome)).unwrap();
                proptest::prop_assert!(read_back(&exported[0].1), "{}", format);
            }
        }
    }
}
