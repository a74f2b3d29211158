//! Work of a known size, planted into a kernel: the printed interval holds it, at all sizes of buffers and with one and two
//! CPUs, although small buffers and more work make another schedule; and no role is named that did not change.

use crate::common::plant::PlantedLoop;
use crate::common::{self, request, spec};
use pipeprof::compare::model::Word;
use pipeprof::compare::{CompareOptions, Input, compare};
use pipeprof::result::{Collector, Outcome};
use pipeprof::roles::RoleId;
use pipeprof::run::exact;
use pipeprof::vm::{GuestOptions, Kernel};
use pipeprof::workload::spec::{Amount, Spec};

const LOOP: PlantedLoop = PlantedLoop { caller: "anon_pipe_buf_release", callee: "__folio_put", times: 21 };

/// Buffers, and how much goes through the pipe in a window.
const SIZES: [(u64, u64); 4] = [(512, 1 << 20), (4 << 10, 8 << 20), (64 << 10, 16 << 20), (256 << 10, 32 << 20)];

/// The same with two CPUs: as `run` takes them, because of bursts (docs/exactness.md).
const SIZES_OF_TWO: [(u64, u64); 4] =
    [(512, 16 << 20), (4 << 10, 64 << 20), (64 << 10, 64 << 20), (256 << 10, 64 << 20)];

fn count(kernel: &Kernel, buffer_size: u64, bytes: u64, cpus: u32) -> Outcome {
    let workload = Spec { buffer_size, amount: Amount::Bytes(bytes), ..spec("write", 0) };
    let wanted = pipeprof::result::Request { runs: 4, ..request(workload, vec![Collector::Insn]) };
    let options = GuestOptions { cpus, kernel: kernel.clone(), ..common::guest("6.12") };
    exact::execute(&wanted, &options, None).expect("an exact profile")
}

#[test]
#[ignore = "boots guests: make test"]
fn the_interval_holds_planted_work() {
    let plain = common::kernel("6.12");
    let folder = tempfile::tempdir().unwrap();
    let mut planted = Kernel { image: folder.path().join("vmlinuz"), ..plain.clone() };
    planted.config = None;
    for (cpus, sizes) in [(1, SIZES), (2, SIZES_OF_TWO)] {
        for (buffer_size, bytes) in sizes {
            let before = count(&plain, buffer_size, bytes, cpus);
            let code = before.code.clone().unwrap();
            if !planted.image.exists() {
                let image = LOOP.planted(std::fs::read(&plain.image).unwrap(), &code);
                std::fs::write(&planted.image, image).unwrap();
            }
            let after = count(&planted, buffer_size, bytes, cpus);
            let [more, kib] = [LOOP.calls(&code) * LOOP.instructions(), bytes / 1024].map(|number| number as f64);
            let truth = more / kib;
            let input =
                |run: Outcome, name: &str| Input { label: Some(name.to_owned()), runs: vec![(name.to_owned(), run)] };
            let compared =
                compare(&[input(before, "plain"), input(after, "planted")], &CompareOptions::default()).unwrap();
            let step = &compared.comparison.sections[0].steps[0];
            let (verdict, half) = (&step.verdict, step.verdict.uncertainty.unwrap() * step.verdict.before);
            let said = format!("{buffer_size} bytes, {cpus} CPUs: {truth} planted, {verdict:?}");
            // What docs/exactness.md has: --nocapture.
            let counted = step.schedule.as_ref().map_or(0.0, |schedule| schedule.counted - verdict.before);
            let before = verdict.before;
            println!("{buffer_size} {cpus} {truth:.2} {:.2} ±{half:.2} of {before:.2}; {counted:.2}", verdict.delta);
            assert!((verdict.delta - truth).abs() <= half, "{said}");
            assert!(verdict.word != Word::Fewer, "{said}");
            let named = step.roles.iter().filter(|row| row.certain && row.delta.abs() > 0.0005 * verdict.before);
            let named: Vec<RoleId> = named.map(|row| row.role).collect();
            assert!(named.iter().all(|role| *role == RoleId::PipeRead), "{said}: {named:?}");
        }
    }
}
