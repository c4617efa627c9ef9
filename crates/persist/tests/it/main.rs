//! Integration tests of the file formats, in one program. `tests/corpus` has the files that they read.

mod aof;
mod compressed;
mod corpus;
mod hash;
mod rdb;
mod zset;
mod zstd;
