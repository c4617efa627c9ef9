//! The function `table.sort`: the quicksort of PUC-Rio's Lua, comparison by comparison, because the
//! comparisons decide the order of equal elements and whether an inconsistent comparator is detected.
//!
//! The function's window (see [`Ctx`]) has the table, the comparator or nil, and three values that outlive a
//! call: the pivot and the two elements that are compared with it.

use crate::fault::Fault;
use crate::heap::Heap;
use crate::native::{Ctx, Less, NativeStep, State};
use crate::value::{TableRef, Value};

use super::super::output::fuel;

/// The number of slots in the window.
const WINDOW: usize = 5;

/// The next comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Point {
    /// No comparison is pending, because a part of the array begins.
    Part,
    /// The last element of the part is compared with the first one.
    Ends,
    /// The middle element is compared with the first one.
    Low,
    /// The last element is compared with the middle one.
    High,
    /// The element at `up` is compared with the pivot.
    Up,
    /// The pivot is compared with the element at `down`.
    Down,
}

/// The state of a sort between two comparisons.
struct Sorting {
    point: Point,
    /// The part that is being sorted, both ends included.
    low: i64,
    high: i64,
    up: i64,
    down: i64,
    /// Parts that are still to be sorted.
    waiting: Vec<(i64, i64)>,
}

/// The values of a sort. They are in the window, so a call of the comparator need not save them.
struct Registers<'a> {
    pivot: &'a mut Value,
    left: &'a mut Value,
    right: &'a mut Value,
}

impl Registers<'_> {
    /// Borrows pivot, left and right in the window that begins at `base`.
    fn of(stack: &mut [Value], base: usize) -> Result<Registers<'_>, Fault> {
        match stack.get_mut(base..).and_then(|window| window.first_chunk_mut::<WINDOW>()) {
            Some([_, _, pivot, left, right]) => Ok(Registers { pivot, left, right }),
            None => Err(Fault::text("no room for a sort")),
        }
    }
}

/// The reason why the sort ended or paused.
enum SortStop {
    Done,
    OutOfFuel,
    /// This function must be called with these two values.
    Call(Value, Value, Value),
}

/// The storage of the elements, and their comparison.
trait Elements {
    fn get(&self, index: i64) -> Value;
    fn set(&mut self, index: i64, value: Value) -> Result<(), Fault>;
    /// Whether `a < b`, or the function that must be called to find out.
    fn less(&mut self, a: Value, b: Value) -> Result<Less, Fault>;
    /// Units of work in addition to those of comparisons, since the last call.
    fn work(&self) -> u32 {
        0
    }
}

/// A copy of a table's numbers, none of which is NaN. Their order is therefore consistent, so no index leaves
/// the part that is being sorted.
struct NumberElements<'a>(&'a mut [f64]);

impl Elements for NumberElements<'_> {
    #[inline]
    fn get(&self, index: i64) -> Value {
        self.0.get((index as usize).wrapping_sub(1)).map_or(Value::NIL, |number| Value::number(*number))
    }

    #[inline]
    fn set(&mut self, index: i64, value: Value) -> Result<(), Fault> {
        if let (Some(slot), Some(number)) =
            (self.0.get_mut((index as usize).wrapping_sub(1)), value.as_number())
        {
            *slot = number;
        }
        Ok(())
    }

    #[inline]
    fn less(&mut self, a: Value, b: Value) -> Result<Less, Fault> {
        Ok(Less::Known(a.as_number() < b.as_number()))
    }
}

/// Elements that stay in the table.
struct InTable<'a> {
    heap: &'a mut Heap,
    table: TableRef,
    comparator: Value,
}

impl Elements for InTable<'_> {
    #[inline]
    fn get(&self, index: i64) -> Value {
        self.heap.get_int(self.table, index)
    }

    #[inline]
    fn set(&mut self, index: i64, value: Value) -> Result<(), Fault> {
        self.heap.set_int(self.table, index, value)
    }

    #[inline]
    fn less(&mut self, a: Value, b: Value) -> Result<Less, Fault> {
        if !self.comparator.is_nil() {
            return Ok(Less::Call(self.comparator));
        }
        crate::native::find_less(self.heap, a, b, crate::heap::Metamethod::Lt)
    }

    #[inline]
    fn work(&self) -> u32 {
        self.heap.strings.take_work()
    }
}

