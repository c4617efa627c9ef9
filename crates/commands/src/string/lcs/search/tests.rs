use super::*;
use sluice_base::Rng;

/// Computes the LCS with the full table of lengths, and traces it back.
fn naive(a: &[u8], b: &[u8]) -> (usize, Vec<u8>) {
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i][j] = if a[i - 1] == b[j - 1] {
                table[i - 1][j - 1] + 1
            } else {
                std::cmp::max(table[i - 1][j], table[i][j - 1])
            };
        }
    }
    let (mut i, mut j, mut bytes) = (a.len(), b.len(), Vec::new());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            bytes.push(a[i - 1]);
            (i, j) = (i - 1, j - 1);
        } else if table[i - 1][j] > table[i][j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    bytes.reverse();
    (table[a.len()][b.len()], bytes)
}

/// A completed search, with the table filled `rows` rows at a time.
fn searched(a: &[u8], b: &[u8], asked: LcsReply, rows: usize) -> Search {
    let mut search = Search::new(a, b, asked).unwrap();
    while !search.fill(a, b, rows) {}
    search
}

#[test]
fn bits_lead_the_same_way_as_the_table_of_lengths() {
    let mut rng = Rng::new(5);
    for round in 0..400 {
        let letters = 2 + round % 5;
        let mut text = |max: u64| -> Vec<u8> {
            let len = rng.below(max);
            (0..len).map(|_| b'a' + rng.below(letters) as u8).collect()
        };
        let (a, b) = (text(150), text(150));
        let (len, bytes) = naive(&a, &b);
        let found = searched(&a, &b, LcsReply::Bytes, usize::MAX).matches(&a, &b);
        assert_eq!(found.len, len);
        assert_eq!(searched(&a, &b, LcsReply::Length, usize::MAX).len(), len);
        let in_steps = searched(&a, &b, LcsReply::Matches, 1 + round as usize % 7);
        assert_eq!(in_steps.matches(&a, &b).matches, found.matches);
        let runs: Vec<u8> =
            found.matches.iter().rev().flat_map(|m| a[m.a..m.a + m.len].iter().copied()).collect();
        assert_eq!(runs, bytes);
        for m in &found.matches {
            assert_eq!(a[m.a..m.a + m.len], b[m.b..m.b + m.len]);
        }
    }
}

#[test]
fn size_is_limited_by_the_table_of_lengths() {
    assert_eq!(check_size(511, 511, 1 << 20), Ok(()));
    assert!(check_size(511, 512, 1 << 20).is_err());
    assert!(check_size(262_144, 0, 1 << 20).is_err());
    assert!(check_size(u32::MAX as usize, 0, usize::MAX).is_err());
    assert!(check_size(u32::MAX as usize - 2, u32::MAX as usize - 2, usize::MAX).is_err());
}
