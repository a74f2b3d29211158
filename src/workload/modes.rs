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
    pub batch: u32,
    /// Whether buffers and files are registered with io_uring.
    pub registered: bool,
    pub sqpoll: bool,
}

/// All presets: those of article A in its order, then those of io_uring.
pub const MODES: [Mode; 10] = [
    mode("write", "write(2) to read(2)", Writer::Write, Reader::Read),
    mode("vmsplice", "vmsplice(2) to splice(2) into /dev/null", Writer::Vmsplice, Reader::Splice),
    Mode { huge_pages: true, ..mode("vmsplice-huge", "vmsplice from huge pages", Writer::Vmsplice, Reader::Splice) },
    Mode { huge_pages: true, busy_loop: true, ..mode("vmsplice-huge-busy", BUSY, Writer::Vmsplice, Reader::Splice) },
    mode("splice", "splice(2) from /dev/zero to splice(2) into /dev/null", Writer::Splice, Reader::Splice),
    mode("io-uring", "io_uring's WRITE to its READ, one request per call", Writer::IoUring, Reader::IoUring),
    Mode {
        registered: true,
        ..mode("io-uring-registered", "the same with registered buffers and files", Writer::IoUring, Reader::IoUring)
    },
    Mode { sqpoll: true, ..mode("io-uring-sqpoll", SQPOLL, Writer::IoUring, Reader::IoUring) },
    Mode { batch: 8, ..mode("io-uring-multishot", MULTISHOT, Writer::IoUring, Reader::IoUringMultishot) },
    mode(
        "io-uring-splice",
        "io_uring's SPLICE from /dev/zero to its SPLICE into /dev/null",
        Writer::IoUringSplice,
        Reader::IoUringSplice,
    ),
];

const SQPOLL: &str = "io-uring with threads of the kernel that poll for requests";
const MULTISHOT: &str = "io_uring's WRITE to one READ_MULTISHOT into 8 buffers (Linux 6.7 or newer)";

const BUSY: &str = "the same without sleeping: SPLICE_F_NONBLOCK in a busy loop";

const fn mode(name: &'static str, about: &'static str, writer: Writer, reader: Reader) -> Mode {
    Mode {
        name,
        about,
        writer,
        reader,
        huge_pages: false,
        busy_loop: false,
        batch: 1,
        registered: false,
        sqpoll: false,
    }
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
            batch: self.batch,
            registered_buffers: self.registered,
            registered_files: self.registered,
            sqpoll: self.sqpoll,
            ..Spec::default()
        }
    }
}

/// Names of all presets.
pub fn names() -> Vec<&'static str> {
    MODES.iter().map(|mode| mode.name).collect()
}
