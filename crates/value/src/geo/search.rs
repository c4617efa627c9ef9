//! Search regions, and the cells that cover them.

use super::{Degrees, EARTH_RADIUS_M, GeoPoint, GeohashCell, LATITUDE_MAX, STEPS_MAX};

/// A region of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Region {
    /// All points within a distance of a point.
    Circle {
        /// Centre of the circle.
        middle: GeoPoint,
        /// Radius of the circle in metres.
        radius_m: f64,
    },
    /// A box around a point, with sides along meridians and parallels.
    Box {
        /// Centre of the box.
        middle: GeoPoint,
        /// Metres from west to east.
        width_m: f64,
        /// Metres from south to north.
        height_m: f64,
    },
    /// The inside of a closed line.
    Polygon {
        /// The point from which distances are measured.
        middle: GeoPoint,
        /// The corners in order: at least three.
        corners: Vec<GeoPoint>,
    },
}

/// The cells to search, in the reference's order.
#[derive(Clone, Debug)]
pub struct GeohashCells {
    cells: Vec<GeohashCell>,
}

impl GeohashCells {
    /// The range of scores of each cell: its first score, and the first score after the cell.
    pub fn scores(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.cells.iter().map(|cell| {
            let (first, behind) = cell.scores();
            (first as f64, behind as f64)
        })
    }
}

