//! Benchmarks of the pure parts, at the largest sizes of real runs: `cargo bench --bench pure`. The input is
//! generated from a seed. docs/performance.md has the results.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pipeprof::compare::{CompareOptions, Input, compare, render};
use pipeprof::kernel::symbols::Symbols;
use pipeprof::profile::{Folded, Moved, Unit, attribute};
use pipeprof::report::flamegraph::{Differential, GraphOptions, Shown, render, render_diff};
use pipeprof::result;
use pipeprof::roles::Skid;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

const SYMBOLS: usize = 200_000;
const STACKS: usize = 1_000_000;
/// Frames per stack, as in write(2) to a pipe from the system call entry to the page allocator.
const DEPTH: usize = 12;
const BASE: u64 = 0xffff_ffff_8100_0000;

/// A generated /proc/kallsyms: functions of 16 to 2,000 bytes, some data, some modules.
fn kallsyms() -> String {
    let mut random = SmallRng::seed_from_u64(1);
    let mut text = String::new();
    let mut address = BASE;
    for index in 0..SYMBOLS {
        let kind = ['t', 't', 't', 'T', 'T', 'd', 'r'][random.random_range(0..7)];
        let module = if index % 10 == 9 { "\t[module]" } else { "" };
        let _ = writeln!(text, "{address:016x} {kind} kernel_function_{index:x}{module}");
        address += random.random_range(1..125) * 16;
    }
    text
}

/// Addresses of stacks with common roots, like real ones.
fn addresses(symbols: &Symbols) -> Vec<[u64; DEPTH]> {
    let mut random = SmallRng::seed_from_u64(2);
    let all: Vec<u64> = symbols.iter().filter(|symbol| symbol.is_function()).map(|symbol| symbol.address).collect();
    (0..STACKS)
        .map(|_| {
            let mut stack = [0; DEPTH];
            for (depth, frame) in stack.iter_mut().enumerate() {
                let choices = 1 << depth.min(9);
                *frame = all[(depth * 9973 + random.random_range(0..choices) * 31) % all.len()] + 5;
            }
            stack
        })
        .collect()
}

/// `count` distinct stacks of pipe functions.
fn profile(count: usize, seed: u64) -> Folded {
    let names = [
        "__alloc_pages",
        "get_page_from_freelist",
        "clear_page_erms",
        "__mutex_lock.constprop.0",
        "copy_page_from_iter",
        "_copy_from_iter",
        "mutex_spin_on_owner",
        "__wake_up_sync_key",
        "schedule",
        "file_update_time",
        "other",
        "x",
    ];
    let mut random = SmallRng::seed_from_u64(seed);
    let mut folded = Folded::new();
    while folded.len() < count {
        let mut stack = String::from("writer;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_write;pipe_write");
        for _ in 0..random.random_range(1..8) {
            let _ = write!(stack, ";{}", names[random.random_range(0..names.len())]);
        }
        folded.add(stack, random.random_range(1..100_000));
    }
    folded
}

/// A folded file of [`STACKS`] distinct stacks of [`DEPTH`] frames that branch early, so that nearly all frames above
/// the fifth are in one stack only.
fn folded_file() -> String {
    let mut text = String::new();
    for index in 0..STACKS as u64 {
        // An odd factor, so that numbers differ in their low bits if the index does: stacks are distinct.
        let number = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.push_str("writer;entry_SYSCALL_64");
        let mut rest = number;
        for (depth, bits) in [4, 6, 8, 9, 5, 5, 5, 5, 5, 5].into_iter().enumerate() {
            let _ = write!(text, ";f{:x}_{:x}", depth + 2, rest & ((1 << bits) - 1));
            rest >>= bits;
        }
        let _ = writeln!(text, " {}", 1 + (number >> 50) % 1000);
    }
    text
}

fn parsing(c: &mut Criterion) {
    let text = kallsyms();
    let mut group = c.benchmark_group("kallsyms");
    group.throughput(Throughput::Elements(SYMBOLS as u64)).sample_size(20);
    group.bench_function("parse 200,000 lines", |b| {
        b.iter(|| Symbols::read(black_box(text.as_bytes())).map(|symbols| symbols.len()));
    });
    group.finish();
}

