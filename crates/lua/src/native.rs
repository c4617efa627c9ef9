//! Native functions, of the libraries and of the host.
//!
//! A native function gets a window of stack slots with its arguments, and returns a step ([`NativeStep`]):
//! for example results, a call that the machine must make, or a pause because the budget is used up. What the
//! function needs when it is resumed is kept in its state, which is data, and in the values of its window. So
//! no state of the machine is on the process's stack.
//!
//! Invariants: (1) no object is collected while a native function runs; (2) from one step to the next, only
//! values in the window survive; (3) a resumed function does some work before it runs out of budget again.

use std::sync::Arc;

use crate::arena::Arena;
use crate::code::Proto;
use crate::fault::Fault;
use crate::heap::{Heap, Metamethod};
use crate::object::{Frame, Protection, SLOT_BYTES};
use crate::table::LuaTable;
use crate::text::number::push_number;
use crate::value::{StrRef, TableRef, Value};

pub use crate::object::State;

/// What a native function wants the machine to do next.
#[derive(Debug)]
pub enum NativeStep {
    /// Return: this many values at the window's end are the results.
    Return(usize),
    /// Call the function that lies this many slots before the window's end, with the values after it as
    /// arguments. Then resume this function, with the results appended to the window. [`Ctx::call`] makes
    /// this step.
    Call(usize, State),
    /// Pause, because the budget is used up; resume later with this state.
    Pause(State),
    /// Request something from the host by this code, with the window's values as arguments. The run is
    /// paused until the host answers.
    Request(u32),
    /// Do something that only the machine can do.
    #[doc(hidden)]
    Machine(Demand),
}

/// Operations of the machine for the base and coroutine libraries.
#[derive(Debug)]
#[doc(hidden)]
pub enum Demand {
    /// Call the window's first value with the other values as arguments, and catch errors.
    #[doc(hidden)]
    Protect(Protection),
    /// Call the window's first value, and pass an error to the second value, which handles it.
    #[doc(hidden)]
    ProtectWith,
    /// Make a closure of a chunk.
    #[doc(hidden)]
    Link(Arc<Proto>),
    /// Resume the coroutine that the window begins with.
    #[doc(hidden)]
    Resume,
    /// Resume the coroutine that is the first upvalue of this function, which `coroutine.wrap` has made.
    #[doc(hidden)]
    ResumeWrapped,
    /// Suspend this coroutine; the window's values are the results of the call that resumed it.
    #[doc(hidden)]
    Yield,
    /// Collect all garbage, and return 0.
    #[doc(hidden)]
    Collect,
    /// Collect all garbage, and return true.
    #[doc(hidden)]
    CollectStep,
}

/// The first step of a native function.
pub type Call = fn(&mut Ctx<'_>) -> Result<NativeStep, Fault>;
/// A later step of a native function, with the state that the last step returned.
pub type Resume = fn(&mut Ctx<'_>, State) -> Result<NativeStep, Fault>;

/// A native function with its name.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    /// The function's name in its library.
    pub name: &'static str,
    pub(crate) call: Call,
    pub(crate) resume: Option<Resume>,
}

impl Native {
    /// A function that is never resumed: it returns, makes a request to the host, or leaves an operation to
    /// the machine.
    pub const fn plain(name: &'static str, call: Call) -> Native {
        Native { name, call, resume: None }
    }

    /// A function that may call others or pause.
    pub const fn resumable(name: &'static str, call: Call, resume: Resume) -> Native {
        Native { name, call, resume: Some(resume) }
    }
}

/// The result of indexing a value.
#[derive(Clone, Copy, Debug)]
pub enum Indexed {
    /// The value itself, without a call.
    Value(Value),
    /// A metamethod must be called: the first value, with the other two as arguments.
    Call(Value, Value, Value),
}

/// The result of comparing two values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Less {
    /// The result of the comparison, without a call.
    Known(bool),
    /// This metamethod must be called with both values; the comparison is true if its result is true.
    Call(Value),
}

/// Longest chain of `__index` or `__newindex`.
pub(crate) const LOOP_MAX: usize = 100;

/// The part of the machine that a native function sees: its window, the heap and the budget.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The heap, for reading and making objects.
    pub heap: &'a mut Heap,
    pub(crate) stack: &'a mut Vec<Value>,
    /// The frames of the calls below this one.
    pub(crate) frames: &'a [Frame],
    pub(crate) base: usize,
    pub(crate) top: usize,
    /// The index of the running closure.
    pub(crate) function: u32,
    pub(crate) budget: &'a mut i64,
    /// The running coroutine's index; `is_main` tells whether this is the main program.
    pub(crate) thread: u32,
    pub(crate) is_main: bool,
}

