//! The library `cjson`: JSON in the form of lua-cjson 2.1.0, with its settings.
//!
//! The settings of the global table `cjson` are in the host's state (`HostState`), and are reset for each
//! run. A table made by `cjson.new` has its own settings, in a table that is the first upvalue of its
//! functions.

mod decode;
mod encode;
mod settings;

use crate::fault::Fault;
use crate::native::{Ctx, Library, Native, NativeStep};
use crate::value::Value;

use settings::{DEFAULTS, Setting, read, write};

/// The library's functions except `new`, in the order in which they are registered.
const FUNCTIONS: &[Native] = &[
    Native::resumable("encode", encode::encode, encode::encode_on),
    Native::resumable("decode", decode::decode, decode::decode_on),
    Native::plain("encode_sparse_array", encode_sparse_array),
    Native::plain("encode_max_depth", |ctx| one_integer(ctx, Setting::EncodeDepth, 1, i32::MAX)),
    Native::plain("decode_max_depth", |ctx| one_integer(ctx, Setting::DecodeDepth, 1, i32::MAX)),
    Native::plain("encode_number_precision", |ctx| one_integer(ctx, Setting::Precision, 1, 14)),
    Native::plain("encode_keep_buffer", |ctx| one_option(ctx, Setting::KeepBuffer, OFF_ON)),
    Native::plain("encode_invalid_numbers", |ctx| {
        one_option(ctx, Setting::EncodeInvalid, &["off", "on", "null"])
    }),
    Native::plain("decode_invalid_numbers", |ctx| one_option(ctx, Setting::DecodeInvalid, OFF_ON)),
];

const OFF_ON: &[&str] = &["off", "on"];

/// Makes the table `cjson`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    let table = lib.table(b"cjson", &[])?;
    for native in FUNCTIONS {
        let function = lib.function(*native, &[])?;
        lib.field(table, native.name.as_bytes(), function)?;
    }
    let new = lib.function(Native::plain("new", new), &[table.into()])?;
    lib.field(table, b"new", new)?;
    lib.field(table, b"null", Value::NULL)?;
    let name = lib.heap.new_string(b"cjson")?;
    lib.field(table, b"_NAME", name)?;
    let version = lib.heap.new_string(b"2.1.0")?;
    lib.field(table, b"_VERSION", version)
}

/// Returns a new table of the same functions, with its own settings.
fn new(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let Some(library) = ctx.upvalue(1).as_table() else { return Ok(NativeStep::Return(0)) };
    let settings = ctx.heap.new_table(DEFAULTS.len(), 0)?;
    let table = ctx.heap.new_table(0, 16)?;
    for (index, native) in FUNCTIONS.iter().enumerate() {
        let template = ctx.heap.get_text(library, native.name.as_bytes());
        let function = ctx.new_native(template, &[settings.into()])?;
        ctx.heap.set_text(table, native.name.as_bytes(), function)?;
        ctx.heap.set_int(settings, index as i64 + 1, Value::number(f64::from(DEFAULTS[index])))?;
    }
    for name in [&b"new"[..], b"null", b"_NAME", b"_VERSION"] {
        let value = ctx.heap.get_text(library, name);
        ctx.heap.set_text(table, name, value)?;
    }
    ctx.one(table.into())
}

fn check_count(ctx: &mut Ctx<'_>, count_max: usize) -> Result<(), Fault> {
    if ctx.count() > count_max {
        return Err(Fault::argument(count_max + 1, "found too many arguments"));
    }
    ctx.truncate(count_max);
    Ok(())
}

fn one_integer(ctx: &mut Ctx<'_>, setting: Setting, min: i32, max: i32) -> Result<NativeStep, Fault> {
    check_count(ctx, 1)?;
    integer(ctx, 1, setting, min, max)?;
    Ok(NativeStep::Return(1))
}

/// Sets a numeric setting, unless the argument is nil, and pushes the setting's current value.
fn integer(ctx: &mut Ctx<'_>, index: usize, setting: Setting, min: i32, max: i32) -> Result<(), Fault> {
    if !ctx.arg(index).is_nil() {
        let value = ctx.check_int(index)? as i32;
        if value < min || value > max {
            return Err(Fault::argument(1, format!("expected integer between {min} and {max}")));
        }
        write(ctx, setting, value)?;
    }
    let value = read(ctx, setting);
    ctx.push(Value::number(f64::from(value)));
    Ok(())
}

fn one_option(ctx: &mut Ctx<'_>, setting: Setting, options: &[&str]) -> Result<NativeStep, Fault> {
    check_count(ctx, 1)?;
    option(ctx, setting, options)?;
    Ok(NativeStep::Return(1))
}

/// Sets a choice if the first argument is not nil, and pushes the setting's current choice.
fn option(ctx: &mut Ctx<'_>, setting: Setting, options: &[&str]) -> Result<(), Fault> {
    let argument = ctx.arg(1);
    if argument.is_boolean() {
        write(ctx, setting, i32::from(argument.truthy()))?;
    } else if !argument.is_nil() {
        let name = ctx.check_str(1)?;
        let name = ctx.heap.bytes(name);
        let Some(chosen) = options.iter().position(|option| option.as_bytes() == name) else {
            let mut text = b"invalid option '".to_vec();
            text.extend_from_slice(crate::text::number::c_text(name));
            text.push(b'\'');
            return Err(Fault::argument(1, text));
        };
        write(ctx, setting, chosen as i32)?;
    }
    let value = match read(ctx, setting) {
        chosen @ (0 | 1) => Value::boolean(chosen == 1),
        chosen => ctx.heap.new_string(options[chosen as usize % options.len()].as_bytes())?,
    };
    ctx.push(value);
    Ok(())
}

fn encode_sparse_array(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    check_count(ctx, 3)?;
    option(ctx, Setting::SparseConvert, OFF_ON)?;
    integer(ctx, 2, Setting::SparseRatio, 0, i32::MAX)?;
    integer(ctx, 3, Setting::SparseSafe, 0, i32::MAX)?;
    Ok(NativeStep::Return(3))
}

/// Parses any bytes as JSON, and also writes them as a JSON string that is then parsed, for fuzzing.
pub fn fuzz_json(data: &[u8]) {
    decode::fuzz(data);
    let mut out = Vec::new();
    encode::push_string(&mut out, data);
    assert!(out.len() >= data.len() + 2, "no byte is lost");
    assert_eq!(decode::read_string(&out), Some(data.to_vec()), "a text reads back");
}
