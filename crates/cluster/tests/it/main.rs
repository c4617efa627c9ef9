//! The bus's messages and nodes.conf beside what stock nodes send and write.

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
