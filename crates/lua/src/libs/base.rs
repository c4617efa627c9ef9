//! The base library.

use std::sync::Arc;

use crate::code::{ChunkName, Proto};
use crate::compile::compile;
use crate::fault::Fault;
use crate::heap::Metamethod;
use crate::held::Held;
use crate::native::{Ctx, Demand, Library, Native, NativeStep, State};
use crate::object::{Protection, Work};
use crate::text::number::{c_text, parse_radix};
use crate::value::{Kind, TableRef, Value};

use super::output::{cost, reserve};

/// Maximum number of arguments and results of `unpack` together, which is the limit of PUC-Rio's Lua for a C
/// function.
const RESULTS_MAX: i64 = 8000;

const FUNCTIONS: [Native; 16] = [
    Native::plain("assert", assert),
    Native::plain("collectgarbage", collectgarbage),
    Native::plain("error", error),
    Native::plain("gcinfo", gcinfo),
    Native::plain("getmetatable", getmetatable),
    Native::resumable("load", load, load_on),
    Native::plain("loadstring", loadstring),
    Native::plain("pcall", pcall),
    Native::plain("rawequal", rawequal),
    Native::plain("rawget", rawget),
    Native::plain("rawset", rawset),
    Native::plain("select", select),
    Native::plain("setmetatable", setmetatable),
    Native::plain("tonumber", tonumber),
    Native::resumable("tostring", tostring, tostring_on),
    Native::plain("type", type_of),
];

/// Functions that exist only with `lua-enable-insecure-api`.
pub(crate) const INSECURE: [Native; 3] = [
    Native::plain("getfenv", getfenv),
    Native::plain("setfenv", setfenv),
    Native::plain("newproxy", newproxy),
];

/// Opens the library; returns the function `next` and the iterator function of `ipairs`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(Value, Value), Fault> {
    let globals = lib.globals();
    lib.field(globals, b"_G", globals.into())?;
    let version = lib.heap.new_string(b"Lua 5.1")?;
    lib.field(globals, b"_VERSION", version)?;
    lib.table(b"", &FUNCTIONS)?;
    lib.table(b"", &[Native::plain("unpack", unpack), Native::plain("xpcall", xpcall)])?;
    let read_piece = lib.function(Native::plain("load", read_piece), &[])?;
    let refuse_piece = lib.function(Native::plain("load", refuse_piece), &[])?;
    let load = lib.function(Native::resumable("load", load, load_on), &[read_piece, refuse_piece])?;
    lib.field(globals, b"load", load)?;
    let next = lib.function(Native::plain("next", next), &[])?;
    lib.field(globals, b"next", next)?;
    let inext = lib.function(Native::plain("ipairs", inext), &[])?;
    let ipairs = lib.function(Native::plain("ipairs", ipairs), &[inext])?;
    lib.field(globals, b"ipairs", ipairs)?;
    let pairs = lib.function(Native::plain("pairs", pairs), &[next])?;
    lib.field(globals, b"pairs", pairs)?;
    Ok((next, inext))
}

fn assert(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.check_any(1)?.truthy() {
        return Ok(NativeStep::Return(ctx.count()));
    }
    match ctx.opt_str(2)? {
        // The reference formats the message with `%s`, so a zero byte ends it.
        Some(text) => {
            let bytes = ctx.heap.bytes(text);
            let told = c_text(bytes);
            // A message without a zero byte is passed as a value, so that its bytes are copied only once,
            // when its position is added.
            Err(if told.len() == bytes.len() { Fault::level(text.into(), 1) } else { Fault::text(told) })
        }
        None => Err(Fault::text("assertion failed!")),
    }
}

fn error(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let level = ctx.opt_int(2, 1)? as i32;
    Err(Fault::level(ctx.arg(1), level.max(0) as u32))
}

fn pcall(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() == 0 {
        // Without a function, `true` is called: the reference's own `pcall` stores its first result, `true`,
        // in the slot below the function, and then calls this slot.
        ctx.push(Value::TRUE);
    }
    Ok(NativeStep::Machine(Demand::Protect(Protection::Pcall)))
}

/// Calls the reader function of `load` under protection; an error of the reader is passed on unchanged.
fn read_piece(_: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    Ok(NativeStep::Machine(Demand::Protect(Protection::Load)))
}

/// Raises the error for a piece that is not a string. Its position is that of the call of `load`, two frames
/// further out.
fn refuse_piece(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let text = ctx.heap.new_string(b"reader function must return a string")?;
    Err(Fault::level(text, 3))
}

