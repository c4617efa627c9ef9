//! SORT and SORT_RO.

use crate::args::Args;
use crate::ctx::{Outcome, ReadCtx, Run, WriteCtx};
use crate::error::CmdError;
use sluice_base::num::{IntBuffer, parse_f64};
use sluice_keyspace::{Access, DbRef, Event, ExpiryMode, ValueRef};
use sluice_value::{Direction, List, ListContext, ListItem, ListLimits};
use std::cmp::Ordering;
use std::ops::Range;

/// The options of a call.
struct SortOptions<'a> {
    /// What an element weighs, if not itself.
    by: Option<&'a [u8]>,
    /// The elements stay in their order: BY without an asterisk.
    keeps_order: bool,
    is_alphabetic: bool,
    is_descending: bool,
    /// First element and number of elements; negative: all.
    limit: (i64, i64),
    /// What is returned of each element; empty: the element.
    get: Vec<&'a [u8]>,
    /// Where the key of STORE stands.
    store: Option<usize>,
}

impl<'a> SortOptions<'a> {
    fn parse(args: Args<'a>, may_store: bool) -> Result<SortOptions<'a>, CmdError> {
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
                    at += 1;
                }
                () if args.is(at, "GET") && behind >= 1 => {
                    options.get.push(args.at(at + 1));
                    at += 1;
                }
                () => return Err(CmdError::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }

    /// Which of `len` elements are returned.
    fn range(&self, len: usize) -> Range<usize> {
        let (first, count) = self.limit;
        let start = usize::try_from(first.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

pub(super) fn sort_ro(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let options = SortOptions::parse(args, false)?;
    let rows = sorted(&mut ctx.db, args, options)?;
    reply_rows(&mut ctx.reply, &rows);
    Ok(Outcome::Done)
}

pub(super) fn sort(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = SortOptions::parse(args, true)?;
    let store = options.store;
    let rows = sorted(&mut ctx.db.as_read_of([args.key(1)].into_iter(), None), args, options)?;
    let Some(target) = store.map(|at| args.key(at)) else {
        reply_rows(&mut ctx.reply, &rows);
        return Ok(Outcome::Done);
    };
    match list_of(&rows, ctx.limits.list) {
        Some(list) => ctx.db.store_list(target, list, Event::SortStore),
        None => {
            ctx.db.remove_stored(target, Event::Del);
        }
    }
    ctx.reply.int(rows.len() as i64);
    Ok(Outcome::Done)
}

fn reply_rows(reply: &mut sluice_resp::Reply<'_>, rows: &[Option<Vec<u8>>]) {
    reply.array(rows.len());
    for row in rows {
        match row {
            Some(text) => reply.bulk(text),
            None => reply.null(),
        }
    }
}

/// The rows as a list; what is not there is an empty element.
fn list_of(rows: &[Option<Vec<u8>>], limits: ListLimits) -> Option<List> {
    let mut list = List::new();
    let mut context = ListContext { limits, ..ListContext::default() };
    for row in rows {
        list.push_back(row.as_deref().unwrap_or_default(), &mut context);
    }
    list.convert_after_loading(1, limits);
    (!list.is_empty()).then_some(list)
}

/// What the call returns, row by row.
fn sorted(
    db: &mut DbRef<'_>,
    args: Args<'_>,
    mut options: SortOptions<'_>,
) -> Result<Vec<Option<Vec<u8>>>, CmdError> {
    let Some(entry) = db.get(args.key(1)) else { return Ok(Vec::new()) };
    let value = entry.value();
    // A set has no order that a replica has too.
    if options.keeps_order && options.store.is_some() && matches!(value, ValueRef::Set(_)) {
        (options.keeps_order, options.is_alphabetic, options.by) = (false, true, None);
    }
    let elements = elements(value, &options)?;
    let range = options.range(elements.len());
    let elements: Vec<Vec<u8>> = if options.keeps_order {
        elements.into_iter().skip(range.start).take(range.len()).collect()
    } else {
        in_order(db, elements, range, &options)?
    };
    if options.get.is_empty() {
        return Ok(elements.into_iter().map(Some).collect());
    }
    let mut rows = Vec::with_capacity(elements.len() * options.get.len());
    for element in &elements {
        rows.extend(options.get.iter().map(|pattern| looked_up(db, pattern, element)));
    }
    Ok(rows)
}

/// All elements; where they stay in their order, a list or a sorted set that is descending is turned round.
fn elements(value: ValueRef<'_>, options: &SortOptions<'_>) -> Result<Vec<Vec<u8>>, CmdError> {
    let is_turned = options.keeps_order && options.is_descending;
    let copy = |item: ListItem<'_>| item.bytes(&mut IntBuffer::new()).to_vec();
    let mut all = Vec::new();
    match value {
        ValueRef::List(list) => {
            let mut items = list.iter(0..list.len());
            while let Some(item) = items.next() {
                all.push(copy(item));
            }
            if is_turned {
                all.reverse();
            }
        }
        ValueRef::Set(set) => all.extend(set.iter().map(copy)),
        ValueRef::Zset(zset) => {
            let direction = if is_turned { Direction::Down } else { Direction::Up };
            all.extend(zset.iter(0..zset.len(), direction).map(|(member, _)| member.to_vec()));
        }
        ValueRef::Str(_) | ValueRef::Hash(_) | ValueRef::Stream(_) => return Err(CmdError::WrongType),
    }
    Ok(all)
}

/// The elements of a range of the order that their weights give.
fn in_order(
    db: &mut DbRef<'_>,
    mut elements: Vec<Vec<u8>>,
    range: Range<usize>,
    options: &SortOptions<'_>,
) -> Result<Vec<Vec<u8>>, CmdError> {
    if options.is_alphabetic && options.by.is_some() {
        let mut weighed = Vec::with_capacity(elements.len());
        for element in elements {
            let text = options.by.and_then(|pattern| looked_up(db, pattern, &element));
            weighed.push((element, text));
        }
        weighed.sort_by(|a, b| options.turned(a.1.cmp(&b.1)));
        let chosen = weighed.into_iter().skip(range.start).take(range.len());
        return Ok(chosen.map(|(element, _)| element).collect());
    }
    if options.is_alphabetic {
        order_part(&mut elements, range.clone(), |a, b| options.turned(a.cmp(b)));
        return Ok(elements.into_iter().skip(range.start).take(range.len()).collect());
    }
    // Numbers with places are moved about, not elements.
    let mut numbers = Vec::with_capacity(elements.len());
    for (place, element) in elements.iter().enumerate() {
        numbers.push((number_of(db, element, options)?, place));
    }
    order_part(&mut numbers, range.clone(), |a, b| {
        // Elements of one weight in the order of their bytes: the result is the same everywhere.
        let order = number_order(a.0, b.0).then_with(|| elements[a.1].cmp(&elements[b.1]));
        options.turned(order)
    });
    Ok(numbers[range].iter().map(|(_, place)| std::mem::take(&mut elements[*place])).collect())
}

/// Brings the items of a range into the places that they have in the whole order, in which those that are equal are the same. The
/// others are not ordered among themselves.
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

/// What an element weighs.
fn number_of(db: &mut DbRef<'_>, element: &[u8], options: &SortOptions<'_>) -> Result<f64, CmdError> {
    const NO_NUMBER: CmdError = CmdError::text("ERR One or more scores can't be converted into double");
    let Some(pattern) = options.by else { return parse_f64(element).ok_or(NO_NUMBER) };
    match looked_up(db, pattern, element) {
        // What has no weight weighs nothing.
        None => Ok(0.0),
        Some(text) => parse_f64(&text).ok_or(NO_NUMBER),
    }
}

impl SortOptions<'_> {
    /// An order, or its reverse where that is asked for.
    fn turned(&self, order: Ordering) -> Ordering {
        if self.is_descending { order.reverse() } else { order }
    }
}

/// The order of two numbers that are no NaN; the zeros are equal.
fn number_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// What a pattern of BY or GET means for an element: the string of the key that it names, or with `->` the field of a hash; the
/// element itself for `#`.
fn looked_up(db: &mut DbRef<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
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
        (ValueRef::Str(text), None) => Some(text.to_vec()),
        (ValueRef::Hash(hash), Some(field)) => {
            let found = hash.get(field).filter(|field| !field.is_expired(now_ms))?;
            Some(found.value.bytes(&mut IntBuffer::new()).to_vec())
        }
        (ValueRef::Str(_) | ValueRef::Hash(_), _) => None,
        (ValueRef::List(_) | ValueRef::Set(_) | ValueRef::Zset(_) | ValueRef::Stream(_), _) => None,
    }
}

/// Fields with an earlier expiry are absent.
fn live_from(access: &Access) -> i64 {
    match access.expiry {
        ExpiryMode::Delete | ExpiryMode::Hide => access.now.unix_ms(),
        ExpiryMode::Ignore => i64::MIN,
    }
}
