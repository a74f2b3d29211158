//! Attach BPF programs, each to its own perf event. The event's file descriptor keeps program and probe alive. When it
//! closes, even because the process was killed, the kernel removes both.

use crate::arch::Processor;
use crate::kernel::calls::{attributes, open_event, open_raw_tracepoint, owned};
use crate::roles::Skid;
use anyhow::{Context, Result, anyhow};
use libbpf_rs::libbpf_sys;
use perf_event_open_sys as sys;
use perf_event_open_sys::bindings as perf;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

/// An attached program.
#[derive(Debug)]
pub struct Attached {
    // The link is dropped before the event that it refers to.
    _link: Option<OwnedFd>,
    _event: OwnedFd,
}

/// The event that triggers samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Cycles of the CPU, by its performance counters.
    Cycles,
    /// The kernel's high resolution timer.
    CpuClock,
}

impl Clock {
    /// The name in `perf list`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "cpu-clock",
        }
    }

    /// The skid of its samples.
    pub fn skid(self) -> Skid {
        match self {
            Self::Cycles if Processor::HERE == Processor::X86_64 => Skid::None,
            // The counter's interrupt is an ordinary one on arm64, but for kernels with pseudo-NMIs.
            Self::Cycles | Self::CpuClock => Skid::CpuClock,
        }
    }
}

/// Attach `program` to `event` and enable the event. The program can read `cookie`.
fn connect(program: BorrowedFd<'_>, event: OwnedFd, cookie: Option<u64>) -> io::Result<Attached> {
    let link = match cookie {
        Some(cookie) => Some(link(program, &event, cookie)?),
        None => {
            // SAFETY: both descriptors are open.
            check(unsafe { sys::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32) })?;
            None
        }
    };
    // SAFETY: the descriptor is an open perf event.
    check(unsafe { sys::ioctls::ENABLE(event.as_raw_fd(), 0) })?;
    Ok(Attached { _link: link, _event: event })
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// BPF_LINK_CREATE on a perf event, the only call that sets a cookie (Linux 5.15 and newer).
fn link(program: BorrowedFd<'_>, event: &OwnedFd, cookie: u64) -> io::Result<OwnedFd> {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as libbpf_sys::size_t;
    options.__bindgen_anon_1.perf_event.bpf_cookie = cookie;
    // SAFETY: both descriptors are open, and the options contain their own size.
    owned(unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            event.as_raw_fd(),
            libbpf_sys::BPF_PERF_EVENT,
            &raw const options,
        )
    })
}

/// The kernel's number for the kprobe PMU, and the bit that selects a kretprobe.
fn kprobe_pmu() -> Result<(u32, u32)> {
    let folder = "/sys/bus/event_source/devices/kprobe";
    let read = |name: &str| {
        std::fs::read_to_string(format!("{folder}/{name}")).map_err(|error| {
            anyhow!("this kernel has no kprobes ({folder}/{name}: {error}): use a guest, add --kernel NAME")
        })
    };
    let kind = read("type")?;
    let bit = read("format/retprobe")?;
    let bit = bit.trim().strip_prefix("config:").with_context(|| format!("{folder}/format/retprobe: {bit}"))?;
    Ok((kind.trim().parse().context("kprobe PMU type")?, bit.parse().context("kretprobe bit")?))
}

/// A kprobe, or a kretprobe, on `symbol` at `address`, on all CPUs.
pub fn kprobe(
    program: BorrowedFd<'_>,
    symbol: &str,
    address: u64,
    returns: bool,
    cookie: Option<u64>,
) -> Result<Attached> {
    let event = match open_kprobe(symbol, 0, returns) {
        // The name is ambiguous, which kernels reject since 6.7; the address is not.
        Err(error) if error.downcast_ref::<Ambiguous>().is_some() => open_kprobe(symbol, address, returns)?,
        other => other?,
    };
    connect(program, event, cookie).with_context(|| format!("attach to {symbol}"))
}

