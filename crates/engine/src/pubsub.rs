//! What clients hear of: subscriptions, messages on their way, keys that are watched.

pub(crate) mod delivery;
pub(crate) mod tracking;
