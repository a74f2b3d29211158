//! The BPF object (bpf/pipeprof.bpf.c), loaded by libbpf or by aya. Beyond loading, both give the same: file
//! descriptors of programs, and maps to read. Attaching is [`super::attach`]'s, the same for both.

use crate::document::Loader;
use crate::kernel::attempt::BTF;
use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::{MapCore as _, MapFlags, libbpf_sys};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Mutex;

/// What bpf/pipeprof.h defines.
#[allow(missing_docs, reason = "documented in the header it is made from")]
pub mod shared {
    include!(concat!(env!("OUT_DIR"), "/shared.rs"));

    // Two ids that no task has: nothing is watched by default.
    impl Default for Settings {
        fn default() -> Self {
            Self { pids: [u32::MAX; PP_FAST], ..bytemuck::Zeroable::zeroed() }
        }
    }
}

use shared::Settings;

/// The object, at an address that ELF parsers can read from.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/pipeprof.bpf.o"));

/// The object inside the kernel. Dropping it unloads everything that nothing is attached to.
#[derive(Debug)]
pub enum Object {
    Libbpf(libbpf_rs::Object),
    Aya(Box<aya::Ebpf>),
}

/// What libbpf said last: its errors alone do not tell what the verifier did not like.
static LIBBPF_SAID: Mutex<String> = Mutex::new(String::new());

fn keep_message(_: libbpf_rs::PrintLevel, text: String) {
    if let Ok(mut said) = LIBBPF_SAID.lock() {
        said.push_str(&text);
    }
}

fn take_message() -> String {
    let mut said = LIBBPF_SAID.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default();
    // The end of a verifier log tells the reason.
    let cut = said.len().saturating_sub(2000);
    if let Some(cut) = (cut..said.len()).find(|at| said.is_char_boundary(*at)) {
        said.drain(..cut);
    }
    said.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("; ")
}

/// Programs that read no type of the kernel.
const WITHOUT_BTF: [&str; 4] = ["pp_sample", "pp_fork", "pp_exec", "pp_free"];

/// The programs that keep state of each thread: without one of them, room for it is left out.
const WITH_THREADS: &str = "pp_enter";

/// The library's name.
#[must_use]
pub fn name(loader: Loader) -> &'static str {
    match loader {
        Loader::Libbpf => "libbpf",
        Loader::Aya => "aya",
    }
}

/// Load `programs` of the object with `settings`, and at most `stacks` distinct stacks. Programs that need no BTF are
/// loaded by aya where the kernel has none, as libbpf then refuses the whole object for the sake of the others.
///
/// # Errors
/// When the kernel refuses: what it said, and what would help.
pub fn load(loader: Loader, settings: &Settings, programs: &[&str], stacks: u32) -> Result<Object> {
    if !Path::new(BTF).exists() {
        if let Some(program) = programs.iter().find(|program| !WITHOUT_BTF.contains(program)) {
            bail!(
                "{program} needs the kernel's types, and there is no {BTF}: boot a kernel with CONFIG_DEBUG_INFO_BTF, \
                   or run inside a guest with --kernel"
            );
        }
        return load_aya(settings, programs, stacks).context("cannot load the BPF programs");
    }
    let loaded = match loader {
        Loader::Libbpf => load_libbpf(settings, programs, stacks),
        Loader::Aya => load_aya(settings, programs, stacks),
    };
    loaded.map_err(|error| {
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } == 0 {
            error.context("cannot load the BPF programs")
        } else {
            anyhow!(
                "BPF programs need root (or CAP_BPF and CAP_PERFMON): run with sudo, or inside a guest with --kernel"
            )
        }
    })
}

fn load_libbpf(settings: &Settings, programs: &[&str], stacks: u32) -> Result<Object> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, keep_message)));
    take_message();
    let explain = |error: libbpf_rs::Error| anyhow!("libbpf: {error}: {}", take_message());
    let mut open = libbpf_rs::ObjectBuilder::default().open_memory(OBJECT).map_err(explain)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.ends_with(".rodata") {
            map.set_initial_value(bytemuck::bytes_of(settings)).map_err(explain)?;
        } else if name == "stacks" {
            map.set_max_entries(stacks).map_err(explain)?;
        } else if name == "threads" && !programs.contains(&WITH_THREADS) {
            map.set_max_entries(1).map_err(explain)?;
        }
    }
    for mut program in open.progs_mut() {
        let wanted = programs.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
    open.load().map(Object::Libbpf).map_err(explain)
}

fn load_aya(settings: &Settings, programs: &[&str], stacks: u32) -> Result<Object> {
    // Before 5.11 maps count as locked memory; libbpf raises this limit by itself.
    let most = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call. Where it is refused, loading says so if it matters.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const most) };
    let settings = Pod(*settings);
    let mut loader = aya::EbpfLoader::new();
    loader.override_global("settings", &settings, true).map_max_entries("stacks", stacks);
    if !programs.contains(&WITH_THREADS) {
        loader.map_max_entries("threads", 1);
    }
    let mut object = loader.load(OBJECT).context("aya")?;
    for name in programs {
        let program = object.program_mut(name).with_context(|| format!("aya: no program {name}"))?;
        match program {
            aya::programs::Program::KProbe(program) => program.load(),
            aya::programs::Program::PerfEvent(program) => program.load(),
            aya::programs::Program::RawTracePoint(program) => program.load(),
            other => bail!("aya: {name} is a {:?}", other.prog_type()),
        }
        .with_context(|| format!("aya: {name}"))?;
    }
    Ok(Object::Aya(Box::new(object)))
}

/// Plain data, as aya marks it.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Pod<T>(T);

