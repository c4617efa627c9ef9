//! Tests of the simulation, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod clusters;
mod first_seeds;
mod many;
mod moves;
mod seeds;
