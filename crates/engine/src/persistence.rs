//! Data in files: saving and loading, the append-only file, and the end of the server.

pub(crate) mod aof;
pub(crate) mod background;
pub(crate) mod ending;
pub(crate) mod loading {
    pub(crate) mod aof {
        pub(crate) mod replay;
    }
    pub(crate) mod under_way;
}
pub(crate) mod rewriting;
pub(crate) mod saving;
