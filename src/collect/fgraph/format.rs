//! Layout of the recorded events on this kernel: function_graph's two, fork and exec. Read from the `format` files in
//! `events/ftrace/funcgraph_*` and `events/sched/sched_process_*` of tracefs.

use anyhow::{Context as _, Result};

/// A field's position in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FormatField {
    offset: usize,
    size: usize,
}

impl FormatField {
    /// Its value, as an unsigned number.
    pub(crate) fn of(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        match self.size {
            2 => Some(u64::from(u16::from_le_bytes(bytes.try_into().ok()?))),
            4 => Some(u64::from(u32::from_le_bytes(bytes.try_into().ok()?))),
            8 => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

/// One event's layout.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Format {
    id: u64,
    fields: Vec<(String, FormatField)>,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let field = |line: &str| {
            let mut parts = line.trim().split(';').map(str::trim);
            let name = parts.next()?.strip_prefix("field:")?.rsplit(' ').next()?.to_owned();
            let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
            let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
            Some((name, FormatField { offset, size }))
        };
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }

    fn field(&self, name: &str) -> Result<FormatField> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, field)| *field).with_context(|| format!("this kernel's function_graph event has no {name}"))
    }
}

/// The layout of all events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Formats {
    entry_id: u64,
    exit_id: u64,
    kind: FormatField,
    pid: FormatField,
    entry_function: FormatField,
    entry_depth: FormatField,
    exit_function: FormatField,
    exit_depth: FormatField,
    overrun: FormatField,
    called: FormatField,
    returned: FormatField,
    /// The number of the fork event and the field of the child's id, if forks are recorded.
    fork: Option<(u64, FormatField)>,
    /// The exec's number, the id before it, and the place of the program's path, if execs are recorded.
    exec: Option<(u64, FormatField, FormatField)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphEvent {
    Entry {
        function: u64,
        depth: u64,
    },
    Exit {
        function: u64,
        depth: u64,
        took: u64,
        overrun: u64,
    },
    /// The task started a thread or a process.
    Fork {
        child: u32,
    },
    /// The task executed a program. Its id was `before` until then: a thread takes over the id of its process. `name`: as
    /// in [`ProgramId`](crate::process::ProgramId).
    Exec {
        before: u32,
        name: [u64; 2],
    },
}

impl Formats {
    /// Parse the texts of the format files. Without `fork` or `exec`, those events are not recognized.
    pub(crate) fn parse(entry: &str, exit: &str, fork: Option<&str>, exec: Option<&str>) -> Result<Self> {
        let optional = |text: Option<&str>, event: &str| {
            let parse = |text| Format::parse(text).with_context(|| format!("events/sched/{event}/format has no ID"));
            text.map(parse).transpose()
        };
        let fork = optional(fork, "sched_process_fork")?;
        let exec = optional(exec, "sched_process_exec")?;
        let entry = Format::parse(entry).context("events/ftrace/funcgraph_entry/format has no ID")?;
        let exit = Format::parse(exit).context("events/ftrace/funcgraph_exit/format has no ID")?;
        Ok(Self {
            entry_id: entry.id,
            exit_id: exit.id,
            kind: entry.field("common_type")?,
            pid: entry.field("common_pid")?,
            entry_function: entry.field("func")?,
            entry_depth: entry.field("depth")?,
            exit_function: exit.field("func")?,
            exit_depth: exit.field("depth")?,
            overrun: exit.field("overrun")?,
            called: exit.field("calltime")?,
            returned: exit.field("rettime")?,
            fork: fork.map(|fork| anyhow::Ok((fork.id, fork.field("child_pid")?))).transpose()?,
            exec: exec
                .map(|exec| anyhow::Ok((exec.id, exec.field("old_pid")?, exec.field("filename")?)))
                .transpose()?,
        })
    }

