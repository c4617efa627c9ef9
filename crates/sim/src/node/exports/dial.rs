//! A connection of a move of slots ahead of the target's answer.

use crate::net::ConnId;
use sluice_cluster::JobName;

/// A connection whose target has not agreed yet.
pub(in crate::node) struct ExportDial {
    pub(in crate::node) job: JobName,
    pub(in crate::node) establish: Vec<u8>,
    pub(in crate::node) conn: Option<ConnId>,
    pub(in crate::node) input: Vec<u8>,
}
