//! Objects of the heap other than strings and tables: functions, upvalues, user data, coroutines.
//!
//! Invariant: a coroutine is data. Its calls are frames in it, so it can be paused between any
//! two instructions.

use std::any::Any;
use std::sync::Arc;

use sluice_base::heap;

use crate::arena::{Colour, Object};
use crate::value::{TableRef, ThreadRef, Value};

/// The state of a waiting native function between two steps. It contains no [`Value`]: values are kept
/// in the function's window.
pub type State = Box<dyn Any + Send>;

macro_rules! object {
    ($name:ident, $shared:ty, $self:ident => $outside:expr) => {
        impl Object for $name {
            type Shared = $shared;

            fn colour(&self) -> Colour {
                self.colour
            }
            fn paint(&mut self, colour: Colour) {
                self.colour = colour;
            }
            fn outside(&$self) -> usize {
                $outside
            }
        }
    };
}

/// Maximum number of upvalues that are stored in the closure itself.
const CAPTURES_INLINE: usize = 4;

/// A Lua function: a prototype with its upvalues and its environment.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    pub(crate) proto: u32,
    pub(crate) env: u32,
    few: [u32; CAPTURES_INLINE],
    many: Option<Box<[u32]>>,
    count: u8,
    colour: Colour,
}

object!(Closure, Vec<Closure>, self => self.many.as_ref().map_or(0, |many| many.len() * 4));

impl Closure {
    pub(crate) fn new(proto: u32, env: TableRef, captures: &[u32], colour: Colour) -> Closure {
        let mut closure =
            Closure { proto, env: env.0, colour, count: captures.len() as u8, ..Closure::default() };
        if captures.len() <= CAPTURES_INLINE {
            closure.few[..captures.len()].copy_from_slice(captures);
        } else {
            closure.many = Some(captures.into());
        }
        closure
    }

    /// The index of an upvalue in the heap, by its position in the closure.
    #[inline(always)]
    pub(crate) fn capture(&self, at: usize) -> u32 {
        match &self.many {
            None => self.few[at & (CAPTURES_INLINE - 1)],
            Some(many) => many[at],
        }
    }

    pub(crate) fn captures(&self) -> &[u32] {
        match &self.many {
            None => &self.few[..usize::from(self.count)],
            Some(many) => many,
        }
    }
}

/// A variable shared by closures.
#[derive(Debug, Default)]
pub(crate) struct Upvalue {
    pub(crate) state: UpvalueState,
    pub(crate) colour: Colour,
}

object!(Upvalue, Vec<Upvalue>, self => 0);

/// The place of an upvalue's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpvalueState {
    /// In a slot of a coroutine's stack, while the block that declared the variable runs.
    Open(ThreadRef, u32),
    /// In the upvalue itself, after that block has ended.
    Closed(Value),
}

impl Default for UpvalueState {
    fn default() -> UpvalueState {
        UpvalueState::Closed(Value::NIL)
    }
}

/// A native function with its upvalues.
#[derive(Debug, Default)]
pub(crate) struct NativeClosure {
    /// Index into the machine's natives.
    pub(crate) native: u32,
    pub(crate) upvalues: Box<[Value]>,
    colour: Colour,
}

object!(NativeClosure, Arc<[NativeClosure]>, self => self.upvalues.len() * size_of::<Value>());

impl NativeClosure {
    pub(crate) fn new(native: u32, upvalues: &[Value], colour: Colour) -> NativeClosure {
        NativeClosure { native, upvalues: upvalues.into(), colour }
    }
}

/// A userdata object, made by `newproxy`; it has no content but a metatable.
#[derive(Debug, Default)]
pub(crate) struct Userdata {
    pub(crate) meta: Option<TableRef>,
    colour: Colour,
}

object!(Userdata, Vec<Userdata>, self => 0);

impl Userdata {
    pub(crate) fn new(meta: Option<TableRef>, colour: Colour) -> Userdata {
        Userdata { meta, colour }
    }
}

/// The native function that protects a call and catches errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// `pcall`: returns false and the error.
    Pcall,
    /// `xpcall`, whose handler is in the frame's first slot.
    Xpcall,
    /// `load`, which calls its reader function under protection.
    Load,
}

