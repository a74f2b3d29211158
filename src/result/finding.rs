//! What a report says first: sentences with a kind, and the evidence for programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sentence of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub kind: FindingKind,
    /// Indices in `recorded`, the subject of the sentence first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<usize>,
    /// Indices in `channels`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<usize>,
    /// How many calls, processes or other things of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Of so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// When, from the begin of the window, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// For how long, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<u64>,
    /// For readers.
    pub text: String,
}

/// What a finding says, in the order of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// No process was recorded.
    NotRecorded,
    /// The kernel killed a program for lack of memory.
    Starved,
    /// A terminal cut lines that were too long, or put bytes into what is no text.
    LineCut,
    /// Processes wait for each other, or one for itself: nothing can go on.
    Circle,
    /// What would let a circle go on.
    Remedy,
    /// Two processes waited for each other until the time of one was over.
    TimedCircle,
    /// Writes failed, because the reader had ended.
    Broken,
    /// A program ended before all was written.
    Unsent,
    /// What came by connections was never read.
    NeverRead,
    /// A program read what another one was to read.
    Taken,
    /// A process read at the end of file again and again.
    AtEnd,
    /// Writes failed, because the device had no room.
    NoSpace,
    /// A pipeline empties a file that it reads.
    OwnInput,
    /// Processes overwrite each other's part of a file, or what another one has just written.
    Overwritten,
    /// A process failed, because another one had just made or removed a file, or had not made it yet.
    Raced,
    /// A file says that a process runs, which has ended without removing it.
    LeftLock,
    /// A process writes to a file that has no name any more.
    Deleted,
    /// A process reads or writes on where it was in a file that another one had emptied.
    Hole,
    /// What was in a FIFO was lost when nobody had it open.
    FifoLost,
    /// Datagrams were not sent, because the socket had no room, or were cut.
    Datagrams,
    /// A part of a shell could only set variables, which nobody gets.
    LostVariables,
    /// A process ended others that it had not started, with a signal to its whole group, or only some of those that it had.
    GroupEnded,
    /// A process ended another one, and waits for a pipe that what that had started has open.
    Outlived,
    /// A port is that of another process.
    AddressInUse,
    /// Connections were refused, or found no room in the queue of who listens.
    Refused,
    /// A process closes, reads or writes descriptors that are not open.
    BadDescriptors,
    /// Nearly all system calls of a process fail, again and again.
    FailedCalls,
    /// A process has no descriptor left for another file.
    FullTable,
    /// No process could be started, because there were too many.
    NoProcess,
    /// A process follows a file whose name is that of another one by now.
    Renamed,
    /// A process asks again and again how much there is to read.
    FillAsks,
    /// A process reads or writes files by a few bytes each.
    TinyCalls,
    /// A process asks again and again whether its child has ended.
    ChildAsks,
    /// A process tries again at once what a channel cannot do yet.
    Retries,
    /// A file is cut, because what wrote it was ended by SIGPIPE, or what reads it stops in the middle.
    Cut,
    /// What was in a buffer when a process forked was written by its children, too.
    Doubled,
    /// A shell does not use a last line that has no end.
    LastLine,
    /// A program ended before a child of its own had read all that it wrote.
    NotAwaited,
    /// The exit code of a child is lost.
    LostChild,
    /// A process sleeps on a timer between its reads, or between writes that find no room, or waits until its connection has sent what it wrote.
    Naps,
    /// The reader of a process has ended, which it has not noticed.
    Unnoticed,
    /// A process only looks now and then whether a child has ended, which works meanwhile.
    Watches,
    /// What the last time was made of before what the recording waited for.
    Stall,
    /// A process was stopped most of the time.
    Stopped,
    /// A process only has open what others wait for.
    Held,
    /// Nobody opens the other end of a FIFO.
    Unopened,
    /// A process has the lock of a file for which another one waits, or which it did not get.
    FileLock,
    /// A program failed, which the exit code of the pipeline does not show.
    HiddenFailure,
    /// A fault of its own ended a program.
    Crashed,
    /// Which process the exit code comes from.
    ExitCode,
    /// The exit code is that of a process that SIGPIPE ended.
    Sigpipe,
    /// A thread of a process is on a CPU all the time, and those that the path goes through sleep; or it wakes for nothing all the
    /// time.
    BusyThread,
    /// A program did not read all of what its child wrote.
    Unread,
    /// Blocks of several writers can be torn.
    Torn,
    /// Short reads were counted as blocks.
    ShortBlock,
    /// A program buffers its output.
    Late,
    /// A program goes on although a signal has ended what had started it.
    LeftRunning,
    /// A process reads what several others write one after the other, each to its end.
    InOrder,
    /// A `make` has started another one without its job server, so that this runs one job at a time.
    NoJobServer,
    /// What the time was made of, mostly what is a cause of itself.
    Cause,
    /// What the time was made of, mostly waits that others could have ended.
    Path,
    /// Standard output comes after standard error in the same channel, because it is buffered.
    OutOfOrder,
    /// A pipe is small, because its user has too many.
    UserPages,
    /// A process had read what was in its memory until its slow reader took it.
    Backlog,
    /// A process polls for data that it never reads.
    Polls,
    /// A process waits again and again until the disk has what it wrote.
    Syncs,
    /// Many short processes were started.
    Started,
    /// Programs that could run at the same time do not.
    Turns,
    /// A program does what the next one undoes.
    Undone,
    /// `xargs` started a program although it had nothing for it.
    EmptyInput,
    /// A program failed, and what started it went on, which may be as it is wanted; or its time was over.
    Tolerated,
    /// What is on a CPU most of the time moves few bytes per call.
    SmallCalls,
    /// Threads hand their work to each other, one after the other.
    HandOvers,
    /// Each block goes through a channel in many turns.
    LargeBlocks,
    /// What would make it faster.
    Advice,
    /// What it was made of at different times.
    Phases,
    /// How long it would take without its most important process.
    Ceiling,
    /// No pipe was used.
    NoPipe,
    /// A process waits at a pipe whose other side no recorded process used.
    Outside,
    /// Who waits most, apart from the path.
    Waiting,
    /// A pipe holds less than the default.
    SmallPipe,
    /// Threads of the kernel do what a program asks io_uring for.
    RingThreads,
    /// Reads and writes that were not recorded: `io_uring`, `io_submit`.
    Unseen,
    /// Processes that were not recorded have a pipe open.
    Unrecorded,
    /// Recorded processes have a pipe open and make no calls on it.
    OnlyOpen,
    /// Another program ended one.
    Ended,
    /// What changes did that were tried, or why none was.
    Trial,
    /// Why instructions were not counted.
    NotCounted,
    /// What a command of an imported profile spends its time on.
    Imported,
}

