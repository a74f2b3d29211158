//! Where the fields of function_graph's two events lie on this kernel: `events/ftrace/funcgraph_*/format` of tracefs.

use anyhow::{Context as _, Result};

/// A field's place in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// Its value, as an unsigned number.
    #[must_use]
    pub fn of(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        match self.size {
            2 => Some(u64::from(u16::from_le_bytes(bytes.try_into().ok()?))),
            4 => Some(u64::from(u32::from_le_bytes(bytes.try_into().ok()?))),
            8 => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

/// One event's form.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Format {
    id: u64,
    fields: Vec<(String, Field)>,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let field = |line: &str| {
            let mut parts = line.trim().split(';').map(str::trim);
            let name = parts.next()?.strip_prefix("field:")?.rsplit(' ').next()?.to_owned();
            let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
            let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
            Some((name, Field { offset, size }))
        };
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }

    fn field(&self, name: &str) -> Result<Field> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, field)| *field).with_context(|| format!("this kernel's function_graph event has no {name}"))
    }
}

/// What the two events say, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formats {
    entry_id: u64,
    exit_id: u64,
    kind: Field,
    pid: Field,
    entry_function: Field,
    entry_depth: Field,
    exit_function: Field,
    exit_depth: Field,
    overrun: Field,
    called: Field,
    returned: Field,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Entry { function: u64, depth: u64 },
    Exit { function: u64, depth: u64, took: u64, overrun: u64 },
}

impl Formats {
    /// From the texts of the two format files.
    ///
    /// # Errors
    /// When one of them lacks what is needed.
    pub fn parse(entry: &str, exit: &str) -> Result<Self> {
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
        })
    }

    /// The task and event that a record tells of; absent for records of other events.
    #[must_use]
    pub fn event(&self, record: &[u8]) -> Option<(u32, Event)> {
        let pid = u32::try_from(self.pid.of(record)?).ok()?;
        let kind = self.kind.of(record)?;
        let event = if kind == self.entry_id {
            Event::Entry { function: self.entry_function.of(record)?, depth: self.entry_depth.of(record)? }
        } else if kind == self.exit_id {
            Event::Exit {
                function: self.exit_function.of(record)?,
                depth: self.exit_depth.of(record)?,
                took: self.returned.of(record)?.saturating_sub(self.called.of(record)?),
                overrun: self.overrun.of(record)?,
            }
        } else {
            return None;
        };
        Some((pid, event))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As 6.1 has them.
    pub const ENTRY: &str = "\
name: funcgraph_entry
ID: 11
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;
\tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;

print fmt: \"--> %ps (%d)\", (void *)REC->func, REC->depth
";
    pub const EXIT: &str = "\
name: funcgraph_exit
ID: 10
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;
\tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;
\tfield:unsigned int overrun;\toffset:20;\tsize:4;\tsigned:0;
\tfield:unsigned long long calltime;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long long rettime;\toffset:32;\tsize:8;\tsigned:0;

print fmt: \"<-- %ps (%d)\", (void *)REC->func, REC->depth
";

    #[test]
    fn fields_are_found_by_name() {
        let formats = Formats::parse(ENTRY, EXIT).unwrap();
        let mut record = vec![0; 40];
        record[0] = 10;
        record[4] = 77;
        record[8] = 5;
        record[16] = 2;
        record[24] = 100;
        record[32] = 130;
        let event = Event::Exit { function: 5, depth: 2, took: 30, overrun: 0 };
        assert_eq!(formats.event(&record), Some((77, event)));
        record[0] = 9;
        assert_eq!(formats.event(&record), None);
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = Formats::parse(ENTRY, &EXIT.replace("calltime", "calltimf")).unwrap_err();
        assert!(error.to_string().contains("calltime"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_and_record_is_read(text in "(ID: ?[0-9]{0,9}\n)?(\tfield:[a-z ]{0,9};\toffset:[0-9]{0,20};\tsize:[0-9]{1,20};\n){0,4}.{0,40}") {
            let _ = Formats::parse(&text, &text);
        }

        #[test]
        fn any_record_is_read(record in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Formats::parse(ENTRY, EXIT).unwrap().event(&record);
        }
    }
}
