//! Memory bandwidth: upper bounds for a pipe's throughput. Measures copying, storing and reading in user space. All
//! loops but the C library's memcpy are in assembly, and their code in memory is checked.

mod code;
pub mod loops;
#[cfg(target_arch = "aarch64")]
#[path = "loops_aarch64.rs"]
mod own_loops;
#[cfg(target_arch = "x86_64")]
#[path = "loops_x86_64.rs"]
mod own_loops;

use crate::arch;
use crate::kernel::environment::Cpu;
use crate::result::Throughput;
use crate::util::usage::UsageError;
use crate::util::{cancel, stats};
use crate::workload::worker::buffer::Mapping;
use crate::workload::worker::now_ns;
use crate::workload::{Spec, cpus};
use anyhow::{Result, ensure};
use loops::{Body, LOOPS, Loop, LoopKind};
use serde::{Deserialize, Serialize};

/// The `schema` of [`Report`].
pub const SCHEMA: &str = "pipeprof.memory/1";
/// Buffers for copies and stores: those of article B and its errata.
pub(crate) const BUFFERS: [u64; 2] = [16 << 10, 32 << 10];
/// Buffer for reads: that of article A.
pub const READ_BUFFER: u64 = 1 << 30;
/// Minimum time per value, far above the cost of the clock and of a timer tick.
const BATCH_NS: u64 = 10_000_000;

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopOptions {
    /// Values per loop.
    pub runs: u32,
    /// The CPU to run on; by default chosen by topology.
    pub cpu: Option<u32>,
    /// Use 2 MiB pages.
    pub huge_pages: bool,
    /// Buffer size of the sequential reads.
    pub read_bytes: u64,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self { runs: 11, cpu: None, huge_pages: false, read_bytes: READ_BUFFER }
    }
}

/// The results of all loops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    /// pipeprof's version.
    pub version: String,
    pub cpu_model: Option<String>,
    /// The CPU that ran the loops.
    pub cpu: u32,
    /// Those of `erms`, `fsrm`, `avx2` and `avx512f` that the CPU supports.
    pub cpu_flags: Vec<String>,
    pub loops: Vec<LoopResult>,
}

/// The result of one loop with one buffer size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopResult {
    pub name: String,
    pub about: String,
    pub kind: LoopKind,
    /// Bytes that one round copies, stores or reads; a copied byte counts once.
    pub buffer_bytes: u64,
    /// Why it was not measured.
    pub reason: Option<String>,
    /// The loop's code in memory in AT&T syntax; empty for the C library's.
    pub code: Vec<String>,
    /// The innermost loop, without addresses.
    #[serde(default)]
    pub inner: Vec<String>,
    pub throughput: Throughput,
}

struct LoopRun {
    a_loop: Loop,
    len: usize,
    rounds: u64,
    measured: LoopResult,
}

/// Run every loop that this CPU supports.
pub fn measure(options: &LoopOptions, progress: &dyn Fn(usize, usize)) -> Result<Report> {
    ensure!(options.runs > 0, UsageError::new("--runs 0: give at least 1"));
    ensure!(
        options.read_bytes >= 1 << 20 && options.read_bytes.is_multiple_of(256),
        UsageError::new(format!(
            "--read-size {}: give 1M or more, a multiple of 256",
            crate::util::size::format(options.read_bytes)
        ))
    );
    ensure!(
        !arch::is_emulated(),
        "memory bandwidth is not available on an emulated machine (QEMU TCG): run on hardware"
    );
    let allowed = cpus::allowed()?;
    let cpu = options.cpu.unwrap_or_else(|| cpus::first(&allowed));
    ensure!(allowed.contains(&cpu), "--cpu {cpu}: the CPU does not exist, or this process may not use it");
    cpus::bind(cpu)?;

    let mut jobs = Vec::new();
    for a_loop in LOOPS {
        let sizes: &[u64] = if a_loop.kind == LoopKind::Read { &[options.read_bytes] } else { &BUFFERS };
        for &size in sizes {
            jobs.push(LoopRun::new(a_loop, size)?);
        }
    }
    let spec = Spec { huge_pages: options.huge_pages, ..Spec::default() };
    let mut to = Mapping::new(usize::try_from(BUFFERS[1])?, &spec)?;
    let from = Mapping::new(usize::try_from(options.read_bytes)?, &spec)?;
    let total = jobs.len() * (options.runs as usize + 1);
    // Run the loops alternately, so that disturbances affect all of them alike. The first round is the warm-up.
    for run in 0..=options.runs as usize {
        for index in 0..jobs.len() {
            cancel::check()?;
            progress(run * jobs.len() + index + 1, total);
            let job = &mut jobs[index];
            if job.measured.reason.is_none() {
                job.run(&mut to, &from, run == 0);
            }
        }
    }
    let here = Cpu::here();
    let wanted = |flag: &String| ["erms", "fsrm", "avx2", "avx512f"].contains(&flag.as_str());
    Ok(Report {
        schema: SCHEMA.into(),
        version: crate::util::build::version().to_owned(),
        cpu_model: here.model,
        cpu,
        cpu_flags: here.flags.into_iter().filter(wanted).collect(),
        loops: jobs.into_iter().map(LoopRun::finish).collect(),
    })
}

