use super::*;
use crate::result::{
    CriticalPath, Document, MeasuredTarget, PathPart, PathWhat, PipelineCommand, Processes, RecordedEnd, RecordedPipe,
    RecordedProcess,
};

fn recording(release: &str) -> Document {
    let mut recording = Document {
        target: MeasuredTarget::Pipeline(PipelineCommand { stages: vec![vec!["dd".to_owned()]], shell: false }),
        recorded: vec![RecordedProcess { name: "dd".to_owned(), ..RecordedProcess::default() }],
        path: Some(CriticalPath {
            parts: vec![PathPart { process: Some(0), what: PathWhat::OnCpu, ns: 96, ..PathPart::default() }],
            ..CriticalPath::default()
        }),
        processes: Processes { window_ns: 100, ..Processes::default() },
        ..Document::default()
    };
    recording.kernel.release = release.to_owned();
    recording
}

fn change(before: &Document, after: &Document) -> Result<RecordingChange> {
    RecordingChange::new([before, after], [Path::new("a"), Path::new("b")])
}

#[test]
fn the_same_longest_part_is_said_once() {
    let change = change(&recording("6.12"), &recording("7.2")).unwrap();
    assert_eq!(
        change.findings.last().unwrap(),
        "`dd` is the longest part of the critical path in both: 96 % and 96 %."
    );
    assert_eq!(change.names, ["Linux 6.12", "Linux 7.2"]);
}

#[test]
fn unequal_work_is_said() {
    let [before, mut after] = [recording("6.12"), recording("7.2")];
    after.exit_codes = vec![1];
    let end = |bytes| RecordedEnd { bytes, sleeps: 1, ..RecordedEnd::default() };
    let pipe = |written, read| RecordedPipe {
        writers: vec![end(written)],
        readers: vec![end(read)],
        ..RecordedPipe::default()
    };
    let [before, after] = [(before, 10 << 20), (after, 5 << 20)].map(|(recording, bytes)| Document {
        // What is written and never read is no work.
        pipes: vec![pipe(20 << 20, bytes)],
        recorded: vec![Default::default()],
        ..recording
    });
    let text = change(&before, &after).unwrap().cautions.join(" ");
    assert!(text.starts_with("They ended differently: exit codes none and 1."), "{text}");
    assert!(text.contains("10.0 and 5.00 MiB"), "{text}");
}

#[test]
fn a_disk_in_one_of_two_recordings_is_said() {
    let [mut before, after] = [recording("7.2"), recording("7.2")];
    before.on_disk = vec!["/large".to_owned()];
    let cautions = change(&before, &after).unwrap().cautions;
    assert!(cautions[0].contains("on a disk in one of them"), "{cautions:?}");
}

#[test]
fn other_pipelines_cannot_be_compared() {
    let [mut before, after] = [recording("6.12"), recording("7.2")];
    let stages = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
    before.target = MeasuredTarget::Pipeline(PipelineCommand { stages, shell: false });
    let error = change(&before, &after).unwrap_err().to_string();
    assert!(error.contains("compare recordings of one pipeline"), "{error}");
}
