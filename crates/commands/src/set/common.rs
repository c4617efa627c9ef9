//! Look-ups shared by the files of this family.

use crate::error::CmdError;
use sluice_keyspace::Entry;
use sluice_value::SetRef;

/// The set of an entry; an error for another type.
#[inline]
pub(crate) fn set_of(entry: Entry<'_>) -> Result<SetRef<'_>, CmdError> {
    Ok(entry.as_set()?)
}
