//! Sockets: what an event of the event loop is about ([`Endpoint`]).

mod endpoint;

pub use endpoint::{Endpoint, LinkChannel};
