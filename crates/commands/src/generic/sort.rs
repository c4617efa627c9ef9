//! SORT and SORT_RO.

mod texts;

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::item_commands::{ItemCommands, is_told_by_result};
use crate::outcome::{Outcome, Run};
use sluice_base::num::{IntBuffer, parse_f64};
use sluice_base::{key_slot, pattern_slot};
use sluice_keyspace::{Access, DbRef, Event, ExpiryMode, Str, ValueRef};
use sluice_resp::Reply;
use sluice_value::{Direction, List, ListContext, ListItem, ListLimits};
use std::cmp::Ordering;
use std::ops::Range;
use texts::{SortText, Texts};

/// The options of a call.
struct SortOptions<'a> {
    /// BY: pattern of the weights. With `None`, the elements are their own weights.
    by: Option<&'a [u8]>,
    /// Whether the elements keep their order, because a pattern given with BY has no asterisk.
    keeps_order: bool,
    is_alphabetic: bool,
    is_descending: bool,
    /// LIMIT: index of the first element, and number of elements. A negative index means 0, a negative number
    /// means all elements.
    limit: (i64, i64),
    /// GET: patterns of the values to return for each element. If the list is empty, the element itself is
    /// returned.
    get: Vec<&'a [u8]>,
    /// STORE: position of the option's key among the arguments.
    store: Option<usize>,
}

