//! The estimate, by the method of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
//! sketches", 2017.

use super::registers::{REGISTERS, Registers, VALUE_BITS};

/// The estimate of these registers.
pub(super) fn of_registers(registers: &Registers) -> u64 {
    // There are four tables of counts, so that consecutive equal registers are counted independently
    // of each other.
    let mut tables = [[0_u32; 64]; 4];
    for four in registers.as_chunks::<4>().0 {
        for (table, value) in tables.iter_mut().zip(four) {
            table[usize::from(value & 63)] += 1;
        }
    }
    let counts: [u32; 64] = std::array::from_fn(|value| tables.iter().map(|table| table[value]).sum());
    let all = REGISTERS as f64;
    let count = |value: u32| f64::from(counts[value as usize]);
    let mut z = all * tau((all - count(VALUE_BITS + 1)) / all);
    for value in (1..=VALUE_BITS).rev() {
        z += count(value);
        z *= 0.5;
    }
    z += all * sigma(count(0) / all);
    (ALPHA * all * all / z).round() as u64
}

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
