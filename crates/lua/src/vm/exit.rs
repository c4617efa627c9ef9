//! What the loop over instructions reads, and why it is left.

use crate::arena::Arena;
use crate::code::Linked;
use crate::fault::Fault;
use crate::native::{Native, NativeStep};
use crate::object::After;
use crate::value::ThreadRef;

/// Why the loop was left.
#[derive(Debug)]
pub(super) enum Exit {
    /// The budget is used up.
    Budget,
    /// The collector has work.
    Collect,
    /// An error in the instruction before the frame's `pc`.
    Fault(Fault),
    /// A call to be made of the function in the slot `func`.
    Call { func: usize, args: usize, want: i32, after: After },
    /// The texts of these slots are to be joined piece by piece; then those from `first` on are, into a
    /// register.
    Join { slots: (usize, usize), first: u8, into: u8 },
    /// The top frame returns values to a frame that is not of the language, or not in the plain way.
    Return { from: usize, count: usize },
    /// The native function of the top frame went on, and did something other than call a function of the
    /// language.
    Resumed(Result<NativeStep, Fault>),
    /// A native function did something other than return.
    NativeStep {
        step: Result<NativeStep, Fault>,
        func: usize,
        top: usize,
        function: u32,
        want: i32,
        after: After,
    },
}

/// Natives that the loop knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// `next`
    pub(crate) next: u32,
    /// The iterator of `ipairs`
    pub(crate) inext: u32,
}

/// What the loop reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'m> {
    pub(super) code: &'m Arena<Linked>,
    pub(super) natives: &'m [Native],
    pub(super) known: Known,
    /// The main program.
    pub(super) main: ThreadRef,
}
