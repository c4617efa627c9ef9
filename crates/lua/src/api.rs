//! The machine as its host sees it: a [`Vm`] with libraries and chunks, and one run at a time.
//!
//! Invariants: (1) what is made before [`Vm::seal`], what an image has, and chunks that are loaded between
//! runs, lie before the mark and outlive runs; (2) a run's objects lie behind the mark and are cut off when
//! the run ends, unless it gave something older a newer value; (3) at most one run is open.

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

/// Slots of the main program's stack at first.
const STACK_FIRST: usize = 512;

/// Slots of these that arguments leave at least.
const STACK_FREE: usize = STACK_FIRST - 64;

/// Slots beyond which the stack of a run is not kept for the next.
const STACK_KEPT: usize = 16 << 10;

/// Slots of objects of a kind up to which a region is freed where it ends; larger ones are handed out.
const FREED_HERE: usize = 4096;

/// Bytes that a run made from which its objects are handed out.
const LARGE_REGION: usize = 1 << 20;

/// What a run has come to.
#[derive(Debug)]
pub enum RunOutcome {
    /// It ended: see [`Execution::results`].
    Done,
    /// The host is asked for something: see [`Execution::request_args`]. Answer with [`Execution::answer`] or
    /// [`Execution::answer_error`].
    Call(u32),
    /// The run's limit is reached: see [`RunLimit`].
    OutOfBudget,
    /// An error that nobody caught.
    Failed(Value),
}

/// A value that is kept, until [`Vm::unpin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Its slot among the values that are kept, and which of all pins it is: slots are used again.
    slot: u32,
    number: u32,
}

/// A global variable that the host sets for a run: its index among those that were declared.
#[derive(Clone, Copy, Debug)]
pub struct Global(u32);

/// A global variable that was declared: its name, and where among the globals it was found last.
#[derive(Clone, Copy, Debug)]
struct DeclaredGlobal {
    name: Value,
    node: usize,
}

/// The objects of a run that was large: dropping it takes time, on whatever thread that is.
#[derive(Debug)]
pub struct DiscardedRun(Vec<Box<dyn Any + Send>>);

impl DiscardedRun {
    /// Arenas in it.
    pub fn parts(&self) -> usize {
        self.0.len()
    }
}

/// Whether a run is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VmStage {
    /// Libraries are being opened.
    Opening,
    Idle,
    Running,
}

/// A machine with its libraries: see the module.
#[derive(Debug)]
pub struct Vm {
    machine: Machine,
    stage: VmStage,
    initial: HostState,
    /// By slot, the number of the pin that holds it; 0 where none does.
    pins: Vec<u32>,
    /// Slots that no pin holds any more.
    free_slots: Vec<u32>,
    /// The number of the last pin.
    last_pin: u32,
    /// The number of the last chunk.
    last_chunk: u32,
    /// Globals that the host sets, and which of them this run has.
    declared: Vec<DeclaredGlobal>,
    set: Vec<u32>,
    results: usize,
    /// Slots that the main program's stack had when the run began.
    stack_before: usize,
    /// Chunks that were unloaded since the last cycle of the collector ended.
    unloaded: usize,
    /// What unloaded chunks have for a program.
    no_program: Arc<Proto>,
}

/// Compiles a chunk. The name is as `loadstring` takes it: `=name`, `@file`, or the source. Costs time and
/// memory in proportion to the source, in one go: a host bounds its length.
///
/// # Errors
/// The text of the error, with its position.
pub fn compile(source: &[u8], name: &[u8]) -> Result<Arc<Proto>, Vec<u8>> {
    crate::compile::compile(source, ChunkName::new(name))
}

