//! The slab against a map of what was written, and with handles that nobody gave out.

use std::collections::HashMap;

use sluice_base::Rng;

use super::*;

fn is_send_and_sync<T: Send + Sync>(_: &T) {}

/// What a block of this number holds: differs from its neighbours at every byte.
fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (number.wrapping_mul(31) + i * 7) as u8).collect()
}

struct Model {
    slab: Slab,
    /// Handle to (number, size asked for).
    live: HashMap<Handle, (u64, usize)>,
    order: Vec<Handle>,
}

impl Model {
    fn new() -> Model {
        Model { slab: Slab::new(), live: HashMap::new(), order: Vec::new() }
    }

    fn alloc(&mut self, number: u64, size: usize) {
        let handle = self.slab.alloc(size).unwrap();
        assert_eq!(self.slab.head(handle).load(Ordering::Relaxed), 0);
        let body = self.slab.body_mut(handle);
        assert_eq!(body.len(), Slab::rounded(size) - 4);
        body.copy_from_slice(&pattern(number, body.len()));
        self.slab.head(handle).store(number as u32 | 1, Ordering::Relaxed);
        assert!(self.live.insert(handle, (number, size)).is_none(), "a live block was handed out again");
        self.order.push(handle);
    }

    fn check(&self, handle: Handle) {
        let (number, size) = self.live[&handle];
        assert_eq!(self.slab.block_size(handle), Slab::rounded(size));
        assert_eq!(self.slab.head(handle).load(Ordering::Relaxed), number as u32 | 1);
        assert_eq!(self.slab.body(handle), pattern(number, Slab::rounded(size) - 4));
    }

    fn free(&mut self, rng: &mut Rng) {
        if self.order.is_empty() {
            return;
        }
        let handle = self.order.swap_remove(rng.below(self.order.len() as u64) as usize);
        self.check(handle);
        self.live.remove(&handle);
        self.slab.free(handle);
    }

    fn check_all(&self) {
        self.order.iter().for_each(|&handle| self.check(handle));
        let bytes: usize = self.live.values().map(|&(_, size)| Slab::rounded(size)).sum();
        assert_eq!(self.slab.bytes_used(), bytes);
        assert_eq!(self.slab.blocks_used(), self.live.len());
        assert!(self.slab.bytes_touched() >= bytes);
        let stats = self.slab.stats();
        assert_eq!(stats.iter().map(|class| class.blocks_used * class.block_size).sum::<usize>(), bytes);
    }
}

#[test]
fn blocks_keep_their_bytes_under_random_traffic() {
    let mut rng = Rng::new(7);
    let mut model = Model::new();
    for number in 0..60_000u64 {
        // Waves, so that chunks fill and empty; few classes at a time, so that some need several chunks.
        let grows = (number / 10_000) % 2 == 0;
        if rng.below(10) < if grows { 8 } else { 3 } {
            let size = if rng.below(4) == 0 { rng.below(1025) } else { 500 + rng.below(40) };
            model.alloc(number, size as usize);
        } else {
            model.free(&mut rng);
        }
        if number % 5_000 == 0 {
            model.check_all();
        }
    }
    model.check_all();
    while !model.order.is_empty() {
        model.free(&mut rng);
    }
    model.check_all();
    assert!(model.slab.bytes_allocated() < 6 << 20, "empty chunks go back");
}

#[test]
fn every_size_gets_the_next_class() {
    let mut slab = Slab::new();
    for size in 0..=Slab::MAX_BLOCK {
        let handle = slab.alloc(size).unwrap();
        assert_eq!(slab.block_size(handle), Slab::rounded(size));
        assert_eq!(Slab::rounded(size), size.div_ceil(8).max(2) * 8);
        assert_eq!(slab.body(handle).len(), Slab::rounded(size) - 4);
    }
    assert_eq!(slab.alloc(Slab::MAX_BLOCK + 1), Err(Full));
    assert_eq!(slab.alloc(usize::MAX), Err(Full));
    slab.clear();
    assert_eq!((slab.bytes_used(), slab.bytes_touched()), (0, 0));
}

#[test]
fn a_chunk_is_used_to_its_last_granule_and_reused_by_another_class() {
    let mut slab = Slab::new();
    // 24 does not divide the chunk: its last block ends in the padding.
    let per_chunk = (1 << 20) / 24 + 1;
    let handles: Vec<Handle> = (0..2 * per_chunk - 1).map(|_| slab.alloc(24).unwrap()).collect();
    let class = slab.stats()[0];
    assert_eq!((class.chunks, class.blocks_used, class.blocks_touched), (2, handles.len(), handles.len()));
    for (i, &handle) in handles.iter().enumerate() {
        slab.body_mut(handle).fill(i as u8);
    }
    for (i, &handle) in handles.iter().enumerate() {
        assert!(slab.body(handle).iter().all(|&byte| byte == i as u8), "block {i}");
    }
    let before = slab.chunks.len();
    handles.iter().for_each(|&handle| slab.free(handle));
    assert!(slab.stats().is_empty());
    let other = slab.alloc(1000).unwrap();
    assert_eq!((slab.chunks.len(), slab.vacant.len()), (before, 0), "an empty chunk is kept for any class");
    assert_eq!(slab.body(other).len(), 996);
}

