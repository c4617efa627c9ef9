//! The library `table`, except for `sort`.

mod sort;

use crate::fault::Fault;
use crate::native::{Ctx, Library, Native, NativeStep, State, push_text};
use crate::value::{StrRef, TableRef, Value};

use super::output::{CHUNK, cost, reserve};

const FUNCTIONS: &[Native] = &[
    Native::resumable("concat", concat, concat_on),
    Native::resumable("foreach", foreach, foreach_on),
    Native::resumable("foreachi", foreachi, foreachi_on),
    Native::plain("getn", getn),
    Native::resumable("maxn", maxn, maxn_on),
    Native::resumable("insert", insert, move_on),
    Native::resumable("remove", remove, move_on),
    Native::plain("setn", setn),
    Native::resumable("sort", sort::sort, sort::sort_on),
];

/// Elements processed between two checks of the budget.
const BURST: u64 = 64;

/// Makes the table `table`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    lib.table(b"table", FUNCTIONS).map(drop)
}

fn getn(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let border = ctx.heap.border(table);
    ctx.one(Value::number(border as f64))
}

fn setn(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_table(1)?;
    Err(Fault::text("'setn' is obsolete"))
}

/// The state of an iteration over all entries for `maxn`: the largest key so far. The second slot of the
/// function's window (see [`Ctx`]) has the last visited key.
struct Largest(f64);

fn maxn(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_table(1)?;
    ctx.truncate(1);
    ctx.push(Value::NIL);
    find_largest(ctx, 0.0)
}

fn maxn_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let largest = state.downcast::<Largest>().map_or(0.0, |state| state.0);
    find_largest(ctx, largest)
}

fn find_largest(ctx: &mut Ctx<'_>, mut largest: f64) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let mut key = ctx.arg(2);
    while let Some((next, _)) = ctx.heap.next(table, key)? {
        key = next;
        if let Some(number) = key.as_number()
            && number > largest
        {
            largest = number;
        }
        if !ctx.charge(1) {
            ctx.set(2, key);
            return Ok(NativeStep::Pause(Box::new(Largest(largest))));
        }
    }
    ctx.one(Value::number(largest))
}

/// The state of moving elements by one slot: the current index, the last index, and the direction.
struct Shift {
    at: i64,
    last: i64,
    /// 1 if each element gets the value of its successor, -1 if it gets that of its predecessor.
    step: i64,
}

fn insert(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let end = ctx.heap.border(table) + 1;
    match ctx.count() {
        2 => {
            let value = ctx.arg(2);
            ctx.heap.set_int(table, end, value)?;
            Ok(NativeStep::Return(0))
        }
        3 => {
            let position = i64::from(ctx.check_int(2)? as i32);
            shift(ctx, Shift { at: end.max(position), last: position, step: -1 })
        }
        _ => Err(Fault::text("wrong number of arguments to 'insert'")),
    }
}

fn remove(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let end = ctx.heap.border(table);
    let position = i64::from(ctx.opt_int(2, end)? as i32);
    if !(1..=end).contains(&position) {
        return Ok(NativeStep::Return(0));
    }
    let value = ctx.heap.get_int(table, position);
    ctx.truncate(2);
    ctx.push(value);
    shift(ctx, Shift { at: position, last: end, step: 1 })
}

fn move_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Shift>() else { return Ok(NativeStep::Return(0)) };
    shift(ctx, *state)
}

/// Moves elements. Then an insertion stores its value; a removal clears the last slot and returns the removed
/// value.
fn shift(ctx: &mut Ctx<'_>, mut state: Shift) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let mut moved = 0;
    while state.at != state.last {
        let value = ctx.heap.get_int(table, state.at + state.step);
        ctx.heap.set_int(table, state.at, value)?;
        state.at += state.step;
        moved += 1;
        if moved == BURST {
            moved = 0;
            if !ctx.charge(BURST) {
                return Ok(NativeStep::Pause(Box::new(state)));
            }
        }
    }
    ctx.charge(moved);
    let value = ctx.arg(3);
    if state.step < 0 {
        ctx.heap.set_int(table, state.last, value)?;
        return Ok(NativeStep::Return(0));
    }
    ctx.heap.set_int(table, state.last, Value::NIL)?;
    Ok(NativeStep::Return(1))
}

/// The state of a concatenation: the string so far, the next index and the last one, and the number of
/// bytes written of a long element and of the separator after it.
struct Concatenation {
    out: Vec<u8>,
    at: i64,
    last: i64,
    written: usize,
}

fn concat(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.opt_str(2)?;
    let table = ctx.check_table(1)?;
    let at = i64::from(ctx.opt_int(3, 1)? as i32);
    let border = ctx.heap.border(table);
    let last = i64::from(ctx.opt_int(4, border)? as i32);
    join(ctx, Concatenation { out: Vec::new(), at, last, written: 0 })
}

fn concat_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Concatenation>() else { return Ok(NativeStep::Return(0)) };
    join(ctx, *state)
}

