//! Writes the events of a trace of Perfetto: tracks, slices, counters and flows.

use super::perfetto_proto::{CounterDescriptor, TracePacket, TrackDescriptor, TrackEvent, TrackEventKind};

/// Nothing of before the first packet of a sequence is known (SEQ_INCREMENTAL_STATE_CLEARED).
pub(super) const FIRST: u32 = 1;

/// Packets, and the number of the last flow.
#[derive(Default)]
pub(super) struct TraceWriter {
    tracks: Vec<TracePacket>,
    pub(super) events: Vec<TracePacket>,
    flows: u64,
}

impl TraceWriter {
    /// A track of its own or below another. Returns its number.
    pub(super) fn track(&mut self, name: &str, parent: u64, description: &str) -> u64 {
        let uuid = self.tracks.len() as u64 + 1;
        let descriptor = TrackDescriptor {
            uuid,
            name: name.to_owned(),
            parent_uuid: parent,
            description: description.to_owned(),
            ..TrackDescriptor::default()
        };
        self.tracks.push(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        uuid
    }

    pub(super) fn descriptor(&mut self, track: u64) -> Option<&mut TrackDescriptor> {
        let at = usize::try_from(track).ok()?.checked_sub(1)?;
        self.tracks.get_mut(at)?.track_descriptor.as_mut()
    }

    pub(super) fn event(&mut self, at_ns: u64, track: u64, kind: TrackEventKind, name: &str) -> &mut TrackEvent {
        let event = TrackEvent { kind: kind.into(), track_uuid: track, name: name.to_owned(), ..TrackEvent::default() };
        self.events.push(TracePacket { timestamp: Some(at_ns), ..TracePacket::default() });
        let last = self.events.len() - 1;
        self.events[last].track_event.insert(event)
    }

    pub(super) fn slice(&mut self, track: u64, name: &str, [begin, end]: [u64; 2]) -> &mut TrackEvent {
        self.event(end, track, TrackEventKind::SliceEnd, "");
        self.event(begin, track, TrackEventKind::SliceBegin, name)
    }

    /// Connect the event at this place of [`Self::events`] with the next one.
    pub(super) fn flow_from(&mut self, event: usize) -> u64 {
        self.flows += 1;
        if let Some(event) = self.events.get_mut(event).and_then(|packet| packet.track_event.as_mut()) {
            event.flow_ids.push(self.flows);
        }
        self.flows
    }

    /// A counter with a value in each slice, and none where it is not known.
    pub(super) fn counter(
        &mut self,
        (name, unit): (&str, &str),
        parent: u64,
        slices: &[u64],
        value: impl Fn(usize) -> Option<f64>,
    ) {
        let track = self.track(name, parent, "");
        if let Some(descriptor) = self.descriptor(track) {
            descriptor.counter = Some(CounterDescriptor { unit_name: unit.to_owned() });
        }
        let mut begin = 0u64;
        for (slice, length) in slices.iter().enumerate() {
            if let Some(value) = value(slice) {
                self.event(begin, track, TrackEventKind::Counter, "").double_counter_value = Some(value);
            }
            begin = begin.saturating_add(*length);
        }
        self.event(begin, track, TrackEventKind::Counter, "").double_counter_value = Some(0.0);
    }

    pub(super) fn finish(self, sequence: u32) -> Vec<TracePacket> {
        let Self { tracks, mut events, .. } = self;
        // An end before a begin at the same time.
        let order = |packet: &TracePacket| {
            let begins = packet.track_event.as_ref().is_some_and(|event| event.kind() == TrackEventKind::SliceBegin);
            (packet.timestamp, begins)
        };
        events.sort_by_key(order);
        let mut packet: Vec<TracePacket> = tracks.into_iter().chain(events).collect();
        packet.iter_mut().for_each(|packet| packet.trusted_packet_sequence_id = sequence);
        if let Some(first) = packet.first_mut() {
            first.sequence_flags = FIRST;
        }
        packet
    }
}
