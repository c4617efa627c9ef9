//! New inputs from old ones: changed bytes, numbers, words of the format, pieces of other inputs.

use sluice_base::Rng;

/// Maximum bytes of an input.
const BYTES_MAX: usize = 4096;

/// Maximum mutants kept; new ones replace old ones at random.
const CORPUS_MAX: usize = 512;

/// Numbers at the limits of formats and types.
const NUMBERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"2",
    b"16",
    b"255",
    b"256",
    b"1024",
    b"65535",
    b"65536",
    b"1048576",
    b"536870912",
    b"2147483647",
    b"2147483648",
    b"4294967295",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"+1",
    b"00",
];

/// Inputs to mutate: the seeds, which stay, and some of their mutants.
pub(crate) struct Corpus {
    pub(crate) seeds: Vec<Vec<u8>>,
    offspring: Vec<Vec<u8>>,
}

impl Corpus {
    /// A corpus of seeds only.
    pub(crate) fn new(seeds: Vec<Vec<u8>>) -> Corpus {
        Corpus { seeds, offspring: Vec::new() }
    }

    /// A mutant of some input, which may be kept for further mutations. `words` are texts with a meaning
    /// to the target.
    pub(crate) fn mutate(&mut self, rng: &mut Rng, words: &[&[u8]]) -> Vec<u8> {
        let mut input = self.pick(rng).clone();
        for _ in 0..=rng.below(4) {
            step(rng, &mut input, self, words);
        }
        input.truncate(BYTES_MAX);
        if rng.below(16) == 0 {
            if self.offspring.len() < CORPUS_MAX {
                self.offspring.push(input.clone());
            } else {
                let at = index(rng, CORPUS_MAX);
                self.offspring[at].clone_from(&input);
            }
        }
        input
    }

    /// A seed or a kept mutant, each half of the time. Seeds stay frequent, because mutants of mutants move
    /// away from inputs that the target accepts.
    fn pick(&self, rng: &mut Rng) -> &Vec<u8> {
        let pool = if rng.below(2) == 0 || self.offspring.is_empty() { &self.seeds } else { &self.offspring };
        &pool[index(rng, pool.len())]
    }
}

/// Applies one mutation.
fn step(rng: &mut Rng, input: &mut Vec<u8>, corpus: &Corpus, words: &[&[u8]]) {
    let at = index(rng, input.len() + 1);
    let end = (at + index(rng, 16) + 1).min(input.len());
    match rng.below(10) {
        0 if at < input.len() => input[at] ^= 1 << rng.below(8),
        1 if at < input.len() => input[at] = (rng.next_u64() & 255) as u8,
        2 => input.insert(at, (rng.next_u64() & 255) as u8),
        3 if at < end => drop(input.drain(at..end)),
        4 if at < end => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        5 => input.truncate(at),
        6 => insert(input, at, pick(rng, words)),
        7 => insert(input, at, pick(rng, NUMBERS)),
        8 => replace_number(rng, input, at),
        _ => {
            let other = corpus.pick(rng);
            let start = index(rng, other.len() + 1);
            let stop = (start + index(rng, 64)).min(other.len());
            insert(input, at, Some(&&other[start..stop]));
        }
    }
}

/// Inserts a piece at `at`.
fn insert(input: &mut Vec<u8>, at: usize, piece: Option<&&[u8]>) {
    if let Some(piece) = piece {
        input.splice(at..at, piece.iter().copied());
    }
}

/// Replaces the first digits from offset `at` on by another number.
fn replace_number(rng: &mut Rng, input: &mut Vec<u8>, at: usize) {
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else {
        return;
    };
    let length = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = NUMBERS[index(rng, NUMBERS.len())];
    input.splice(start..start + length, number.iter().copied());
}

/// A random item; `None` if there is none.
fn pick<'a, T>(rng: &mut Rng, items: &'a [T]) -> Option<&'a T> {
    items.get(index(rng, items.len()))
}

/// An index below `bound`; 0 if `bound` is 0.
fn index(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap_or(0)
}
