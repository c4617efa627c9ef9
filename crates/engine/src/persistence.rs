//! Data in files: how saving and loading go on, the append-only file, and the end of the server.

pub(crate) mod aof {
    mod steps;
}
pub(crate) mod background {
    mod steps;
}
pub(crate) mod ending {
    pub(crate) mod steps;
}
pub(crate) mod loading {
    pub(crate) mod aof {
        pub(crate) mod replay;
    }
    mod under_way {
        mod steps;
    }
}
pub(crate) mod rewriting {
    mod steps;
}
pub(crate) mod saving {
    pub(crate) mod steps;
}
