//! Flame graphs of sleeps: the stack of the sleeper, then [`WOKEN_BY`], then that of who ended the sleep, upside down.

use super::dress::{self, Dress, Frame, Swatch};
use super::table::StackTable;
use super::tree::{FrameNode, FrameTree};
use super::{GraphOptions, MIN_WIDTH_PERCENT, lay_out};
use crate::profile::Folded;
use crate::util::text::grouped;
use anyhow::{Result, bail};

/// The frame between the two stacks.
pub const WOKEN_BY: &str = "--";

const ASLEEP: &str = "#9db9dd";
const WAKER: &str = "#a9d68b";
const BETWEEN: &str = "#6d7681";

/// The SVG of `stacks`, whose weights are microseconds. Equal input gives equal bytes.
pub fn render_waits(stacks: &Folded, options: &GraphOptions) -> Result<String> {
    if stacks.is_empty() {
        bail!("nothing to draw: no thread slept");
    }
    let mut table = StackTable::new(&options.processes, false);
    for (stack, weight) in stacks.iter() {
        table.add(stack, weight);
    }
    let tree = FrameTree::of(&table, &table.places(|name| name));
    let total = stacks.total();
    let paint = |node: &FrameNode<'_>, name: &str, path: &str| -> Frame {
        let fill = match path.split(';').any(|name| name == WOKEN_BY) {
            _ if name == WOKEN_BY => BETWEEN,
            true => WAKER,
            false => ASLEEP,
        };
        let share = 100.0 * node.weight as f64 / total as f64;
        let about = format!("{} {}, {share:.2}%", grouped(node.weight), options.weights);
        Frame { name: name.to_owned(), about, fill: fill.to_owned() }
    };
    let swatch = |colour: &str, label: &str| Swatch::new(colour, label, "", None);
    let dress = Dress {
        frames: tree.painted(paint),
        legend: vec![swatch(ASLEEP, "asleep here"), swatch(WAKER, "woken here, callers above")],
        note: vec![format!("Stacks narrower than {MIN_WIDTH_PERCENT} % are left out.")],
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
    fn sleeper_and_waker_have_colours_of_their_own() {
        let stacks = Folded::parse("wc;pipe_read;__schedule;--;try_to_wake_up;dd 1000").unwrap();
        let options =
            GraphOptions { weights: "µs".to_owned(), ..GraphOptions::new("t", "s", Unit::Samples, Skid::None) };
        let svg = render_waits(&stacks, &options).unwrap();
        for part in [ASLEEP, WAKER, BETWEEN, "pipe_read", "1,000 µs, 100.00%", "asleep here"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(render_waits(&Folded::new(), &options).is_err());
    }
}
