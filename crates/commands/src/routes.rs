//! The routes of all data commands.

use crate::ctx::DataRoute;

/// Every data command with its handler.
pub fn routes() -> impl Iterator<Item = DataRoute> {
    [
        crate::string::ROUTES,
        crate::list::ROUTES,
        crate::hash::ROUTES,
        crate::set::ROUTES,
        crate::bitmap::ROUTES,
        crate::hyperloglog::ROUTES,
        crate::stream::ROUTES,
        crate::zset::ROUTES,
        crate::geo::ROUTES,
        crate::generic::ROUTES,
        crate::server::ROUTES,
    ]
    .into_iter()
    .flatten()
    .copied()
}
