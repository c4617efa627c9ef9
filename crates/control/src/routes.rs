//! The routes of all families in one list, and the handlers by the id of the command.

use crate::ctx::{Handler, Route};
use crate::families;
use sluice_commands::DataRoute;

/// Every command with its handler: commands about data first, then the families in the order of
/// `families.rs`.
pub(crate) fn all() -> impl Iterator<Item = Route> {
    let data = sluice_commands::routes()
        .map(|DataRoute { spec, handler }| Route { spec, handler: Handler::Data(handler) });
    let others = [
        families::connection::ROUTES,
        families::client::ROUTES,
        families::cluster::ROUTES,
        families::failover::ROUTES,
        families::functions::ROUTES,
        families::monitor::ROUTES,
        families::pubsub::ROUTES,
        families::replica::ROUTES,
        families::replication::ROUTES,
        families::scripts::ROUTES,
        families::server::ROUTES,
        families::transactions::ROUTES,
        families::users::ROUTES,
    ]
    .into_iter()
    .flatten()
    .copied();
    data.chain(others)
}

/// Handlers, indexed by `Spec::id`. A command without a route must be a container that requires a subcommand;
/// a test finds any other command without a route.
pub fn handlers() -> Box<[Handler]> {
    let mut table = vec![Handler::Server(families::not_routed); sluice_command::table::COUNT];
    for route in all() {
        table[route.spec.id.0 as usize] = route.handler;
    }
    table.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_exactly_one_route() {
        let mut counts = vec![0; sluice_command::table::COUNT];
        for route in all() {
            counts[route.spec.id.0 as usize] += 1;
        }
        for spec in &sluice_command::table::ALL {
            // A container that requires a subcommand runs nothing itself.
            let needs_sub = !spec.subcommands.is_empty() && !spec.arity.accepts(1);
            let wanted = if needs_sub { 0 } else { 1 };
            assert_eq!(counts[spec.id.0 as usize], wanted, "routes of {}", spec.full_name);
        }
    }
}