impl LoopRun {
    fn new(a_loop: Loop, size: u64) -> Result<Self> {
        let (code, inner) = match a_loop.body {
            Body::Library => (Vec::new(), Vec::new()),
            body => {
                let code = code::read(a_loop.entry);
                let checked = code.and_then(|code| code::check(&code, body).map(|()| code));
                let code = checked.map_err(|why| {
                    anyhow::anyhow!("the code of loop {} does not match its name: {why}", a_loop.name)
                })?;
                (code::text(&code), code::inner_text(&code))
            }
        };
        let measured = LoopResult {
            name: a_loop.name.into(),
            about: a_loop.about.into(),
            kind: a_loop.kind,
            buffer_bytes: size,
            reason: a_loop.needs.check().err(),
            code,
            inner,
            throughput: Throughput::default(),
        };
        Ok(Self { a_loop, len: usize::try_from(size)?, rounds: 1, measured })
    }

    /// Measure one value; with `warm_up`, find out how many rounds one value needs.
    fn run(&mut self, to: &mut Mapping, from: &Mapping, warm_up: bool) {
        loop {
            let begin = now_ns();
            // SAFETY: `len` bytes, a multiple of 256 aligned to 2 MiB, are mapped in each buffer that the loop uses,
            // and the CPU supports the loop's instructions.
            unsafe { (self.a_loop.entry)(to.as_ptr(), from.as_ptr(), self.len, self.rounds) };
            let ns = (now_ns() - begin).max(1);
            if !warm_up {
                let gib = (self.len as u64 * self.rounds) as f64 / f64::from(1 << 30);
                self.measured.throughput.runs.push(gib / (ns as f64 / 1e9));
                return;
            }
            if ns >= BATCH_NS {
                return;
            }
            self.rounds = self.rounds * 2 * (BATCH_NS / ns).clamp(1, 8);
        }
    }

    fn finish(mut self) -> LoopResult {
        let throughput = &mut self.measured.throughput;
        throughput.median_gib_s = stats::median(&throughput.runs);
        throughput.ci95 = stats::median_ci95(&throughput.runs);
        throughput.mad_gib_s = stats::mad(&throughput.runs);
        throughput.outliers = u32::try_from(stats::outliers(&throughput.runs)).unwrap_or(u32::MAX);
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_gets_its_values_or_its_reason() {
        let options = LoopOptions { runs: 2, read_bytes: 1 << 20, ..LoopOptions::default() };
        let report = measure(&options, &|_, _| {}).unwrap();
        assert_eq!(report.loops.len(), 9 * 2 + 4);
        for measured in &report.loops {
            let values = &measured.throughput.runs;
            assert_eq!(values.len(), if measured.reason.is_none() { 2 } else { 0 }, "{}", measured.name);
            assert!(values.iter().all(|&value| value > 0.0), "{}", measured.name);
            assert_eq!(measured.code.is_empty(), measured.name == "memcpy");
            // The move instruction is in the innermost loop, and the branch back to its start ends it.
            let moves = measured.inner.iter().any(|line| line.contains('(') || line.contains("rep "));
            let back = measured.inner.last().is_some_and(|line| line.starts_with('j'));
            assert_eq!(moves && back, measured.name != "memcpy", "{}: {:?}", measured.name, measured.inner);
        }
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
