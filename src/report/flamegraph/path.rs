//! The flame graph of a critical path: its width is the wall time. Above each process is what it did: on a CPU, with the
//! functions of its samples above, or what it waited for.

use super::dress::{self, Dress, Frame, Swatch};
use super::table::StackTable;
use super::tree::{FrameNode, FrameTree};
use super::{GraphOptions, MIN_WIDTH_PERCENT, lay_out};
use crate::profile::{Attributor, Folded};
use crate::roles::Role;
use crate::util::text::grouped;
use anyhow::{Result, bail};
use std::cmp::Reverse;

/// The frame of a process that runs. Functions are above it.
pub const ON_CPU: &str = "on a CPU";

/// The frames of a process that could run. Who had the CPU is above them.
pub const FOR_CPU: &str = "waiting for a CPU";

const PROCESS: &str = "#d9d4c7";
const RUNS: &str = "#b9b2a0";
const RUNNABLE: &str = "#e7a95b";
const ASLEEP: &str = "#9db9dd";

/// What a frame is.
enum PathFrame {
    Process,
    OnCpu,
    Function,
    ForCpu,
    Asleep,
}

impl PathFrame {
    /// By the names of the frames up to it, root first.
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut names = names.skip(1);
        match (names.next(), names.next()) {
            (None, _) => Self::Process,
            (Some(ON_CPU), None) => Self::OnCpu,
            (Some(ON_CPU), Some(_)) => Self::Function,
            (Some(FOR_CPU), _) => Self::ForCpu,
            _ => Self::Asleep,
        }
    }
}

/// The SVG of `stacks`, whose weights are nanoseconds. Equal input gives equal bytes.
pub fn render_path(stacks: &Folded, options: &GraphOptions) -> Result<String> {
    if stacks.is_empty() {
        bail!("nothing to draw: there is no critical path");
    }
    let attributor = Attributor::new(stacks, options.skid);
    let mut table = StackTable::new(&options.processes, false);
    let mut roles: Vec<(&'static Role, u64)> = Vec::new();
    let (mut unsampled, mut runnable, mut asleep, mut others) = (0u64, 0u64, 0u64, 0u64);
    for (stack, weight) in stacks.iter() {
        table.add(stack, weight);
        match PathFrame::of(stack.frames()) {
            PathFrame::Process => others = others.saturating_add(weight),
            PathFrame::OnCpu => unsampled = unsampled.saturating_add(weight),
            PathFrame::ForCpu => runnable = runnable.saturating_add(weight),
            PathFrame::Asleep => asleep = asleep.saturating_add(weight),
            PathFrame::Function => {
                let role = attributor.place(stack).role;
                match roles.iter_mut().find(|(known, _)| known.id == role.id) {
                    Some((_, sum)) => *sum = sum.saturating_add(weight),
                    None => roles.push((role, weight)),
                }
            }
        }
    }
    let total = stacks.total();
    let share = |weight: u64| 100.0 * weight as f64 / total as f64;
    let tree = FrameTree::of(&table, &table.places(|name| name));
    let paint = |node: &FrameNode<'_>, name: &str, path: &str| -> Frame {
        let mut about = format!("{} {}, {:.2}%", grouped(node.weight), options.weights, share(node.weight));
        let fill = match PathFrame::of(path.split(';')) {
            PathFrame::Process => PROCESS,
            PathFrame::OnCpu => RUNS,
            PathFrame::ForCpu => RUNNABLE,
            PathFrame::Asleep => ASLEEP,
            PathFrame::Function => {
                let role = attributor.place_frames(path.split(';')).role;
                about += &format!("; {}", role.title);
                role.colour
            }
        };
        Frame { name: name.to_owned(), about, fill: fill.to_owned() }
    };
    let swatch = |colour: &str, label: &str, weight: u64, search: Option<String>| {
        Swatch::new(colour, label, format!("{:.1}%", share(weight)), search)
    };
    roles.sort_by_key(|(role, weight)| (Reverse(*weight), role.title));
    let unsampled_label = if roles.is_empty() { ON_CPU } else { "on a CPU, no sample" };
    let further = [
        (RUNNABLE, FOR_CPU, runnable),
        (ASLEEP, "asleep or stopped", asleep),
        (RUNS, unsampled_label, unsampled),
        (PROCESS, "others", others),
    ];
    let visible = |weight: u64| share(weight) >= MIN_WIDTH_PERCENT;
    let of_roles = roles
        .iter()
        .filter(|(_, weight)| visible(*weight))
        .map(|(role, weight)| swatch(role.colour, role.title, *weight, Some(format!("; {}\\)$", role.title))));
    let of_others = further.into_iter().filter(|(.., weight)| visible(*weight));
    let dress = Dress {
        frames: tree.painted(paint),
        legend: of_roles.chain(of_others.map(|(colour, label, weight)| swatch(colour, label, weight, None))).collect(),
        note: vec![format!("The width is the wall time. Parts narrower than {MIN_WIDTH_PERCENT} % are left out.")],
        whole: format!("{} {}, 100%", grouped(total), options.weights),
    };
    dress::dress(&lay_out(&tree, options)?, &dress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Unit;
    use crate::roles::Skid;

    #[test]
    fn functions_have_their_roles_and_waits_colours_of_their_own() {
        let text = "gzip;on a CPU;deflate 500\ngzip;on a CPU;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_read 200\n\
            gzip;on a CPU 100\ngzip;waiting for a CPU;used by cc1 100\nsleep;sleeping on a timer 60\nthe start 40\n";
        let stacks = Folded::parse(text).unwrap();
        let options = GraphOptions::new("t", "s", Unit::Nanoseconds, Skid::None);
        let svg = render_path(&stacks, &options).unwrap();
        for part in [
            PROCESS,
            RUNS,
            RUNNABLE,
            ASLEEP,
            "deflate (500 ns, 50.00%; user)",
            "sleeping on a timer (60 ns, 6.00%)",
            "on a CPU, no sample 10.0%",
            "waiting for a CPU 10.0%",
            "asleep or stopped 6.0%",
            "others 4.0%",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(render_path(&Folded::new(), &options).is_err());
    }
}
