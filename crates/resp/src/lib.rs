//! RESP2 and RESP3: parses requests from bytes and writes replies as bytes.
//!
//! Invariants: (1) the crate depends on no socket, clock or command: limits and the protocol version are
//! arguments; (2) a request consists of ranges of the bytes in which it arrived, and of large arguments
//! that were received apart; only the words of inline requests are copied; (3) when a request arrives in
//! pieces, at most an unfinished header or line end is examined again.

#![forbid(unsafe_code)]

pub mod apart;
pub mod command;
pub mod decode;
pub mod extent;
pub mod outbox;
pub mod owned;
pub mod parse;
pub mod requests;
mod span;
pub mod write;

pub use apart::Apart;
pub use decode::{DecodeError, Value, decode};
pub use extent::{ExtentError, ReplyExtent, ReplyLimits};
pub use outbox::{Mark, Outbox};
pub use owned::{ArgumentList, OwnedRequests};
pub use parse::{AuthState, ParseError, ParseLimits, Parser, Progress, State};
pub use requests::{Request, Requests};
pub use span::Span;
pub use write::{Deferred, Protocol, Reply};
