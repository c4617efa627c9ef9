//! Lua 5.1.

#![forbid(unsafe_code)]
#![allow(dead_code)]

mod pattern;
mod text;
