use super::*;

const PALERMO: GeoPoint = GeoPoint { longitude: 13.361389, latitude: 38.115556 };
const CATANIA: GeoPoint = GeoPoint { longitude: 15.087269, latitude: 37.502669 };

#[test]
fn scores_and_letters_are_those_that_clients_know() {
    assert_eq!(PALERMO.score(), 3_479_099_956_230_698);
    assert_eq!(CATANIA.score(), 3_479_447_370_796_909);
    let stored = GeoPoint::of_score(PALERMO.score() as f64);
    assert_eq!(&stored.geohash(), b"sqc8b49rny0");
    assert_eq!(
        format!("{:.17} {:.17}", stored.longitude, stored.latitude),
        "13.36138933897018433 38.11555639549629859"
    );
}

#[test]
fn distances_are_those_of_a_sphere() {
    let distance =
        GeoPoint::of_score(PALERMO.score() as f64).distance_m(GeoPoint::of_score(CATANIA.score() as f64));
    assert_eq!(format!("{distance:.4}"), "166274.1516");
    assert_eq!(PALERMO.distance_m(PALERMO), 0.0);
    let north = GeoPoint { latitude: 39.0, ..PALERMO };
    assert!((PALERMO.distance_m(north) - 98_370.0).abs() < 20.0);
}

#[test]
fn scores_that_are_no_points_are_taken_for_some() {
    let bits = [
        (1e20, 0),
        (f64::INFINITY, 0),
        (f64::NEG_INFINITY, 1 << 63),
        (-1.0, u64::MAX),
        (1.9e19, 0),
        (7.9, 7),
    ];
    for (score, wanted) in bits {
        assert_eq!(bits_of(score), wanted, "{score}");
    }
    assert_eq!(&GeoPoint::of_score(1e20).geohash(), b"00bh0hbj200");
}

#[test]
fn bits_are_spread_and_gathered() {
    for number in [0, 1, 2, 0x5555, 0xdead_beef, u32::MAX] {
        assert_eq!(gather(spread(number)), number);
        assert_eq!(gather(spread(number) << 1 >> 1), number);
        assert_eq!(spread(number) & 0xaaaa_aaaa_aaaa_aaaa, 0);
    }
}

/// Every point of a region lies in one of the cells.
#[test]
fn cells_cover_their_region() {
    let mut rng = sluice_base::Rng::new(5);
    let mut unit = move || rng.below(1 << 40) as f64 / (1u64 << 40) as f64;
    for _ in 0..400 {
        let middle = GeoPoint { longitude: unit() * 300.0 - 150.0, latitude: unit() * 140.0 - 70.0 };
        let size = 10f64.powf(unit() * 5.0 + 1.0);
        let region = match unit() {
            0.0..0.5 => Region::Circle { middle, radius_m: size },
            _ => Region::Box { middle, width_m: size, height_m: size * unit() },
        };
        let cells = region.cells();
        for _ in 0..200 {
            let around = |degrees: f64, unit: f64| degrees + (unit - 0.5) * size / 20_000.0;
            let point = GeoPoint {
                longitude: around(middle.longitude, unit()),
                latitude: around(middle.latitude, unit()),
            };
            if point.is_valid() && region.distance_m(point).is_some() {
                let score = point.score() as f64;
                assert!(
                    cells.scores().any(|(first, behind)| (first..behind).contains(&score)),
                    "{region:?} {point:?}"
                );
            }
        }
    }
}

#[test]
fn regress_cells_cover_their_region_at_the_largest_longitude_and_latitude() {
    let mut rng = sluice_base::Rng::new(6);
    let mut unit = move || rng.below(1 << 40) as f64 / (1u64 << 40) as f64;
    for round in 0..400 {
        let latitude = unit() * 120.0 - 60.0;
        let (longitude, latitude) = match round % 4 {
            0 => (180.0, latitude),
            1 => (-180.0, latitude),
            2 => (179.999, latitude),
            _ => (unit() * 300.0 - 150.0, LATITUDE_MAX),
        };
        let middle = GeoPoint { longitude, latitude };
        // Circles near a pole are smaller, because a large one spans more columns there than nine cells have.
        let magnitudes = if round % 4 == 3 { 3.0 } else { 5.0 };
        let size = 10f64.powf(unit() * magnitudes + 1.0);
        let region = Region::Circle { middle, radius_m: size };
        let cells = region.cells();
        for sample in 0..300 {
            let degrees = size / 50_000.0;
            let longitude = longitude + (unit() - 0.5) * degrees / latitude.to_radians().cos();
            let around = (longitude + 540.0).rem_euclid(360.0) - 180.0;
            let latitude = (latitude + (unit() - 0.5) * degrees).clamp(-LATITUDE_MAX, LATITUDE_MAX);
            // The largest longitude has a separate column.
            let longitude = if sample % 3 == 0 && round % 4 < 3 { LONGITUDE_MAX } else { around };
            let point = GeoPoint { longitude, latitude };
            if region.distance_m(point).is_some() {
                let score = point.score() as f64;
                assert!(
                    cells.scores().any(|(first, behind)| (first..behind).contains(&score)),
                    "{region:?} {point:?}"
                );
            }
        }
    }
}
