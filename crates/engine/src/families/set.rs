//! Sets.

mod algebra;
mod members;
mod random;
mod scan;
mod slow;

use crate::ctx::{Handler, Route, route};
use crate::error::CmdError;
use sluice_command::specs::set as specs;
use sluice_keyspace::Entry;
use sluice_resp::Reply;
use sluice_value::{ListItem, SetRef};

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

/// The set of an entry, or what a command answers to another type.
#[inline]
fn set_of(entry: Entry<'_>) -> Result<SetRef<'_>, CmdError> {
    Ok(entry.as_set()?)
}

/// Writes a member as a bulk reply.
#[inline]
fn reply_member(reply: &mut Reply<'_>, member: ListItem<'_>) {
    match member {
        ListItem::Int(number) => reply.bulk_int(number),
        ListItem::Bytes(bytes) => reply.bulk(bytes),
        ListItem::Shared(bytes) => reply.bulk_shared(bytes),
    }
}
