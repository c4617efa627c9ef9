//! Data in files: what is remembered of saving and loading, of the append-only file, and of the end of the
//! server.

pub mod aof;
pub mod background;
pub mod ending;
pub mod loading;
mod rewrite_ended;
pub mod rewriting;
pub mod saving;
