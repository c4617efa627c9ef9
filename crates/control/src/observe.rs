//! Information for operators: the sections of INFO, clients on the page of the metrics endpoint, the progress
//! of long work.

pub mod info;
mod latency;
pub mod page;
pub mod progress {
    //! Loads, saves and copies in progress, as shown to people.

    pub mod under_way;
}
