//! The machine's interface for its host: a [`Vm`] with libraries and chunks, and one run at a time.
//!
//! The mark is a position in each arena of objects, set before a run. Invariants: (1) objects made before
//! [`Vm::seal`], objects of an image, and chunks loaded between runs, lie before the mark and outlive runs;
//! (2) objects that a run makes lie after the mark and are freed when the run ends, unless the run stored a
//! reference to a new object in an old one, added a key to an old table, or had a new object pinned; in these
//! cases all of the run's objects are kept. They are also kept if the host asks for it
//! ([`Vm::end_and_keep`]), or if the run has no mark, because many slots before the mark were free and are
//! used again; (3) at most one run is open.

mod chunks;
mod limit;

use std::any::Any;
use std::sync::Arc;

use sluice_base::heap;

use limit::REQUEST_UNITS;
pub use limit::RunLimit;

use crate::arena::Arena;
use crate::code::{ChunkName, LoadedChunk, Proto};
use crate::fault::Fault;
use crate::heap::{Heap, HostState};
use crate::image::VmImage;
use crate::libs::{INSECURE, open_all};
use crate::native::Library;
use crate::object::{RunStack, SLOT_BYTES, Status};
use crate::table::{TableSlot, guard};
use crate::value::{TableRef, Value};
use crate::vm::Known;
use crate::vm::inspect::{CodePosition, RunningFunction};
use crate::vm::machine::{Halt, Machine};

/// Number of slots of the main program's stack in a new machine.
const STACK_FIRST: usize = 512;

/// Arguments leave at least this many slots of the stack free.
const STACK_FREE: usize = STACK_FIRST - 64;

/// The stack is kept for the next run only if it has at most this many slots.
const STACK_KEPT: usize = 16 << 10;

/// If a run has at most this many new tables, strings and closures together, and at most this many new
/// upvalues, [`Vm::end`] frees them itself; otherwise it returns them to the caller.
const FREED_HERE: usize = 4096;

/// If a run's objects have more bytes than this, [`Vm::end`] returns them to the caller instead of freeing
/// them.
const LARGE_REGION: usize = 1 << 20;

/// The reason why the execution of a run has stopped.
#[derive(Debug)]
pub enum RunOutcome {
    /// The run has ended: see [`Execution::results`].
    Done,
    /// The run requests something from the host, by this code: see [`Execution::request_args`]. The host
    /// answers with [`Execution::answer`] or [`Execution::answer_error`].
    Call(u32),
    /// The run's limit ([`RunLimit`]) is reached, or [`Execution::step`] has executed an instruction.
    OutOfBudget,
    /// An uncaught error with this value has ended the run.
    Failed(Value),
}

/// The handle of a value that is kept alive until [`Vm::unpin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The slot in the list of pinned values. `number` identifies the pin, because later pins may use the
    /// same slot.
    slot: u32,
    number: u32,
}

/// A global variable that the host sets for a run: its index among the declared global variables.
#[derive(Clone, Copy, Debug)]
pub struct Global(u32);

/// A declared global variable: its name, and the node of the table of globals where it was found last.
#[derive(Clone, Copy, Debug)]
struct DeclaredGlobal {
    name: Value,
    node: usize,
}

/// The objects of a large run. Dropping them takes time, and may be done by any thread.
#[derive(Debug)]
pub struct DiscardedRun(Vec<Box<dyn Any + Send>>);

impl DiscardedRun {
    /// The number of pieces of memory in the discarded run, such as arenas of objects and a large stack.
    pub fn parts(&self) -> usize {
        self.0.len()
    }
}

/// The phase of a machine: opening, between runs, or in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VmStage {
    /// Libraries are being opened.
    Opening,
    Idle,
    Running,
}

