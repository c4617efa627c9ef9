//! Sets.

pub(crate) mod combine;
mod common;

mod algebra;
mod members;
mod random;
mod scan;
mod slow;

use crate::ctx::{DataHandler, DataRoute, route};
use sluice_command::specs::set as specs;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::SADD, DataHandler::Write(members::sadd)),
    route(&specs::SCARD, DataHandler::Read(members::scard)),
    route(&specs::SDIFF, DataHandler::Read(algebra::sdiff)),
    route(&specs::SDIFFSTORE, DataHandler::Write(algebra::sdiffstore)),
    route(&specs::SINTER, DataHandler::Read(algebra::sinter)),
    route(&specs::SINTERCARD, DataHandler::Read(algebra::sintercard)),
    route(&specs::SINTERSTORE, DataHandler::Write(algebra::sinterstore)),
    route(&specs::SISMEMBER, DataHandler::Read(members::sismember)),
    route(&specs::SMEMBERS, DataHandler::Read(members::smembers)),
    route(&specs::SMISMEMBER, DataHandler::Read(members::smismember)),
    route(&specs::SMOVE, DataHandler::Write(members::smove)),
    route(&specs::SPOP, DataHandler::Write(random::spop)),
    route(&specs::SRANDMEMBER, DataHandler::Read(random::srandmember)),
    route(&specs::SREM, DataHandler::Write(members::srem)),
    route(&specs::SSCAN, DataHandler::Read(scan::sscan)),
    route(&specs::SUNION, DataHandler::Read(algebra::sunion)),
    route(&specs::SUNIONSTORE, DataHandler::Write(algebra::sunionstore)),
];
