//! Geo commands: sorted sets whose scores are points.

mod common;
mod search;

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, WriteCtx, route};
use crate::error::CmdError;
use crate::geo::common::{point_at, reply_distance, reply_point, unit_at};
use crate::outcome::{Outcome, Run};
use crate::zset::common::zset_of;
use crate::zset::{AddFlags, op_add};
use sluice_command::specs::geo as specs;
use sluice_value::ZsetRef;
use sluice_value::geo::GeoPoint;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::GEOADD, DataHandler::Write(geoadd)),
    route(&specs::GEODIST, DataHandler::Read(geodist)),
    route(&specs::GEOHASH, DataHandler::Read(geohash)),
    route(&specs::GEOPOS, DataHandler::Read(geopos)),
    route(&specs::GEORADIUS, DataHandler::Write(search::georadius)),
    route(&specs::GEORADIUS_RO, DataHandler::Read(search::georadius_ro)),
    route(&specs::GEORADIUSBYMEMBER, DataHandler::Write(search::georadiusbymember)),
    route(&specs::GEORADIUSBYMEMBER_RO, DataHandler::Read(search::georadiusbymember_ro)),
    route(&specs::GEOSEARCH, DataHandler::Read(search::geosearch)),
    route(&specs::GEOSEARCHSTORE, DataHandler::Write(search::geosearchstore)),
];

fn geoadd(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let mut flags = AddFlags::default();
    let mut first = 2;
    loop {
        let flag = match () {
            () if args.is(first, "NX") => &mut flags.nx,
            () if args.is(first, "XX") => &mut flags.xx,
            () if args.is(first, "CH") => &mut flags.ch,
            () => break,
        };
        *flag = true;
        first += 1;
    }
    let words = args.len() - first;
    if words == 0 || !words.is_multiple_of(3) || flags.nx && flags.xx {
        return Err(CmdError::Syntax);
    }
    let mut elements = Vec::with_capacity(words / 3);
    for at in (first..args.len()).step_by(3) {
        elements.push((args.at(at + 2), point_at(args, at)?.score()));
    }
    let scores = elements.iter().map(|(member, score)| (*member, *score as f64));
    op_add(ctx, args.key(1), flags, scores)?;
    // The command is replicated as ZADD with the scores, so replicas do not have to convert points.
    ctx.db.effects.rewrite(|| {
        let mut argv = vec![b"ZADD".to_vec()];
        argv.extend((1..first).map(|index| args.at(index).to_vec()));
        for (member, score) in &elements {
            argv.extend([score.to_string().into_bytes(), member.to_vec()]);
        }
        argv
    });
    Ok(Outcome::Done)
}

fn zset_at<'d>(ctx: &mut ReadCtx<'d>, args: Args<'_>) -> Result<Option<ZsetRef<'d>>, CmdError> {
    ctx.db.get(args.key(1)).map(zset_of).transpose()
}

fn geodist(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let unit = match args.len() {
        4 => 1.0,
        5 => unit_at(args, 4)?,
        _ => return Err(CmdError::Syntax),
    };
    let zset = zset_at(ctx, args)?;
    let point = |index| zset.and_then(|zset| zset.score(args.at(index))).map(GeoPoint::of_score);
    match (point(2), point(3)) {
        (Some(one), Some(other)) => reply_distance(&mut ctx.reply, one.distance_m(other) / unit),
        (Some(_) | None, Some(_) | None) => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

fn geohash(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let zset = zset_at(ctx, args)?;
    ctx.reply.array(args.len() - 2);
    for member in args.iter_from(2) {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => ctx.reply.bulk(&GeoPoint::of_score(score).geohash()),
            None => ctx.reply.null(),
        }
    }
    Ok(Outcome::Done)
}

fn geopos(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let zset = zset_at(ctx, args)?;
    ctx.reply.array(args.len() - 2);
    for member in args.iter_from(2) {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => reply_point(&mut ctx.reply, GeoPoint::of_score(score)),
            None => ctx.reply.null_array(),
        }
    }
    Ok(Outcome::Done)
}
