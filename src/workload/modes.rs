//! The presets of `--mode`: named settings of the axes of [`Spec`].

use super::spec::{Reader, Spec, Writer};

/// A preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    pub name: &'static str,
    /// For `--help`.
    pub about: &'static str,
    pub writer: Writer,
    pub reader: Reader,
    pub huge_pages: bool,
    pub busy_loop: bool,
}

/// All presets, in the order of article A.
pub const MODES: [Mode; 5] = [
    mode("write", "write(2) to read(2)", Writer::Write, Reader::Read),
    mode("vmsplice", "vmsplice(2) to splice(2) into /dev/null", Writer::Vmsplice, Reader::Splice),
    Mode { huge_pages: true, ..mode("vmsplice-huge", "vmsplice from huge pages", Writer::Vmsplice, Reader::Splice) },
    Mode { huge_pages: true, busy_loop: true, ..mode("vmsplice-huge-busy", BUSY, Writer::Vmsplice, Reader::Splice) },
    mode("splice", "splice(2) from /dev/zero to splice(2) into /dev/null", Writer::Splice, Reader::Splice),
];

const BUSY: &str = "the same without sleeping: SPLICE_F_NONBLOCK in a busy loop";

const fn mode(name: &'static str, about: &'static str, writer: Writer, reader: Reader) -> Mode {
    Mode { name, about, writer, reader, huge_pages: false, busy_loop: false }
}

impl Mode {
    /// The preset called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        MODES.iter().find(|mode| mode.name == name)
    }

    /// Its axes; the rest as [`Spec::default`] has them.
    pub fn spec(&self) -> Spec {
        Spec {
            writer: self.writer,
            reader: self.reader,
            huge_pages: self.huge_pages,
            busy_loop: self.busy_loop,
            ..Spec::default()
        }
    }
}

/// Names of all presets.
pub fn names() -> Vec<&'static str> {
    MODES.iter().map(|mode| mode.name).collect()
}
