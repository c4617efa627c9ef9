//! What the heap holds besides strings and tables: functions, upvalues, user data, coroutines.
//!
//! Invariant: a coroutine is data. Its calls are frames in it, so it can stand still between any two
//! instructions.

use std::any::Any;
use std::sync::Arc;

use sluice_base::heap;

use crate::arena::{Colour, Object};
use crate::value::{TableRef, ThreadRef, Value};

/// What a native function that waits keeps between two steps. It holds no [`Value`]: those lie in the
/// function's window.
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

/// Upvalues that lie in a closure itself.
const CAPTURES_INLINE: usize = 4;

/// A function of the language: a prototype with its upvalues and its environment.
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

    /// The index of an upvalue.
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

/// A variable that closures share.
#[derive(Debug, Default)]
pub(crate) struct Upvalue {
    pub(crate) state: UpvalueState,
    pub(crate) colour: Colour,
}

object!(Upvalue, Vec<Upvalue>, self => 0);

/// Where the value of an upvalue is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpvalueState {
    /// A slot of a coroutine's stack, while the function that declared the variable runs.
    Open(ThreadRef, u32),
    /// Here, from then on.
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

/// What `newproxy` makes.
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

/// Who catches errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// `pcall`
    Pcall,
    /// `xpcall`, whose handler lies in the frame's first slot.
    Xpcall,
    /// `load`, which calls its reader so.
    Load,
}

/// What a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A function of the language.
    Lua,
    /// A native function that waits for a call or for a budget; its state is the last of the coroutine's
    /// states.
    Native,
    /// A protected call: errors end here.
    Protected(Protection),
    /// The `__index` of an error is at work for `pcall`, which looks for the error's `err`: the error lies in
    /// the frame's first slot.
    Looking,
    /// The handler of `xpcall` at work: the error ends its protected call with what the handler answers.
    Handler,
    /// `coroutine.resume` or a wrapped coroutine in this coroutine: another one runs.
    Resume { wrapped: bool },
    /// `coroutine.yield`: this coroutine waits to be resumed.
    Yield,
    /// The host computes.
    Host,
}

/// What becomes of the results of a call, in the frame below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// They go where the function lay, as many as wanted.
    Results,
    /// The first goes into a register.
    Register(u8),
    /// Nothing: an assignment by a metamethod.
    Nothing,
    /// The first one's truth decides: the frame below goes on at `target` if it equals `when`.
    Jump { when: bool, target: u32 },
    /// Concatenation goes on: the result goes into the register, and those from `first` on are still to be
    /// joined to it.
    Concat { first: u8, at: u8, into: u8 },
    /// They are the values of a generic `for`, whose control variables begin in that register.
    Each { first: u8, count: u8 },
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// First slot of its registers, or of a native function's window.
    pub(crate) base: u32,
    /// The slot where the function lay, and the results go.
    pub(crate) func: u32,
    /// The function's index: a closure, or a native closure.
    pub(crate) function: u32,
    /// The prototype, of a closure.
    pub(crate) proto: u32,
    /// The next instruction.
    pub(crate) pc: u32,
    /// How many results are wanted; negative: all.
    pub(crate) want: i32,
    /// Calls that were replaced by this one: levels without a name.
    pub(crate) tails: u32,
    pub(crate) after: After,
    pub(crate) work: Work,
}

/// Bytes that a slot of a stack counts: the value, and a share of the frames that go with slots.
pub(crate) const SLOT_BYTES: usize = 16;

/// How a coroutine stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    /// Made, or in `yield`.
    #[default]
    Suspended,
    /// The one that runs.
    Running,
    /// It resumed another.
    Normal,
    /// Ended, or failed.
    Dead,
}

/// A coroutine. The main program is one too.
#[derive(Debug, Default)]
pub(crate) struct Coroutine {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// States of the native functions that wait, in the order of their frames.
    pub(crate) states: Vec<State>,
    /// Open upvalues, by slot: the highest last.
    pub(crate) open: Vec<(u32, u32)>,
    /// End of the values of the last call with any number of results, and of a native function's window.
    pub(crate) top: u32,
    pub(crate) status: Status,
    /// Who resumed it.
    pub(crate) resumer: Option<ThreadRef>,
    /// Calls that PUC would make on the C stack.
    pub(crate) nested: u32,
    /// Such calls below: those of the coroutines that wait for this one.
    pub(crate) below: u32,
}

/// Memory that a run takes for its stack. A machine without any makes it anew, so machines of which one at a
/// time runs need one between them.
#[derive(Debug, Default)]
pub struct RunStack {
    pub(crate) slots: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) open: Vec<(u32, u32)>,
}

impl RunStack {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.slots) + heap::vec(&self.frames) + heap::vec(&self.open)
    }
}

/// A coroutine in its arena: taken out while it runs.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) coroutine: Option<Box<Coroutine>>,
    /// It ran since the collector scanned it.
    pub(crate) touched: bool,
    pub(crate) colour: Colour,
}

object!(Thread, Vec<Thread>, self => self.coroutine.as_ref().map_or(0, |coroutine| coroutine.bytes()));

impl Coroutine {
    /// Calls that PUC would have made on the C stack, in this coroutine and below.
    pub(crate) fn depth(&self) -> u32 {
        self.nested + self.below
    }

    /// Bytes that a coroutine takes.
    pub(crate) fn bytes(&self) -> usize {
        self.stack.len() * SLOT_BYTES + size_of::<Coroutine>()
    }
}