fn xpcall(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_any(2)?;
    ctx.truncate(2);
    Ok(NativeStep::Machine(Demand::ProtectWith))
}

fn type_of(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let name = ctx.check_any(1)?.type_name();
    let name = ctx.heap.new_string(name.as_bytes())?;
    ctx.one(name)
}

fn tonumber(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let base = ctx.opt_int(2, 10)?;
    if base == 10 {
        let value = ctx.check_any(1)?;
        let number = ctx.to_number(value);
        return ctx.one(number.map_or(Value::NIL, Value::number));
    }
    let text = ctx.check_str(1)?;
    let len = ctx.heap.bytes(text).len();
    ctx.charge(cost(len.saturating_mul(4)));
    if !(2..=36).contains(&base) {
        return Err(Fault::argument(2, "base out of range"));
    }
    let number = parse_radix(ctx.heap.bytes(text), base as u32);
    ctx.one(number.map_or(Value::NIL, Value::number))
}

fn tostring(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let value = ctx.check_any(1)?;
    let handler = ctx.heap.metamethod(value, Metamethod::ToString);
    if !handler.is_nil() {
        ctx.truncate(1);
        return ctx.call(handler, &[value], Box::new(()));
    }
    let text = match value.kind() {
        Kind::String => value,
        Kind::Number => ctx.heap.number_string(value.double())?,
        _ => ctx.heap.new_string(value.plain_text().as_bytes())?,
    };
    ctx.one(text)
}

/// Returns the first result of the metamethod. In the window (see [`Ctx`]) it follows the one argument that
/// [`tostring`] has left there.
fn tostring_on(ctx: &mut Ctx<'_>, _: State) -> Result<NativeStep, Fault> {
    let value = ctx.arg(2);
    ctx.one(value)
}

fn next(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    match ctx.heap.next(table, ctx.arg(2))? {
        Some((key, value)) => {
            ctx.push(key);
            ctx.push(value);
            Ok(NativeStep::Return(2))
        }
        None => ctx.one(Value::NIL),
    }
}

fn pairs(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let next = ctx.upvalue(1);
    ctx.push(next);
    ctx.push(table.into());
    ctx.push(Value::NIL);
    Ok(NativeStep::Return(3))
}

fn ipairs(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let inext = ctx.upvalue(1);
    ctx.push(inext);
    ctx.push(table.into());
    ctx.push(Value::number(0.0));
    Ok(NativeStep::Return(3))
}

fn inext(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let index = ctx.check_int(2)?.wrapping_add(1) as i32;
    let table = ctx.check_table(1)?;
    let value = ctx.heap.get_int(table, i64::from(index));
    if value.is_nil() {
        return Ok(NativeStep::Return(0));
    }
    ctx.push(Value::number(f64::from(index)));
    ctx.push(value);
    Ok(NativeStep::Return(2))
}

fn rawequal(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let (a, b) = (ctx.check_any(1)?, ctx.check_any(2)?);
    let equal = ctx.heap.raw_equal(a, b);
    ctx.one(Value::boolean(equal))
}

fn rawget(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let key = ctx.check_any(2)?;
    let value = ctx.heap.get(table, key);
    ctx.one(value)
}

fn rawset(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let (key, value) = (ctx.check_any(2)?, ctx.check_any(3)?);
    ctx.heap.set(table, key, value)?;
    ctx.one(table.into())
}

fn select(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let count = ctx.count() as i64;
    if let Some(text) = ctx.arg(1).as_str()
        && ctx.heap.bytes(text).first() == Some(&b'#')
    {
        return ctx.one(Value::number((count - 1) as f64));
    }
    let mut index = i64::from(ctx.check_int(1)? as i32);
    if index < 0 {
        index += count;
    } else if index > count {
        index = count;
    }
    if index < 1 {
        return Err(Fault::argument(1, "index out of range"));
    }
    Ok(NativeStep::Return((count - index) as usize))
}

fn unpack(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let first = i64::from(ctx.opt_int(2, 1)? as i32);
    let last = if ctx.arg(3).is_nil() { ctx.heap.border(table) } else { i64::from(ctx.check_int(3)? as i32) };
    if first > last {
        return Ok(NativeStep::Return(0));
    }
    let count = last - first + 1;
    if count > RESULTS_MAX - ctx.count() as i64 {
        return Err(Fault::text("too many results to unpack"));
    }
    for index in first..=last {
        let value = ctx.heap.get_int(table, index);
        ctx.push(value);
    }
    ctx.charge(count as u64);
    Ok(NativeStep::Return(count as usize))
}

