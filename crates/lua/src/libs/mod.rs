//! The libraries: those of the language, and those that the reference adds.

mod base;
mod bit;
mod cjson;
mod cmsgpack;
mod coroutine;
mod math;
mod os;
mod output;
mod string;
mod structs;
mod table;

pub(crate) use base::INSECURE;
pub use cjson::fuzz_json;
pub use cmsgpack::fuzz_packed;
pub use structs::fuzz_struct;

use crate::fault::Fault;
use crate::native::Library;
use crate::value::Value;

/// Opens every library; returns the functions that [`base::open`] returns.
pub(crate) fn open_all(lib: &mut Library<'_>) -> Result<(Value, Value), Fault> {
    let known = base::open(lib)?;
    coroutine::open(lib)?;
    table::open(lib)?;
    string::open(lib)?;
    math::open(lib)?;
    cjson::open(lib)?;
    structs::open(lib)?;
    cmsgpack::open(lib)?;
    bit::open(lib)?;
    os::open(lib)?;
    Ok(known)
}
