//! What operators see: the sections of INFO, what the page shows of clients, how far long work is.

pub mod info;
mod latency;
pub mod page;
pub mod progress {
    //! Loads, saves and copies under way, as people are shown them.

    pub mod under_way;
}
