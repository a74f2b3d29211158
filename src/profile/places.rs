//! Where frames of stacks are: addresses, programs and lines. Names alone decide roles and pictures; places are for
//! formats of other programs.

use super::stacks::CallStack;
use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a frame is; each part is absent if it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FramePlace {
    /// Of the instruction; for callers, inside of the call. As in the ELF file of the kernel or the program; in a profile
    /// of another tool as this has it.
    pub address: Option<u64>,
    /// The program, library or kernel module.
    pub module: Option<Arc<str>>,
    /// The source file, and the line in it.
    pub file: Option<Arc<str>>,
    pub line: Option<u32>,
}

impl FramePlace {
    /// This place; `None` if nothing of it is known.
    pub fn if_known(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The parts of stacks that differ in the places of their frames.
#[derive(Debug, Clone, Default)]
pub(super) struct PlacedStacks {
    places: IndexSet<FramePlace>,
    /// By the number of the stack: of each part, for each frame 0 or 1 more than the number of its place, and the weight.
    parts: IndexMap<usize, IndexMap<Box<[u32]>, u64>>,
}

/// A stack, or a part of its weight, with the places of its frames.
#[derive(Debug, Clone, Copy)]
pub struct LocatedStack<'a> {
    pub stack: CallStack<'a>,
    pub weight: u64,
    all: &'a IndexSet<FramePlace>,
    /// As many as frames, or none at all.
    places: &'a [u32],
}

impl<'a> LocatedStack<'a> {
    /// The place of each frame, root first.
    pub fn places(&self) -> impl Iterator<Item = Option<&'a FramePlace>> {
        let all = self.all;
        let own = self.places.iter().map(move |number| all.get_index((*number as usize).checked_sub(1)?));
        own.chain(std::iter::repeat(None)).take(self.stack.frames().len())
    }

    /// Name and place of each frame, root first.
    pub fn frames(&self) -> impl Iterator<Item = (&'a str, Option<&'a FramePlace>)> {
        self.stack.frames().zip(self.places())
    }
}

impl PlacedStacks {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Add `weight` to the part of `stack` with these places, one for each frame.
    pub(super) fn add(&mut self, stack: usize, places: Vec<Option<FramePlace>>, weight: u64) {
        if places.iter().all(Option::is_none) {
            return;
        }
        let mut number =
            |place: Option<FramePlace>| place.map_or(0, |place| self.places.insert_full(place).0 as u32 + 1);
        let numbers: Box<[u32]> = places.into_iter().map(&mut number).collect();
        let sum = self.parts.entry(stack).or_default().entry(numbers).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// The parts of `stack`, whose number is `index`, in the order of their places. What is left of its weight is the
    /// last one.
    pub(super) fn of<'a>(
        &'a self,
        index: usize,
        stack: CallStack<'a>,
        weight: u64,
    ) -> impl Iterator<Item = LocatedStack<'a>> {
        let all = &self.places;
        let own = self.parts.get(&index).into_iter().flatten();
        let mut parts: Vec<LocatedStack<'a>> =
            own.map(|(places, weight)| LocatedStack { stack, weight: *weight, all, places }).collect();
        parts.sort_by(|one, other| one.places().cmp(other.places()));
        let left = parts.iter().fold(weight, |left, part| left.saturating_sub(part.weight));
        parts.extend((left > 0).then_some(LocatedStack { stack, weight: left, all, places: &[] }));
        parts.into_iter()
    }
}

/// The version of the stored form.
const PLACES_SCHEMA: &str = "pipeprof-places/1";

/// Stacks with the places of their frames, as they are stored beside folded text: each frame once, and stacks as lists
/// of the frames' indices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPlaces {
    schema: String,
    frames: Vec<StoredFrame>,
    /// Weight, and the indices of frames, root first.
    stacks: Vec<(u64, Vec<u32>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct StoredFrame {
    name: String,
    /// In hexadecimal digits: JSON's numbers are too short for some programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

pub(super) type NamedPlace<'a> = (&'a str, Option<FramePlace>);

impl StoredPlaces {
    /// The form of `stacks`; those without any place are left out.
    pub(super) fn of<'a>(stacks: impl Iterator<Item = LocatedStack<'a>>) -> Self {
        let mut frames: IndexSet<StoredFrame> = IndexSet::new();
        let mut stored = Vec::new();
        for located in stacks.filter(|located| !located.places.is_empty()) {
            let index = |frame| frames.insert_full(frame).0 as u32;
            stored.push((located.weight, located.frames().map(StoredFrame::of).map(index).collect()));
        }
        Self { schema: PLACES_SCHEMA.to_owned(), frames: frames.into_iter().collect(), stacks: stored }
    }

    /// Weight and frames of the stacks, root first, one after the other: a small file can have long ones.
    pub(super) fn stacks(
        &self,
        deepest: usize,
    ) -> Result<impl Iterator<Item = Result<(u64, Vec<NamedPlace<'_>>), &'static str>>, &'static str> {
        if self.schema != PLACES_SCHEMA {
            return Err("it has another version: run again with this pipeprof");
        }
        let mut texts = IndexSet::new();
        let places: Option<Vec<Option<FramePlace>>> = self.frames.iter().map(|frame| frame.place(&mut texts)).collect();
        let places = places.ok_or("an address is not a hexadecimal number")?;
        Ok(self.stacks.iter().map(move |(weight, frames)| {
            if frames.len() > deepest {
                return Err("it has a stack that is missing there");
            }
            let frame = |index: &u32| {
                let index = *index as usize;
                Some((self.frames.get(index)?.name.as_str(), places.get(index)?.clone()))
            };
            let frames: Option<Vec<NamedPlace<'_>>> = frames.iter().map(frame).collect();
            Ok((*weight, frames.ok_or("a stack has a frame that is missing")?))
        }))
    }
}

