//! The messages of Perfetto's traces that are written, by hand, with the numbers of
//! <https://github.com/google/perfetto/tree/main/protos/perfetto/trace> (trace.proto, track_event/*.proto, ftrace/*.proto,
//! interned_data/*.proto, profiling/profile_common.proto and, of July 2026, profiling/stack_sample.proto).

/// A whole trace.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PerfettoTrace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "1")]
    pub(super) ftrace_events: Option<FtraceEventBundle>,
    /// ns.
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    /// 1 in the first packet of a sequence: nothing of before is known. 2 in those that need what was interned.
    #[prost(uint32, tag = "13")]
    pub(super) sequence_flags: u32,
    #[prost(message, optional, tag = "59")]
    pub(super) trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "135")]
    pub(super) stack_sample: Option<PerfettoSample>,
}

/// Events of one CPU.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FtraceEventBundle {
    #[prost(uint32, tag = "1")]
    pub(super) cpu: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FtraceEvent {
    /// ns.
    #[prost(uint64, tag = "1")]
    pub(super) timestamp: u64,
    /// Of the thread that had the CPU.
    #[prost(uint32, tag = "2")]
    pub(super) pid: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) sched_switch: Option<SchedSwitch>,
    #[prost(uint32, tag = "5")]
    pub(super) common_flags: u32,
    #[prost(message, optional, tag = "20")]
    pub(super) sched_waking: Option<SchedWaking>,
}

/// SchedSwitchFtraceEvent.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedSwitch {
    #[prost(string, tag = "1")]
    pub(super) prev_comm: String,
    #[prost(int32, tag = "2")]
    pub(super) prev_pid: i32,
    #[prost(int32, tag = "3")]
    pub(super) prev_prio: i32,
    #[prost(int64, tag = "4")]
    pub(super) prev_state: i64,
    #[prost(string, tag = "5")]
    pub(super) next_comm: String,
    #[prost(int32, tag = "6")]
    pub(super) next_pid: i32,
    #[prost(int32, tag = "7")]
    pub(super) next_prio: i32,
}

/// SchedWakingFtraceEvent.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedWaking {
    #[prost(string, tag = "1")]
    pub(super) comm: String,
    #[prost(int32, tag = "2")]
    pub(super) pid: i32,
    #[prost(int32, tag = "3")]
    pub(super) prio: i32,
    #[prost(int32, tag = "4")]
    pub(super) success: i32,
    #[prost(int32, tag = "5")]
    pub(super) target_cpu: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    /// 0 for none.
    #[prost(uint64, tag = "5")]
    pub(super) parent_uuid: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(string, tag = "14")]
    pub(super) description: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, repeated, tag = "2")]
    pub(super) cmdline: Vec<String>,
    #[prost(string, tag = "6")]
    pub(super) process_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(int64, tag = "2")]
    pub(super) tid: i64,
    #[prost(string, tag = "5")]
    pub(super) thread_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CounterDescriptor {
    #[prost(string, tag = "6")]
    pub(super) unit_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "TrackEventKind", tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track_uuid: u64,
    #[prost(string, tag = "23")]
    pub(super) name: String,
    #[prost(double, optional, tag = "44")]
    pub(super) double_counter_value: Option<f64>,
    /// Each connects the events that have it, in the order of time.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum TrackEventKind {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DebugAnnotation {
    #[prost(double, optional, tag = "5")]
    pub(super) double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
    #[prost(string, tag = "10")]
    pub(super) name: String,
}

/// What other packets of the same sequence name by its number, from 1 on.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<InternedFrame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<InternedCallstack>,
    #[prost(message, repeated, tag = "18")]
    pub(super) source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "50")]
    pub(super) stack_sample_counter_descriptors: Vec<SampleCounter>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedString {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) str: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedFrame {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) function_name_id: u64,
    #[prost(uint64, optional, tag = "5")]
    pub(super) source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) line_number: Option<u32>,
    #[prost(enumeration = "FrameKind", tag = "7")]
    pub(super) kind: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum FrameKind {
    Unknown = 0,
    Native = 1,
    Kernel = 2,
}

/// Frames by their numbers, the outermost first.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedCallstack {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TracePacketDefaults {
    #[prost(message, optional, tag = "100")]
    pub(super) stack_sample_defaults: Option<StackSampleDefaults>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StackSampleDefaults {
    #[prost(string, tag = "1")]
    pub(super) source: String,
}

/// StackSample.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PerfettoSample {
    #[prost(message, optional, tag = "1")]
    pub(super) task_context: Option<TaskContext>,
    #[prost(message, optional, tag = "3")]
    pub(super) execution_context: Option<ExecutionContext>,
    #[prost(uint64, tag = "6")]
    pub(super) callstack_iid: u64,
    #[prost(uint64, tag = "10")]
    pub(super) primary_descriptor_iid: u64,
    #[prost(uint64, tag = "11")]
    pub(super) primary_weight: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TaskContext {
    #[prost(uint32, tag = "2")]
    pub(super) pid: u32,
    #[prost(uint32, tag = "3")]
    pub(super) tid: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExecutionContext {
    #[prost(enumeration = "SampleMode", tag = "3")]
    pub(super) mode: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum SampleMode {
    Unknown = 0,
    User = 1,
    Kernel = 2,
    GuestUser = 4,
    GuestKernel = 5,
}

/// StackSample.CounterDescriptor: what the weights of samples are.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SampleCounter {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(enumeration = "SampleUnit", tag = "3")]
    pub(super) unit: i32,
    #[prost(uint64, optional, tag = "5")]
    pub(super) unit_multiplier: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum SampleUnit {
    Unspecified = 0,
    Nanoseconds = 1,
    CpuCycles = 2,
    Instructions = 3,
    Count = 9,
}
