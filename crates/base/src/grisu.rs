//! The shortest digits of a double, or nearly the shortest ones: Grisu2.
//!
//! Source: F. Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers" (2010), section
//! 5. The digits always read back to the same double, but in a few cases of a thousand they are not the
//! shortest, or not the closest among the shortest, which newer algorithms find. Clients compare bytes, and
//! the reference server prints these digits.
//!
//! Invariant: (1) the value is finite and greater than zero.

/// A number `frac * 2^exp`.
#[derive(Clone, Copy)]
struct Scaled {
    frac: u64,
    exp: i32,
}

/// Decimal digits and the power of ten of the last one.
pub(crate) struct ShortestDigits {
    pub(crate) text: [u8; 20],
    pub(crate) len: usize,
    pub(crate) exp10: i32,
}

/// The digits of `value`, which is finite and greater than zero.
pub(crate) fn shortest(value: f64) -> ShortestDigits {
    debug_assert!(value.is_finite());
    debug_assert!(value > 0.0);
    let exact = decompose(value);
    let (low, high) = boundaries(exact);
    let exact = normalize(exact);
    let (power, exp10) = cached_power(high.exp);
    let scaled = multiply(exact, power);
    let mut high = multiply(high, power);
    let mut low = multiply(low, power);
    // The products are off by less than one unit each, so shrinking the interval by one unit at each end
    // keeps every candidate inside the true interval.
    high.frac -= 1;
    low.frac += 1;
    generate(scaled, high, high.frac - low.frac, exp10)
}

fn decompose(value: f64) -> Scaled {
    let bits = value.to_bits();
    let fraction = bits & (HIDDEN - 1);
    match (bits >> 52) & 0x7ff {
        0 => Scaled { frac: fraction, exp: -1074 },
        biased => Scaled { frac: fraction | HIDDEN, exp: biased as i32 - 1075 },
    }
}

fn normalize(value: Scaled) -> Scaled {
    let shift = value.frac.leading_zeros();
    Scaled { frac: value.frac << shift, exp: value.exp - shift as i32 }
}

/// The points halfway from `value` to the neighbours below and above, both with the exponent of the upper
/// one.
fn boundaries(value: Scaled) -> (Scaled, Scaled) {
    let high = normalize(Scaled { frac: (value.frac << 1) + 1, exp: value.exp - 1 });
    // Below a power of two the neighbours are twice as close.
    let shift = if value.frac == HIDDEN { 2 } else { 1 };
    let low_exp = value.exp - shift;
    let low = ((value.frac << shift) - 1) << (low_exp - high.exp);
    (Scaled { frac: low, exp: high.exp }, high)
}

/// The power of ten whose product with a number of exponent `exp` has an exponent in `-60..=-32`, and the
/// negated decimal exponent of that power.
fn cached_power(exp: i32) -> (Scaled, i32) {
    // log10(2) in 1/2^20; the estimate is at most one table row off.
    let wanted = ((-(exp + 87)) * 315_653) >> 20;
    let mut index = ((wanted - FIRST_POWER) / POWER_STEP).clamp(0, POWERS.len() as i32 - 1) as usize;
    loop {
        let (frac, power_exp) = POWERS[index];
        let product = exp + power_exp + 64;
        if product < -60 && index + 1 < POWERS.len() {
            index += 1;
        } else if product > -32 && index > 0 {
            index -= 1;
        } else {
            return (Scaled { frac, exp: power_exp }, -(FIRST_POWER + POWER_STEP * index as i32));
        }
    }
}

fn multiply(a: Scaled, b: Scaled) -> Scaled {
    let product = u128::from(a.frac) * u128::from(b.frac) + (1 << 63);
    Scaled { frac: (product >> 64) as u64, exp: a.exp + b.exp + 64 }
}

/// Generates digits of `high` until the remainder fits in `delta`, then moves the last digit towards `value`.
fn generate(value: Scaled, high: Scaled, mut delta: u64, mut exp10: i32) -> ShortestDigits {
    let shift = high.exp.unsigned_abs();
    let one = 1u64 << shift;
    let mut distance = high.frac - value.frac;
    let mut whole = high.frac >> shift;
    let mut fraction = high.frac & (one - 1);
    let mut digits = ShortestDigits { text: [0; 20], len: 0, exp10: 0 };
    let mut power = 10u64.pow(9);
    let mut kappa = 10;
    while kappa > 0 {
        digits.push((whole / power) as u8);
        whole %= power;
        kappa -= 1;
        let rest = (whole << shift) + fraction;
        if rest <= delta {
            digits.exp10 = exp10 + kappa;
            round(&mut digits, distance, delta, rest, power << shift);
            return digits;
        }
        power /= 10;
    }
    loop {
        fraction *= 10;
        delta *= 10;
        distance = distance.wrapping_mul(10);
        exp10 -= 1;
        digits.push((fraction >> shift) as u8);
        fraction &= one - 1;
        if fraction < delta {
            digits.exp10 = exp10;
            round(&mut digits, distance, delta, fraction, one);
            return digits;
        }
    }
}

fn round(digits: &mut ShortestDigits, distance: u64, delta: u64, mut rest: u64, unit: u64) {
    while rest < distance
        && delta - rest >= unit
        && (rest + unit < distance || distance - rest > rest + unit - distance)
    {
        digits.text[digits.len - 1] -= 1;
        rest += unit;
    }
}

