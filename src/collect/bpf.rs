//! Load the BPF objects: bpf/pipeprof.bpf.c with libbpf or aya, bpf/record.bpf.c, bpf/all.bpf.c
//! and bpf/results.bpf.c with libbpf, or take what [`super::kept`] has of them. All give file descriptors of programs, and maps to
//! read. [`super::attach`] attaches the programs.

use super::kept::{self, KeptObject};
use crate::kernel::attempt::BTF;
use crate::kernel::features::Rights;
use crate::result::Loader;
use crate::util::sha256;
use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder, libbpf_sys};
use std::collections::HashSet;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Definitions of bpf/pipeprof.h.
#[allow(missing_docs, reason = "documented in the header it is made from")]
#[allow(dead_code, unreachable_pub, reason = "generated; the BPF programs use the rest")]
pub mod shared {
    use crate::kernel::namespace::PidNamespace;

    include!(concat!(env!("OUT_DIR"), "/shared.rs"));

    impl Settings {
        /// Ids are those of this process's PID namespace. Nothing is watched: no task has this id.
        pub fn in_own_namespace() -> Self {
            let PidNamespace { device, inode } = PidNamespace::own().unwrap_or(PidNamespace { device: 0, inode: 0 });
            let none = bytemuck::Zeroable::zeroed();
            Self { pids: [u32::MAX; PP_FAST], namespace_device: device, namespace_inode: inode, ..none }
        }
    }

    impl Default for Lost {
        fn default() -> Self {
            bytemuck::Zeroable::zeroed()
        }
    }
}

use shared::{PP_PROGRAMS, PP_SLOTS, PP_STACKS, Settings};

/// The object, aligned as ELF parsers require.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/pipeprof.bpf.o"));

/// The programs of `pipeprof record`, aligned likewise.
static RECORD: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/record.bpf.o"));

/// Those of `pipeprof record --all`, aligned likewise.
static ALL: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/all.bpf.o"));

/// That of bpf/results.bpf.c, aligned likewise.
static RESULTS: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/results.bpf.o"));

/// The loaded object. Dropping it unloads all programs that are not attached.
#[derive(Debug)]
pub enum Object {
    Libbpf(libbpf_rs::Object),
    Aya(Box<aya::Ebpf>),
    /// By libbpf, by an earlier process.
    Kept(KeptObject),
}

/// The last log text of libbpf; its error values do not contain the verifier's reason.
static LIBBPF_SAID: Mutex<String> = Mutex::new(String::new());

fn keep_message(_: libbpf_rs::PrintLevel, text: String) {
    if let Ok(mut said) = LIBBPF_SAID.lock() {
        said.push_str(&text);
    }
}

fn take_message() -> String {
    let mut said = LIBBPF_SAID.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default();
    // The reason is at the end of the verifier's log.
    let cut = said.len().saturating_sub(2000);
    if let Some(cut) = (cut..said.len()).find(|at| said.is_char_boundary(*at)) {
        said.drain(..cut);
    }
    said.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("; ")
}

/// Programs that need no kernel types, and so no BTF.
const WITHOUT_BTF: [&str; 4] = ["pp_sample", "pp_fork", "pp_exec", "pp_free"];

/// A program that keeps per-thread state. Without it, the map for such state is kept small.
const WITH_THREADS: &str = "pp_enter";

/// The program of recordings that fills the map `moves`.
const WITH_MOVES: &str = "pr_moves";

/// Room for the stacks and the samples of all that a recording follows: user code has many.
const RECORDED_STACKS: u32 = 65_536;

/// The maps of bpf/stacks.bpf.h whose size depends on who uses them.
const SAMPLER_MAPS: [&str; 2] = ["traces", "samples"];

/// The section of global variables without an initial value.
const VARIABLES: &str = ".bss";

/// The library's name.
pub fn name(loader: Loader) -> &'static str {
    match loader {
        Loader::Libbpf => "libbpf",
        Loader::Aya => "aya",
    }
}

