//! Places: sorted sets whose scores are places.

mod search;

use crate::args::Args;
use crate::ctx::{Handler, Outcome, ReadCtx, Route, Run, WriteCtx, route};
use crate::error::CmdError;
use crate::families::zset::{AddFlags, op_add, zset_of};
use sluice_base::num::parse_f64;
use sluice_command::specs::geo as specs;
use sluice_resp::{Protocol, Reply};
use sluice_value::ZsetRef;
use sluice_value::geo::GeoPlace;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::GEOADD, Handler::Write(geoadd)),
    route(&specs::GEODIST, Handler::Read(geodist)),
    route(&specs::GEOHASH, Handler::Read(geohash)),
    route(&specs::GEOPOS, Handler::Read(geopos)),
    route(&specs::GEORADIUS, Handler::Write(search::georadius)),
    route(&specs::GEORADIUS_RO, Handler::Read(search::georadius_ro)),
    route(&specs::GEORADIUSBYMEMBER, Handler::Write(search::georadiusbymember)),
    route(&specs::GEORADIUSBYMEMBER_RO, Handler::Read(search::georadiusbymember_ro)),
    route(&specs::GEOSEARCH, Handler::Read(search::geosearch)),
    route(&specs::GEOSEARCHSTORE, Handler::Write(search::geosearchstore)),
];

/// The place that two arguments say.
fn place_at(args: Args<'_>, index: usize) -> Result<GeoPlace, CmdError> {
    let degrees = |index| args.get(index).and_then(parse_f64).ok_or(CmdError::NotFloat);
    let place = GeoPlace { longitude: degrees(index)?, latitude: degrees(index + 1)? };
    if !place.is_valid() {
        let GeoPlace { longitude, latitude } = place;
        return Err(CmdError::owned(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        )));
    }
    Ok(place)
}

/// The metres of a unit.
fn unit_at(args: Args<'_>, index: usize) -> Result<f64, CmdError> {
    match () {
        () if args.is(index, "M") => Ok(1.0),
        () if args.is(index, "KM") => Ok(1000.0),
        () if args.is(index, "FT") => Ok(0.3048),
        () if args.is(index, "MI") => Ok(1609.34),
        () => Err(CmdError::text("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

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
        elements.push((args.at(at + 2), place_at(args, at)?.score()));
    }
    let scores = elements.iter().map(|(member, score)| (*member, *score as f64));
    op_add(ctx, args.key(1), flags, scores)?;
    // Replicas add the scores: they need to know nothing of places.
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
    let place = |index| zset.and_then(|zset| zset.score(args.at(index))).map(GeoPlace::of_score);
    match (place(2), place(3)) {
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
            Some(score) => ctx.reply.bulk(&GeoPlace::of_score(score).geohash()),
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
            Some(score) => reply_place(&mut ctx.reply, GeoPlace::of_score(score)),
            None => ctx.reply.null_array(),
        }
    }
    Ok(Outcome::Done)
}

/// Writes a place as two numbers with as many digits as they need, 17 behind the point at most.
fn reply_place(reply: &mut Reply<'_>, place: GeoPlace) {
    reply.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        match reply.protocol() {
            Protocol::Resp2 => reply.bulk(text.as_bytes()),
            Protocol::Resp3 => reply.raw(format!(",{text}\r\n").as_bytes()),
        }
    }
}

/// Writes a distance with four digits behind the point.
fn reply_distance(reply: &mut Reply<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}