/// A Lua machine with its libraries and chunks.
#[derive(Debug)]
pub struct Vm {
    machine: Machine,
    stage: VmStage,
    initial: HostState,
    /// For each slot of the list of pinned values, the number of the pin that holds the slot; 0 if the slot
    /// is free.
    pins: Vec<u32>,
    /// Slots that are not used by a pin any more.
    free_slots: Vec<u32>,
    /// The number of the last pin.
    last_pin: u32,
    /// The number of the last chunk.
    last_chunk: u32,
    /// Globals that the host may set; `set` has the indexes of those that are set for this run.
    declared: Vec<DeclaredGlobal>,
    set: Vec<u32>,
    results: usize,
    /// Number of slots of the main program's stack when the run began.
    stack_before: usize,
    /// Chunks that were unloaded since the last cycle of the collector ended.
    unloaded: usize,
    /// An empty program, which takes the place of the program of an unloaded chunk.
    no_program: Arc<Proto>,
}

/// Compiles a chunk. The name is in the form of `loadstring`: `=name`, `@file`, or the source. Costs time and
/// memory in proportion to the source, and cannot be paused, so a host should bound the source's length.
///
/// # Errors
/// The text of the error, with its position.
pub fn compile(source: &[u8], name: &[u8]) -> Result<Arc<Proto>, Vec<u8>> {
    crate::compile::compile(source, ChunkName::new(name))
}

/// Like [`compile`], but under a name that several chunks share.
///
/// # Errors
/// As [`compile`].
pub fn compile_as(source: &[u8], name: &Arc<ChunkName>) -> Result<Arc<Proto>, Vec<u8>> {
    crate::compile::compile(source, name.clone())
}

impl Vm {
    /// A machine with the libraries, which may use `limit` bytes.
    ///
    /// # Errors
    /// The limit is too small for the libraries.
    pub fn new(limit: usize) -> Result<Vm, Fault> {
        Vm::over(Heap::new(limit))
    }

    /// A machine over an empty heap.
    pub(crate) fn over(heap: Heap) -> Result<Vm, Fault> {
        let mut machine = Machine { heap, is_permanent: true, ..Machine::default() };
        machine.heap.globals = Some(machine.heap.new_table(0, 64)?);
        let mut vm = Vm::of_machine(machine, VmStage::Opening)?;
        vm.machine.co.stack = vec![Value::NIL; STACK_FIRST];
        let (next, inext) = open_all(&mut vm.library())?;
        let index = |value: Value| value.as_native().map_or(u32::MAX, |native| native.0);
        let natives = &vm.machine.heap.natives;
        vm.machine.known =
            Known { next: natives.at(index(next)).native, inext: natives.at(index(inext)).native };
        Ok(vm)
    }

    /// A machine made from an image, already sealed. O(1).
    ///
    /// # Errors
    /// The limit is too small for the bytes of the image, which count as the machine's.
    pub fn of_image(image: &VmImage, limit: usize) -> Result<Vm, Fault> {
        let mut vm = Vm::of_machine(image.machine(limit), VmStage::Idle)?;
        vm.initial = vm.machine.heap.host.clone();
        vm.mark();
        vm.machine.heap.room(0).map(|()| vm)
    }

    /// Turns the machine into an image, after [`Vm::seal`] and before the first chunk is loaded.
    /// Pinned values are dropped.
    pub fn into_image(self) -> VmImage {
        VmImage::of(self.machine, self.initial)
    }

    /// Adds to a machine the main program's coroutine, and the one closure that runs all chunks.
    fn of_machine(mut machine: Machine, stage: VmStage) -> Result<Vm, Fault> {
        let main = machine.heap.new_thread(Box::default())?;
        machine.main = main;
        machine.thread = main;
        machine.co = machine.heap.threads.at_mut(main.0).coroutine.take().unwrap_or_default();
        machine.co.status = Status::Running;
        let globals = machine.heap.globals.unwrap_or_default();
        machine.chunk = machine.heap.new_closure(u32::MAX, globals, &[])?;
        machine.heap.pin(machine.chunk.into());
        Ok(Vm {
            machine,
            stage,
            initial: HostState::default(),
            pins: Vec::new(),
            free_slots: Vec::new(),
            last_pin: 0,
            last_chunk: 0,
            declared: Vec::new(),
            set: Vec::new(),
            results: 0,
            stack_before: 0,
            unloaded: 0,
            no_program: Arc::default(),
        })
    }

