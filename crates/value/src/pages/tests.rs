//! Strings in pages compared with a vector. Between writes the test takes shares (second owners of the
//! value), which must not change.

use sluice_base::{Bytes, Rng};

use super::{INNER_BYTES, PAGE_BYTES, PAGE_HEAP_BYTES, Pages, Piece, Root};

/// The bytes of all pages and nodes, counted one by one.
fn counted(pages: &Pages) -> usize {
    fn below(node: Option<&super::Node>) -> usize {
        match node {
            None => 0,
            Some(super::Node::Page(page)) => 40 + page.capacity(),
            Some(super::Node::Inner(inner)) => {
                INNER_BYTES + inner.children.iter().map(|child| below(child.as_ref())).sum::<usize>()
            }
        }
    }
    size_of::<Root>() + below(pages.0.top.as_ref())
}

fn check(pages: &Pages, model: &[u8]) {
    assert_eq!(pages.len(), model.len());
    assert!(pages.is(model));
    assert_eq!(pages.heap_bytes(), counted(pages));
}

/// An offset that is near the beginning or end of a page, or anywhere.
fn random_offset(rng: &mut Rng, below: usize) -> usize {
    let page = rng.below(below as u64 / PAGE_BYTES as u64 + 1) as usize * PAGE_BYTES;
    match rng.below(3) {
        0 => page + rng.below(4) as usize,
        1 => (page + PAGE_BYTES).saturating_sub(rng.below(4) as usize),
        _ => rng.below(below as u64 + 1) as usize,
    }
}

fn random_bytes(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(8) {
        0 => 0,
        1 => rng.below(3 * PAGE_BYTES as u64),
        2 => PAGE_BYTES as u64,
        _ => rng.below(20),
    };
    let byte = rng.next_u64() as u8;
    (0..len).map(|i| byte.wrapping_add(i as u8)).collect()
}

#[test]
fn pages_are_a_vector_whatever_is_shared_between_writes() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut strings = vec![(Pages::new(), Vec::new())];
        let mut replies: Vec<(Vec<Bytes>, Vec<u8>)> = Vec::new();
        for step in 0..60 {
            let which = rng.below(strings.len() as u64) as usize;
            let (pages, model) = &mut strings[which];
            match rng.below(10) {
                0..4 => {
                    let bytes = random_bytes(&mut rng);
                    pages.append(&bytes);
                    model.extend_from_slice(&bytes);
                }
                4..7 => {
                    let bytes = random_bytes(&mut rng);
                    // Three of four writes begin inside the string; the others may begin up to forty pages
                    // past its end, which adds a level.
                    let beyond = if rng.below(4) == 0 { rng.below(40) as usize * PAGE_BYTES } else { 0 };
                    let offset = random_offset(&mut rng, model.len() + beyond);
                    pages.write_at(offset, &bytes);
                    model.resize(model.len().max(offset + bytes.len()), 0);
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                7 => {
                    let held = pages.pieces(0..pages.len());
                    let held = held.map(|piece| match piece {
                        Piece::Page(page) => page.clone(),
                        Piece::Part(_) => panic!("seed {seed}, step {step}: the whole has no parts"),
                        Piece::Zeros(len) => Bytes::copy_from(&super::ZEROS[..len]),
                    });
                    replies.push((held.collect(), model.clone()));
                }
                8 => {
                    let twin = (pages.share(), model.clone());
                    strings.push(twin);
                }
                _ => {
                    let (a, b) = (random_offset(&mut rng, model.len()), random_offset(&mut rng, model.len()));
                    let range = a.min(b)..a.max(b);
                    let read: Vec<u8> = pages.slices(range.clone()).flatten().copied().collect();
                    let end = range.end.min(model.len());
                    assert!(read == model[range.start.min(end)..end], "seed {seed}, step {step}: {range:?}");
                }
            }
            let (pages, model) = &strings[which];
            assert!(pages.is(model), "seed {seed}, step {step}");
            if strings.len() > 4 {
                strings.swap_remove(rng.below(5) as usize);
            }
            if replies.len() > 2 {
                replies.remove(0);
            }
        }
        strings.iter().for_each(|(pages, model)| check(pages, model));
        for (held, model) in &replies {
            assert!(held.iter().flat_map(|page| page.iter()).eq(model), "seed {seed}");
        }
    }
}

#[test]
fn a_byte_far_behind_the_end_takes_a_page_and_its_way() {
    let mut pages = Pages::new();
    pages.append(b"abc");
    pages.write_at(500 << 20, b"x");
    assert_eq!(pages.len(), (500 << 20) + 1);
    // The path to each page has three inner nodes; both paths share the top node.
    assert_eq!(pages.heap_bytes(), size_of::<Root>() + 2 * PAGE_HEAP_BYTES + 5 * INNER_BYTES);
    assert_eq!(pages.heap_bytes(), counted(&pages));
    assert_eq!(pages.slices(0..4).collect::<Vec<_>>().concat(), b"abc\0");
    assert_eq!(pages.slices((500 << 20) - 1..usize::MAX).collect::<Vec<_>>().concat(), b"\0x");
}

#[test]
fn copied_zeros_take_no_page() {
    let mut bytes = vec![0; 10 * PAGE_BYTES + 7];
    bytes[PAGE_BYTES * 3] = 1;
    let pages = Pages::copy_from(&bytes);
    assert_eq!(pages.heap_bytes(), size_of::<Root>() + PAGE_HEAP_BYTES + INNER_BYTES);
    check(&pages, &bytes);
}

#[test]
fn a_write_to_a_shared_string_copies_its_page_alone() {
    let mut pages = Pages::copy_from(&vec![7; 100 * PAGE_BYTES]);
    let twin = pages.share();
    pages.write_at(42 * PAGE_BYTES + 5, b"x");
    for (index, (mine, theirs)) in pages.pieces(0..pages.len()).zip(twin.pieces(0..twin.len())).enumerate() {
        let same = mine.bytes().as_ptr() == theirs.bytes().as_ptr();
        assert_eq!(same, index != 42, "page {index}");
    }
    // A second write copies nothing, because the writer owns the page now.
    let at = |pages: &Pages| pages.slices(42 * PAGE_BYTES..43 * PAGE_BYTES).next().map(<[u8]>::as_ptr);
    let before = at(&pages);
    pages.write_at(42 * PAGE_BYTES + 6, b"y");
    assert_eq!(at(&pages), before);
}

#[test]
fn equality_sees_the_length_and_the_last_byte() {
    let bytes = vec![3; 2 * PAGE_BYTES + 1];
    let pages = Pages::copy_from(&bytes);
    assert!(pages.is(&bytes));
    assert!(!pages.is(&bytes[1..]));
    let mut other = bytes;
    other[2 * PAGE_BYTES] = 4;
    assert!(!pages.is(&other));
    assert!(Pages::new().is(b""));
}
