//! The libraries.

mod base;
mod coroutine;

pub(crate) use base::INSECURE;

use crate::fault::Fault;
use crate::native::Library;
use crate::value::Value;

/// Opens every library; answers what [`base::open`] does.
pub(crate) fn open_all(lib: &mut Library<'_>) -> Result<(Value, Value), Fault> {
    let known = base::open(lib)?;
    coroutine::open(lib)?;
    Ok(known)
}
