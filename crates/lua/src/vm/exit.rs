//! The data that the interpreter's loop reads, and the reasons for leaving the loop.

use crate::arena::Arena;
use crate::code::Linked;
use crate::fault::Fault;
use crate::native::{Native, NativeStep};
use crate::object::After;
use crate::value::ThreadRef;

/// The reason why the loop was left.
#[derive(Debug)]
pub(super) enum Exit {
    /// The budget is used up.
    Budget,
    /// The collector has a slice to do, or recorded work must be charged to the budget.
    Collect,
    /// An error in the instruction before the frame's `pc`.
    Fault(Fault),
    /// The function in the slot `func` must be called.
    Call { func: usize, args: usize, want: i32, after: After },
    /// The strings in these slots must be joined piece by piece, then the operands from `first`
    /// on, into a register.
    Join { slots: (usize, usize), first: u8, into: u8 },
    /// The top frame returns values, but the frame below is not that of a Lua function, or does not take the
    /// values as plain results.
    Return { from: usize, count: usize },
    /// The native function of the top frame was resumed, and did something other than call a Lua function.
    Resumed(Result<NativeStep, Fault>),
    /// A native function was called, and did something other than return.
    NativeStep {
        step: Result<NativeStep, Fault>,
        func: usize,
        top: usize,
        function: u32,
        want: i32,
        after: After,
    },
}

/// Native functions that the loop handles itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The number of the native function `next`.
    pub(crate) next: u32,
    /// The number of the native function that `ipairs` iterates with.
    pub(crate) inext: u32,
}

/// The parts of the machine that the loop only reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'m> {
    pub(super) code: &'m Arena<Linked>,
    pub(super) natives: &'m [Native],
    pub(super) known: Known,
    /// The main program's coroutine.
    pub(super) main: ThreadRef,
}
