//! Which stage limits a pipeline, and why.

use super::{ALL, bytes, exact, limited_by_timer, moved, record, record_stages};
use pipeprof::result::WaitReason;

#[test]
#[ignore = "needs root: make test"]
fn a_slow_reader_keeps_the_pipe_full() {
    let slow = record_stages(&[&["write", "4096", "150"], &["read", "4096", ALL, "3000"]]);
    limited_by_timer(&slow.answer(), "test-programs read");
    assert!(slow.answer().contains("`test-programs write` waits"), "{}", slow.answer());
    assert!(slow.full(0) > 0.5 && slow.empty(0) < slow.full(0), "{:#?}", slow.recording);
    let [pipe] = &slow.recording.channels[..] else { panic!("{:#?}", slow.recording.channels) };
    moved(&slow.recording, pipe, 150 * 4096);
    exact(&slow.recording, pipe.writers[0].calls["write"], 150);
    exact(&slow.recording, pipe.readers[0].calls["read"], 151);
    assert_eq!(pipe.slots, Some([16, 16, 16]));
    // Over time: the writer waits, but for its begin, and the pipe is full.
    let timeline = &slow.recording.timeline;
    let window: u64 = timeline.slice_ns.iter().sum();
    assert!(
        window.abs_diff(slow.recording.processes.window_ns) < 2_000_000 && timeline.slice_ns.len() > 10,
        "{timeline:#?}"
    );
    let half = timeline.slice_ns.len() / 2;
    let mean = |shares: Vec<f64>| shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean(timeline.processes[0].full[..half].to_vec()) > 0.5, "{timeline:#?}");
    assert!(mean(timeline.pipes[0].filled[..half].iter().flatten().copied().collect()) > 0.7, "{timeline:#?}");
    assert_eq!(timeline.pipes[0].bytes.iter().sum::<u64>(), bytes(&pipe.writers));
    let timer = slow.recording.recorded[1].waits[&WaitReason::Timer];
    exact(&slow.recording, timer.count, 150);
}

#[test]
#[ignore = "needs root: make test"]
fn a_slow_writer_keeps_the_pipe_empty() {
    let slow = record_stages(&[&["write", "4096", "150", "3000"], &["read", "65536", ALL]]);
    limited_by_timer(&slow.answer(), "test-programs write");
    assert!(slow.empty(0) > 0.5 && slow.full(0) < slow.empty(0), "{:#?}", slow.recording);
    moved(&slow.recording, &slow.recording.channels[0], 150 * 4096);
}

#[test]
#[ignore = "needs root: make test"]
fn a_rate_limited_middle_is_named_and_its_pipes_are_full_and_empty() {
    let limited = record_stages(&[&["write", "4096", "150"], &["copy", "4096", ALL, "3000"], &["read", "65536", ALL]]);
    limited_by_timer(&limited.answer(), "test-programs copy");
    assert!(limited.full(0) > 0.5 && limited.empty(1) > 0.5, "{:#?}", limited.recording);
    let between = limited.recording.channels.iter().filter(|pipe| pipe.between.is_some());
    between.for_each(|pipe| moved(&limited.recording, pipe, 150 * 4096));
}

#[test]
#[ignore = "needs root: make test"]
fn a_pipe_of_one_page_is_named() {
    let shrunk = record_stages(&[&["shrink", "4096", "300"], &["read", "4096", ALL]]);
    assert!(shrunk.answer().contains("holds only 4 KiB; the default is 64 KiB"), "{}", shrunk.answer());
    let [_, last, least] = shrunk.recording.channels[0].slots.unwrap();
    assert_eq!((last, least), (1, 1));
}

#[test]
#[ignore = "needs root: make test"]
fn a_stage_that_never_reads_limits_the_pipeline() {
    let never = record(&["yes", "|", "sleep", "0.5"]);
    limited_by_timer(&never.answer(), "sleep");
    assert!(never.answer().contains("because the pipe to `sleep` is full"), "{}", never.answer());
    assert_eq!(bytes(&never.recording.channels[0].writers), 65536);
    assert!(never.recording.channels[0].readers.iter().all(|end| end.all_calls() == 0));
}

#[test]
#[ignore = "needs root: make test"]
fn a_pipeline_of_some_milliseconds_is_recorded_with_a_caution() {
    let short = record_stages(&[&["write", "10", "3"], &["read", "64", ALL]]);
    moved(&short.recording, &short.recording.channels[0], 30);
    let brief = short.recording.processes.window_ns < 20_000_000;
    let caution = "The pipeline took less than 20 ms: most of it is the start of its programs.";
    assert_eq!(short.recording.cautions.iter().any(|text| text == caution), brief, "{:?}", short.recording);
}
