//! The loops of AArch64: so far, that of the C library.

use super::loops::{Body, CpuFeature, Loop, LoopKind, library};

pub(crate) const LOOPS: [Loop; 1] = [Loop {
    name: "memcpy",
    about: "the C library's choice",
    kind: LoopKind::Copy,
    needs: CpuFeature::Nothing,
    body: Body::Library,
    entry: library,
}];
