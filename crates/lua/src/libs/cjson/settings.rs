//! The settings of `cjson`, and their storage.

use crate::fault::Fault;
use crate::native::Ctx;
use crate::value::{TableRef, Value};

/// A setting of the library; its number is its index in the host's `numbers`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    SparseConvert = 0,
    SparseRatio = 1,
    SparseSafe = 2,
    EncodeDepth = 3,
    DecodeDepth = 4,
    EncodeInvalid = 5,
    DecodeInvalid = 6,
    KeepBuffer = 7,
    Precision = 8,
}

/// The initial settings, by index.
pub(super) const DEFAULTS: [i32; 9] = [0, 2, 10, 1000, 1000, 0, 1, 1, 14];

/// The table of settings that functions made by `new` have; `None` for the global functions.
fn own_settings(ctx: &Ctx<'_>) -> Option<TableRef> {
    ctx.upvalue(1).as_table()
}

/// The current value of a setting.
pub(super) fn read(ctx: &Ctx<'_>, setting: Setting) -> i32 {
    let index = setting as usize;
    match own_settings(ctx) {
        Some(table) => {
            let value = ctx.heap.get_int(table, index as i64 + 1).as_number();
            value.map_or(DEFAULTS[index], |value| value as i32)
        }
        // The host's numbers hold each setting plus one, so that 0, their initial value, stands for
        // the default.
        None => match ctx.heap.host.numbers[index] {
            0.0 => DEFAULTS[index],
            value => (value - 1.0) as i32,
        },
    }
}

pub(super) fn write(ctx: &mut Ctx<'_>, setting: Setting, value: i32) -> Result<(), Fault> {
    let index = setting as usize;
    match own_settings(ctx) {
        Some(table) => ctx.heap.set_int(table, index as i64 + 1, Value::number(f64::from(value))),
        None => {
            ctx.heap.host.numbers[index] = f64::from(value) + 1.0;
            Ok(())
        }
    }
}

/// Number of slots of a C function's stack in PUC-Rio's Lua. Here the number limits the nesting.
pub(super) const SLOTS_MAX: usize = 8000;