/// An event of tracefs, by its number: a tracepoint, or a return probe made by [`super::tracefs::ReturnProbes`].
pub fn traced_event(program: BorrowedFd<'_>, id: u64) -> Result<Attached> {
    let mut attributes = attributes(perf::PERF_TYPE_TRACEPOINT);
    attributes.config = id;
    attributes.set_disabled(1);
    attributes.__bindgen_anon_1.sample_period = 1;
    let event = open_event(&mut attributes, -1, 0).context("open an event of tracefs")?;
    connect(program, event, None).context("attach to an event of tracefs")
}

/// By address, or by name if `address` is 0.
fn open_kprobe(symbol: &str, address: u64, returns: bool) -> Result<OwnedFd> {
    let (kind, bit) = kprobe_pmu()?;
    let name = CString::new(symbol).context("symbol")?;
    let mut attributes = attributes(kind);
    attributes.config = u64::from(returns) << bit;
    attributes.set_disabled(1);
    if address == 0 {
        attributes.__bindgen_anon_3.kprobe_func = name.as_ptr() as u64;
    } else {
        attributes.__bindgen_anon_4.kprobe_addr = address;
    }
    // The event itself counts on CPU 0 only, but its program runs on every CPU.
    open_event(&mut attributes, -1, 0).map_err(|error| explain_kprobe(symbol, &error))
}

/// Several functions have the symbol's name.
#[derive(Debug, thiserror::Error)]
#[error("{0}: several functions have this name")]
struct Ambiguous(String);

fn explain_kprobe(symbol: &str, error: &io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::EINVAL) => anyhow!("{symbol}: cannot be probed (notrace or blacklisted)"),
        Some(libc::ENOENT) => anyhow!("{symbol}: not a function of this kernel"),
        Some(libc::EADDRNOTAVAIL) => Ambiguous(symbol.to_owned()).into(),
        Some(libc::EACCES | libc::EPERM) => anyhow!("{symbol}: kprobes need root (or CAP_PERFMON and CAP_BPF)"),
        _ => anyhow!("{symbol}: kprobe refused: {error}"),
    }
}

/// A raw tracepoint. Only the program receives its events, until the descriptor closes.
pub fn raw_tracepoint(program: BorrowedFd<'_>, tracepoint: &str) -> Result<OwnedFd> {
    let name = CString::new(tracepoint).context("tracepoint")?;
    open_raw_tracepoint(program, Some(&name)).with_context(|| format!("attach to the tracepoint {tracepoint}"))
}

/// The raw tracepoint for which a program of the type `tp_btf` was loaded, as [`raw_tracepoint`].
pub fn typed_tracepoint(program: BorrowedFd<'_>) -> Result<OwnedFd> {
    open_raw_tracepoint(program, None).context("attach to the tracepoint of a program")
}

/// Run `program`, an iterator, over all objects of its kind.
pub fn run_iterator(program: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the descriptor is open; no options are given.
    let link =
        unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, libbpf_sys::BPF_TRACE_ITER, std::ptr::null()) };
    let link = owned(link).context("attach an iterator")?;
    // SAFETY: the descriptor is open.
    let run = owned(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) }).context("start an iterator")?;
    // Reading runs it. It writes nothing.
    io::copy(&mut std::fs::File::from(run), &mut io::sink()).context("run an iterator")?;
    Ok(())
}

/// An execution breakpoint of the CPU at `address`, on each of `cpus`.
pub fn breakpoint(program: BorrowedFd<'_>, address: u64, cpus: &[u32]) -> Result<Vec<Attached>> {
    cpus.iter()
        .map(|cpu| {
            let mut attributes = attributes(perf::PERF_TYPE_BREAKPOINT);
            attributes.set_disabled(1);
            attributes.bp_type = perf::HW_BREAKPOINT_X;
            attributes.__bindgen_anon_3.bp_addr = address;
            attributes.__bindgen_anon_4.bp_len = size_of::<libc::c_long>() as u64;
            attributes.__bindgen_anon_1.sample_period = 1;
            let event =
                open_event(&mut attributes, -1, i32::try_from(*cpu)?).map_err(|error| match error.raw_os_error() {
                    Some(libc::ENOSPC) => anyhow!("all four hardware breakpoints of CPU {cpu} are in use"),
                    _ => anyhow!("hardware breakpoint at {address:#x} on CPU {cpu} refused: {error}"),
                })?;
            Ok(connect(program, event, None)?)
        })
        .collect()
}

