//! The slow paths of instructions, taken when the operands are not of the usual types: strings that are used
//! as numbers, metamethods, and errors.

use crate::fault::Fault;
use crate::heap::{Heap, Metamethod};
use crate::native::{LOOP_MAX, coerce, comparison, incomparable, push_text};
use crate::value::{TableRef, Value};

/// The result of an operation.
#[derive(Debug)]
pub(super) enum Operated {
    /// The value itself, without a call.
    Value(Value),
    /// A call of a metamethod with two operands.
    Call(Value, Value, Value),
}

/// An error of an operation: either a finished fault, or the operand (first or second) whose type is wrong,
/// with the name of the operation.
#[derive(Debug)]
pub(super) enum Trouble {
    Fault(Fault),
    First(&'static str),
    Second(&'static str),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Fault(fault)
    }
}

/// The remainder as defined by Lua: its sign is that of the divisor.
#[inline]
pub(super) fn modulo(a: f64, b: f64) -> f64 {
    a - (a / b).floor() * b
}

/// Arithmetic of two numbers; for the unary minus, of the first one.
#[inline]
pub(super) fn compute(event: Metamethod, a: f64, b: f64) -> f64 {
    match event {
        Metamethod::Add => a + b,
        Metamethod::Sub => a - b,
        Metamethod::Mul => a * b,
        Metamethod::Div => a / b,
        Metamethod::Mod => modulo(a, b),
        Metamethod::Pow => a.powf(b),
        _ => -a,
    }
}

/// Arithmetic of two values that are not both numbers.
#[cold]
#[inline(never)]
pub(super) fn arithmetic(
    heap: &mut Heap,
    event: Metamethod,
    a: Value,
    b: Value,
) -> Result<Operated, Trouble> {
    let x = coerce(heap, a);
    if let (Some(x), Some(y)) = (x, coerce(heap, b)) {
        return Ok(Operated::Value(Value::number(compute(event, x, y))));
    }
    let mut handler = heap.metamethod(a, event);
    if handler.is_nil() {
        handler = heap.metamethod(b, event);
    }
    if !handler.is_nil() {
        return Ok(Operated::Call(handler, a, b));
    }
    if x.is_none() {
        Err(Trouble::First("perform arithmetic on"))
    } else {
        Err(Trouble::Second("perform arithmetic on"))
    }
}

/// `#value` for a value that is neither a table nor a string.
#[cold]
#[inline(never)]
pub(super) fn length(heap: &mut Heap, value: Value) -> Result<Operated, Trouble> {
    let handler = heap.metamethod(value, Metamethod::Len);
    if handler.is_nil() {
        return Err(Trouble::First("get length of"));
    }
    Ok(Operated::Call(handler, value, Value::NIL))
}

/// `object[key]` if the fast path did not find a value.
#[inline(never)]
pub(super) fn index(heap: &mut Heap, object: Value, key: Value) -> Result<Operated, Trouble> {
    let mut object = object;
    for turn in 0..LOOP_MAX {
        let handler = if let Some(table) = object.as_table() {
            let value = heap.get(table, key);
            if !value.is_nil() {
                return Ok(Operated::Value(value));
            }
            let handler = heap.table_event(table, Metamethod::Index);
            if handler.is_nil() {
                return Ok(Operated::Value(Value::NIL));
            }
            handler
        } else {
            let handler = heap.metamethod(object, Metamethod::Index);
            if handler.is_nil() {
                if turn > 0 {
                    return Err(bad_index(object));
                }
                return Err(Trouble::First("index"));
            }
            handler
        };
        if handler.is_function() {
            return Ok(Operated::Call(handler, object, key));
        }
        object = handler;
    }
    Err(Fault::bare("loop in gettable").into())
}

fn bad_index(object: Value) -> Trouble {
    Fault::bare(format!("attempt to index a {} value", object.type_name())).into()
}

/// The result of an assignment to a field.
#[derive(Debug)]
pub(super) enum Assign {
    Done,
    /// This metamethod (first) must be called with this object (second), and with the key and the value of
    /// the assignment.
    Call(Value, Value),
}

/// `object[key] = value` if the fast path does not apply.
#[inline(never)]
pub(super) fn assign(heap: &mut Heap, object: Value, key: Value, value: Value) -> Result<Assign, Trouble> {
    let mut object = object;
    for turn in 0..LOOP_MAX {
        let handler = if let Some(table) = object.as_table() {
            let slot = heap.tables.at(table.0).find(key, &heap.strings);
            if let Some(slot) = slot
                && !heap.tables.at(table.0).read(slot).is_nil()
            {
                heap.set_slot(table, slot, value)?;
                return Ok(Assign::Done);
            }
            let handler = heap.table_event(table, Metamethod::NewIndex);
            if handler.is_nil() {
                match slot {
                    Some(slot) => heap.set_slot(table, slot, value)?,
                    None => heap.set_new(table, key, value)?,
                }
                return Ok(Assign::Done);
            }
            handler
        } else {
            let handler = heap.metamethod(object, Metamethod::NewIndex);
            if handler.is_nil() {
                return if turn > 0 { Err(bad_index(object)) } else { Err(Trouble::First("index")) };
            }
            handler
        };
        if handler.is_function() {
            return Ok(Assign::Call(handler, object));
        }
        object = handler;
    }
    Err(Fault::bare("loop in settable").into())
}

/// The metamethod that decides whether two different objects are equal, or nil if there is none.
#[inline(never)]
pub(super) fn equality(heap: &mut Heap, a: Value, b: Value) -> Value {
    let same_kind = (a.is_table() && b.is_table()) || (a.is_userdata() && b.is_userdata());
    if !same_kind || a.same(b) {
        return Value::NIL;
    }
    let (Some(first), Some(second)) = (heap.metatable_of(a), heap.metatable_of(b)) else { return Value::NIL };
    let handler = heap.meta_event(first, Metamethod::Eq);
    if handler.is_nil() || first == second {
        return handler;
    }
    let other = heap.meta_event(second, Metamethod::Eq);
    if !other.is_nil() && heap.raw_equal(handler, other) { handler } else { Value::NIL }
}

/// The result of a comparison.
#[derive(Debug)]
pub(super) enum Compared {
    Known(bool),
    /// This metamethod must be called with both operands.
    Call(Value),
    /// This metamethod must be called with the operands exchanged, and its result negated.
    Reverse(Value),
}

/// `a < b` or `a <= b` for any two values; the interpreter compares two numbers itself and does not call
/// this.
#[inline(never)]
pub(super) fn order(heap: &mut Heap, strict: bool, a: Value, b: Value) -> Result<Compared, Fault> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        let (x, y) = (heap.bytes(x), heap.bytes(y));
        heap.strings.compared(x.len().min(y.len()));
        return Ok(Compared::Known(if strict { x < y } else { x <= y }));
    }
    if a.is_number() && b.is_number() {
        let (x, y) = (a.double(), b.double());
        return Ok(Compared::Known(if strict { x < y } else { x <= y }));
    }
    if strict {
        return match comparison(heap, a, b, Metamethod::Lt) {
            Some(handler) => Ok(Compared::Call(handler)),
            None => Err(incomparable(a, b)),
        };
    }
    if let Some(handler) = comparison(heap, a, b, Metamethod::Le) {
        return Ok(Compared::Call(handler));
    }
    match comparison(heap, b, a, Metamethod::Lt) {
        Some(handler) => Ok(Compared::Reverse(handler)),
        None => Err(incomparable(a, b)),
    }
}

