//! The ids that processes have in several PID namespaces.

use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Further processes are known by one id only.
const MOST: usize = 16_384;

/// The ids of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ids {
    /// In pipeprof's PID namespace; 0 if it has none there.
    here: u32,
    /// In its own.
    inside: u32,
}

/// By the id that counts have: that of the initial namespace, as far as it is known. Only processes of which these differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessIds(HashMap<u32, Ids, FixedState>);

impl ProcessIds {
    /// A process that counts have as `tgid`. An id may be that of another process than before.
    pub(crate) fn add(&mut self, tgid: u32, [here, inside]: [u32; 2]) {
        if inside == 0 || [here, inside] == [tgid; 2] {
            self.0.remove(&tgid);
        } else if self.0.len() < MOST || self.0.contains_key(&tgid) {
            self.0.insert(tgid, Ids { here, inside });
        }
    }

    /// Forget processes of which `is_kept` does not hold.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&u32) -> bool) {
        self.0.retain(|tgid, _| is_kept(tgid));
    }

    /// The id in pipeprof's PID namespace; of a process outside of it, the id in the first namespace.
    pub(crate) fn here(&self, tgid: u32) -> u32 {
        self.0.get(&tgid).map(|ids| ids.here).filter(|here| *here > 0).unwrap_or(tgid)
    }

    /// The ids of these processes in their own namespaces; none if all of them are those in pipeprof's.
    pub(crate) fn inside(&self, tgids: &[u32]) -> Vec<u32> {
        let inside = |tgid: &u32| self.0.get(tgid).map_or(*tgid, |ids| ids.inside);
        let differ = |tgid: &u32| inside(tgid) != self.here(*tgid);
        if tgids.iter().any(differ) { tgids.iter().map(inside).collect() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_the_ids_of_both_sides() {
        let mut ids = ProcessIds::default();
        // Seen from outside, from inside of the same container, and from another one.
        ids.add(700, [700, 7]);
        ids.add(800, [8, 8]);
        ids.add(900, [0, 9]);
        ids.add(600, [600, 600]);
        ids.add(500, [0, 0]);
        assert_eq!([700, 800, 900, 600, 500].map(|tgid| ids.here(tgid)), [700, 8, 900, 600, 500]);
        assert_eq!(ids.inside(&[700, 600]), [7, 600]);
        assert_eq!(ids.inside(&[900]), [9]);
        assert!(ids.inside(&[800]).is_empty() && ids.inside(&[500, 600]).is_empty());
        // The id is used again.
        ids.add(700, [700, 700]);
        assert!(ids.inside(&[700]).is_empty());
        (1..=2 * MOST as u32).for_each(|tgid| ids.add(tgid, [tgid, tgid + 1]));
        assert_eq!(ids.0.len(), MOST);
    }
}
