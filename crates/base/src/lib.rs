//! Basic types and functions for all other crates, such as time as a value, ids, shared bytes, number
//! formats, LZF, glob, hashes and seeded randomness.
//!
//! Invariants: (1) nothing here reads a clock, draws entropy, or does input or output; (2) nothing here
//! depends on another crate of the server.

#![forbid(unsafe_code)]

pub mod bytes;
mod change_guard;
pub mod crc16;
mod epoch;
pub mod glob;
mod grisu;
pub mod hash;
pub mod heap;
mod hex;
mod histogram;
pub mod id;
mod log_level;
pub mod longdouble;
pub mod lzf;
pub mod mistake;
pub mod murmur;
pub mod now;
pub mod num;
pub mod progress;
pub mod quote;
pub mod rng;
mod session_key;
mod stream_position;
pub mod version;

pub use bytes::Bytes;
pub use change_guard::ChangeGuard;
pub use crc16::{key_slot, pattern_slot, slot_tag};
pub use epoch::{Epoch, Watched};
pub use hash::{HashSeed, IdentityHasher, siphash13};
pub use hex::hex;
pub use histogram::Histogram;
pub use id::ClientId;
pub use log_level::LogLevel;
pub use longdouble::LongDouble;
pub use now::Now;
pub use rng::Rng;
pub use session_key::SessionKey;
pub use stream_position::StreamPosition;