/// The result of a step of a concatenation.
#[derive(Debug)]
pub(super) enum Joined {
    /// The result is in the first slot.
    Done,
    /// This metamethod must join the slots `at` and `at + 1`.
    Call(Value, usize),
    /// This slot and the next one cannot be joined.
    Error(usize),
    /// The strings and numbers from the first of these slots to the second make a long string, which
    /// `libs/string.rs` joins piece by piece.
    Long(usize, usize),
}

/// Longest result that is built on the process's stack instead of in a vector.
const JOIN_SHORT: usize = 128;

/// Longest result that is built in one step.
const JOIN_WHOLE: usize = 64 << 10;

fn is_text(value: Value) -> bool {
    value.is_str() || value.is_number()
}

/// Joins the values of the slots `first..=last` from the right, as far as possible without a call or a result
/// of more than `JOIN_WHOLE` bytes. The result of each step is stored in the leftmost slot of that step.
#[inline(never)]
pub(super) fn concat(
    heap: &mut Heap,
    stack: &mut [Value],
    first: usize,
    last: usize,
) -> Result<Joined, Fault> {
    let mut last = last;
    while last > first {
        let (left, right) = (stack[last - 1], stack[last]);
        if !is_text(left) || !is_text(right) {
            let mut handler = heap.metamethod(left, Metamethod::Concat);
            if handler.is_nil() {
                handler = heap.metamethod(right, Metamethod::Concat);
            }
            if handler.is_nil() {
                return Ok(Joined::Error(last - 1));
            }
            return Ok(Joined::Call(handler, last - 1));
        }
        let mut from = last - 1;
        while from > first && is_text(stack[from - 1]) {
            from -= 1;
        }
        let len = joined_len(heap, &stack[from..=last]);
        if len > JOIN_WHOLE {
            return Ok(Joined::Long(from, last));
        }
        let values = &stack[from..=last];
        stack[from] = if len <= JOIN_SHORT { join_short(heap, values)? } else { join(heap, values, len)? };
        last = from;
    }
    Ok(Joined::Done)
}

/// At most this many bytes result when these strings and numbers are concatenated.
#[inline]
pub(crate) fn joined_len(heap: &Heap, values: &[Value]) -> usize {
    let lens = values.iter().map(|value| value.as_str().map_or(24, |string| heap.bytes(string).len()));
    lens.fold(0, usize::saturating_add)
}

/// Joins strings and numbers to a string of at most `len` bytes.
pub(super) fn join(heap: &mut Heap, values: &[Value], len: usize) -> Result<Value, Fault> {
    heap.room(len)?;
    let mut out = Vec::with_capacity(len);
    for value in values {
        push_text(heap, &mut out, *value);
    }
    heap.take_string(out)
}

fn join_short(heap: &mut Heap, values: &[Value]) -> Result<Value, Fault> {
    let mut buffer = [0_u8; JOIN_SHORT];
    let mut len = 0;
    for value in values {
        if let Some(string) = value.as_str() {
            let bytes = heap.strings.bytes(string);
            buffer[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        } else {
            let mut text = Vec::with_capacity(24);
            push_text(heap, &mut text, *value);
            buffer[len..len + text.len()].copy_from_slice(&text);
            len += text.len();
        }
    }
    heap.new_string(&buffer[..len])
}

/// Stores the values of a list constructor.
#[inline(never)]
pub(super) fn set_list(heap: &mut Heap, table: TableRef, from: usize, values: &[Value]) -> Result<(), Fault> {
    let last = from + values.len();
    let (array, nodes) = {
        let object = heap.tables.at(table.0);
        (object.array.len(), object.nodes.len())
    };
    if last > array {
        heap.resize(table, last, nodes)?;
    }
    for (at, value) in values.iter().enumerate().rev() {
        heap.set_int(table, (from + at + 1) as i64, *value)?;
    }
    Ok(())
}
