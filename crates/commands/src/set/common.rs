//! What several files of this family use: arguments, look-ups, replies.

use crate::error::CmdError;
use sluice_keyspace::Entry;
use sluice_value::SetRef;

/// The set of an entry, or what a command answers to another type.
#[inline]
pub(crate) fn set_of(entry: Entry<'_>) -> Result<SetRef<'_>, CmdError> {
    Ok(entry.as_set()?)
}