#[test]
fn emptier_chunks_run_empty_first() {
    let mut slab = Slab::new();
    let handles: Vec<Handle> = (0..40_000).map(|_| slab.alloc(128).unwrap()).collect();
    let chunks = slab.stats()[0].chunks;
    // One in eight stays; then traffic without growth must bring them together.
    let mut rng = Rng::new(3);
    let mut live = Vec::new();
    for handle in handles {
        if rng.below(8) == 0 { live.push(handle) } else { slab.free(handle) }
    }
    for _ in 0..200_000 {
        let at = rng.below(live.len() as u64) as usize;
        slab.free(live[at]);
        live[at] = slab.alloc(128).unwrap();
    }
    assert!(slab.stats()[0].chunks * 3 <= chunks, "{:?} of {chunks} chunks", slab.stats());
}

#[test]
fn forged_handles_name_nothing_or_a_whole_block() {
    let mut slab = Slab::new();
    is_send_and_sync(&slab);
    assert_eq!(slab.body(Handle::from_raw(1).unwrap()), b"", "nothing is there before the first block");
    for size in [16, 24, 88, 1000, 1024] {
        slab.alloc(size).unwrap();
    }
    let mut rng = Rng::new(5);
    for i in 0..300_000u32 {
        let raw = if i % 2 == 0 { rng.next_u64() as u32 } else { rng.below(6 << 17) as u32 };
        let Some(handle) = Handle::from_raw(raw) else { continue };
        let size = slab.block_size(handle);
        assert_eq!(slab.body(handle).len(), size.saturating_sub(4));
        if size != 0 {
            assert_eq!((raw & GRANULE_MASK) as usize * GRANULE % size, 0, "inside of a block");
        }
        assert_eq!(slab.body_mut(handle).len(), size.saturating_sub(4));
        slab.body_mut(handle).fill(0x55);
        slab.head(handle).store(i, Ordering::Relaxed);
        slab.prefetch(handle);
    }
}

#[test]
fn freeing_what_is_not_allocated_changes_nothing_for_others() {
    let mut slab = Slab::new();
    let block = slab.alloc(64).unwrap();
    let used = slab.bytes_used();
    for raw in [2, block.raw() + 1, block.raw() + 8, 1 << 17, u32::MAX] {
        slab.free(Handle::from_raw(raw).unwrap());
    }
    assert_eq!(slab.bytes_used(), used);
    assert_eq!(slab.body(block).len(), 60);
    slab.free(block);
    slab.free(block);
    assert_eq!(slab.body(block), b"", "its chunk is gone");
    assert_eq!(slab.block_size(block), 0);
}

#[test]
fn scribbling_over_free_blocks_and_freeing_twice_stays_inside_the_slab() {
    let mut rng = Rng::new(11);
    let mut slab = Slab::new();
    let mut handles = Vec::new();
    for i in 0..200_000u32 {
        match rng.below(4) {
            0 | 1 => handles.push(slab.alloc(16 + 8 * rng.below(3) as usize).unwrap()),
            _ if handles.is_empty() => {}
            // Freed handles stay in the list: they are freed again and written to.
            2 => slab.free(handles[rng.below(handles.len() as u64) as usize]),
            _ => {
                let handle = handles[rng.below(handles.len() as u64) as usize];
                let word = if i % 2 == 0 { rng.next_u64() as u32 } else { rng.below(4096) as u32 };
                if let Some(first) = slab.body_mut(handle).first_chunk_mut::<4>() {
                    *first = word.to_le_bytes();
                }
            }
        }
        assert!(slab.chunks.len() < 200);
    }
    for &handle in &handles {
        assert_eq!(slab.body(handle).len(), slab.block_size(handle).saturating_sub(4));
    }
}

#[test]
fn typed_values_stay_at_their_index() {
    let mut rng = Rng::new(13);
    let mut slab = TypedSlab::new();
    let mut oracle: HashMap<u32, String> = HashMap::new();
    for round in 0..40_000u32 {
        let grows = (round / 8_000) % 2 == 0;
        if rng.below(10) < if grows { 8 } else { 2 } {
            let index = slab.insert(round.to_string());
            assert!(oracle.insert(index, round.to_string()).is_none());
        } else {
            let index = rng.below(6_000) as u32;
            assert_eq!(slab.remove(index), oracle.remove(&index));
        }
        let index = rng.below(6_000) as u32;
        assert_eq!(slab.get(index), oracle.get(&index));
        if let Some(value) = slab.get_mut(index) {
            value.push('x');
            oracle.get_mut(&index).unwrap().push('x');
        }
        assert_eq!(slab.len(), oracle.len());
    }
    assert_eq!(slab.iter().count(), oracle.len());
    for (index, value) in slab.iter() {
        assert_eq!(Some(value), oracle.get(&index));
    }
    for index in oracle.into_keys() {
        assert!(slab.remove(index).is_some());
    }
    assert!(slab.is_empty());
    assert!(slab.bytes() < 4096, "segments without values have no memory");
    assert_eq!(slab.get(u32::MAX), None);
}

#[test]
fn one_multiplication_tells_multiples_for_every_class_and_granule() {
    for step in 2..=(Slab::MAX_BLOCK / GRANULE) as u32 {
        let chunk = Chunk { base: std::ptr::null_mut(), magic: magic_of(step), size: 0 };
        let wrong =
            (0..GRANULES).find(|&granule| chunk.has_block_at(granule) != granule.is_multiple_of(step));
        assert_eq!(wrong, None, "blocks of {step} granules");
    }
    let dead = Chunk { base: std::ptr::null_mut(), magic: 0, size: 0 };
    assert!((0..GRANULES).all(|granule| !dead.has_block_at(granule)));
}
