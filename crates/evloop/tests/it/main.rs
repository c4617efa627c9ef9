//! Tests of every driver, in one program. Programs of their own are tests that change or ask for something of
//! the whole process: `tests/descriptors.rs` (a limit), `tests/process_any.rs` (any child) and
//! `tests/traced.rs` (a fork), and the models for loom.

mod burst;
mod common;
mod conformance;
mod denied;
mod files;
mod pool;
mod process;
mod stress;
mod supervise;