impl<'a> SortOptions<'a> {
    /// Reads the options from the arguments. `reads_any_key`: whether the user may read any key, and so BY
    /// and GET may refer to keys. In a cluster, the pattern alone must prove that these keys are in the slot
    /// of the sorted key.
    fn parse(
        args: Args<'a>,
        may_store: bool,
        reads_any_key: bool,
        is_cluster: bool,
    ) -> Result<SortOptions<'a>, CmdError> {
        let is_of_slot = |pattern: &[u8]| !is_cluster || pattern_slot(pattern) == Some(key_slot(args.at(1)));
        let mut options = SortOptions {
            by: None,
            keeps_order: false,
            is_alphabetic: false,
            is_descending: false,
            limit: (0, -1),
            get: Vec::new(),
            store: None,
        };
        let mut at = 2;
        while at < args.len() {
            let behind = args.len() - at - 1;
            match () {
                () if args.is(at, "ASC") => options.is_descending = false,
                () if args.is(at, "DESC") => options.is_descending = true,
                () if args.is(at, "ALPHA") => options.is_alphabetic = true,
                () if args.is(at, "LIMIT") && behind >= 2 => {
                    options.limit = (args.int(at + 1)?, args.int(at + 2)?);
                    at += 2;
                }
                () if args.is(at, "STORE") && may_store && behind >= 1 => {
                    options.store = Some(at + 1);
                    at += 1;
                }
                () if args.is(at, "BY") && behind >= 1 => {
                    options.by = Some(args.at(at + 1));
                    options.keeps_order |= !args.at(at + 1).contains(&b'*');
                    if !options.keeps_order && !is_of_slot(args.at(at + 1)) {
                        return Err(CmdError::text(
                            "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in \
                             different slots.",
                        ));
                    }
                    if !options.keeps_order && !reads_any_key {
                        return Err(CmdError::text(
                            "ERR BY option of SORT denied due to insufficient ACL permissions.",
                        ));
                    }
                    at += 1;
                }
                () if args.is(at, "GET") && behind >= 1 => {
                    if args.at(at + 1) != b"#" && !is_of_slot(args.at(at + 1)) {
                        return Err(CmdError::text(
                            "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in \
                             different slots.",
                        ));
                    }
                    if !reads_any_key {
                        return Err(CmdError::text(
                            "ERR GET option of SORT denied due to insufficient ACL permissions.",
                        ));
                    }
                    options.get.push(args.at(at + 1));
                    at += 1;
                }
                () => return Err(CmdError::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }

    /// The positions of the elements to return, out of `len` elements.
    fn range(&self, len: usize) -> Range<usize> {
        let (first, count) = self.limit;
        let start = usize::try_from(first.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

pub(super) fn sort_ro(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let options = SortOptions::parse(args, false, ctx.reads_any_key, ctx.limits.is_cluster)?;
    sorted(&mut ctx.db, args, options, !ctx.may_wait)?.reply(&mut ctx.reply);
    Ok(Outcome::Done)
}

pub(super) fn sort(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = SortOptions::parse(args, true, ctx.reads_any_key, ctx.limits.is_cluster)?;
    let store = options.store;
    // Without BY and GET the result has the elements in a total order, so it is the same on every server on
    // which the key has the same elements.
    let is_same_elsewhere = options.by.is_none() && options.get.is_empty();
    let result =
        sorted(&mut ctx.db.as_read_of([args.key(1)].into_iter(), None), args, options, !ctx.may_wait)?;
    let Some(target) = store.map(|at| args.key(at)) else {
        result.reply(&mut ctx.reply);
        return Ok(Outcome::Done);
    };
    let existed = match result.list(ctx.limits.list) {
        Some(list) => ctx.db.store_list(target, list, Event::SortStore),
        None => ctx.db.remove_stored(target, Event::Del),
    };
    if !is_same_elsewhere || is_told_by_result(&ctx.db) {
        // The result is propagated, because a replica could compute a different result. The order may be that
        // of a hash table, and the replica may still have keys or fields that have expired here.
        ctx.db.effects.rewrite_encoded(|| {
            let commands = ItemCommands::new((b"RPUSH", target.bytes), (result.rows.len(), 1));
            let mut commands = commands.in_place_of(existed);
            let mut digits = IntBuffer::new();
            result.rows.iter().for_each(|row| commands.push(&[result.item(*row).bytes(&mut digits)]));
            commands.finish()
        });
    }
    ctx.reply.int(result.rows.len() as i64);
    Ok(Outcome::Done)
}

/// The result of a call, row by row.
#[derive(Debug, Default)]
struct Sorted {
    texts: Texts,
    /// `None` stands for a value that GET did not find.
    rows: Vec<Option<SortText>>,
}

impl Sorted {
    fn reply(&self, reply: &mut Reply<'_>) {
        reply.array(self.rows.len());
        for row in &self.rows {
            match row.map(|text| self.texts.item(text)) {
                Some(ListItem::Int(number)) => reply.bulk_int(number),
                Some(ListItem::Bytes(bytes)) => reply.bulk(bytes),
                Some(ListItem::Shared(bytes)) => reply.bulk_shared(bytes),
                None => reply.null(),
            }
        }
    }

    /// A row as an element; a value that GET did not find becomes an empty string.
    fn item(&self, row: Option<SortText>) -> ListItem<'_> {
        row.map_or(ListItem::Bytes(b""), |text| self.texts.item(text))
    }

    /// The rows as a list; `None` if there are none.
    fn list(&self, limits: ListLimits) -> Option<List> {
        let mut list = List::new();
        let mut context = ListContext { limits, ..ListContext::default() };
        for row in &self.rows {
            list.push_back_item(self.item(*row), &mut context);
        }
        list.convert_after_loading(1, limits);
        (!list.is_empty()).then_some(list)
    }
}

/// The result of the call. `is_inside`: whether the call is part of a script or a transaction.
fn sorted(
    db: &mut DbRef<'_>,
    args: Args<'_>,
    mut options: SortOptions<'_>,
    is_inside: bool,
) -> Result<Sorted, CmdError> {
    let Some(entry) = db.get(args.key(1)) else { return Ok(Sorted::default()) };
    let value = entry.value();
    // A set whose members should keep their order is sorted alphabetically if the result is stored or
    // the call is part of a script or a transaction, because the order of a set differs between servers, but
    // stored results and results within scripts must not differ. In transactions this would not be necessary,
    // but does no harm.
    let is_told = options.store.is_some() || is_inside;
    if options.keeps_order && is_told && matches!(value, ValueRef::Set(_)) {
        (options.keeps_order, options.is_alphabetic, options.by) = (false, true, None);
    }
    let (mut texts, elements) = elements(value, &options)?;
    let range = options.range(elements.len());
    let elements: Vec<SortText> = if options.keeps_order {
        elements.into_iter().skip(range.start).take(range.len()).collect()
    } else {
        in_order(db, &texts, elements, range, &options)?
    };
    if options.get.is_empty() {
        return Ok(Sorted { texts, rows: elements.into_iter().map(Some).collect() });
    }
    let (mut rows, mut name) = (Vec::with_capacity(elements.len() * options.get.len()), Vec::new());
    for element in elements {
        name.clear();
        texts.append_to(element, &mut name);
        for pattern in &options.get {
            rows.push(match *pattern {
                b"#" => Some(element),
                _ => looked_up(db, pattern, &name, |found| texts.add_bytes(found)),
            });
        }
    }
    Ok(Sorted { texts, rows })
}

/// All elements of the value. Those of a list or a sorted set are reversed if the elements keep their order
/// and DESC was given. For an alphabetic order all elements are bytes.
fn elements(value: ValueRef<'_>, options: &SortOptions<'_>) -> Result<(Texts, Vec<SortText>), CmdError> {
    let is_turned = options.keeps_order && options.is_descending;
    let mut texts = Texts::default();
    let mut digits = IntBuffer::new();
    let mut copy = |item: ListItem<'_>| match item {
        ListItem::Int(number) if !options.is_alphabetic => SortText::Int(number),
        _ => texts.add_bytes(item.bytes(&mut digits)),
    };
    let mut all;
    match value {
        ValueRef::List(list) => {
            all = Vec::with_capacity(list.len());
            let mut items = list.iter(0..list.len());
            while let Some(item) = items.next() {
                all.push(copy(item));
            }
            if is_turned {
                all.reverse();
            }
        }
        ValueRef::Set(set) => all = set.iter().map(copy).collect(),
        ValueRef::Zset(zset) => {
            let direction = if is_turned { Direction::Down } else { Direction::Up };
            let members = zset.iter(0..zset.len(), direction);
            all = members.map(|(member, _)| copy(ListItem::Bytes(member))).collect();
        }
        ValueRef::Str(_) | ValueRef::Hash(_) | ValueRef::Stream(_) => return Err(CmdError::WrongType),
    }
    Ok((texts, all))
}

/// The elements of `range` in the order given by their weights.
fn in_order(
    db: &mut DbRef<'_>,
    texts: &Texts,
    elements: Vec<SortText>,
    range: Range<usize>,
    options: &SortOptions<'_>,
) -> Result<Vec<SortText>, CmdError> {
    if options.is_alphabetic && options.by.is_some() {
        let mut weighed = Vec::with_capacity(elements.len());
        let mut name = Vec::new();
        for element in elements {
            name.clear();
            texts.append_to(element, &mut name);
            let text = options.by.and_then(|pattern| looked_up(db, pattern, &name, <[u8]>::to_vec));
            weighed.push((element, text));
        }
        weighed.sort_by(|a, b| options.turned(a.1.cmp(&b.1)));
        let chosen = weighed.into_iter().skip(range.start).take(range.len());
        return Ok(chosen.map(|(element, _)| element).collect());
    }
    if options.is_alphabetic {
        // Each element gets its first bytes as a number, which decides most comparisons without a look at
        // the other bytes.
        let mut headed: Vec<(u64, SortText)> =
            elements.iter().map(|element| (texts.head(*element), *element)).collect();
        order_part(&mut headed, range.clone(), |a, b| {
            options.turned(a.0.cmp(&b.0).then_with(|| texts.compare(a.1, b.1)))
        });
        return Ok(headed[range].iter().map(|(_, element)| *element).collect());
    }
    in_numeric_order(db, texts, &elements, range, options)
}

/// The elements of `range` in the order of numeric weights.
fn in_numeric_order(
    db: &mut DbRef<'_>,
    texts: &Texts,
    elements: &[SortText],
    range: Range<usize>,
    options: &SortOptions<'_>,
) -> Result<Vec<SortText>, CmdError> {
    // Pairs of number and index are sorted instead of the elements.
    let mut numbers = Vec::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        let rank = rank_of(number_of(db, texts, *element, options)?);
        numbers.push((if options.is_descending { !rank } else { rank }, index));
    }
    // Elements with the same weight are ordered by their bytes, so the result is the same on every server.
    let by_bytes =
        |a: &(u64, usize), b: &(u64, usize)| options.turned(texts.compare(elements[a.1], elements[b.1]));
    if range.len() < numbers.len() {
        order_part(&mut numbers, range.clone(), |a, b| a.0.cmp(&b.0).then_with(|| by_bytes(a, b)));
    } else {
        // The pairs are sorted by their numbers alone, which are compared without a branch; then each run
        // of equal numbers is sorted by bytes.
        numbers.sort_unstable_by_key(|number| number.0);
        let ties = numbers.chunk_by_mut(|a, b| a.0 == b.0).filter(|ties| ties.len() > 1);
        ties.for_each(|ties| ties.sort_unstable_by(by_bytes));
    }
    Ok(numbers[range].iter().map(|(_, index)| elements[*index]).collect())
}

/// Maps a number (not NaN) to an integer with the same order; both zeros are equal.
fn rank_of(number: f64) -> u64 {
    // Adding 0 turns the negative zero into the positive one.
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Moves the items of a range to their positions in the whole order; equal items may stand in any order. The
/// other items are left unordered.
fn order_part<T>(items: &mut [T], range: Range<usize>, compare: impl Fn(&T, &T) -> Ordering) {
    let mut part = items;
    if range.is_empty() {
        return;
    }
    if range.end < part.len() {
        part.select_nth_unstable_by(range.end, &compare);
        part = &mut part[..range.end];
    }
    if range.start > 0 {
        part.select_nth_unstable_by(range.start, &compare);
        part = &mut part[range.start..];
    }
    part.sort_unstable_by(compare);
}

/// The numeric weight of an element.
fn number_of(
    db: &mut DbRef<'_>,
    texts: &Texts,
    element: SortText,
    options: &SortOptions<'_>,
) -> Result<f64, CmdError> {
    const NO_NUMBER: CmdError = CmdError::text("ERR One or more scores can't be converted into double");
    match (options.by, element) {
        (None, SortText::Int(number)) => Ok(number as f64),
        (None, _) => weight_in(texts.item(element).bytes(&mut IntBuffer::new())).ok_or(NO_NUMBER),
        (Some(pattern), _) => {
            let mut digits = IntBuffer::new();
            let found = looked_up(db, pattern, texts.item(element).bytes(&mut digits), weight_in);
            // An element whose weight is missing has the weight 0.
            found.map_or(Ok(0.0), |number| number.ok_or(NO_NUMBER))
        }
    }
}

/// The number in a text, which ends at the first zero byte.
fn weight_in(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    parse_f64(&text[..end])
}

impl SortOptions<'_> {
    /// An ordering, reversed if the order is descending.
    fn turned(&self, order: Ordering) -> Ordering {
        if self.is_descending { order.reverse() } else { order }
    }
}

/// Looks up the value that a pattern of BY or GET gives for an element: the string of a key, for a pattern
/// with `->` a field of a hash, and for the pattern `#` the element itself. Calls `take` with the bytes of
/// the value; returns `None` if there is no value.
fn looked_up<R>(
    db: &mut DbRef<'_>,
    pattern: &[u8],
    element: &[u8],
    take: impl FnOnce(&[u8]) -> R,
) -> Option<R> {
    if pattern == b"#" {
        return Some(take(element));
    }
    let star = pattern.iter().position(|byte| *byte == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|two| two == b"->").filter(|at| at + 2 < behind.len());
    let (behind, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    let name = [before, element, behind].concat();
    let now_ms = live_from(&db.access);
    let value = db.get(db.key(&name))?.value();
    match (value, field) {
        // Only a string in pages has to be copied into one piece.
        (ValueRef::Str(Str::Pages(pages)), None) => Some(take(&pages.to_vec())),
        (ValueRef::Str(text), None) => text.in_one_piece(take),
        (ValueRef::Hash(hash), Some(field)) => {
            let found = hash.get(field).filter(|field| !field.is_expired(now_ms))?;
            Some(take(found.value.bytes(&mut IntBuffer::new())))
        }
        (ValueRef::Str(_) | ValueRef::Hash(_), _) => None,
        (ValueRef::List(_) | ValueRef::Set(_) | ValueRef::Zset(_) | ValueRef::Stream(_), _) => None,
    }
}

/// Fields that expire earlier than this time, in ms, are absent.
fn live_from(access: &Access) -> i64 {
    match access.expiry {
        ExpiryMode::Delete | ExpiryMode::Hide => access.now.unix_ms(),
        ExpiryMode::Ignore => i64::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::rank_of;

    #[test]
    fn ranks_are_in_the_order_of_the_numbers() {
        let numbers = [
            f64::NEG_INFINITY,
            f64::MIN,
            -2.0,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            1e-300,
            1.0,
            2.0,
            f64::INFINITY,
        ];
        assert!(numbers.is_sorted_by(|a, b| rank_of(*a) < rank_of(*b)));
        assert_eq!(rank_of(-0.0), rank_of(0.0));
    }
}
