//! Open slots in a full sync: the field `cluster-slot-states` of an RDB file (O-11).
//!
//! The text has `<slot><direction><id>,` for each open slot: the number in decimal, `<` for an imported or
//! `>` for a migrating slot, and the id of the other node, 40 hexadecimal digits. Imported slots precede
//! migrating ones.

use crate::id::NodeId;
use crate::output::SlotMap;
use crate::slots::HashSlot;
use std::fmt::Write as _;

/// Open slots of a primary, each with the other end of its move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenSlotList {
    /// Slots that are imported, each with its source.
    pub importing: Vec<(HashSlot, NodeId)>,
    /// Slots that migrate, each with its target.
    pub migrating: Vec<(HashSlot, NodeId)>,
}

impl OpenSlotList {
    /// The open slots in a map. O(open slots).
    pub fn of(map: &SlotMap) -> OpenSlotList {
        OpenSlotList { importing: map.importing.clone(), migrating: map.migrating.clone() }
    }

    /// The text; `None` if no slot is open.
    pub fn to_text(&self) -> Option<String> {
        let mut text = String::new();
        for (direction, slots) in [('<', &self.importing), ('>', &self.migrating)] {
            for (slot, node) in slots {
                // Writing to a string cannot fail.
                let _ = write!(text, "{}{direction}{node},", slot.number());
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// Parses a text; `None` if it is malformed. O(bytes).
    pub fn parse(text: &[u8]) -> Option<OpenSlotList> {
        let mut open = OpenSlotList::default();
        for item in text.split_inclusive(|byte| *byte == b',') {
            let item = item.strip_suffix(b",")?;
            let at = item.iter().position(|byte| matches!(byte, b'<' | b'>'))?;
            let number: u16 = std::str::from_utf8(&item[..at]).ok()?.parse().ok()?;
            let slot = HashSlot::new(number)?;
            let node = NodeId::parse(&item[at + 1..])?;
            match item[at] {
                b'<' => open.importing.push((slot, node)),
                _ => open.migrating.push((slot, node)),
            }
        }
        Some(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_o11_a_text_is_read_as_it_was_written() {
        let slot = |number| HashSlot::new(number).unwrap();
        let id = |digit: &str| NodeId::parse(digit.repeat(40).as_bytes()).unwrap();
        let open = OpenSlotList {
            importing: vec![(slot(0), id("a")), (slot(16_383), id("b"))],
            migrating: vec![(slot(7), id("c"))],
        };
        let text = open.to_text().unwrap();
        assert_eq!(text, format!("0<{0},16383<{1},7>{2},", "a".repeat(40), "b".repeat(40), "c".repeat(40)));
        assert_eq!(OpenSlotList::parse(text.as_bytes()), Some(open));
        assert_eq!(OpenSlotList::parse(b""), Some(OpenSlotList::default()));
        assert_eq!(OpenSlotList::default().to_text(), None);
    }

    #[test]
    fn cb_b8_other_forms_are_refused() {
        let id = "a".repeat(40);
        for text in [
            format!("0<{id}"),
            format!("16384<{id},"),
            format!("-1<{id},"),
            format!("0={id},"),
            format!("0<{id}a,"),
            format!("0<{},", &id[1..]),
            ",".to_owned(),
            "<,".to_owned(),
            format!("99999999999999999999<{id},"),
        ] {
            assert_eq!(OpenSlotList::parse(text.as_bytes()), None, "{text}");
        }
    }
}
