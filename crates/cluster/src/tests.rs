//! State machines of cluster nodes that exchange messages in memory.

mod demotion;
mod elections;
mod exports;
mod failing;
mod files;
mod hearsay;
mod imports;
mod leaving;
mod meeting;
mod network;
mod orphans;
mod places;
mod round_trip;
mod size;
mod telling;
mod twins;
mod votes;