impl Region {
    /// The inside of a closed line. Its middle is the mean of the corners on the sphere.
    pub fn polygon(corners: Vec<GeoPoint>) -> Region {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for corner in &corners {
            let (longitude, latitude) =
                (corner.longitude.to_radians_exactly(), corner.latitude.to_radians_exactly());
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        // The sum has the direction of the mean. Dividing by the number of corners would
        // change the last digits.
        let latitude = z.atan2((x * x + y * y).sqrt()).to_degrees_exactly();
        let middle = GeoPoint { longitude: y.atan2(x).to_degrees_exactly(), latitude };
        Region::Polygon { middle, corners }
    }

    /// Distance in metres from the middle to a point of the region; `None` for a point outside.
    pub fn distance_m(&self, point: GeoPoint) -> Option<f64> {
        match self {
            Region::Circle { middle, radius_m } => {
                let distance = middle.distance_m(point);
                (distance <= *radius_m).then_some(distance)
            }
            Region::Box { middle, width_m, height_m } => {
                if point.latitude_distance_m(*middle) > height_m / 2.0 {
                    return None;
                }
                // The width is measured along the parallel of `point`.
                let level = GeoPoint { longitude: middle.longitude, latitude: point.latitude };
                if point.distance_m(level) > width_m / 2.0 {
                    return None;
                }
                Some(middle.distance_m(point))
            }
            Region::Polygon { middle, corners } => {
                is_inside(corners, point).then(|| middle.distance_m(point))
            }
        }
    }

    fn middle(&self) -> GeoPoint {
        match self {
            Region::Circle { middle, .. } | Region::Box { middle, .. } | Region::Polygon { middle, .. } => {
                *middle
            }
        }
    }

    /// Half the height, half the width, and the distance from the middle to the farthest point, in metres.
    fn extent(&self) -> (f64, f64, f64) {
        match self {
            Region::Circle { radius_m, .. } => (*radius_m, *radius_m, *radius_m),
            Region::Box { width_m, height_m, .. } => {
                let (width, height) = (width_m / 2.0, height_m / 2.0);
                (height, width, (width * width + height * height).sqrt())
            }
            Region::Polygon { middle, corners } => {
                let farthest = corners.iter().map(|corner| middle.distance_m(*corner)).fold(0.0, f64::max);
                (farthest, farthest, farthest)
            }
        }
    }

    /// The cells that cover the region: the cell of the middle, the neighbours that the region reaches, and
    /// the cells beyond the last column or row that touch these.
    pub fn cells(&self) -> GeohashCells {
        let middle = self.middle();
        let (height_m, width_m, radius_m) = self.extent();
        let bounds = BoundingBox::around(middle, height_m, width_m);
        let mut steps = steps_for(radius_m, middle.latitude);
        let mut own = GeohashCell::of(middle, steps, LATITUDE_MAX).inside();
        // If the middle is near the border of its cell, the neighbour there may be too narrow to cover the
        // region.
        let is_narrow = own.moved(0, 1).area().north < bounds.north
            || own.moved(0, -1).area().south > bounds.south
            || own.moved(1, 0).area().east < bounds.east
            || own.moved(-1, 0).area().west > bounds.west;
        if steps > 1 && is_narrow {
            steps -= 1;
            own = GeohashCell::of(middle, steps, LATITUDE_MAX).inside();
        }
        let area = own.area();
        let mut cells = vec![own];
        for (east, north) in NEIGHBOURS {
            let is_useless = steps >= 2
                && (north < 0 && area.south < bounds.south
                    || north > 0 && area.north > bounds.north
                    || east < 0 && area.west < bounds.west
                    || east > 0 && area.east > bounds.east);
            let cell = own.moved(east, north);
            // If there are only few cells around the world, two neighbours may be the same cell.
            if !is_useless && cells.last() != Some(&cell) {
                cells.push(cell);
            }
        }
        // These cells come last, because the reference searches none of them for a middle inside the world.
        let beyond: Vec<GeohashCell> = cells.iter().flat_map(|cell| cell.beyond()).collect();
        for cell in beyond {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        GeohashCells { cells }
    }
}

/// North, south, east, west, and the four diagonals.
const NEIGHBOURS: [(i32, i32); 8] = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// The bounds of a region around a point, in degrees.
struct BoundingBox {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl BoundingBox {
    fn around(middle: GeoPoint, height_m: f64, width_m: f64) -> BoundingBox {
        let latitudes = (height_m / EARTH_RADIUS_M).to_degrees_exactly();
        let longitudes = |latitude: f64| {
            (width_m / EARTH_RADIUS_M / latitude.to_radians_exactly().cos()).to_degrees_exactly()
        };
        // The longitudes are taken from the side nearer to the pole, which is the wider one in degrees.
        let wide = if middle.latitude < 0.0 {
            longitudes(middle.latitude - latitudes)
        } else {
            longitudes(middle.latitude + latitudes)
        };
        BoundingBox {
            west: middle.longitude - wide,
            east: middle.longitude + wide,
            south: middle.latitude - latitudes,
            north: middle.latitude + latitudes,
        }
    }
}

/// The number of halvings after which nine cells cover a circle.
fn steps_for(radius_m: f64, latitude: f64) -> u32 {
    if radius_m == 0.0 {
        return STEPS_MAX;
    }
    let (mut radius, mut steps) = (radius_m, 1);
    while radius < MERCATOR_MAX_M && steps < 100 {
        radius *= 2.0;
        steps += 1;
    }
    // With two halvings fewer, most circles fit. Near the poles cells are narrower, so there one or two more
    // halvings are left out.
    steps -= 2;
    if !(-66.0..=66.0).contains(&latitude) {
        steps -= 1;
        if !(-80.0..=80.0).contains(&latitude) {
            steps -= 1;
        }
    }
    steps.clamp(1, STEPS_MAX as i32) as u32
}

const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// Whether a point lies inside a closed line, that is, whether a ray to the east crosses it an odd number of
/// times.
fn is_inside(corners: &[GeoPoint], point: GeoPoint) -> bool {
    let mut inside = false;
    let mut before = corners.last().copied().unwrap_or(point);
    for corner in corners {
        if (corner.latitude > point.latitude) != (before.latitude > point.latitude) {
            let crossing = (before.longitude - corner.longitude) * (point.latitude - corner.latitude)
                / (before.latitude - corner.latitude)
                + corner.longitude;
            if point.longitude < crossing {
                inside = !inside;
            }
        }
        before = *corner;
    }
    inside
}