// SAFETY: transparent over a type that bytemuck knows to be plain data.
unsafe impl<T: bytemuck::Pod> aya::Pod for Pod<T> {}

impl Object {
    /// A loaded program.
    ///
    /// # Errors
    /// When it is not among those loaded.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>> {
        match self {
            Self::Libbpf(object) => {
                let program = object.progs().find(|program| program.name() == name);
                let fd = program.map(|program| program.as_fd().as_raw_fd()).filter(|fd| *fd >= 0);
                let fd = fd.with_context(|| format!("BPF program {name} is not loaded"))?;
                // SAFETY: the descriptor belongs to the object, which outlives the borrow.
                Ok(unsafe { BorrowedFd::borrow_raw(fd) })
            }
            Self::Aya(object) => {
                let program = object.program(name).with_context(|| format!("no BPF program {name}"))?;
                Ok(program.fd().with_context(|| format!("BPF program {name} is not loaded"))?.as_fd())
            }
        }
    }

    /// Put `value` into a hash map.
    ///
    /// # Errors
    /// When there is no such map, or no room.
    pub fn insert<K: bytemuck::Pod, V: bytemuck::Pod>(&mut self, map: &str, key: K, value: V) -> Result<()> {
        match self {
            Self::Libbpf(object) => Ok(libbpf_map(object, map)?.update(
                bytemuck::bytes_of(&key),
                bytemuck::bytes_of(&value),
                MapFlags::ANY,
            )?),
            Self::Aya(object) => {
                let data = object.map_mut(map).with_context(|| format!("no BPF map {map}"))?;
                let mut data: aya::maps::HashMap<_, Pod<K>, Pod<V>> = data.try_into()?;
                Ok(data.insert(Pod(key), Pod(value), 0)?)
            }
        }
    }

    /// Set one element of an array map.
    ///
    /// # Errors
    /// When there is no such map or element.
    pub fn set<V: bytemuck::Pod>(&mut self, map: &str, index: u32, value: V) -> Result<()> {
        match self {
            Self::Libbpf(object) => Ok(libbpf_map(object, map)?.update(
                bytemuck::bytes_of(&index),
                bytemuck::bytes_of(&value),
                MapFlags::ANY,
            )?),
            Self::Aya(object) => {
                let data = object.map_mut(map).with_context(|| format!("no BPF map {map}"))?;
                let mut data: aya::maps::Array<_, Pod<V>> = data.try_into()?;
                Ok(data.set(index, Pod(value), 0)?)
            }
        }
    }

    /// All values of a hash map, in no order.
    ///
    /// # Errors
    /// When there is no such map or it cannot be read.
    pub fn values<K: bytemuck::Pod, V: bytemuck::Pod>(&self, map: &str) -> Result<Vec<V>> {
        match self {
            Self::Libbpf(object) => {
                let map = libbpf_map(object, map)?;
                let mut values = Vec::new();
                for key in map.keys() {
                    if let Some(value) = map.lookup(&key, MapFlags::ANY)? {
                        values.push(read(&value)?);
                    }
                }
                Ok(values)
            }
            Self::Aya(object) => {
                let data = object.map(map).with_context(|| format!("no BPF map {map}"))?;
                let data: aya::maps::HashMap<_, Pod<K>, Pod<V>> = data.try_into()?;
                data.iter().map(|entry| Ok(entry?.1.0)).collect()
            }
        }
    }

    /// The library that loaded it.
    #[must_use]
    pub fn loaded_by(&self) -> &'static str {
        match self {
            Self::Libbpf(_) => name(Loader::Libbpf),
            Self::Aya(_) => name(Loader::Aya),
        }
    }

    /// One element of an array map.
    ///
    /// # Errors
    /// When there is no such map or element.
    pub fn element<V: bytemuck::Pod>(&self, map: &str, index: u32) -> Result<V> {
        match self {
            Self::Libbpf(object) => {
                let value = libbpf_map(object, map)?.lookup(bytemuck::bytes_of(&index), MapFlags::ANY)?;
                read(&value.with_context(|| format!("BPF map {map} has no element {index}"))?)
            }
            Self::Aya(object) => {
                let data = object.map(map).with_context(|| format!("no BPF map {map}"))?;
                let data: aya::maps::Array<_, Pod<V>> = data.try_into()?;
                Ok(data.get(&index, 0)?.0)
            }
        }
    }

    /// How often the kernel passed over a program because another BPF program was running on the same CPU; absent or 0
    /// where it does not count that: before 5.12, of kprobes for some time after (kernel/trace/bpf_trace.c,
    /// `trace_call_bpf`), of perf events on no kernel.
    #[must_use]
    pub fn passed_over(&self, program: &str) -> Option<u64> {
        let fd = self.program(program).ok()?;
        // SAFETY: all zeros is a valid value of this plain C struct.
        let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
        let mut length = u32::try_from(size_of_val(&info)).ok()?;
        // SAFETY: the pointer and length are those of `info`, which outlives the call.
        let failed = unsafe {
            libbpf_sys::bpf_obj_get_info_by_fd(fd.as_raw_fd(), std::ptr::from_mut(&mut info).cast(), &raw mut length)
        };
        let known = length as usize >= std::mem::offset_of!(libbpf_sys::bpf_prog_info, recursion_misses) + 8;
        (failed == 0 && known).then_some(info.recursion_misses)
    }
}

fn libbpf_map<'a>(object: &'a libbpf_rs::Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    object.maps().find(|map| map.name() == name).with_context(|| format!("no BPF map {name}"))
}

fn read<V: bytemuck::Pod>(bytes: &[u8]) -> Result<V> {
    bytemuck::try_pod_read_unaligned(bytes).map_err(|error| anyhow!("a BPF map's value has another size: {error}"))
}