/// As [`compile`], under a name that several chunks have.
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

    /// A machine that has what an image has, and is sealed as that was. O(1).
    ///
    /// # Errors
    /// The limit is too small for what the image has, which counts as the machine's.
    pub fn of_image(image: &VmImage, limit: usize) -> Result<Vm, Fault> {
        let mut vm = Vm::of_machine(image.machine(limit), VmStage::Idle)?;
        vm.initial = vm.machine.heap.host.clone();
        vm.mark();
        vm.machine.heap.room(0).map(|()| vm)
    }

    /// The machine as an image, after [`Vm::seal`] and before the first chunk: what is pinned goes.
    pub fn into_image(self) -> VmImage {
        VmImage::of(self.machine, self.initial)
    }

    /// A machine, with its main program and what chunks run as.
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

    /// Opens a library of the host. Before [`Vm::seal`].
    pub fn library(&mut self) -> Library<'_> {
        let globals = self.machine.heap.globals.unwrap_or_default();
        let natives = Arc::make_mut(&mut self.machine.natives);
        Library { heap: &mut self.machine.heap, natives, globals }
    }

    /// Adds `getfenv`, `setfenv` and `newproxy`. Before [`Vm::seal`].
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn open_insecure(&mut self) -> Result<(), Fault> {
        self.library().table(b"", &INSECURE).map(|_| ())
    }

    /// Makes `pcall` do as the reference's server has it: of an error that is a table with a text in `err`,
    /// it answers that text, and of another table both the table and its `err`.
    pub fn look_into_errors(&mut self) {
        self.machine.looks_into_errors = true;
    }

    /// A global variable for the host to set in each run. Before [`Vm::seal`].
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

    /// Writes a declared global in its place; false where a program has removed the global. The place of a
    /// read-only global stays, and is looked for once.
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

    /// Ends the opening of libraries: all that is there outlives runs, and with `read_only` its tables cannot
    /// be written.
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

    /// All objects, to be made and changed. What is made between runs goes with the next run, as what that
    /// makes; a load in between keeps it.
    pub fn heap(&mut self) -> &mut Heap {
        &mut self.machine.heap
    }

    /// All objects, to be read.
    pub fn objects(&self) -> &Heap {
        &self.machine.heap
    }

    /// The table of globals.
    pub fn globals(&self) -> TableRef {
        self.machine.heap.globals.unwrap_or_default()
    }

    /// Makes `table` the globals of chunks that are loaded from now on. Before [`Vm::seal`]; what was there
    /// is kept where it is pinned or referred to.
    pub fn set_globals(&mut self, table: TableRef) {
        self.machine.heap.globals = Some(table);
    }

    /// Makes `table` the globals of chunks from now on and of all functions. O(functions).
    pub fn replace_globals(&mut self, table: TableRef) {
        let heap = &mut self.machine.heap;
        heap.shade_if_marking(table.into());
        let Some(before) = heap.globals.replace(table) else { return };
        for closure in heap.closures.slots.iter_mut().filter(|closure| closure.env == before.0) {
            closure.env = table.0;
        }
    }

    /// Sets how many bytes may be in use.
    pub fn set_limit(&mut self, bytes: usize) {
        self.machine.heap.limit = bytes;
    }

    /// Arguments that a function can see, at most: others make no difference.
    pub fn params_of(&self, function: Value) -> usize {
        let closure = function.as_closure().and_then(|closure| self.machine.heap.closures.own(closure.0));
        match closure.and_then(|closure| self.machine.code.own(closure.proto)) {
            Some(linked) if !linked.proto.is_vararg => usize::from(linked.proto.params),
            Some(_) | None => usize::MAX,
        }
    }

    /// Keeps a value, and what it refers to, until it is unpinned: a function that a library registers. A
    /// value that the open run made has the run kept, as [`Vm::end_and_keep`] does. O(1).
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

    /// The value that a pin keeps; nil when it was unpinned.
    pub fn pinned(&self, pin: Pinned) -> Value {
        if self.holds(pin) { self.machine.heap.pinned[pin.slot as usize] } else { Value::NIL }
    }

    /// Lets go of a value: slices of the collector free it, as what [`Vm::unload`] gives back. False when it
    /// was unpinned before. O(1).
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

    /// What is there now outlives what comes.
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

    /// Where many slots before the mark are free, a run goes without a mark, uses them, and is kept.
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

    /// Has free slots before the mark used again, if the number of those that a chunk can use is one for it.
    /// Whether it was.
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

    /// Begins a run of a chunk; of one that was unloaded, a run that fails.
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

    /// Begins a run of a function, such as one that is pinned, with arguments. A run that was open is ended:
    /// arguments are made behind that end, by [`Vm::heap`].
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

    /// The run that is open.
    pub fn run(&mut self) -> Option<Execution<'_>> {
        if self.stage == VmStage::Running { Some(Execution { vm: self }) } else { None }
    }

    /// Ends the run that is open, whether it is done or not. What it made goes; if much, into the answer.
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

    /// Takes the memory of the stack, for the next run of another machine; in a run nothing.
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

    /// Gives a machine the memory of another one's stack; in a run nothing.
    pub fn give_stack(&mut self, stack: RunStack) {
        if self.stage != VmStage::Running && self.machine.co.stack.is_empty() {
            let co = &mut self.machine.co;
            (co.stack, co.frames, co.open) = (stack.slots, stack.frames, stack.open);
        }
    }

    /// Ends the run that is open and keeps what it made: a library that was loaded.
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
        // The main program's stack is the machine's own: what it grew by was this run's.
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

    /// Moves what a run made out of the heap; what is before the mark is moved into arenas of its own.
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

    /// Collects between runs: `work` values are looked at. True when a whole cycle has ended.
    pub fn collect(&mut self, work: usize) -> bool {
        self.machine.collect(Some(work))
    }

    /// Bytes in use: what the limit bounds.
    pub fn bytes(&self) -> usize {
        self.machine.heap.bytes
    }

    /// Bytes that the allocator has given, about: those in use, slots without an object, the stack, and
    /// lists; without the programs, which their owners count ([`Proto::linked_bytes`]), and without what an
    /// image has ([`VmImage::footprint`]). Between runs: in a coroutine the stack of the main program is left
    /// out. O(1).
    pub fn footprint(&self) -> usize {
        let pins = heap::vec(&self.pins)
            + heap::vec(&self.free_slots)
            + heap::vec(&self.set)
            + heap::vec(&self.declared);
        let stack = &self.machine.co.stack;
        // What a run has made its stack longer by is in use.
        let grown = match self.stage {
            VmStage::Running => stack.len().saturating_sub(self.stack_before),
            VmStage::Opening | VmStage::Idle => 0,
        };
        let stack = heap::vec(stack).saturating_sub(grown * SLOT_BYTES);
        let used = self.bytes().saturating_sub(self.machine.heap.shared_bytes);
        heap::boxed::<Vm>() + used + self.machine.spare_bytes() + stack + pins
    }
}