/// Load `programs` of the object with `settings`, and room for `stacks` distinct stacks. On a kernel without BTF, aya
/// loads the programs that need none; libbpf would reject the whole object.
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
        Loader::Libbpf => load_libbpf(OBJECT, settings, programs, stacks),
        Loader::Aya => load_aya(settings, programs, stacks),
    };
    loaded.map_err(explained)
}

/// What to load for a recording.
#[derive(Debug, Clone)]
pub struct ToLoad {
    image: &'static [u8],
    settings: Settings,
    programs: Vec<&'static str>,
    stacks: u32,
}

impl ToLoad {
    /// `programs` of bpf/record.bpf.c with `settings`. `sampled`: with room for what user code executes.
    pub fn record(settings: Settings, programs: Vec<&'static str>, sampled: bool) -> Self {
        let stacks = if sampled { RECORDED_STACKS } else { PP_STACKS as u32 };
        Self { image: RECORD, settings, programs, stacks }
    }

    /// `programs` of bpf/all.bpf.c.
    pub fn all(programs: Vec<&'static str>) -> Self {
        Self { image: ALL, settings: Settings::in_own_namespace(), programs, stacks: 1 }
    }

    /// `programs` of bpf/results.bpf.c.
    pub fn results(programs: Vec<&'static str>) -> Self {
        Self { image: RESULTS, ..Self::all(programs) }
    }

    /// Load it.
    ///
    /// # Errors
    /// When the kernel refuses it: the reason and a fix.
    pub fn load(&self) -> Result<Object> {
        if let Some(kept) = kept::take(&self.place()) {
            return Ok(Object::Kept(kept));
        }
        if !Path::new(BTF).exists() {
            bail!(
                "recording needs the kernel's types, and there is no {BTF}: use a kernel with CONFIG_DEBUG_INFO_BTF, which \
                 those of `pipeprof kernel build` do not have, or mount sysfs at /sys if it is empty (in a chroot or \
                 container)"
            );
        }
        load_libbpf(self.image, &self.settings, &self.programs, self.stacks).map_err(explained)
    }

    /// Load it for a later process, whose first [`Self::load`] takes it.
    ///
    /// # Errors
    /// As [`Self::load`]; without a BPF file system.
    pub fn keep(&self) -> Result<()> {
        match self.load()? {
            Object::Libbpf(object) => kept::keep(&object, &self.place()),
            Object::Aya(_) | Object::Kept(_) => Ok(()),
        }
    }

    /// Where it is kept: a folder with a name for what is loaded.
    fn place(&self) -> PathBuf {
        let (programs, stacks) = (self.programs.join(" "), self.stacks.to_le_bytes());
        let id = sha256::of_parts([self.image, bytemuck::bytes_of(&self.settings), programs.as_bytes(), &stacks]);
        Path::new(kept::ROOT).join(format!("pipeprof-{id}"))
    }
}

/// The error of a loader; for users without privileges, what is missing.
fn explained(error: anyhow::Error) -> anyhow::Error {
    let rights = Rights::own();
    match rights.refused() {
        Some(fix) => anyhow!(
            "the BPF programs cannot be loaded; a filter of system calls (seccomp) is in force, which may refuse them: {fix}"
        ),
        None if rights.may_trace() => error.context("cannot load the BPF programs"),
        None => anyhow!(rights.missing()),
    }
}

fn load_libbpf(image: &[u8], settings: &Settings, programs: &[&str], stacks: u32) -> Result<Object> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, keep_message)));
    take_message();
    let explain = |error: libbpf_rs::Error| anyhow!("libbpf: {error}: {}", take_message());
    let mut open = libbpf_rs::ObjectBuilder::default().open_memory(image).map_err(explain)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.ends_with(".rodata") {
            map.set_initial_value(bytemuck::bytes_of(settings)).map_err(explain)?;
        } else if SAMPLER_MAPS.contains(&&*name) {
            map.set_max_entries(stacks).map_err(explain)?;
        } else if name == "functions" && settings.programs != 0 {
            map.set_max_entries((PP_PROGRAMS * PP_SLOTS) as u32).map_err(explain)?;
        } else if (name == "threads" && !programs.contains(&WITH_THREADS))
            || (name == "moves" && !programs.contains(&WITH_MOVES))
        {
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
    // Before 5.11, maps count as locked memory. libbpf raises this limit itself.
    let most = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call. If it fails and matters, loading reports an error.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const most) };
    let settings = Pod(*settings);
    let mut loader = aya::EbpfLoader::new();
    loader.override_global("settings", &settings, true);
    for map in SAMPLER_MAPS {
        loader.map_max_entries(map, stacks);
    }
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