    /// Access for opening a library of the host. May be called only before [`Vm::seal`].
    pub fn library(&mut self) -> Library<'_> {
        let globals = self.machine.heap.globals.unwrap_or_default();
        let natives = Arc::make_mut(&mut self.machine.natives);
        Library { heap: &mut self.machine.heap, natives, globals }
    }

    /// Adds `getfenv`, `setfenv` and `newproxy`. May be called only before [`Vm::seal`].
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn open_insecure(&mut self) -> Result<(), Fault> {
        self.library().table(b"", &INSECURE).map(|_| ())
    }

    /// Makes `pcall` behave as in the reference's server: for an error that is a table whose `err` is a
    /// string or a number, `pcall` returns `err` alone, and for another table both the table and its `err`.
    pub fn look_into_errors(&mut self) {
        self.machine.looks_into_errors = true;
    }

    /// Declares a global variable that the host sets in each run. May be called only before [`Vm::seal`].
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn declare(&mut self, name: &[u8]) -> Result<Global, Fault> {
        let globals = self.machine.heap.globals.unwrap_or_default();
        let key = self.machine.heap.new_string(name)?;
        self.machine.heap.set(globals, key, Value::FALSE)?;
        self.machine.heap.pin(key);
        self.declared.push(DeclaredGlobal { name: key, node: 0 });
        Ok(Global(self.declared.len() as u32 - 1))
    }

    /// Writes the value of a declared global into its node; returns false if a program has removed the
    /// global. The node of a read-only global never changes, and is searched once.
    #[inline]
    fn write_declared(&mut self, index: u32, value: Value) -> bool {
        let (globals, heap) = (self.globals(), &mut self.machine.heap);
        let Some(declared) = self.declared.get_mut(index as usize) else { return false };
        let table = heap.tables.at_mut(globals.0);
        if table.nodes.get(declared.node).is_none_or(|node| !node.key.same(declared.name)) {
            let Some(TableSlot::Node(node)) = table.find(declared.name, &heap.strings) else { return false };
            declared.node = node;
        }
        table.write(TableSlot::Node(declared.node), value);
        true
    }

    /// Ends the opening of libraries: from now on, all existing objects outlive runs. With `read_only`, all
    /// existing tables become read-only.
    pub fn seal(&mut self, read_only: bool) {
        self.machine.collect(None);
        let heap = &mut self.machine.heap;
        for table in &mut heap.tables.slots {
            table.guard |= guard::OLD;
            if read_only {
                table.guard |= guard::READ_ONLY;
            }
        }
        let events = heap.events.iter().map(|(name, _)| *name);
        let keys = heap.tables.slots.iter().flat_map(|table| table.nodes.iter().map(|node| node.key));
        for string in events.chain(keys).filter_map(Value::as_str) {
            self.machine.symbols.own.add_new(string, &mut heap.strings);
        }
        self.initial = heap.host.clone();
        self.stage = VmStage::Idle;
        self.mark();
    }

    /// The heap, for reading and making objects. Objects made between runs are freed or kept together with
    /// those of the next run; they are kept for good if a chunk is loaded before that run.
    pub fn heap(&mut self) -> &mut Heap {
        &mut self.machine.heap
    }

    /// The heap, for reading only.
    pub fn objects(&self) -> &Heap {
        &self.machine.heap
    }

    /// The table of globals.
    pub fn globals(&self) -> TableRef {
        self.machine.heap.globals.unwrap_or_default()
    }

    /// Makes `table` the globals of chunks that run from now on. May be called only before [`Vm::seal`]; the
    /// old table survives if it is pinned or referred to.
    pub fn set_globals(&mut self, table: TableRef) {
        self.machine.heap.globals = Some(table);
    }

    /// Makes `table` the globals of chunks from now on, and of all functions that have the present globals.
    /// O(functions).
    pub fn replace_globals(&mut self, table: TableRef) {
        let heap = &mut self.machine.heap;
        heap.shade_if_marking(table.into());
        let Some(before) = heap.globals.replace(table) else { return };
        for closure in heap.closures.slots.iter_mut().filter(|closure| closure.env == before.0) {
            closure.env = table.0;
        }
    }

    /// Sets the maximum number of bytes in use.
    pub fn set_limit(&mut self, bytes: usize) {
        self.machine.heap.limit = bytes;
    }

    /// The number of arguments that a function can read; it ignores all arguments after these. `usize::MAX`
    /// for a function with `...`, and for any value that is not a Lua function.
    pub fn params_of(&self, function: Value) -> usize {
        let closure = function.as_closure().and_then(|closure| self.machine.heap.closures.own(closure.0));
        match closure.and_then(|closure| self.machine.code.own(closure.proto)) {
            Some(linked) if !linked.proto.is_vararg => usize::from(linked.proto.params),
            Some(_) | None => usize::MAX,
        }
    }

    /// Keeps a value, and all objects reachable from it, until it is unpinned. This is for example a function
    /// that a library registers. If the open run made the value, all objects of the run are kept at its end,
    /// as by [`Vm::end_and_keep`]. O(1).
    pub fn pin(&mut self, value: Value) -> Pinned {
        let heap = &mut self.machine.heap;
        if heap.watching && !heap.is_old(value) {
            heap.old_written = true;
        }
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                heap.shade_if_marking(value);
                heap.pinned[slot as usize] = value;
                slot
            }
            None => heap.pin(value) as u32,
        };
        if self.pins.len() <= slot as usize {
            self.pins.resize(slot as usize + 1, 0);
        }
        self.last_pin = self.last_pin.wrapping_add(1).max(1);
        self.pins[slot as usize] = self.last_pin;
        Pinned { slot, number: self.last_pin }
    }

    /// The value that a pin keeps; nil if it was unpinned.
    pub fn pinned(&self, pin: Pinned) -> Value {
        if self.holds(pin) { self.machine.heap.pinned[pin.slot as usize] } else { Value::NIL }
    }

    /// Releases a pinned value, which slices of the collector free later, as after [`Vm::unload`]. Returns
    /// false if it was unpinned already. O(1).
    pub fn unpin(&mut self, pin: Pinned) -> bool {
        if !self.holds(pin) {
            return false;
        }
        self.pins[pin.slot as usize] = 0;
        self.machine.heap.pinned[pin.slot as usize] = Value::NIL;
        self.free_slots.push(pin.slot);
        true
    }

    fn holds(&self, pin: Pinned) -> bool {
        self.pins.get(pin.slot as usize) == Some(&pin.number)
    }

    /// Makes all existing objects old: they outlive later runs.
    fn mark(&mut self) {
        let machine = &mut self.machine;
        let heap = &mut machine.heap;
        heap.strings.texts.set_mark();
        heap.tables.set_mark();
        heap.closures.set_mark();
        heap.upvalues.set_mark();
        heap.natives.set_mark();
        heap.userdata.set_mark();
        heap.threads.set_mark();
        machine.code.set_mark();
        heap.old_bytes = heap.bytes;
        heap.watching = true;
        heap.old_written = false;
        heap.born = 0;
    }

    /// If many slots before the mark are free, the run uses these slots and has no mark; all its
    /// objects are kept.
    fn unmark_if_sparse(&mut self) {
        let heap = &self.machine.heap;
        if !heap.strings.texts.is_sparse() && !heap.tables.is_sparse() && !heap.closures.is_sparse() {
            return;
        }
        self.drop_mark_if(|_| true);
        let heap = &mut self.machine.heap;
        heap.watching = false;
        heap.old_written = true;
        heap.born = guard::OLD;
    }

    /// Drops the mark, so that free slots before the mark are used again. Calls `is_wanted` with the number
    /// of those slots that a chunk could use, and does nothing if the result is false. Returns whether the
    /// mark was dropped.
    fn drop_mark_if(&mut self, is_wanted: impl Fn(usize) -> bool) -> bool {
        let machine = &mut self.machine;
        let heap = &mut machine.heap;
        if !is_wanted(heap.strings.texts.free_old() + heap.closures.free_old() + machine.code.free_old()) {
            return false;
        }
        heap.strings.texts.drop_mark();
        heap.tables.drop_mark();
        heap.closures.drop_mark();
        heap.upvalues.drop_mark();
        heap.natives.drop_mark();
        heap.userdata.drop_mark();
        heap.threads.drop_mark();
        machine.code.drop_mark();
        true
    }

    /// Begins a run of a chunk. Ends an open run first. If the chunk was unloaded, the run fails.
    pub fn start(&mut self, chunk: LoadedChunk) -> Execution<'_> {
        if self.stage == VmStage::Running {
            drop(self.end());
        }
        let function = match self.has_loaded(chunk) {
            true => self.set_chunk(chunk.code),
            false => Value::NIL,
        };
        self.start_call(function, &[])
    }

    /// Begins a run of a function, such as a pinned one, with arguments. Ends an open run first, so the
    /// arguments must be made after that, by [`Vm::heap`].
    pub fn start_call(&mut self, function: Value, args: &[Value]) -> Execution<'_> {
        if self.stage == VmStage::Running {
            drop(self.end());
        }
        self.stage = VmStage::Running;
        self.unmark_if_sparse();
        let machine = &mut self.machine;
        machine.heap.host.numbers = self.initial.numbers;
        machine.heap.collector.be_normal();
        self.results = 0;
        let len = args.len() + 1;
        if machine.co.stack.len() < len + STACK_FREE {
            machine.co.stack.resize(STACK_FIRST.max(len + STACK_FREE), Value::NIL);
        }
        self.stack_before = machine.co.stack.len();
        machine.co.stack[0] = function;
        machine.co.stack[1..len].copy_from_slice(args);
        machine.co.top = len as u32;
        machine.budget = 0;
        machine.begin(len - 1);
        Execution { vm: self }
    }

    /// The open run, if there is one.
    pub fn run(&mut self) -> Option<Execution<'_>> {
        if self.stage == VmStage::Running { Some(Execution { vm: self }) } else { None }
    }

    /// Ends the open run, whether its program is done or not, and frees its objects, or keeps all of them if
    /// the invariants of the module require that, for example because an older object was given a reference
    /// to one of them. A large run's objects are returned, for the caller to free.
    pub fn end(&mut self) -> Option<DiscardedRun> {
        if self.stage != VmStage::Running {
            return None;
        }
        self.stage = VmStage::Idle;
        self.machine.stop();
        while let Some(global) = self.set.pop() {
            self.write_declared(global, Value::FALSE);
        }
        let heap = &mut self.machine.heap;
        if heap.old_written {
            self.keep();
            return None;
        }
        heap.forget_young_greys(&self.machine.code);
        let young = heap.tables.young() + heap.strings.texts.young() + heap.closures.young();
        let is_large =
            heap.bytes - heap.old_bytes.min(heap.bytes) > LARGE_REGION || !heap.collector.dying.is_empty();
        if young > FREED_HERE || is_large || heap.upvalues.young() > FREED_HERE {
            return Some(self.split());
        }
        self.truncate();
        None
    }

    /// Takes the stack's memory, for the next run of another machine. Returns an empty stack during a run.
    pub fn take_stack(&mut self) -> RunStack {
        let mut stack = RunStack::default();
        if self.stage != VmStage::Running {
            let co = &mut self.machine.co;
            std::mem::swap(&mut stack.slots, &mut co.stack);
            std::mem::swap(&mut stack.frames, &mut co.frames);
            std::mem::swap(&mut stack.open, &mut co.open);
        }
        stack
    }

    /// Gives this machine the memory of another machine's stack. Does nothing during a run, or if this
    /// machine has a stack.
    pub fn give_stack(&mut self, stack: RunStack) {
        if self.stage != VmStage::Running && self.machine.co.stack.is_empty() {
            let co = &mut self.machine.co;
            (co.stack, co.frames, co.open) = (stack.slots, stack.frames, stack.open);
        }
    }

    /// Ends the open run and keeps its objects. This is for the program of a library.
    pub fn end_and_keep(&mut self) {
        if self.stage == VmStage::Running {
            self.stage = VmStage::Idle;
            self.machine.stop();
            self.keep();
        }
    }

    fn keep(&mut self) {
        let machine = &mut self.machine;
        let heap = &mut machine.heap;
        // The stack's growth is no longer counted, because the stack belongs to the machine, and only its
        // growth during the run was charged to the run.
        let grown = machine.co.stack.len().saturating_sub(self.stack_before);
        heap.bytes = heap.bytes.saturating_sub(grown * SLOT_BYTES);
        if machine.co.stack.len() > STACK_KEPT {
            let stack = std::mem::replace(&mut machine.co.stack, vec![Value::NIL; STACK_FIRST]);
            heap.collector.dying.push(Box::new(stack));
            machine.co.frames = Vec::new();
        }
        for table in heap.tables.young_mut() {
            table.guard |= guard::OLD;
        }
        self.mark();
    }

    fn truncate(&mut self) {
        let machine = &mut self.machine;
        let heap = &mut machine.heap;
        heap.strings.texts.truncate();
        heap.tables.truncate();
        heap.closures.truncate();
        heap.upvalues.truncate();
        heap.natives.truncate();
        heap.userdata.truncate();
        heap.threads.truncate();
        machine.code.truncate();
        heap.forget_young();
    }

    /// Moves the run's objects out of the heap, arena by arena.
    fn split(&mut self) -> DiscardedRun {
        fn part<T: crate::arena::Object + Send + 'static>(
            arena: &mut Arena<T>,
            out: &mut Vec<Box<dyn Any + Send>>,
        ) {
            if arena.young() > 0 {
                out.push(Box::new(arena.split()));
            }
        }
        let machine = &mut self.machine;
        let heap = &mut machine.heap;
        let mut parts: Vec<Box<dyn Any + Send>> = Vec::new();
        part(&mut heap.strings.texts, &mut parts);
        part(&mut heap.tables, &mut parts);
        part(&mut heap.closures, &mut parts);
        part(&mut heap.upvalues, &mut parts);
        part(&mut heap.natives, &mut parts);
        part(&mut heap.userdata, &mut parts);
        part(&mut heap.threads, &mut parts);
        part(&mut machine.code, &mut parts);
        if !heap.collector.dying.is_empty() {
            parts.push(Box::new(std::mem::take(&mut heap.collector.dying)));
        }
        if machine.co.stack.len() > STACK_KEPT {
            let stack = std::mem::replace(&mut machine.co.stack, vec![Value::NIL; STACK_FIRST]);
            parts.push(Box::new(stack));
            machine.co.frames = Vec::new();
        }
        heap.forget_young();
        DiscardedRun(parts)
    }

    /// Collects garbage between runs: processes about `work` values. Returns true when a whole cycle has
    /// ended.
    pub fn collect(&mut self, work: usize) -> bool {
        self.machine.collect(Some(work))
    }

    /// Bytes in use, which the limit bounds.
    pub fn bytes(&self) -> usize {
        self.machine.heap.bytes
    }

    /// Approximate heap bytes of the machine: bytes in use, slots without an object, the stack, and lists.
    /// Programs, which their owners count ([`Proto::linked_bytes`]), and the image ([`VmImage::footprint`])
    /// are not counted. The function is meant for use between runs, because while a coroutine runs, the main
    /// program's stack is left out. O(1).
    pub fn footprint(&self) -> usize {
        let pins = heap::vec(&self.pins)
            + heap::vec(&self.free_slots)
            + heap::vec(&self.set)
            + heap::vec(&self.declared);
        let stack = &self.machine.co.stack;
        // The stack's growth during a run is subtracted, because it is part of the bytes in use already.
        let grown = match self.stage {
            VmStage::Running => stack.len().saturating_sub(self.stack_before),
            VmStage::Opening | VmStage::Idle => 0,
        };
        let stack = heap::vec(stack).saturating_sub(grown * SLOT_BYTES);
        let used = self.bytes().saturating_sub(self.machine.heap.shared_bytes);
        heap::boxed::<Vm>() + used + self.machine.spare_bytes() + stack + pins
    }
}