/// An execution of a chunk or of a function: it stands between two slices of its budget.
#[derive(Debug)]
pub struct Execution<'v> {
    vm: &'v mut Vm,
}

impl Execution<'_> {
    /// Runs on, until the program wants something or the limit is reached; where the deadline has come
    /// before, nothing runs. `clock` answers the host's time in nanoseconds, `u64::MAX` where the run is to
    /// stand still at once; it is asked each `UNITS_PER_LOOK` units, and `os.clock` follows.
    pub fn resume(&mut self, limit: &mut RunLimit, clock: &mut dyn FnMut() -> u64) -> RunOutcome {
        self.resume_by(i64::MAX, limit, clock)
    }

    /// As [`Execution::resume`], for an instruction at most where the run is [`Execution::stepwise`].
    /// [`RunOutcome::OutOfBudget`] says that the instruction is done, or that the limit is reached.
    pub fn step(&mut self, limit: &mut RunLimit, clock: &mut dyn FnMut() -> u64) -> RunOutcome {
        self.resume_by(1, limit, clock)
    }

    /// Runs about so many units more, without a clock: for programs of one's own, as tests and tools have.
    /// [`Execution::resume`] runs programs of clients.
    pub fn resume_unwatched(&mut self, units: u64) -> RunOutcome {
        self.resume_counted(units).0
    }

    /// As [`Execution::resume_unwatched`], and how many units that took.
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

    /// Runs until the machine's budget is used up, or something else comes up.
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

    /// Makes the budget count each instruction, so that the run can be stopped at any of them.
    pub fn stepwise(&mut self) {
        self.vm.machine.stepwise = true;
    }

    /// The results of a run that is done, else nothing.
    pub fn results(&self) -> &[Value] {
        &self.vm.machine.co.stack[..self.vm.results]
    }

    /// Sets a global variable until the run ends, even where globals are read-only. Behind the run, the
    /// variable is `false`.
    ///
    /// # Errors
    /// `not enough memory`, where globals can be written and a program has removed the variable.
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

    /// Where a run that has failed was: the name of the chunk as it was given, and the line. `=[C]` and -1,
    /// where a native function has called what has failed. `None` where nobody has: a native function was
    /// what is run.
    pub fn failed_at(&self) -> Option<(&[u8], i64)> {
        self.vm.machine.top_position()
    }

    /// Where the run goes on, for a debugger; `None` where a native function does. O(1).
    pub fn next_position(&self) -> Option<CodePosition<'_>> {
        self.vm.machine.next_position()
    }

    /// The local variables that live in the function of the language at a level, 0 is the innermost, in the
    /// order of their coming.
    pub fn locals(&self, level: usize) -> Vec<(&[u8], Value)> {
        self.vm.machine.locals(level)
    }

    /// The functions of the language that run, the innermost first.
    pub fn callers(&self) -> Vec<RunningFunction> {
        self.vm.machine.callers()
    }

    /// The arguments of a request.
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

    /// All objects, to be made and changed.
    pub fn heap(&mut self) -> &mut Heap {
        &mut self.vm.machine.heap
    }

    /// All objects, to be read while results or arguments are.
    pub fn objects(&self) -> &Heap {
        &self.vm.machine.heap
    }

    /// Ends the run: see [`Vm::end`].
    pub fn end(self) -> Option<DiscardedRun> {
        self.vm.end()
    }
}
