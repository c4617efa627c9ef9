//! The coroutine library. The machine does the switching.

use crate::fault::Fault;
use crate::native::{Ctx, Demand, Library, Native, NativeStep};
use crate::object::{Coroutine, Status};
use crate::value::{ThreadRef, Value};

/// Number of slots of a new coroutine's stack, which is enough for the registers of any one function.
const STACK: usize = 272;

pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    let functions = [
        Native::plain("create", create),
        Native::plain("resume", resume),
        Native::plain("running", running),
        Native::plain("status", status),
        Native::plain("wrap", wrap),
        Native::plain("yield", give_up),
    ];
    let table = lib.table(b"coroutine", &functions)?;
    // The template of the functions that `wrap` returns. Each of them is a copy that has its coroutine as an
    // upvalue.
    let template = lib.function(Native::plain("wrap", resume_wrapped), &[Value::NIL])?;
    let wrap = lib.function(Native::plain("wrap", wrap), &[template])?;
    lib.field(table, b"wrap", wrap)
}

fn fresh(ctx: &mut Ctx<'_>) -> Result<ThreadRef, Fault> {
    let function = ctx.arg(1);
    if !function.is_closure() {
        return Err(Fault::argument(1, "Lua function expected"));
    }
    let mut stack = vec![Value::NIL; STACK];
    stack[0] = function;
    ctx.heap.new_thread(Box::new(Coroutine { stack, top: 1, ..Coroutine::default() }))
}

fn create(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let thread = fresh(ctx)?;
    ctx.one(thread.into())
}

fn wrap(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let thread = fresh(ctx)?;
    let template = ctx.upvalue(1);
    let function = ctx.new_native(template, &[thread.into()])?;
    ctx.one(function)
}

fn check_thread(ctx: &Ctx<'_>) -> Result<ThreadRef, Fault> {
    ctx.arg(1).as_thread().ok_or_else(|| Fault::argument(1, "coroutine expected"))
}

fn resume(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    check_thread(ctx)?;
    Ok(NativeStep::Machine(Demand::Resume))
}

fn resume_wrapped(_: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    Ok(NativeStep::Machine(Demand::ResumeWrapped))
}

fn give_up(_: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    Ok(NativeStep::Machine(Demand::Yield))
}

fn running(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let value = if ctx.is_main { Value::NIL } else { ThreadRef(ctx.thread).into() };
    ctx.one(value)
}

fn status(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let thread = check_thread(ctx)?;
    // If the slot is empty, the coroutine is the running one, which is not in the heap.
    let coroutine = ctx.heap.threads.at(thread.0).coroutine.as_ref();
    let name: &[u8] = match coroutine.map_or(Status::Running, |coroutine| coroutine.status) {
        Status::Suspended => b"suspended",
        Status::Running => b"running",
        Status::Normal => b"normal",
        Status::Dead => b"dead",
    };
    let name = ctx.heap.new_string(name)?;
    ctx.one(name)
}