pub(super) fn sort(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let len = ctx.heap.border(table);
    if !ctx.arg(2).is_nil() {
        ctx.check_function(2)?;
    }
    ctx.truncate(2);
    ctx.truncate(WINDOW);
    let state = Sorting { point: Point::Part, low: 1, high: len, up: 0, down: 0, waiting: Vec::new() };
    if ctx.arg(2).is_nil()
        && let Some(numbers) = numbers(ctx, table, len)?
    {
        return sort_numbers(ctx, NumberSort { sorting: state, numbers });
    }
    run(ctx, Box::new(state), None)
}

pub(super) fn sort_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    match state.downcast::<Sorting>() {
        Ok(state) => {
            let answer = (ctx.count() > WINDOW).then(|| ctx.arg(WINDOW + 1).truthy());
            ctx.truncate(WINDOW);
            run(ctx, state, answer)
        }
        Err(state) => match state.downcast::<NumberSort>() {
            Ok(state) => sort_numbers(ctx, *state),
            Err(_) => Ok(NativeStep::Return(0)),
        },
    }
}

/// The state of a sort of numbers only. No program code that could see the table runs during the sort, so a
/// copy is sorted.
struct NumberSort {
    sorting: Sorting,
    numbers: Vec<f64>,
}

/// Maximum number of elements of a table that are copied and written back, each in one step.
const COPIED_MAX: usize = 1 << 20;

/// A copy of the elements, if all are numbers and none is NaN, the table is writable, and the number of
/// elements is from 2 to `COPIED_MAX`; otherwise `None`.
fn numbers(ctx: &mut Ctx<'_>, table: TableRef, len: i64) -> Result<Option<Vec<f64>>, Fault> {
    let len = len.max(0) as usize;
    if !(2..=COPIED_MAX).contains(&len)
        || ctx.heap.get_int(table, 1).as_number().is_none()
        || ctx.heap.is_read_only(table)
    {
        return Ok(None);
    }
    ctx.heap.room(len * size_of::<f64>())?;
    let mut numbers = Vec::with_capacity(len);
    for index in 1..=len {
        match ctx.heap.get_int(table, index as i64).as_number() {
            Some(number) if !number.is_nan() => numbers.push(number),
            _ => return Ok(None),
        }
    }
    ctx.charge(len as u64 / 8);
    Ok(Some(numbers))
}

fn sort_numbers(ctx: &mut Ctx<'_>, mut state: NumberSort) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let mut left = fuel(ctx);
    let before = left;
    let mut registers = Registers::of(ctx.stack, ctx.base)?;
    let stop =
        advance(&mut state.sorting, &mut NumberElements(&mut state.numbers), &mut registers, None, &mut left);
    ctx.charge(before - left);
    if let Ok(SortStop::OutOfFuel) = stop {
        return Ok(NativeStep::Pause(Box::new(state)));
    }
    // The numbers are written back even after an error, in the order that the sort has reached.
    for (index, number) in state.numbers.iter().enumerate() {
        ctx.heap.set_int(table, index as i64 + 1, Value::number(*number))?;
    }
    ctx.charge(state.numbers.len() as u64 / 8);
    stop.map(|_| NativeStep::Return(0))
}

#[inline]
fn run(ctx: &mut Ctx<'_>, mut state: Box<Sorting>, answer: Option<bool>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let comparator = ctx.arg(2);
    let mut left = fuel(ctx);
    let before = left;
    let mut registers = Registers::of(ctx.stack, ctx.base)?;
    let mut elements = InTable { heap: ctx.heap, table, comparator };
    let stop = advance(&mut state, &mut elements, &mut registers, answer, &mut left);
    ctx.charge(before - left);
    match stop? {
        SortStop::Done => Ok(NativeStep::Return(0)),
        SortStop::OutOfFuel => Ok(NativeStep::Pause(state)),
        SortStop::Call(function, a, b) => ctx.call(function, &[a, b], state),
    }
}