    /// The task and event of a record; `None` for other events.
    pub(crate) fn event(&self, record: &[u8]) -> Option<(u32, GraphEvent)> {
        let pid = u32::try_from(self.pid.of(record)?).ok()?;
        let kind = self.kind.of(record)?;
        let event = if kind == self.entry_id {
            GraphEvent::Entry { function: self.entry_function.of(record)?, depth: self.entry_depth.of(record)? }
        } else if kind == self.exit_id {
            GraphEvent::Exit {
                function: self.exit_function.of(record)?,
                depth: self.exit_depth.of(record)?,
                took: self.returned.of(record)?.saturating_sub(self.called.of(record)?),
                overrun: self.overrun.of(record)?,
            }
        } else if let Some((_, child)) = self.fork.filter(|(id, _)| *id == kind) {
            GraphEvent::Fork { child: u32::try_from(child.of(record)?).ok()? }
        } else {
            let (_, before, path) = self.exec.filter(|(id, ..)| *id == kind)?;
            let name = program_name(text_at(record, path.of(record)?)?);
            GraphEvent::Exec { before: u32::try_from(before.of(record)?).ok()?, name }
        };
        Some((pid, event))
    }
}

/// The bytes at `place`: an offset, and above it a length with a NUL at the end (`__data_loc`).
fn text_at(record: &[u8], place: u64) -> Option<&[u8]> {
    let (start, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
    let text = record.get(start..start.checked_add(length)?)?;
    text.split(|byte| *byte == 0).next()
}

/// The name that a process has after it executed the program at `path`: its file name, at most 15 bytes.
fn program_name(path: &[u8]) -> [u64; 2] {
    let mut name = [0; 2];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut name);
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let room = bytes.len() - 1;
    bytes.iter_mut().take(room).zip(file).for_each(|(byte, new)| *byte = *new);
    name
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) const ENTRY: &str = include_str!("formats/funcgraph_entry-6.1.format");
    pub(crate) const EXIT: &str = include_str!("formats/funcgraph_exit-6.1.format");

    const FORK: &str = include_str!("formats/sched_process_fork-6.18.format");

    const EXEC: &str = include_str!("formats/sched_process_exec-6.18.format");

    #[test]
    fn fields_are_found_by_name() {
        let formats = Formats::parse(ENTRY, EXIT, Some(FORK), Some(EXEC)).unwrap();
        let mut record = vec![0; 40];
        record[0] = 10;
        record[4] = 77;
        record[8] = 5;
        record[16] = 2;
        record[24] = 100;
        record[32] = 130;
        let event = GraphEvent::Exit { function: 5, depth: 2, took: 30, overrun: 0 };
        assert_eq!(formats.event(&record), Some((77, event)));
        record[0] = 9;
        assert_eq!(formats.event(&record), None);
        (record[0], record[1]) = (0x31, 1);
        record[12] = 78;
        assert_eq!(formats.event(&record), Some((77, GraphEvent::Fork { child: 78 })));
        assert_eq!(Formats::parse(ENTRY, EXIT, None, None).unwrap().event(&record), None);
        (record[0], record[16]) = (0x30, 76);
        record.extend_from_slice(b"/usr/bin/x86_64-linux-gnu-gcc\0");
        record[8..12].copy_from_slice(&(40u32 | 30 << 16).to_le_bytes());
        let mut bytes = [0; 16];
        bytes[..15].copy_from_slice(b"x86_64-linux-gn");
        let name = bytemuck::cast(bytes);
        assert_eq!(formats.event(&record), Some((77, GraphEvent::Exec { before: 76, name })));
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = Formats::parse(ENTRY, &EXIT.replace("calltime", "calltimf"), None, None).unwrap_err();
        assert!(error.to_string().contains("calltime"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_and_record_is_read(text in "(ID: ?[0-9]{0,9}\n)?(\tfield:[a-z ]{0,9};\toffset:[0-9]{0,20};\tsize:[0-9]{1,20};\n){0,4}.{0,40}") {
            let _ = Formats::parse(&text, &text, Some(&text), Some(&text));
        }

        #[test]
        fn any_record_is_read(record in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Formats::parse(ENTRY, EXIT, Some(FORK), Some(EXEC)).unwrap().event(&record);
        }
    }
}
