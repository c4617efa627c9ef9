//! What clients hear of: subscriptions, messages on their way, keys that are watched.

pub(crate) mod delivery;
pub(crate) mod multicast {
    mod steps;
}
pub(crate) mod tracking {
    mod broadcasts;
    mod steps;
}
