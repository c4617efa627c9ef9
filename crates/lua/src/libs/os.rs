//! The library `os`: only the clock, whose time the host sets.

use crate::fault::Fault;
use crate::native::{Ctx, Library, Native, NativeStep};
use crate::value::Value;

/// Makes the table `os`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    lib.table(b"os", &[Native::plain("clock", clock)]).map(drop)
}

fn clock(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let seconds = ctx.heap.host.clock;
    ctx.one(Value::number(seconds))
}
