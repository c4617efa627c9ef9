//! Subscriptions, delivery of messages, and client-side caching.

pub(crate) mod delivery;
pub(crate) mod tracking;