/// An open run of a chunk or of a function, paused between two slices of its budget.
#[derive(Debug)]
pub struct Execution<'v> {
    vm: &'v mut Vm,
}

impl Execution<'_> {
    /// Continues the run until the program ends, fails or requests something, or the limit is reached; does
    /// nothing if the deadline has passed already. `clock` returns the host's time in nanoseconds, or
    /// `u64::MAX` to pause the run at once; it is called every `UNITS_PER_LOOK` units, and `os.clock` returns
    /// the last reading.
    pub fn resume(&mut self, limit: &mut RunLimit, clock: &mut dyn FnMut() -> u64) -> RunOutcome {
        self.resume_by(i64::MAX, limit, clock)
    }

    /// Like [`Execution::resume`], but executes at most one instruction if [`Execution::stepwise`] was called
    /// before. [`RunOutcome::OutOfBudget`] means that the instruction is done, or that the limit is reached.
    pub fn step(&mut self, limit: &mut RunLimit, clock: &mut dyn FnMut() -> u64) -> RunOutcome {
        self.resume_by(1, limit, clock)
    }

    /// Runs about `units` more units of the budget without a clock. This is for trusted programs, as in tests
    /// and tools. [`Execution::resume`] runs programs of clients.
    pub fn resume_unwatched(&mut self, units: u64) -> RunOutcome {
        self.resume_counted(units).0
    }

    /// Like [`Execution::resume_unwatched`], but also returns the number of units that were used.
    pub fn count_units(&mut self, units: u64) -> (RunOutcome, u64) {
        self.resume_counted(units)
    }

    fn resume_counted(&mut self, units: u64) -> (RunOutcome, u64) {
        let mut limit = RunLimit::units(units);
        let before = limit.left;
        let outcome = self.resume(&mut limit, &mut || 0);
        (outcome, before.saturating_sub(limit.left).unsigned_abs())
    }

    fn resume_by(&mut self, units: i64, limit: &mut RunLimit, clock: &mut dyn FnMut() -> u64) -> RunOutcome {
        if limit.per_look > 0 && limit.is_over() {
            return RunOutcome::OutOfBudget;
        }
        loop {
            if limit.left <= 0 {
                if limit.per_look > 0 {
                    limit.look(clock());
                    self.vm.machine.heap.host.clock = limit.seen_ns as f64 / 1e9;
                }
                if limit.left <= 0 || limit.is_over() {
                    return RunOutcome::OutOfBudget;
                }
            }
            let given = limit.left.min(units);
            self.vm.machine.budget = given;
            let outcome = self.run_budget();
            limit.left = limit.left.saturating_sub(given.saturating_sub(self.vm.machine.budget));
            match outcome {
                RunOutcome::Call(_) => limit.left = limit.left.saturating_sub(REQUEST_UNITS),
                RunOutcome::OutOfBudget if units == i64::MAX => continue,
                RunOutcome::OutOfBudget | RunOutcome::Done | RunOutcome::Failed(_) => {}
            }
            return outcome;
        }
    }

    /// Runs until the machine's budget is used up, or the program ends, fails or requests something.
    fn run_budget(&mut self) -> RunOutcome {
        loop {
            if !self.vm.machine.end_cycles() {
                return RunOutcome::OutOfBudget;
            }
            match self.vm.machine.run() {
                Halt::Done(count) => {
                    self.vm.results = count;
                    return RunOutcome::Done;
                }
                Halt::Request(code) => return RunOutcome::Call(code),
                Halt::OutOfBudget => return RunOutcome::OutOfBudget,
                Halt::Failed(value) => return RunOutcome::Failed(value),
                Halt::Collect => self.vm.machine.collect_on(),
                Halt::CollectAll => self.vm.machine.ask_for_cycles(),
            }
            if self.vm.machine.budget <= 0 {
                return RunOutcome::OutOfBudget;
            }
        }
    }

    /// Makes the budget count each instruction, so that the run can be paused at any instruction.
    pub fn stepwise(&mut self) {
        self.vm.machine.stepwise = true;
    }

    /// The results of a run that is done; empty before.
    pub fn results(&self) -> &[Value] {
        &self.vm.machine.co.stack[..self.vm.results]
    }

    /// Sets a global variable until the run ends, even if the globals are read-only. After the run,
    /// the variable is `false`.
    ///
    /// # Errors
    /// `not enough memory`, if the globals are writable and a program has removed the variable.
    pub fn set_global(&mut self, global: Global, value: Value) -> Result<(), Fault> {
        self.vm.machine.heap.shade_if_marking(value);
        if !self.vm.write_declared(global.0, value)
            && let Some(declared) = self.vm.declared.get(global.0 as usize).copied()
        {
            let globals = self.vm.globals();
            self.vm.machine.heap.set(globals, declared.name, value)?;
        }
        self.vm.set.push(global.0);
        Ok(())
    }

    /// The position of a failed run: the chunk's name as it was given, and the line. The result is `=[C]` and
    /// -1 if a native function called the function that failed. `None` if the run's own function is native
    /// and failed.
    pub fn failed_at(&self) -> Option<(&[u8], i64)> {
        self.vm.machine.top_position()
    }

    /// The position of the next instruction, for a debugger; `None` if the run continues in a native
    /// function, or the instruction has no position to show. O(1).
    pub fn next_position(&self) -> Option<CodePosition<'_>> {
        self.vm.machine.next_position()
    }

    /// The live local variables of the Lua function at a level, 0 being the innermost, in the
    /// order of declaration.
    pub fn locals(&self, level: usize) -> Vec<(&[u8], Value)> {
        self.vm.machine.locals(level)
    }

    /// The Lua functions that are being called, the innermost first.
    pub fn callers(&self) -> Vec<RunningFunction> {
        self.vm.machine.callers()
    }

    /// The arguments of the run's request.
    pub fn request_args(&self) -> &[Value] {
        self.vm.machine.request_args()
    }

    /// Answers a request with results.
    pub fn answer(&mut self, values: &[Value]) {
        self.vm.machine.answer(values);
    }

    /// Answers a request with an error.
    pub fn answer_error(&mut self, fault: Fault) {
        self.vm.machine.answer_error(fault);
    }

    /// The heap, for reading and making objects.
    pub fn heap(&mut self) -> &mut Heap {
        &mut self.vm.machine.heap
    }

    /// The heap, read-only, for use together with results or arguments.
    pub fn objects(&self) -> &Heap {
        &self.vm.machine.heap
    }

    /// Ends the run: see [`Vm::end`].
    pub fn end(self) -> Option<DiscardedRun> {
        self.vm.end()
    }
}
