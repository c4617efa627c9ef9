//! A connection of a move of slots, before the target has agreed.

use crate::net::ConnId;
use sluice_cluster::JobName;

pub(in crate::node) struct ExportDial {
    pub(in crate::node) job: JobName,
    pub(in crate::node) establish: Vec<u8>,
    pub(in crate::node) conn: Option<ConnId>,
    pub(in crate::node) input: Vec<u8>,
}