fn getmetatable(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let value = ctx.check_any(1)?;
    let Some(meta) = ctx.heap.metatable_of(value) else { return ctx.one(Value::NIL) };
    let shown = ctx.heap.metamethod(value, Metamethod::Metatable);
    ctx.one(if shown.is_nil() { meta.into() } else { shown })
}

fn setmetatable(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = ctx.check_table(1)?;
    let meta = ctx.arg(2);
    if ctx.count() < 2 || !(meta.is_nil() || meta.is_table()) {
        return Err(Fault::argument(2, "nil or table expected"));
    }
    if !ctx.heap.metamethod(table.into(), Metamethod::Metatable).is_nil() {
        return Err(Fault::text("cannot change a protected metatable"));
    }
    ctx.heap.set_metatable(table, meta.as_table())?;
    ctx.one(table.into())
}

// Chunks.

/// Units of the budget for a byte of compiled code, in addition to those for the source. The number was
/// measured with tokens of one letter, long names, calls, branches, blanks and long strings.
const COMPILED_UNITS: u64 = 2;

/// Units for a byte of a source that does not compile, so that there is no compiled code to be charged.
const REFUSED_UNITS: u64 = 8;

/// Checks that there is memory for compiling `source` bytes: the program takes several bytes for each byte of
/// the source.
fn room_of_chunk(ctx: &mut Ctx<'_>, source: usize) -> Result<(), Fault> {
    ctx.heap.room(source.saturating_mul(8))
}

/// The results of `loadstring` and `load` after compiling a source of `source` bytes.
fn chunk(
    ctx: &mut Ctx<'_>,
    source: usize,
    compiled: Result<Arc<Proto>, Vec<u8>>,
) -> Result<NativeStep, Fault> {
    let units = match &compiled {
        Ok(proto) => source as u64 + proto.bytes() as u64 * COMPILED_UNITS,
        Err(_) => source as u64 * REFUSED_UNITS,
    };
    ctx.charge(units);
    match compiled {
        Ok(proto) => Ok(NativeStep::Machine(Demand::Link(proto))),
        Err(text) => {
            let text = ctx.heap.take_string(text)?;
            ctx.push(Value::NIL);
            ctx.push(text);
            Ok(NativeStep::Return(2))
        }
    }
}

fn loadstring(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let source = ctx.check_str(1)?;
    let name = ctx.opt_str(2)?.unwrap_or(source);
    let len = ctx.heap.bytes(source).len();
    // The copy of the name is charged in addition to the copies that the compiler makes.
    ctx.charge(cost(ctx.heap.bytes(name).len()));
    room_of_chunk(ctx, len)?;
    let name = ChunkName::new(ctx.heap.bytes(name));
    let compiled = compile(ctx.heap.bytes(source), name);
    chunk(ctx, len, compiled)
}

/// The source that the reader function has returned so far, and the guard by which its bytes count against
/// the limit.
struct Pieces(Vec<u8>, Option<Held>);

fn load(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let reader = ctx.check_function(1)?;
    ctx.opt_str(2)?;
    ctx.truncate(2);
    let read_piece = ctx.upvalue(1);
    ctx.call(read_piece, &[reader], Box::new(Pieces(Vec::new(), None)))
}

fn load_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(mut pieces) = state.downcast::<Pieces>() else { return Err(Fault::text("load")) };
    let (done, piece) = (ctx.arg(3), ctx.arg(4));
    ctx.truncate(2);
    if !done.truthy() {
        // An error of the reader is a result, like a syntax error.
        ctx.push(Value::NIL);
        ctx.push(piece);
        return Ok(NativeStep::Return(2));
    }
    if let Some(text) = ctx.to_str(piece)? {
        let bytes = ctx.heap.bytes(text);
        if !bytes.is_empty() {
            let len = bytes.len();
            reserve(ctx.heap, &mut pieces.0, len)?;
            pieces.0.extend_from_slice(ctx.heap.bytes(text));
            ctx.charge(cost(len));
            ctx.heap.held.hold(&mut pieces.1, pieces.0.capacity());
            let (reader, read_piece) = (ctx.arg(1), ctx.upvalue(1));
            return ctx.call(read_piece, &[reader], pieces);
        }
    } else if !piece.is_nil() {
        let (read_piece, refuse_piece) = (ctx.upvalue(1), ctx.upvalue(2));
        return ctx.call(read_piece, &[refuse_piece], pieces);
    }
    let name = match ctx.arg(2).as_str() {
        Some(name) => ctx.heap.bytes(name).to_vec(),
        None => b"=(load)".to_vec(),
    };
    ctx.charge(cost(name.len()));
    room_of_chunk(ctx, pieces.0.len())?;
    chunk(ctx, pieces.0.len(), compile(&pieces.0, ChunkName::new(&name)))
}