impl Ctx<'_> {
    // The window.

    /// The number of values in the window: at first, the number of arguments.
    #[inline]
    pub fn count(&self) -> usize {
        self.top - self.base
    }

    /// The value at `index`, from 1; nil beyond the end.
    #[inline]
    pub fn arg(&self, index: usize) -> Value {
        let at = self.base + index - 1;
        if at < self.top { self.stack[at] } else { Value::NIL }
    }

    /// Makes the stack at least `len` slots long. The slots count as bytes in use without a check of the
    /// limit: if they exceed it, the next growth of the heap fails.
    #[cold]
    fn grow_stack(&mut self, len: usize) {
        let len = len.max(self.stack.len() * 2);
        self.heap.bytes += (len - self.stack.len()) * SLOT_BYTES;
        self.stack.resize(len, Value::NIL);
    }

    /// Replaces the value at `index`, which must exist.
    #[inline]
    pub fn set(&mut self, index: usize, value: Value) {
        debug_assert!(index >= 1 && index <= self.count());
        self.stack[self.base + index - 1] = value;
    }

    /// Adds a value at the window's end.
    #[inline]
    pub fn push(&mut self, value: Value) {
        if self.top >= self.stack.len() {
            self.grow_stack(self.top + 1);
        }
        self.stack[self.top] = value;
        self.top += 1;
    }

    /// Makes the window `count` values long: shorter, or longer by nils.
    pub fn truncate(&mut self, count: usize) {
        while self.count() < count {
            self.push(Value::NIL);
        }
        self.top = self.base + count;
    }

    /// Returns one value.
    ///
    /// # Errors
    /// None; the type lets a native function return this [`NativeStep`] directly.
    #[inline]
    pub fn one(&mut self, value: Value) -> Result<NativeStep, Fault> {
        self.push(value);
        Ok(NativeStep::Return(1))
    }

    /// Calls a function; this one is resumed with `state` when the call has returned.
    ///
    /// # Errors
    /// None; the type lets a native function return this [`NativeStep`] directly.
    #[inline]
    pub fn call(&mut self, function: Value, args: &[Value], state: State) -> Result<NativeStep, Fault> {
        let (at, end) = (self.top, self.top + 1 + args.len());
        if self.stack.len() < end {
            self.grow_stack(end);
        }
        self.stack[at] = function;
        self.stack[at + 1..end].copy_from_slice(args);
        self.top = end;
        Ok(NativeStep::Call(args.len() + 1, state))
    }

    /// An upvalue of this function, counted from 1; nil beyond the last.
    pub(crate) fn upvalue(&self, index: usize) -> Value {
        self.heap.natives.at(self.function).upvalues.get(index - 1).copied().unwrap_or_default()
    }

    /// Replaces an upvalue of this function, which must exist.
    pub(crate) fn set_upvalue(&mut self, index: usize, value: Value) {
        self.heap.native_barrier(self.function, value);
        if let Some(slot) = self.heap.natives.at_mut(self.function).upvalues.get_mut(index - 1) {
            *slot = value;
        }
    }

    /// Another closure of the native function `template` with upvalues of its own.
    ///
    /// # Errors
    /// `not enough memory`, or `template` is no native function.
    pub(crate) fn new_native(&mut self, template: Value, upvalues: &[Value]) -> Result<Value, Fault> {
        let Some(native) = template.as_native() else { return Err(Fault::text("not a native function")) };
        let index = self.heap.natives.at(native.0).native;
        Ok(self.heap.new_native(index, upvalues)?.into())
    }

    // The budget.

    /// Charges `units` to the budget (one for about an instruction's work), and any work recorded since the
    /// last charge: long searches in tables, long strings. Returns false if the function must pause, because
    /// the budget is used up or the machine has work to do first.
    #[inline]
    pub fn charge(&mut self, units: u64) -> bool {
        let units = units.saturating_add(u64::from(self.heap.strings.take_work()));
        *self.budget = self.budget.saturating_sub(i64::try_from(units).unwrap_or(i64::MAX));
        *self.budget > 0 && !self.heap.is_due()
    }

    // Arguments.

    /// The error `bad argument #index to 'name' (what expected, got ...)`.
    pub(crate) fn type_error(&self, index: usize, what: &str) -> Fault {
        let got = if index > self.count() { "no value" } else { self.arg(index).type_name() };
        Fault::argument(index, format!("{what} expected, got {got}"))
    }

    /// The value as a number; strings are converted.
    #[inline]
    pub fn to_number(&self, value: Value) -> Option<f64> {
        if value.is_number() {
            return Some(value.double());
        }
        value.as_str().and_then(|string| self.heap.strings.number(string))
    }

    /// The value as a string; numbers are converted. `None` for other values.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn to_str(&mut self, value: Value) -> Result<Option<StrRef>, Fault> {
        if let Some(number) = value.as_number() {
            return Ok(self.heap.number_string(number)?.as_str());
        }
        Ok(value.as_str())
    }

    /// The argument as a number; strings are converted.
    ///
    /// # Errors
    /// The argument is neither a number nor a numeric string.
    #[inline]
    pub(crate) fn check_number(&self, index: usize) -> Result<f64, Fault> {
        self.to_number(self.arg(index)).ok_or_else(|| self.type_error(index, "number"))
    }

    /// The argument as an integer, without its fraction. A number out of range becomes the smallest `i64`,
    /// as on the reference's processors.
    ///
    /// # Errors
    /// The argument is neither a number nor a numeric string.
    #[inline]
    pub(crate) fn check_int(&self, index: usize) -> Result<i64, Fault> {
        self.check_number(index).map(to_integer)
    }

    /// The argument as an integer, or `default` for nil.
    ///
    /// # Errors
    /// The argument is neither nil nor a number or numeric string.
    #[inline]
    pub(crate) fn opt_int(&self, index: usize, default: i64) -> Result<i64, Fault> {
        if self.arg(index).is_nil() { Ok(default) } else { self.check_int(index) }
    }
    /// The argument as a string; a number in the window is replaced by its text.
    ///
    /// # Errors
    /// The argument is neither a string nor a number, or `not enough memory`.
    #[inline]
    pub fn check_str(&mut self, index: usize) -> Result<StrRef, Fault> {
        let value = self.arg(index);
        if let Some(string) = value.as_str() {
            return Ok(string);
        }
        match self.to_str(value)? {
            Some(string) => {
                self.set(index, string.into());
                Ok(string)
            }
            None => Err(self.type_error(index, "string")),
        }
    }

    /// The argument as a string, or `None` for nil.
    ///
    /// # Errors
    /// The argument is neither nil, a string nor a number, or `not enough memory`.
    pub(crate) fn opt_str(&mut self, index: usize) -> Result<Option<StrRef>, Fault> {
        if self.arg(index).is_nil() { Ok(None) } else { self.check_str(index).map(Some) }
    }

    /// The argument as a table.
    ///
    /// # Errors
    /// The argument is not a table.
    #[inline]
    pub(crate) fn check_table(&self, index: usize) -> Result<TableRef, Fault> {
        self.arg(index).as_table().ok_or_else(|| self.type_error(index, "table"))
    }

    /// The argument as a function.
    ///
    /// # Errors
    /// The argument is not a function.
    pub fn check_function(&self, index: usize) -> Result<Value, Fault> {
        let value = self.arg(index);
        if value.is_function() { Ok(value) } else { Err(self.type_error(index, "function")) }
    }

    /// The argument as it is; nil counts as a value.
    ///
    /// # Errors
    /// The window has no argument at `index`.
    pub fn check_any(&self, index: usize) -> Result<Value, Fault> {
        if index <= self.count() {
            Ok(self.arg(index))
        } else {
            Err(Fault::argument(index, "value expected"))
        }
    }

    // Operations that may need a metamethod.

    /// Indexes a value as the language does.
    ///
    /// # Errors
    /// The value cannot be indexed, or the chain of `__index` is too long.
    pub fn index(&mut self, object: Value, key: Value) -> Result<Indexed, Fault> {
        find_index(self.heap, object, key)
    }
}

