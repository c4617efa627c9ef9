//! Points as scores: a longitude and a latitude in 52 bits, ordered so that near points mostly
//! have near scores.
//!
//! The world is halved 26 times in each direction, and the bits of both halvings alternate, beginning
//! with the longitude. A *cell* is the area named by the first bits. As in the reference, cells end at
//! 85.05112878 degrees of latitude, and the earth is a sphere.

mod search;

pub use search::{GeohashCells, Region};

/// A point in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoPoint {
    /// Degrees east of Greenwich, -180 to 180.
    pub longitude: f64,
    /// Degrees north of the equator, -85.05112878 to 85.05112878.
    pub latitude: f64,
}

/// Halvings in each direction that a score encodes.
const STEPS_MAX: u32 = 26;
/// Mean radius of the earth in metres, as the reference uses it.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Latitude at which the cells end towards the poles, degrees.
const LATITUDE_MAX: f64 = 85.051_128_78;
/// Longitude at which the cells end in the east, degrees.
const LONGITUDE_MAX: f64 = 180.0;

impl GeoPoint {
    /// Whether a score can encode the point.
    pub fn is_valid(self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// The score of the cell of 52 bits that holds the point, 26 bits for each direction.
    pub fn score(self) -> u64 {
        GeohashCell::of(self, STEPS_MAX, LATITUDE_MAX).bits
    }

    /// The centre of the cell that a score names.
    pub fn of_score(score: f64) -> GeoPoint {
        let area = GeohashCell { bits: bits_of(score), steps: STEPS_MAX }.area();
        let middle = |low: f64, high: f64, end: f64| ((low + high) / 2.0).clamp(-end, end);
        GeoPoint {
            longitude: middle(area.west, area.east, LONGITUDE_MAX),
            latitude: middle(area.south, area.north, LATITUDE_MAX),
        }
    }

    /// Distance to another point in metres, along a great circle.
    pub fn distance_m(self, other: GeoPoint) -> f64 {
        let v = ((other.longitude.to_radians_exactly() - self.longitude.to_radians_exactly()) / 2.0).sin();
        if v == 0.0 {
            return self.latitude_distance_m(other);
        }
        let (one, two) = (self.latitude.to_radians_exactly(), other.latitude.to_radians_exactly());
        let u = ((two - one) / 2.0).sin();
        let a = u * u + one.cos() * two.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }

    /// Distance in metres between the latitudes of both points.
    fn latitude_distance_m(self, other: GeoPoint) -> f64 {
        EARTH_RADIUS_M * (other.latitude.to_radians_exactly() - self.latitude.to_radians_exactly()).abs()
    }

    /// The eleven letters of the standard geohash, whose latitudes end at the poles.
    pub fn geohash(self) -> [u8; 11] {
        let bits = GeohashCell::of(self, STEPS_MAX, 90.0).bits;
        let mut text = [LETTERS[0]; 11];
        // 52 bits make ten letters; the last two bits are left out, and the eleventh letter is always `0`.
        for (at, letter) in text.iter_mut().take(10).enumerate() {
            *letter = LETTERS[(bits >> (52 - 5 * (at + 1)) & 31) as usize];
        }
        text
    }
}

/// A score as an unsigned integer. A score that a client has set may belong to no point; the result is
/// then that of the reference's machine code: negative scores wrap, and scores beyond 64 bits give 0 or
/// the highest bit.
fn bits_of(score: f64) -> u64 {
    const HIGHEST: u64 = 1 << 63;
    const BOUND: f64 = HIGHEST as f64;
    let signed = |number: f64| if (-BOUND..BOUND).contains(&number) { number as i64 as u64 } else { HIGHEST };
    if score < BOUND { signed(score) } else { signed(score - BOUND) ^ HIGHEST }
}

const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Degrees as radians and back, by one multiplication or division, so that the last digits equal the
/// reference's.
trait Degrees {
    fn to_radians_exactly(self) -> f64;
    fn to_degrees_exactly(self) -> f64;
}

impl Degrees for f64 {
    fn to_radians_exactly(self) -> f64 {
        self * (std::f64::consts::PI / 180.0)
    }