impl StoredFrame {
    fn of((name, place): (&str, Option<&FramePlace>)) -> Self {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        Self {
            name: name.to_owned(),
            address: place.and_then(|place| place.address).map(|address| format!("{address:x}")),
            module: place.and_then(|place| text(&place.module)),
            file: place.and_then(|place| text(&place.file)),
            line: place.and_then(|place| place.line),
        }
    }

    /// Its place, if it has one. The outer `None` means that its address is not a number. `texts`: those of other frames.
    fn place(&self, texts: &mut IndexSet<Arc<str>>) -> Option<Option<FramePlace>> {
        let mut shared = |text: &Option<String>| {
            let text = text.as_deref()?;
            let known = texts.get(text).cloned();
            Some(known.unwrap_or_else(|| {
                let new: Arc<str> = text.into();
                texts.insert(new.clone());
                new
            }))
        };
        let place = FramePlace {
            address: self.address.as_deref().map(|digits| u64::from_str_radix(digits, 16)).transpose().ok()?,
            module: shared(&self.module),
            file: shared(&self.file),
            line: self.line,
        };
        Some(place.if_known())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::Skid;
    use crate::{Folded, ProcessName, Profile, Unit};

    fn at(address: u64) -> Option<FramePlace> {
        Some(FramePlace { address: Some(address), module: Some("/bin/dd".into()), ..FramePlace::default() })
    }

    fn example() -> Folded {
        let mut folded = Folded::new();
        folded.add_located([("dd", None), ("main", at(u64::MAX)), ("read", at(7))], 3);
        folded.add_located([("dd", None), ("main", at(u64::MAX)), ("read", at(5))], 2);
        folded.add_frames(["dd", "main", "read"], 1);
        folded.add_frames(["dd"], 4);
        let line = FramePlace { file: Some("dd.c".into()), line: Some(12), ..FramePlace::default() };
        folded.add_located([("dd", None), ("main", Some(line))], 5);
        folded
    }

    #[test]
    fn places_divide_stacks_and_names_stay_whole() {
        let folded = example();
        assert_eq!(folded.to_text(), "dd 4\ndd;main 5\ndd;main;read 6\n");
        let parts: Vec<(String, u64, Option<u64>)> = folded
            .located()
            .map(|part| (part.stack.to_string(), part.weight, part.places().last().flatten().and_then(|at| at.address)))
            .collect();
        let read = |weight, address| ("dd;main;read".to_owned(), weight, address);
        assert_eq!(parts[2..], [read(2, Some(5)), read(3, Some(7)), read(1, None)]);
        assert_eq!(parts.iter().map(|(_, weight, _)| weight).sum::<u64>(), folded.total());
    }

    #[test]
    fn places_survive_storage_beside_the_text_and_merging() {
        let folded = example();
        let json = serde_json::to_string(&folded.stored_places()).unwrap();
        assert!(json.contains("\"address\":\"ffffffffffffffff\",\"module\":\"/bin/dd\""), "{json}");
        let mut read = Folded::parse(&folded.to_text()).unwrap();
        assert_ne!(read, folded);
        assert_eq!(read.stored_places(), None);
        read.restore_places(&serde_json::from_str(&json).unwrap()).unwrap();
        assert_eq!(read, folded);
        let profile = Profile {
            process: ProcessName::new("dd"),
            collector: "sample".to_owned(),
            unit: Unit::Samples,
            skid: Skid::None,
            stacks: folded.clone(),
        };
        let portable: Profile = serde_json::from_str(&serde_json::to_string(&profile).unwrap()).unwrap();
        assert_eq!(portable, profile);

        let mut both = folded.clone();
        both.merge(&folded);
        assert_eq!(both.total(), 2 * folded.total());
        assert_eq!(both.located().count(), folded.located().count());
        let mut merged = Folded::new();
        merged.merge(&folded);
        assert_eq!(merged, folded);
    }

    #[test]
    fn places_of_other_stacks_are_refused() {
        let stored = example().stored_places().unwrap();
        let error = |text: &str, stored: &StoredPlaces| {
            let mut folded = Folded::parse(text).unwrap();
            let error = folded.restore_places(stored).unwrap_err();
            assert_eq!(folded.stored_places(), None);
            error
        };
        let own = example().to_text();
        assert_eq!(error("dd;main 5\n", &stored), "it has a stack that is missing there");
        assert_eq!(error("dd;main 5\ndd;main;read 4\n", &stored), "its weights are larger than those there");
        assert!(error(&own, &StoredPlaces { schema: "x".to_owned(), ..stored.clone() }).starts_with("it has another"));
        let missing = StoredPlaces { stacks: vec![(1, vec![99])], ..stored.clone() };
        assert_eq!(error(&own, &missing), "a stack has a frame that is missing");
        // More frames than any of these stacks has.
        let long = StoredPlaces { stacks: vec![(1, vec![0; 1000])], ..stored.clone() };
        assert_eq!(error(&own, &long), "it has a stack that is missing there");
        let mut odd = stored;
        odd.frames[1].address = Some("0x1".to_owned());
        assert_eq!(error(&own, &odd), "an address is not a hexadecimal number");
    }
}
