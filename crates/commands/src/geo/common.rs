//! Arguments and replies shared by the files of this family.

use crate::args::Args;
use crate::error::CmdError;
use sluice_base::num::parse_f64;
use sluice_resp::{Protocol, Reply};
use sluice_value::geo::GeoPoint;

/// The point given by two arguments, longitude first.
pub(crate) fn point_at(args: Args<'_>, index: usize) -> Result<GeoPoint, CmdError> {
    let degrees = |index| args.get(index).and_then(parse_f64).ok_or(CmdError::NotFloat);
    let point = GeoPoint { longitude: degrees(index)?, latitude: degrees(index + 1)? };
    if !point.is_valid() {
        let GeoPoint { longitude, latitude } = point;
        return Err(CmdError::owned(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        )));
    }
    Ok(point)
}

/// The number of metres in a unit.
pub(crate) fn unit_at(args: Args<'_>, index: usize) -> Result<f64, CmdError> {
    match () {
        () if args.is(index, "M") => Ok(1.0),
        () if args.is(index, "KM") => Ok(1000.0),
        () if args.is(index, "FT") => Ok(0.3048),
        () if args.is(index, "MI") => Ok(1609.34),
        () => Err(CmdError::text("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// Writes a point as two numbers, rounded to 17 decimal places, without zeros at the end.
pub(crate) fn reply_point(reply: &mut Reply<'_>, point: GeoPoint) {
    reply.array(2);
    for degrees in [point.longitude, point.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        match reply.protocol() {
            Protocol::Resp2 => reply.bulk(text.as_bytes()),
            Protocol::Resp3 => reply.raw(format!(",{text}\r\n").as_bytes()),
        }
    }
}

/// Writes a distance with four decimal places.
pub(crate) fn reply_distance(reply: &mut Reply<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}