    fn to_degrees_exactly(self) -> f64 {
        self / (std::f64::consts::PI / 180.0)
    }
}

/// A cell, as the first bits of its scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GeohashCell {
    bits: u64,
    steps: u32,
}

/// The bounds of a cell in degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl GeohashCell {
    /// The cell of a point after `steps` halvings, 1 to 26, with latitudes that end at `latitude_max`.
    fn of(point: GeoPoint, steps: u32, latitude_max: f64) -> GeohashCell {
        let scale = (1u64 << steps) as f64;
        let part = |degrees: f64, end: f64| ((degrees + end) / (2.0 * end) * scale) as u32;
        let longitude = part(point.longitude, LONGITUDE_MAX);
        let latitude = part(point.latitude, latitude_max);
        GeohashCell::joined(longitude, latitude, steps)
    }

    fn joined(longitude: u32, latitude: u32, steps: u32) -> GeohashCell {
        GeohashCell { bits: spread(longitude) << 1 | spread(latitude), steps }
    }

    /// The numbers of the cell's column and row.
    fn parts(self) -> (u32, u32) {
        (gather(self.bits >> 1), gather(self.bits))
    }

    fn area(self) -> Area {
        let (longitude, latitude) = self.parts();
        let scale = (1u64 << self.steps) as f64;
        let degrees = |part: f64, end: f64| -end + part / scale * (2.0 * end);
        let (column, row) = (f64::from(longitude), f64::from(latitude));
        Area {
            west: degrees(column, LONGITUDE_MAX),
            east: degrees(column + 1.0, LONGITUDE_MAX),
            south: degrees(row, LATITUDE_MAX),
            north: degrees(row + 1.0, LATITUDE_MAX),
        }
    }

    /// The cell `east` columns and `north` rows away, counted around the world.
    fn moved(self, east: i32, north: i32) -> GeohashCell {
        let (longitude, latitude) = self.parts();
        let mask = ((1u64 << self.steps) - 1) as u32;
        let moved = |part: u32, by: i32| part.wrapping_add_signed(by) & mask;
        GeohashCell::joined(moved(longitude, east), moved(latitude, north), self.steps)
    }

    /// The cell itself, or its neighbour inside the world if the cell lies beyond the last column or row.
    /// Such a cell holds only points of the largest longitude or latitude.
    fn inside(self) -> GeohashCell {
        let (longitude, latitude) = self.parts();
        let last = ((1u64 << self.steps) - 1) as u32;
        GeohashCell::joined(longitude.min(last), latitude.min(last), self.steps)
    }

    /// The cells of the largest longitude and latitude that touch this cell. Such cells lie one column or
    /// row beyond the last one. The first column also touches the largest longitude, from the other side.
    fn beyond(self) -> impl Iterator<Item = GeohashCell> {
        let (longitude, latitude) = self.parts();
        let end = (1u64 << self.steps) as u32;
        let (is_east, is_north) = (longitude == 0 || longitude == end - 1, latitude == end - 1);
        let cell = move |is_there: bool, longitude, latitude| {
            is_there.then(|| GeohashCell::joined(longitude, latitude, self.steps))
        };
        let cells = [
            cell(is_east, end, latitude),
            cell(is_north, longitude, end),
            cell(is_east && is_north, end, end),
        ];
        cells.into_iter().flatten()
    }

    /// The range of scores in the cell: its first score, and the first score after the cell.
    fn scores(self) -> (u64, u64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        (self.bits << shift, (self.bits + 1) << shift)
    }
}

/// The bits of a number, each followed by a zero.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in SPREADS {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Every second bit, from the lowest on.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & SPREADS[4].1;
    for (shift, mask) in GATHERS {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

const SPREADS: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
];
const GATHERS: [(u32, u64); 5] = [
    (1, 0x3333_3333_3333_3333),
    (2, 0x0f0f_0f0f_0f0f_0f0f),
    (4, 0x00ff_00ff_00ff_00ff),
    (8, 0x0000_ffff_0000_ffff),
    (16, 0x0000_0000_ffff_ffff),
];

#[cfg(test)]
mod tests;