/// Converts a double to an integer as the reference's processors do: a number out of range
/// becomes the smallest integer.
#[inline]
pub fn to_integer(number: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Indexes a value and follows its metamethods up to the first one that must be called.
pub(crate) fn find_index(heap: &mut Heap, object: Value, key: Value) -> Result<Indexed, Fault> {
    let mut object = object;
    for _ in 0..LOOP_MAX {
        let handler = if let Some(table) = object.as_table() {
            let value = heap.get(table, key);
            if !value.is_nil() {
                return Ok(Indexed::Value(value));
            }
            let handler = heap.table_event(table, Metamethod::Index);
            if handler.is_nil() {
                return Ok(Indexed::Value(Value::NIL));
            }
            handler
        } else {
            let handler = heap.metamethod(object, Metamethod::Index);
            if handler.is_nil() {
                return Err(Fault::bare(format!("attempt to index a {} value", object.type_name())));
            }
            handler
        };
        if handler.is_function() {
            return Ok(Indexed::Call(handler, object, key));
        }
        object = handler;
    }
    Err(Fault::bare("loop in gettable"))
}

/// Compares two values by `Lt` or `Le`. For a `<=` without `__le`, the caller must try `not (b < a)`, as
/// `order` in `vm/operate.rs` does.
pub(crate) fn find_less(heap: &mut Heap, a: Value, b: Value, event: Metamethod) -> Result<Less, Fault> {
    if let (Some(x), Some(y)) = (a.as_number(), b.as_number()) {
        return Ok(Less::Known(if event == Metamethod::Lt { x < y } else { x <= y }));
    }
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        let (x, y) = (heap.bytes(x), heap.bytes(y));
        heap.strings.compared(x.len().min(y.len()));
        return Ok(Less::Known(if event == Metamethod::Lt { x < y } else { x <= y }));
    }
    match comparison(heap, a, b, event) {
        Some(function) => Ok(Less::Call(function)),
        None => Err(incomparable(a, b)),
    }
}