/// The kind of a call, or what the call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A Lua function.
    Lua,
    /// A native function that waits for a call or for budget; its state is the last of the coroutine's
    /// states.
    Native,
    /// A protected call: errors end here.
    Protected(Protection),
    /// `pcall` is calling `__index` of an error, to look up the error's `err`: the error is in
    /// the frame's first slot.
    Looking,
    /// The handler of `xpcall` is running: its result is the result of the protected call.
    Handler,
    /// `coroutine.resume` or a wrapped coroutine was called in this coroutine, and another coroutine
    /// runs.
    Resume { wrapped: bool },
    /// `coroutine.yield` was called: this coroutine waits to be resumed.
    Yield,
    /// A request to the host is not answered yet.
    Host,
}

/// The use of a call's results in the frame below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The results are stored where the function was, as many as wanted.
    Results,
    /// The first result is stored in this register.
    Register(u8),
    /// The results are dropped, because a metamethod was called for an assignment.
    Nothing,
    /// The first result decides a jump: the frame below continues at `target` if the truth of the result
    /// equals `when`.
    Jump { when: bool, target: u32 },
    /// Concatenation continues: the result is stored in a register, and joined to the operands
    /// from `first` on.
    Concat { first: u8, at: u8, into: u8 },
    /// The results are the values of a generic `for`, whose control variables begin in register `first`.
    Each { first: u8, count: u8 },
}

/// The frame of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// First slot of the registers, or of a native function's window.
    pub(crate) base: u32,
    /// The slot where the function was, and where the results are stored.
    pub(crate) func: u32,
    /// The index of the called function, a closure or a native closure.
    pub(crate) function: u32,
    /// The index of the closure's prototype.
    pub(crate) proto: u32,
    /// The index of the next instruction of the closure.
    pub(crate) pc: u32,
    /// The number of wanted results; if it is negative, all results are wanted.
    pub(crate) want: i32,
    /// Number of tail calls whose frames this frame has replaced: each counts as a call level without a
    /// name.
    pub(crate) tails: u32,
    pub(crate) after: After,
    pub(crate) work: Work,
}

/// Bytes charged for a stack slot: the value, and a share of the frames.
pub(crate) const SLOT_BYTES: usize = 16;

/// The status of a coroutine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    /// The coroutine has not started yet, or waits in `yield`.
    #[default]
    Suspended,
    /// Running; only one coroutine has this status.
    Running,
    /// The coroutine has resumed another one, and waits until that one yields or ends.
    Normal,
    /// The coroutine has ended, or failed with an error.
    Dead,
}

/// A coroutine. The main program is also a coroutine.
#[derive(Debug, Default)]
pub(crate) struct Coroutine {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// States of the waiting native functions, in the order of their frames.
    pub(crate) states: Vec<State>,
    /// Open upvalues by slot, the highest slot last.
    pub(crate) open: Vec<(u32, u32)>,
    /// End of the results of the last call with a variable number of results; also the end of a
    /// native function's window.
    pub(crate) top: u32,
    pub(crate) status: Status,
    /// The coroutine that resumed this one; `None` for the main program, and while suspended.
    pub(crate) resumer: Option<ThreadRef>,
    /// Calls in this coroutine that PUC-Rio's Lua would make on the C stack.
    pub(crate) nested: u32,
    /// The sum of `nested` over the coroutines below, which wait for this one.
    pub(crate) below: u32,
}

/// Memory for the stack of a run. A machine without it allocates new memory; machines that run one at a
/// time can share it.
#[derive(Debug, Default)]
pub struct RunStack {
    pub(crate) slots: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) open: Vec<(u32, u32)>,
}

impl RunStack {
    /// Heap bytes of the three lists.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.slots) + heap::vec(&self.frames) + heap::vec(&self.open)
    }
}

/// A coroutine in its arena. While a coroutine runs, it is taken out of the arena.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) coroutine: Option<Box<Coroutine>>,
    /// Whether the coroutine has run since the collector scanned it.
    pub(crate) touched: bool,
    pub(crate) colour: Colour,
}

object!(Thread, Vec<Thread>, self => self.coroutine.as_ref().map_or(0, |coroutine| coroutine.bytes()));

impl Coroutine {
    /// Calls that PUC would make on the C stack, in this coroutine and those below.
    pub(crate) fn depth(&self) -> u32 {
        self.nested + self.below
    }

    /// Bytes charged for the coroutine.
    pub(crate) fn bytes(&self) -> usize {
        self.stack.len() * SLOT_BYTES + size_of::<Coroutine>()
    }
}