/// Marks plain data for aya.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Pod<T>(T);

// SAFETY: a transparent wrapper of a type that is plain data for bytemuck.
unsafe impl<T: bytemuck::Pod> aya::Pod for Pod<T> {}

impl Object {
    fn map(&self, name: &str) -> Result<LibbpfMap<'_>> {
        let map = match self {
            Self::Libbpf(object) => object.maps().find(|map| map.name() == name).map(LibbpfMap::Loaded),
            Self::Kept(object) => object.map(name).map(LibbpfMap::Kept),
            Self::Aya(_) => bail!("{name}: not loaded by {}", self::name(Loader::Libbpf)),
        };
        map.with_context(|| format!("no BPF map {name}"))
    }

    /// A loaded program.
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
            Self::Kept(object) => object.program(name).with_context(|| format!("BPF program {name} is not loaded")),
        }
    }

    /// Put `value` into a hash map.
    pub fn insert<K: bytemuck::Pod, V: bytemuck::Pod>(&mut self, map: &str, key: K, value: V) -> Result<()> {
        if let Self::Aya(object) = self {
            let data = object.map_mut(map).with_context(|| format!("no BPF map {map}"))?;
            let mut data: aya::maps::HashMap<_, Pod<K>, Pod<V>> = data.try_into()?;
            return Ok(data.insert(Pod(key), Pod(value), 0)?);
        }
        Ok(self.map(map)?.core().update(bytemuck::bytes_of(&key), bytemuck::bytes_of(&value), MapFlags::ANY)?)
    }

    /// Set one element of an array map.
    pub fn set<V: bytemuck::Pod>(&mut self, map: &str, index: u32, value: V) -> Result<()> {
        if let Self::Aya(object) = self {
            let data = object.map_mut(map).with_context(|| format!("no BPF map {map}"))?;
            let mut data: aya::maps::Array<_, Pod<V>> = data.try_into()?;
            return Ok(data.set(index, Pod(value), 0)?);
        }
        Ok(self.map(map)?.core().update(bytemuck::bytes_of(&index), bytemuck::bytes_of(&value), MapFlags::ANY)?)
    }

    /// A reader of the ring buffer with this name, which calls `read` with each record until it returns false.
    /// Only libbpf gives it.
    pub fn ring<'r>(&self, map: &str, mut read: impl FnMut(&[u8]) -> bool + 'r) -> Result<RingBuffer<'r>> {
        let map = self.map(map)?;
        let mut rings = RingBufferBuilder::new();
        rings.add(map.core(), move |record| {
            // libbpf stops after a record for which it gets a negative number.
            if read(record) { 0 } else { -1 }
        })?;
        Ok(rings.build()?)
    }

    /// All keys and values of a hash map, in no order. With libbpf, each is there once, even if others are removed
    /// meanwhile.
    pub fn entries<K: bytemuck::Pod, V: bytemuck::Pod>(&self, map: &str) -> Result<Vec<(K, V)>> {
        if let Self::Aya(object) = self {
            let data = object.map(map).with_context(|| format!("no BPF map {map}"))?;
            let data: aya::maps::HashMap<_, Pod<K>, Pod<V>> = data.try_into()?;
            return data.iter().map(|entry| entry.map(|(key, value)| (key.0, value.0)).map_err(Into::into)).collect();
        }
        let map = self.map(map)?;
        let map = map.core();
        // Whoever goes on from a key that has been removed begins again. Reading batches would need fewer calls, but keeps
        // perf's events on this CPU from their programs for longer (kernel/bpf/hashtab.c, `bpf_disable_instrumentation`).
        let (mut known, mut entries) = (HashSet::new(), Vec::new());
        for key in map.keys() {
            if let Some(value) = map.lookup(&key, MapFlags::ANY)?
                && known.insert(key.clone())
            {
                entries.push((read(&key)?, read(&value)?));
            }
        }
        Ok(entries)
    }

    /// Remove keys of a hash map; some may be missing. Only libbpf does so.
    pub fn remove<'a, K: bytemuck::Pod>(&self, map: &str, keys: impl Iterator<Item = &'a K>) -> Result<()> {
        let map = self.map(map)?;
        keys.for_each(|key| drop(map.core().delete(bytemuck::bytes_of(key))));
        Ok(())
    }

    /// The library that loaded it.
    pub(crate) fn loaded_by(&self) -> &'static str {
        match self {
            Self::Libbpf(_) | Self::Kept(_) => name(Loader::Libbpf),
            Self::Aya(_) => name(Loader::Aya),
        }
    }

    /// One element of an array map.
    pub fn element<V: bytemuck::Pod>(&self, map: &str, index: u32) -> Result<V> {
        if let Self::Aya(object) = self {
            let data = object.map(map).with_context(|| format!("no BPF map {map}"))?;
            let data: aya::maps::Array<_, Pod<V>> = data.try_into()?;
            return Ok(data.get(&index, 0)?.0);
        }
        let value = self.map(map)?.core().lookup(bytemuck::bytes_of(&index), MapFlags::ANY)?;
        read(&value.with_context(|| format!("BPF map {map} has no element {index}"))?)
    }

    /// The program's global variables that are zero at the start.
    pub fn variables<V: bytemuck::Pod>(&self) -> Result<V> {
        match self {
            Self::Libbpf(object) => {
                let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(VARIABLES));
                let map = map.context("no BPF variables")?;
                let value = map.lookup(bytemuck::bytes_of(&0_u32), MapFlags::ANY)?;
                read(&value.context("the BPF variables cannot be read")?)
            }
            Self::Aya(_) | Self::Kept(_) => self.element(VARIABLES, 0),
        }
    }

    /// The instructions of a loaded program, as given to the kernel. Only libbpf gives them.
    pub fn instructions(&self, name: &str) -> Option<&[libbpf_sys::bpf_insn]> {
        match self {
            Self::Libbpf(object) => Some(object.progs().find(|program| program.name() == name)?.insns()),
            Self::Aya(_) | Self::Kept(_) => None,
        }
    }

    /// How often the kernel skipped a program because another BPF program was running on the same CPU. Absent or 0 if
    /// the kernel does not count it: before 5.12, for kprobes on some later kernels (kernel/trace/bpf_trace.c,
    /// `trace_call_bpf`), and for perf events on all kernels.
    pub fn passed_over(&self, program: &str) -> Option<u64> {
        passed_over(self.program(program).ok()?)
    }
}

/// [`Object::passed_over`], for any program.
pub fn passed_over(program: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut length = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: the pointer and length are those of `info`, which outlives the call.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), std::ptr::from_mut(&mut info).cast(), &raw mut length)
    };
    let known = length as usize >= std::mem::offset_of!(libbpf_sys::bpf_prog_info, recursion_misses) + 8;
    (failed == 0 && known).then_some(info.recursion_misses)
}

/// A map that libbpf reads and writes.
enum LibbpfMap<'a> {
    Loaded(libbpf_rs::Map<'a>),
    Kept(&'a libbpf_rs::MapHandle),
}

impl LibbpfMap<'_> {
    fn core(&self) -> &dyn MapCore {
        match self {
            Self::Loaded(map) => map,
            Self::Kept(map) => *map,
        }
    }
}

fn read<V: bytemuck::Pod>(bytes: &[u8]) -> Result<V> {
    bytemuck::try_pod_read_unaligned(bytes).map_err(|error| anyhow!("a BPF map's value has another size: {error}"))
}
