//! Lua 5.1 with the libraries that scripts of a Redis-like server have: a machine whose references cannot
//! dangle and whose runs can be paused between any two instructions. *PUC* in this crate is PUC-Rio's Lua
//! 5.1, the original implementation in C.
#![forbid(unsafe_code)]

mod api;
mod arena;
mod code;
mod compile;
mod fault;
mod footprint;
mod gc;
#[cfg(test)]
mod growth;
mod heap;
mod held;
mod hostile;
mod image;
mod libs;
mod murmur3;
mod native;
mod object;
mod pattern;
mod pattern_cache;
mod strings;
mod symbols;
mod table;
mod text;
mod value;
mod vm;

pub use api::{DiscardedRun, Execution, Global, Pinned, RunLimit, RunOutcome, Vm, compile, compile_as};
pub use code::{ChunkName, LoadedChunk, Proto};
pub use fault::Fault;
pub use heap::{Heap, HostState};
pub use hostile::fuzz_source;
pub use image::VmImage;
pub use libs::{fuzz_json, fuzz_packed, fuzz_struct};
pub use native::{Ctx, Indexed, Library, Native, NativeStep, State, new_list, to_integer};
pub use object::RunStack;
pub use pattern::fuzz_pattern;
pub use text::format::{fuzz_format, fuzz_number};
pub use value::{Kind, NativeRef, StrRef, TableRef, Value};
pub use vm::inspect::{CodePosition, LineWatch, RunningFunction, describe};