impl FindingKind {
    /// Whether something goes wrong that a faster program would not fix.
    pub fn is_fault(self) -> bool {
        use FindingKind::{
            AddressInUse, AtEnd, BadDescriptors, Broken, ChildAsks, Circle, Crashed, Cut, Datagrams, Deleted, Doubled,
            FailedCalls, FifoLost, FillAsks, FullTable, GroupEnded, Hole, LastLine, Late, LeftLock, LineCut, LostChild,
            Naps, NeverRead, NoProcess, NoSpace, NotAwaited, OutOfOrder, Outlived, Overwritten, OwnInput, Polls, Raced,
            Refused, Renamed, Retries, ShortBlock, Sigpipe, Started, Syncs, Taken, TinyCalls, Torn, Unnoticed, Unread,
            Unsent,
        };
        matches!(
            self,
            Circle
                | Broken
                | AtEnd
                | Retries
                | OwnInput
                | NoSpace
                | Overwritten
                | Raced
                | LeftLock
                | Deleted
                | FifoLost
                | LineCut
                | Refused
                | GroupEnded
                | Outlived
                | AddressInUse
                | BadDescriptors
                | FailedCalls
                | FillAsks
                | TinyCalls
                | ChildAsks
                | Crashed
                | NoProcess
                | NeverRead
                | Hole
                | FullTable
                | Renamed
                | Syncs
                | Cut
                | Doubled
                | LastLine
                | NotAwaited
                | OutOfOrder
                | LostChild
                | Naps
                | Unnoticed
                | Unsent
                | Unread
                | Datagrams
                | Torn
                | Taken
                | ShortBlock
                | Late
                | Polls
                | Sigpipe
                | Started
        )
    }
}

impl Finding {
    /// Of these processes; without numbers.
    pub fn new(kind: FindingKind, processes: impl IntoIterator<Item = usize>, text: String) -> Self {
        let (channels, processes) = (Vec::new(), processes.into_iter().collect());
        Self { kind, processes, channels, count: None, of: None, bytes: None, at_ns: None, ns: None, text }
    }
}
