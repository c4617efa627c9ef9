//! Compares the bus's messages and `nodes.conf` with those of stock Valkey nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod drawn;
mod files;
mod framing;
mod golden;
mod messages;
mod mixed;
mod reference;
mod sockets;
mod stock;
