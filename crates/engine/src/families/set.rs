//! Sets.

pub(crate) mod combine;
mod common;

mod algebra;
mod members;
mod random;
mod scan;
mod slow;

use crate::exec::ctx::{Handler, Route, route};
use sluice_command::specs::set as specs;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::SADD, Handler::Write(members::sadd)),
    route(&specs::SCARD, Handler::Read(members::scard)),
    route(&specs::SDIFF, Handler::Read(algebra::sdiff)),
    route(&specs::SDIFFSTORE, Handler::Write(algebra::sdiffstore)),
    route(&specs::SINTER, Handler::Read(algebra::sinter)),
    route(&specs::SINTERCARD, Handler::Read(algebra::sintercard)),
    route(&specs::SINTERSTORE, Handler::Write(algebra::sinterstore)),
    route(&specs::SISMEMBER, Handler::Read(members::sismember)),
    route(&specs::SMEMBERS, Handler::Read(members::smembers)),
    route(&specs::SMISMEMBER, Handler::Read(members::smismember)),
    route(&specs::SMOVE, Handler::Write(members::smove)),
    route(&specs::SPOP, Handler::Write(random::spop)),
    route(&specs::SRANDMEMBER, Handler::Read(random::srandmember)),
    route(&specs::SREM, Handler::Write(members::srem)),
    route(&specs::SSCAN, Handler::Read(scan::sscan)),
    route(&specs::SUNION, Handler::Read(algebra::sunion)),
    route(&specs::SUNIONSTORE, Handler::Write(algebra::sunionstore)),
];