// The collector.

fn collectgarbage(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    const OPTIONS: [&[u8]; 7] =
        [b"stop", b"restart", b"collect", b"count", b"step", b"setpause", b"setstepmul"];
    let option = match ctx.opt_str(1)? {
        Some(text) => {
            let text = ctx.heap.bytes(text).to_vec();
            ctx.charge(cost(text.len()));
            text
        }
        None => b"collect".to_vec(),
    };
    let Some(option) = OPTIONS.iter().position(|known| *known == option) else {
        let mut text = b"invalid option '".to_vec();
        text.extend_from_slice(&option);
        text.push(b'\'');
        return Err(Fault::argument(1, text));
    };
    let number = ctx.opt_int(2, 0)?;
    let collector = &mut ctx.heap.collector;
    match option {
        0 => collector.stopped = true,
        1 => collector.stopped = false,
        2 => return Ok(NativeStep::Machine(Demand::Collect)),
        3 => {
            let kib = ctx.heap.bytes as f64 / 1024.0;
            return ctx.one(Value::number(kib));
        }
        4 => {
            // A step of any size is a whole cycle in this machine.
            ctx.push(Value::TRUE);
            return Ok(NativeStep::Machine(Demand::CollectStep));
        }
        _ => {
            let setting = if option == 5 { &mut collector.pause } else { &mut collector.multiplier };
            let before = std::mem::replace(setting, number.clamp(0, 1 << 20) as usize);
            return ctx.one(Value::number(before as f64));
        }
    }
    ctx.one(Value::number(0.0))
}

fn gcinfo(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let kib = (ctx.heap.bytes >> 10) as f64;
    ctx.one(Value::number(kib))
}

// Environments.

/// The function in the first argument, or the Lua function at the call level that the argument names; `None`
/// at level 0 and at the level of a native function.
fn function_at(ctx: &Ctx<'_>, default: i64) -> Result<Option<Value>, Fault> {
    let value = ctx.arg(1);
    if value.is_function() {
        return Ok(Some(value));
    }
    let level = ctx.opt_int(1, default)?;
    if level < 0 {
        return Err(Fault::argument(1, "level must be non-negative"));
    }
    if level == 0 {
        return Ok(None);
    }
    let frame = usize::try_from(level).ok().and_then(|level| ctx.frames.iter().rev().nth(level - 1));
    match frame {
        Some(frame) if frame.work == Work::Lua => Ok(Some(crate::value::ClosureRef(frame.function).into())),
        Some(_) => Ok(None),
        None => Err(Fault::argument(1, "invalid level")),
    }
}

fn getfenv(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let env = match function_at(ctx, 1)?.and_then(Value::as_closure) {
        Some(closure) => TableRef(ctx.heap.closures.at(closure.0).env).into(),
        None => ctx.heap.globals.map_or(Value::NIL, Value::from),
    };
    ctx.one(env)
}

fn setfenv(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let env = ctx.check_table(2)?;
    let function = function_at(ctx, 1)?;
    let Some(closure) = function.and_then(Value::as_closure) else {
        return Err(Fault::text("'setfenv' cannot change environment of given object"));
    };
    ctx.heap.shade_env(closure, env);
    ctx.heap.closures.at_mut(closure.0).env = env.0;
    ctx.one(closure.into())
}

fn newproxy(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let value = ctx.arg(1);
    let meta = match value.kind() {
        Kind::Boolean if value == Value::TRUE => Some(ctx.heap.new_table(0, 0)?),
        Kind::Boolean | Kind::Nil => None,
        Kind::Userdata => ctx.heap.metatable_of(value),
        _ => return Err(Fault::argument(1, "boolean or proxy expected")),
    };
    let proxy = ctx.heap.new_userdata(meta)?;
    ctx.one(proxy.into())
}
