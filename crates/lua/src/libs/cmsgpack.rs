//! The library `cmsgpack`: MessagePack in the form of lua-cmsgpack 0.4.0.

mod pack;
mod unpack;

pub use unpack::fuzz_packed;

use crate::fault::Fault;
use crate::native::{Library, Native};

const FUNCTIONS: &[Native] = &[
    Native::resumable("pack", pack::pack, pack::pack_on),
    Native::resumable("unpack", unpack::unpack, unpack::unpack_on),
    Native::resumable("unpack_one", unpack::unpack_one, unpack::unpack_on),
    Native::resumable("unpack_limit", unpack::unpack_limit, unpack::unpack_on),
];

/// Makes the table `cmsgpack`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    let table = lib.table(b"cmsgpack", &[])?;
    for native in FUNCTIONS {
        let function = lib.function(*native, &[])?;
        lib.field(table, native.name.as_bytes(), function)?;
    }
    for (name, text) in [
        (&b"_NAME"[..], &b"cmsgpack"[..]),
        (b"_VERSION", b"lua-cmsgpack 0.4.0"),
        (b"_COPYRIGHT", b"Copyright (C) 2012, Redis Ltd."),
        (b"_DESCRIPTION", b"MessagePack C implementation for Lua"),
    ] {
        let text = lib.heap.new_string(text)?;
        lib.field(table, name, text)?;
    }
    Ok(())
}