/// The rates of a CPU's timers, in proportion. One timer alone stays in step with a workload that repeats itself exactly,
/// which in an emulated guest moved shares by up to 16 points (docs/method.md). These are prime.
const TIMERS: [u64; 5] = [83, 97, 131, 173, 211];

/// How often each of a CPU's timers has to fire for `frequency` Hz together.
fn rates(clock: Clock, frequency: u64) -> Vec<u64> {
    match clock {
        // The kernel adapts the period of cycles all the time, and the CPU has few counters.
        Clock::Cycles => vec![frequency],
        Clock::CpuClock => {
            let all: u64 = TIMERS.iter().sum();
            TIMERS.iter().map(|part| (frequency * part).div_ceil(all)).collect()
        }
    }
}

/// Sample at `frequency` Hz on each of `cpus`: by CPU cycles if there are counters, otherwise by the kernel's timers.
pub fn sampling(program: BorrowedFd<'_>, frequency: u64, cpus: &[u32]) -> Result<(Clock, Vec<Attached>)> {
    let mut refused = io::Error::from_raw_os_error(libc::ENOENT);
    for clock in [Clock::Cycles, Clock::CpuClock] {
        let rates = rates(clock, frequency);
        let events: io::Result<Vec<OwnedFd>> = cpus
            .iter()
            .flat_map(|cpu| rates.iter().map(move |rate| (cpu, rate)))
            .map(|(cpu, rate)| {
                let mut attributes = match clock {
                    Clock::Cycles => attributes(perf::PERF_TYPE_HARDWARE),
                    Clock::CpuClock => attributes(perf::PERF_TYPE_SOFTWARE),
                };
                attributes.config = u64::from(match clock {
                    Clock::Cycles => perf::PERF_COUNT_HW_CPU_CYCLES,
                    Clock::CpuClock => perf::PERF_COUNT_SW_CPU_CLOCK,
                });
                attributes.set_freq(1);
                attributes.set_disabled(1);
                attributes.__bindgen_anon_1.sample_freq = *rate;
                open_event(&mut attributes, -1, i32::try_from(*cpu).unwrap_or(-1))
            })
            .collect();
        match events {
            Ok(events) => {
                let attached = events.into_iter().map(|event| connect(program, event, None)).collect::<io::Result<_>>();
                return Ok((clock, attached.context("attach the sampling program")?));
            }
            Err(error) => refused = error,
        }
    }
    Err(match refused.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            anyhow!("sampling all CPUs needs root (or CAP_PERFMON): run with sudo, or inside a guest with --kernel")
        }
        Some(libc::EINVAL) => anyhow!(
            "a sampling frequency of {frequency} Hz is refused: see /proc/sys/kernel/perf_event_max_sample_rate"
        ),
        _ => anyhow!("perf_event sampling refused: {refused}"),
    })
}

/// The CPUs that are online.
pub(crate) fn online_cpus() -> Result<Vec<u32>> {
    listed_cpus("online")
}

/// The CPUs in the kernel's list of this name (`0-3,8`).
pub fn listed_cpus(name: &str) -> Result<Vec<u32>> {
    let path = format!("/sys/devices/system/cpu/{name}");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    parse_cpu_list(&text).with_context(|| format!("{path}: {text:?} is not a list of CPUs"))
}

fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last > 65_535 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_make_up_the_rate_together() {
        for frequency in [1, 97, 4999, 100_000] {
            let rates = rates(Clock::CpuClock, frequency);
            let sum: u64 = rates.iter().sum();
            assert!(sum >= frequency && sum <= frequency + rates.len() as u64, "{frequency}: {rates:?}");
        }
        assert_eq!(rates(Clock::Cycles, 4999), [4999]);
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpu_list("0-1\n"), Some(vec![0, 1]));
        assert_eq!(parse_cpu_list("0,2-3,8"), Some(vec![0, 2, 3, 8]));
        assert_eq!(parse_cpu_list("3-1"), None);
        assert_eq!(parse_cpu_list(""), None);
    }
}