/// The metamethod for a comparison, if both values are of one type and have the same metamethod.
pub(crate) fn comparison(heap: &mut Heap, a: Value, b: Value, event: Metamethod) -> Option<Value> {
    if a.kind().name() != b.kind().name() {
        return None;
    }
    let first = heap.metamethod(a, event);
    if first.is_nil() {
        return None;
    }
    let second = heap.metamethod(b, event);
    heap.raw_equal(first, second).then_some(first)
}

/// The error for two values that cannot be compared.
#[cold]
pub(crate) fn incomparable(a: Value, b: Value) -> Fault {
    let (x, y) = (a.type_name(), b.type_name());
    // PUC-Rio's Lua compares the third letters of the type names, so a thread and a string are reported as
    // "two" of one type.
    if x.as_bytes().get(2) == y.as_bytes().get(2) {
        return Fault::bare(format!("attempt to compare two {x} values"));
    }
    Fault::bare(format!("attempt to compare {x} with {y}"))
}

/// Makes a table of these values, at the indexes from 1 on.
///
/// # Errors
/// `not enough memory`.
#[inline]
pub fn new_list(heap: &mut Heap, values: Vec<Value>) -> Result<TableRef, Fault> {
    let bytes = Arena::<LuaTable>::SLOT + size_of_val(&*values);
    let mut table = LuaTable::of_list(values, heap.colour);
    table.guard = heap.born;
    let index = heap.tables.add(table);
    heap.charge(bytes)?;
    Ok(TableRef(index))
}

/// The value as a number; strings are converted.
#[inline]
pub(crate) fn coerce(heap: &Heap, value: Value) -> Option<f64> {
    if value.is_number() {
        return Some(value.double());
    }
    value.as_str().and_then(|string| heap.strings.number(string))
}

/// Appends the text of a string or a number; returns false for other values.
pub(crate) fn push_text(heap: &Heap, out: &mut Vec<u8>, value: Value) -> bool {
    if let Some(string) = value.as_str() {
        out.extend_from_slice(heap.bytes(string));
    } else if let Some(number) = value.as_number() {
        push_number(out, number);
    } else {
        return false;
    }
    true
}

/// Access to a machine for opening a library.
#[derive(Debug)]
pub struct Library<'a> {
    /// The heap, for making the library's objects.
    pub heap: &'a mut Heap,
    pub(crate) natives: &'a mut Vec<Native>,
    pub(crate) globals: TableRef,
}

impl Library<'_> {
    /// Makes a global table of functions; with an empty name, adds them to the globals.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn table(&mut self, name: &[u8], functions: &[Native]) -> Result<TableRef, Fault> {
        let table = match name {
            b"" => self.globals,
            _ => {
                let table = self.heap.new_table(0, functions.len())?;
                self.field(self.globals, name, table.into())?;
                table
            }
        };
        for native in functions {
            let function = self.function(*native, &[])?;
            self.field(table, native.name.as_bytes(), function)?;
        }
        Ok(table)
    }

    /// Makes a function with upvalues.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn function(&mut self, native: Native, upvalues: &[Value]) -> Result<Value, Fault> {
        let index = self.natives.len() as u32;
        self.natives.push(native);
        Ok(self.heap.new_native(index, upvalues)?.into())
    }

    /// Sets a field of a table.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn field(&mut self, table: TableRef, name: &[u8], value: Value) -> Result<(), Fault> {
        self.heap.set_text(table, name, value)
    }

    /// The table of globals.
    pub fn globals(&self) -> TableRef {
        self.globals
    }

    /// Makes `table` the `__index` of all strings.
    ///
    /// # Errors
    /// `not enough memory`.
    pub(crate) fn string_metatable(&mut self, table: TableRef) -> Result<(), Fault> {
        let meta = self.heap.new_table(0, 1)?;
        self.field(meta, b"__index", table.into())?;
        self.heap.string_meta = Some(meta);
        Ok(())
    }
}
