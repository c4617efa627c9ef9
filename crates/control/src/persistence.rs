//! Data in files: the state of saving and loading, of the append-only file, and of a pending shutdown.

pub mod aof;
pub mod background;
pub mod ending;
pub mod loading;
mod rewrite_ended;
pub mod rewriting;
pub mod saving;