impl ShortestDigits {
    fn push(&mut self, digit: u8) {
        if digit == 0 && self.len == 0 {
            return;
        }
        self.text[self.len] = b'0' + digit;
        self.len += 1;
    }
}

const HIDDEN: u64 = 1 << 52;
const FIRST_POWER: i32 = -348;
const POWER_STEP: i32 = 8;

/// `10^(-348 + 8 i)` as `frac * 2^exp`, the fraction normalised to 64 bits and rounded to nearest.
#[rustfmt::skip]
const POWERS: [(u64, i32); 87] = [
    (0xfa8f_d5a0_081c_0288, -1220), (0xbaae_e17f_a23e_bf76, -1193), (0x8b16_fb20_3055_ac76, -1166),
    (0xcf42_894a_5dce_35ea, -1140), (0x9a6b_b0aa_5565_3b2d, -1113), (0xe61a_cf03_3d1a_45df, -1087),
    (0xab70_fe17_c79a_c6ca, -1060), (0xff77_b1fc_bebc_dc4f, -1034), (0xbe56_91ef_416b_d60c, -1007),
    (0x8dd0_1fad_907f_fc3c, -980), (0xd351_5c28_3155_9a83, -954), (0x9d71_ac8f_ada6_c9b5, -927),
    (0xea9c_2277_23ee_8bcb, -901), (0xaecc_4991_4078_536d, -874), (0x823c_1279_5db6_ce57, -847),
    (0xc210_9436_4dfb_5637, -821), (0x9096_ea6f_3848_984f, -794), (0xd774_85cb_2582_3ac7, -768),
    (0xa086_cfcd_97bf_97f4, -741), (0xef34_0a98_172a_ace5, -715), (0xb238_67fb_2a35_b28e, -688),
    (0x84c8_d4df_d2c6_3f3b, -661), (0xc5dd_4427_1ad3_cdba, -635), (0x936b_9fce_bb25_c996, -608),
    (0xdbac_6c24_7d62_a584, -582), (0xa3ab_6658_0d5f_daf6, -555), (0xf3e2_f893_dec3_f126, -529),
    (0xb5b5_ada8_aaff_80b8, -502), (0x8762_5f05_6c7c_4a8b, -475), (0xc9bc_ff60_34c1_3053, -449),
    (0x964e_858c_91ba_2655, -422), (0xdff9_7724_7029_7ebd, -396), (0xa6df_bd9f_b8e5_b88f, -369),
    (0xf8a9_5fcf_8874_7d94, -343), (0xb944_7093_8fa8_9bcf, -316), (0x8a08_f0f8_bf0f_156b, -289),
    (0xcdb0_2555_6531_31b6, -263), (0x993f_e2c6_d07b_7fac, -236), (0xe45c_10c4_2a2b_3b06, -210),
    (0xaa24_2499_6973_92d3, -183), (0xfd87_b5f2_8300_ca0e, -157), (0xbce5_0864_9211_1aeb, -130),
    (0x8cbc_cc09_6f50_88cc, -103), (0xd1b7_1758_e219_652c, -77), (0x9c40_0000_0000_0000, -50),
    (0xe8d4_a510_0000_0000, -24), (0xad78_ebc5_ac62_0000, 3), (0x813f_3978_f894_0984, 30),
    (0xc097_ce7b_c907_15b3, 56), (0x8f7e_32ce_7bea_5c70, 83), (0xd5d2_38a4_abe9_8068, 109),
    (0x9f4f_2726_179a_2245, 136), (0xed63_a231_d4c4_fb27, 162), (0xb0de_6538_8cc8_ada8, 189),
    (0x83c7_088e_1aab_65db, 216), (0xc45d_1df9_4271_1d9a, 242), (0x924d_692c_a61b_e758, 269),
    (0xda01_ee64_1a70_8dea, 295), (0xa26d_a399_9aef_774a, 322), (0xf209_787b_b47d_6b85, 348),
    (0xb454_e4a1_79dd_1877, 375), (0x865b_8692_5b9b_c5c2, 402), (0xc835_53c5_c896_5d3d, 428),
    (0x952a_b45c_fa97_a0b3, 455), (0xde46_9fbd_99a0_5fe3, 481), (0xa59b_c234_db39_8c25, 508),
    (0xf6c6_9a72_a398_9f5c, 534), (0xb7dc_bf53_54e9_bece, 561), (0x88fc_f317_f222_41e2, 588),
    (0xcc20_ce9b_d35c_78a5, 614), (0x9816_5af3_7b21_53df, 641), (0xe2a0_b5dc_971f_303a, 667),
    (0xa8d9_d153_5ce3_b396, 694), (0xfb9b_7cd9_a4a7_443c, 720), (0xbb76_4c4c_a7a4_4410, 747),
    (0x8bab_8eef_b640_9c1a, 774), (0xd01f_ef10_a657_842c, 800), (0x9b10_a4e5_e991_3129, 827),
    (0xe710_9bfb_a19c_0c9d, 853), (0xac28_20d9_623b_f429, 880), (0x8044_4b5e_7aa7_cf85, 907),
    (0xbf21_e440_03ac_dd2d, 933), (0x8e67_9c2f_5e44_ff8f, 960), (0xd433_179d_9c8c_b841, 986),
    (0x9e19_db92_b4e3_1ba9, 1013), (0xeb96_bf6e_badf_77d9, 1039), (0xaf87_023b_9bf0_ee6b, 1066),
];
