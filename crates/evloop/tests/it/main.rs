//! Tests of every driver, in one program. Tests that change or use a property of the whole process are
//! programs of their own: `tests/descriptors.rs` (a limit), `tests/process_any.rs` (waits for any child) and
//! `tests/traced.rs` (a fork). The models for loom are programs of their own, too.

mod burst;
mod common;
mod conformance;
mod denied;
mod files;
mod pool;
mod process;
mod stress;
mod supervise;
