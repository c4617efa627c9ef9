//! The declarations, a file for each group. The order of the files and of the specs in them is that of the ids.

mod shorthand;

pub mod cluster;
pub mod connection;
pub mod generic;
pub mod server;
pub mod string;
