//! Sorted sets in files: building, checking and sorting a set, and the listpack form of a small set.

use sluice_base::num::{IntBuffer, parse_f64, push_f64};
use sluice_collections::listpack::{self, Element, entry};
use sluice_value::{Zset, ZsetContext, ZsetEncoding, ZsetLimits, ZsetRef};

use super::cursor::{InputCursor, ReadStop};
use super::error::Problem;
use super::kind::ZsetForm;
use super::{ReadOptions, ziplist};

/// A sorted set that is being loaded, element by element. Memory: the bytes of the members, and three
/// words for each member.
#[derive(Debug)]
pub(super) struct ZsetBuilder {
    limits: ZsetLimits,
    seed: sluice_base::HashSeed,
    members: Vec<u8>,
    /// Range of each member in `members`, and the member's score.
    elements: Vec<(usize, usize, f64)>,
    longest: usize,
    /// Whether the elements were in a listpack or ziplist; their scores then stay unchanged.
    is_packed: bool,
}

impl ZsetBuilder {
    pub(super) fn new(options: &ReadOptions) -> ZsetBuilder {
        ZsetBuilder {
            limits: options.zset,
            seed: options.member_seed,
            members: Vec::new(),
            elements: Vec::new(),
            longest: 0,
            is_packed: false,
        }
    }

    fn add(&mut self, member: &[u8], score: f64) {
        let start = self.members.len();
        self.members.extend_from_slice(member);
        self.elements.push((start, start + member.len(), score));
        self.longest = self.longest.max(member.len());
    }

    /// Adds the elements of a listpack, members and scores alternating; `false` if the bytes are malformed.
    fn add_listpack(&mut self, bytes: &[u8]) -> bool {
        if !listpack::is_valid(bytes) {
            return false;
        }
        let mut elements = listpack::iter(bytes);
        while let Some(member) = elements.next() {
            let score = match elements.next() {
                Some(Element::Int(number)) => Some(number as f64),
                Some(Element::Bytes(text)) => parse_f64(text),
                None => None,
            };
            let Some(score) = score else { return false };
            match member {
                Element::Int(number) => self.add(IntBuffer::new().format(number), score),
                Element::Bytes(member) => self.add(member, score),
            }
        }
        // A set that was a listpack in the file stays a listpack even if its members are long.
        self.longest = 0;
        self.is_packed = true;
        true
    }

    fn member(&self, (start, end, _): (usize, usize, f64)) -> &[u8] {
        &self.members[start..end]
    }

    /// The sorted set, with the encoding that its size requires; `None` if it has no element. Errors: a
    /// member occurs twice.
    pub(super) fn finish(mut self) -> Result<Option<Zset>, Problem> {
        if self.elements.is_empty() {
            return Ok(None);
        }
        let mut elements = std::mem::take(&mut self.elements);
        // Elements that are stored one by one begin with the highest score, so reversing leaves nothing to
        // sort.
        elements.reverse();
        elements.sort_by(|one, other| {
            // -0 and 0 are equal scores.
            (one.2 + 0.0).total_cmp(&(other.2 + 0.0)).then_with(|| self.member(*one).cmp(self.member(*other)))
        });
        let encoding = self.limits.encoding_for(elements.len(), self.longest);
        let mut context = ZsetContext::new(self.limits, self.seed);
        let sorted = elements.iter().map(|element| (self.member(*element), element.2));
        let zset = match self.is_packed {
            true => Zset::from_packed(sorted, encoding, &mut context),
            false => Zset::from_sorted(sorted, encoding, &mut context),
        };
        if zset.has_duplicates() { Err(Problem::Zset) } else { Ok(Some(zset)) }
    }
}

/// Decodes an element, or a whole set in one text.
pub(super) fn part(
    form: ZsetForm,
    builder: &mut ZsetBuilder,
    cursor: &mut InputCursor<'_>,
) -> Result<(), ReadStop> {
    let offset = cursor.offset();
    let is_good = match form {
        ZsetForm::Listpack => builder.add_listpack(&cursor.text()?),
        ZsetForm::Ziplist => {
            ziplist::to_listpack(&cursor.text()?).is_some_and(|listpack| builder.add_listpack(&listpack))
        }
        ZsetForm::Doubles => {
            let member = cursor.text()?;
            let score = f64::from_le_bytes(cursor.array()?);
            builder.add(&member, score);
            !score.is_nan()
        }
        ZsetForm::Texts => {
            let member = cursor.text()?;
            let score = match cursor.byte()? {
                MINUS_INFINITY => Some(f64::NEG_INFINITY),
                INFINITY => Some(f64::INFINITY),
                NAN => None,
                len => parse_f64(cursor.take(u64::from(len))?),
            };
            builder.add(&member, score.unwrap_or_default());
            score.is_some()
        }
    };
    let problem = if form == ZsetForm::Ziplist { Problem::ZsetZiplist } else { Problem::Zset };
    if is_good { Ok(()) } else { cursor.bad(offset, problem) }
}

/// The listpack of a set whose encoding is listpack: members and scores alternating.
pub(super) fn listpack_of(zset: ZsetRef<'_>, out: &mut Vec<u8>) {
    let mut row = Vec::new();
    let mut text = Vec::with_capacity(32);
    for (member, score) in zset.iter_all() {
        text.clear();
        push_f64(&mut text, score);
        for element in [Element::of(member), Element::of(&text)] {
            let at = row.len();
            row.resize(at + entry::len(element), 0);
            entry::write(&mut row[at..], element);
        }
    }
    listpack::of_row(&row, 2 * zset.len(), out);
}

/// Whether the set is written as a listpack.
pub(super) fn is_listpack(zset: ZsetRef<'_>) -> bool {
    match zset.encoding() {
        ZsetEncoding::Listpack => true,
        ZsetEncoding::Skiplist => false,
    }
}

/// The elements of a set, for fuzzing: members, and the bits of scores.
pub(super) fn elements(zset: ZsetRef<'_>) -> Vec<Vec<u8>> {
    zset.iter_all()
        .flat_map(|(member, score)| [member.to_vec(), score.to_bits().to_le_bytes().to_vec()])
        .collect()
}

/// Lengths of a score's text that stand for special scores.
const NAN: u8 = 253;
const INFINITY: u8 = 254;
const MINUS_INFINITY: u8 = 255;