fn folding(c: &mut Criterion) {
    let Ok(symbols) = Symbols::read(kallsyms().as_bytes()) else { return };
    let stacks = addresses(&symbols);
    let mut group = c.benchmark_group("stacks");
    group.throughput(Throughput::Elements(STACKS as u64)).sample_size(10).measurement_time(Duration::from_secs(20));
    group.bench_function("symbolise and fold 1,000,000", |b| {
        b.iter(|| {
            let mut folded = Folded::new();
            for stack in &stacks {
                let name = |address: &u64| symbols.at(*address).map_or("[unknown]", |at| at.symbol.name);
                folded.add_frames(stack.iter().map(name), 1);
            }
            folded.len()
        });
    });
    group.finish();
}

fn rendering(c: &mut Criterion) {
    let (before, after) = (profile(10_000, 3), profile(10_000, 4));
    let text = before.to_text();
    let moved = Moved { bytes: 1 << 30, calls: 1 << 14, cpu_ns: Some(1_000_000_000) };
    let options = GraphOptions::new("bench", "10,000 stacks", Unit::Samples, Skid::CpuClock);
    let difference = Differential::of_shares(&before, &after);
    let mut group = c.benchmark_group("profile of 10,000 stacks");
    group.throughput(Throughput::Elements(10_000)).sample_size(20);
    group.bench_function("parse", |b| b.iter(|| Folded::parse(black_box(&text)).map(|folded| folded.len())));
    group.bench_function("attribute", |b| {
        b.iter(|| attribute(black_box(&before), Unit::Samples, Skid::CpuClock, &moved))
    });
    group.bench_function("flame graph", |b| b.iter(|| render(black_box(&before), &options).map(|svg| svg.len())));
    group.bench_function("differential flame graph", |b| {
        b.iter(|| render_diff(black_box(&difference), Shown::After, &options).map(|svg| svg.len()));
    });
    group.bench_function("merge", |b| {
        b.iter_batched_ref(|| before.clone(), |both| both.merge(&after), BatchSize::LargeInput);
    });
    group.finish();
}

/// From the text of a folded file to the picture, by pipeprof and by inferno alone, with the same least width of frames.
fn drawing(c: &mut Criterion) {
    let text = folded_file();
    // For measurements of the whole command, as in docs/performance.md.
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("stacks.folded"), &text).expect("written");
    let mut group = c.benchmark_group("flame graph of 1,000,000 stacks");
    group.throughput(Throughput::Elements(STACKS as u64)).sample_size(10).measurement_time(Duration::from_secs(30));
    for (name, reverse) in [("pipeprof", false), ("pipeprof --reverse", true)] {
        let options =
            GraphOptions { reverse, ..GraphOptions::new("bench", "1,000,000 stacks", Unit::Samples, Skid::None) };
        group.bench_function(name, |b| {
            b.iter(|| {
                let stacks = Folded::parse(black_box(&text)).expect("stacks");
                render(&stacks, &options).map(|svg| svg.len())
            });
        });
    }
    for (name, reverse) in [("inferno", false), ("inferno --reverse", true)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut options = inferno::flamegraph::Options::default();
                options.min_width = 0.05;
                options.reverse_stack_order = reverse;
                let mut svg = Vec::new();
                inferno::flamegraph::from_lines(&mut options, black_box(&text).lines(), &mut svg).map(|()| svg.len())
            });
        });
    }
    group.finish();
}

/// A complete comparison: two documents of the gallery, with profiles of 10,000 stacks per process.
fn comparing(c: &mut Criterion) {
    let run = |name: &str, seed: u64| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs").join(name);
        let mut outcome = result::open(&folder).expect("a run of the gallery");
        for (number, profile_of_process) in outcome.profiles.iter_mut().enumerate() {
            profile_of_process.stacks = profile(10_000, seed + number as u64);
        }
        Input { label: None, runs: vec![(name.to_owned(), outcome)] }
    };
    let inputs = [run("6.1-write-exact", 5), run("7.2-write-exact", 15)];
    let folder = tempfile::tempdir().expect("a folder");
    let mut group = c.benchmark_group("comparison of two runs of 10,000 stacks a process");
    group.sample_size(10).measurement_time(Duration::from_secs(20));
    group.bench_function("compare", |b| {
        b.iter(|| compare(black_box(&inputs), &CompareOptions::default()).expect("a comparison").measures.len());
    });
    let compared = compare(&inputs, &CompareOptions::default()).expect("a comparison");
    group.bench_function("write report.html, report.md, report.json", |b| {
        b.iter(|| render::write_all(folder.path(), black_box(&compared)).expect("written").len());
    });
    group.finish();
}

criterion_group!(pure, parsing, folding, rendering, drawing, comparing);
criterion_main!(pure);