fn join(ctx: &mut Ctx<'_>, mut state: Concatenation) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let separator = ctx.opt_str(2)?;
    let mut handled = 0;
    while state.at <= state.last {
        let value = ctx.heap.get_int(table, state.at);
        let len = value.as_str().map_or(32, |string| ctx.heap.bytes(string).len());
        let between = separator.filter(|_| state.at < state.last);
        let extra = between.map_or(0, |separator| ctx.heap.bytes(separator).len());
        if let Some(text) = value.as_str()
            && len + extra > CHUNK
        {
            if state.written == 0 {
                make_room(ctx, &mut state, table, separator)?;
            }
            let (part, from) = match between {
                Some(separator) if state.written >= len => (separator, state.written - len),
                _ => (text, state.written),
            };
            let part = &ctx.heap.bytes(part)[from..];
            let count = part.len().min(CHUNK);
            state.out.extend_from_slice(&part[..count]);
            state.written += count;
            if state.written == len + extra {
                (state.at, state.written) = (state.at + 1, 0);
            }
            if !ctx.charge(cost(count)) {
                return Ok(NativeStep::Pause(Box::new(state)));
            }
            continue;
        }
        reserve(ctx.heap, &mut state.out, len + extra)?;
        if !push_text(ctx.heap, &mut state.out, value) {
            let (name, at) = (value.type_name(), state.at);
            return Err(Fault::text(format!("invalid value ({name}) at index {at} in table for 'concat'")));
        }
        if let Some(separator) = between {
            state.out.extend_from_slice(ctx.heap.bytes(separator));
        }
        state.at += 1;
        handled += 32 + len + extra;
        if handled >= 1024 {
            if !ctx.charge(cost(handled)) {
                return Ok(NativeStep::Pause(Box::new(state)));
            }
            handled = 0;
        }
    }
    ctx.charge(cost(handled));
    let value = ctx.heap.take_string(state.out)?;
    ctx.one(value)
}

/// After a long element, the lengths of at most this many elements are added up.
const LOOKED_AHEAD: i64 = 1024;

/// Makes room for a long element and the elements after it, because a large buffer would otherwise grow, and
/// be copied, again and again.
fn make_room(
    ctx: &mut Ctx<'_>,
    state: &mut Concatenation,
    table: TableRef,
    separator: Option<StrRef>,
) -> Result<(), Fault> {
    let between = separator.map_or(0, |separator| ctx.heap.bytes(separator).len());
    let last = state.last.min(state.at.saturating_add(LOOKED_AHEAD));
    let mut wanted = 0_usize;
    for at in state.at..=last {
        let len = ctx.heap.strings.bytes_of(ctx.heap.get_int(table, at));
        wanted = wanted.saturating_add(len).saturating_add(if at < state.last { between } else { 0 });
    }
    if state.out.capacity() - state.out.len() < wanted {
        ctx.charge((last - state.at) as u64);
        reserve(ctx.heap, &mut state.out, wanted)?;
    }
    Ok(())
}

/// The state of `foreachi` while its function is called. `foreach` keeps its key in the window's third slot
/// instead.
struct Walk {
    index: i64,
    len: i64,
}

fn foreach(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_table(1)?;
    ctx.check_function(2)?;
    ctx.truncate(2);
    ctx.push(Value::NIL);
    call_next(ctx)
}

fn foreach_on(ctx: &mut Ctx<'_>, _state: State) -> Result<NativeStep, Fault> {
    let result = ctx.arg(4);
    if !result.is_nil() {
        return ctx.one(result);
    }
    ctx.truncate(3);
    call_next(ctx)
}

fn call_next(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    match ctx.heap.next(table, ctx.arg(3))? {
        None => Ok(NativeStep::Return(0)),
        Some((key, value)) => {
            ctx.set(3, key);
            ctx.charge(1);
            let function = ctx.arg(2);
            ctx.call(function, &[key, value], Box::new(()))
        }
    }
}

fn foreachi(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table: TableRef = ctx.check_table(1)?;
    let len = ctx.heap.border(table);
    ctx.check_function(2)?;
    ctx.truncate(2);
    call_index(ctx, Walk { index: 1, len })
}

fn foreachi_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Walk>() else { return Ok(NativeStep::Return(0)) };
    let result = ctx.arg(3);
    if !result.is_nil() {
        return ctx.one(result);
    }
    ctx.truncate(2);
    call_index(ctx, Walk { index: state.index + 1, ..*state })
}

fn call_index(ctx: &mut Ctx<'_>, walk: Walk) -> Result<NativeStep, Fault> {
    if walk.index > walk.len {
        return Ok(NativeStep::Return(0));
    }
    let table = ctx.check_table(1)?;
    let value = ctx.heap.get_int(table, walk.index);
    ctx.charge(1);
    let function = ctx.arg(2);
    ctx.call(function, &[Value::number(walk.index as f64), value], Box::new(walk))
}
