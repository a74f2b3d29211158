//! What the BPF programs count: definitions of bpf/record.h and of what it includes.
#![allow(missing_docs, reason = "documented in the header it is made from")]
#![allow(dead_code, unreachable_pub, reason = "generated; the BPF programs use the rest")]

pub(crate) use crate::collect::bpf::shared::{PrSample, PrWho};

include!(concat!(env!("OUT_DIR"), "/record.rs"));
