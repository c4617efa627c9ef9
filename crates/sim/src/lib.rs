//! Replication under a simulation: real engines, the real machine of the link, over a network and disks that
//! fail, in virtual time. And clusters, beside a model of the reference's nodes ([`run_cluster`]).
//!
//! Everything is a function of one seed. A run that finds something can be repeated with a trace of its
//! events: `cargo run --package sluice-sim -- --seed SEED`.
//!
//! Invariants: (1) no clock, socket, thread or file; (2) no word of replication's protocol is known here:
//! what nodes say to each other comes out of the engine and the machine of the link and goes into them.
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