/// Continues the sort. `answer` is the result of the comparison that the sort waited for.
fn advance(
    state: &mut Sorting,
    elements: &mut impl Elements,
    registers: &mut Registers<'_>,
    mut answer: Option<bool>,
    fuel: &mut u64,
) -> Result<SortStop, Fault> {
    loop {
        if state.point == Point::Part {
            while state.low >= state.high {
                let Some(part) = state.waiting.pop() else { return Ok(SortStop::Done) };
                (state.low, state.high) = part;
            }
            *registers.left = elements.get(state.low);
            *registers.right = elements.get(state.high);
            state.point = Point::Ends;
        }
        let is_less = match answer.take() {
            Some(is_less) => is_less,
            None => {
                if *fuel == 0 {
                    return Ok(SortStop::OutOfFuel);
                }
                *fuel -= 1;
                let (a, b) = operands(state.point, registers);
                match elements.less(a, b)? {
                    Less::Known(is_less) => {
                        *fuel = fuel.saturating_sub(u64::from(elements.work()));
                        is_less
                    }
                    Less::Call(function) => return Ok(SortStop::Call(function, a, b)),
                }
            }
        };
        match state.point {
            Point::Part => {}
            Point::Ends | Point::Low | Point::High => begin_part(state, elements, registers, is_less)?,
            Point::Up if is_less => {
                if state.up > state.high {
                    return Err(invalid_order());
                }
                state.up += 1;
                *registers.left = elements.get(state.up);
            }
            Point::Up => {
                state.down -= 1;
                *registers.right = elements.get(state.down);
                state.point = Point::Down;
            }
            Point::Down if is_less => {
                if state.down < state.low {
                    return Err(invalid_order());
                }
                state.down -= 1;
                *registers.right = elements.get(state.down);
            }
            Point::Down => cross(state, elements, registers)?,
        }
    }
}

#[cold]
fn invalid_order() -> Fault {
    Fault::text("invalid order function for sorting")
}

/// The values to be compared.
#[inline]
fn operands(point: Point, registers: &Registers<'_>) -> (Value, Value) {
    match point {
        // While a part begins, `right` holds the element that is later in the array, and `left` the earlier
        // one.
        Point::Part | Point::Ends | Point::Low | Point::High => (*registers.right, *registers.left),
        Point::Up => (*registers.left, *registers.pivot),
        Point::Down => (*registers.pivot, *registers.right),
    }
}

/// Orders the first, the middle and the last element, and chooses the pivot.
fn begin_part(
    state: &mut Sorting,
    elements: &mut impl Elements,
    registers: &mut Registers<'_>,
    is_less: bool,
) -> Result<(), Fault> {
    let (low, high) = (state.low, state.high);
    let middle = (low + high) / 2;
    if state.point == Point::Ends {
        if is_less {
            swap_in(elements, (low, *registers.right), (high, *registers.left))?;
        }
        if high - low == 1 {
            return next_part(state);
        }
        *registers.right = elements.get(middle);
        *registers.left = elements.get(low);
        state.point = Point::Low;
        return Ok(());
    }
    if state.point == Point::Low {
        if is_less {
            swap_in(elements, (middle, *registers.left), (low, *registers.right))?;
        } else {
            *registers.left = *registers.right;
            *registers.right = elements.get(high);
            state.point = Point::High;
            return Ok(());
        }
    } else if is_less {
        swap_in(elements, (middle, *registers.right), (high, *registers.left))?;
    }
    if high - low == 2 {
        return next_part(state);
    }
    *registers.pivot = elements.get(middle);
    let last = elements.get(high - 1);
    swap_in(elements, (middle, last), (high - 1, *registers.pivot))?;
    state.up = low + 1;
    state.down = high - 1;
    *registers.left = elements.get(state.up);
    state.point = Point::Up;
    Ok(())
}

/// The indexes `up` and `down` have both stopped at elements that belong on the other side: exchanges these
/// elements, or ends the partition.
fn cross(
    state: &mut Sorting,
    elements: &mut impl Elements,
    registers: &mut Registers<'_>,
) -> Result<(), Fault> {
    if state.down >= state.up {
        swap_in(elements, (state.up, *registers.right), (state.down, *registers.left))?;
        state.up += 1;
        *registers.left = elements.get(state.up);
        state.point = Point::Up;
        return Ok(());
    }
    let (low, high, middle) = (state.low, state.high, state.up);
    let (pivot, other) = (elements.get(high - 1), elements.get(middle));
    swap_in(elements, (high - 1, other), (middle, pivot))?;
    // The smaller part is sorted first, so that few parts wait.
    let (first, second) = if middle - low < high - middle {
        ((low, middle - 1), (middle + 1, high))
    } else {
        ((middle + 1, high), (low, middle - 1))
    };
    state.waiting.push(second);
    (state.low, state.high) = first;
    state.point = Point::Part;
    Ok(())
}

fn next_part(state: &mut Sorting) -> Result<(), Fault> {
    state.low = state.high;
    state.point = Point::Part;
    Ok(())
}

fn swap_in(elements: &mut impl Elements, first: (i64, Value), second: (i64, Value)) -> Result<(), Fault> {
    elements.set(first.0, first.1)?;
    elements.set(second.0, second.1)
}
