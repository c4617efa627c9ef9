//! Simulation of replication: real engines and the real state machine of the replication link, over a network
//! and disks that fail, in virtual time. [`run_cluster`] simulates clusters, in which nodes of ours work
//! together with a model of the reference's nodes; [`run_many`] measures a large one, and [`run_moves`]
//! simulates moves of slots.
//!
//! A run is a function of one seed. A failing run can be repeated with a trace of its events: `cargo run
//! --package sluice-sim -- --seed SEED`.
//!
//! Invariants: (1) the simulation uses no clock, socket, thread or file; (2) it does not interpret the
//! protocol of replication, but only carries the bytes of the engine and of the link's state machine.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod aof;
mod cluster;
mod digest;
mod disk;
mod history;
mod many;
mod moves;
mod net;
mod node;
mod node_file;
mod plan;
mod process;
mod promises;
mod scripts;
mod workload;
mod world;

pub use cluster::{ClusterMet, run_cluster};
pub use many::{ManyFigures, run_many};
pub use moves::{MovesMet, run_moves};
pub use world::{Met, SimOptions, run};
