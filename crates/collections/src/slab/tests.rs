//! Compares the slab with a map of its contents, and accesses the slab by handles that it has not returned.

use std::collections::HashMap;

use sluice_base::Rng;

use super::*;

fn is_send_and_sync<T: Send + Sync>(_: &T) {}

/// The contents of block `number`, which differ from those of its neighbours in every byte.
fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (number.wrapping_mul(31) + i * 7) as u8).collect()
}

/// A slab with its expected contents.
struct Model<const CHUNK_BITS: u32, const BLOCK_BITS: u32> {
    slab: SlabOf<CHUNK_BITS, BLOCK_BITS>,
    /// The number and the requested size of each block, by handle.
    live: HashMap<Handle, (u64, usize)>,
    order: Vec<Handle>,
}

impl<const CHUNK_BITS: u32, const BLOCK_BITS: u32> Model<CHUNK_BITS, BLOCK_BITS> {
    fn new() -> Self {
        Model { slab: SlabOf::new(), live: HashMap::new(), order: Vec::new() }
    }

    fn alloc(&mut self, number: u64, size: usize) -> Result<Handle, SlabFull> {
        let handle = self.slab.alloc(size)?;
        assert_eq!(self.slab.head(handle).load(Ordering::Relaxed), 0);
        let body = self.slab.body_mut(handle);
        assert_eq!(body.len(), Slab::rounded(size) - 4);
        body.copy_from_slice(&pattern(number, body.len()));
        self.slab.head(handle).store(number as u32 | 1, Ordering::Relaxed);
        assert!(self.live.insert(handle, (number, size)).is_none(), "a live block was handed out again");
        self.order.push(handle);
        Ok(handle)
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

    /// Makes moves until the budget is spent, and updates the handles of the blocks. Returns the
    /// number of moves.
    fn compact(&mut self, mut budget: usize) -> usize {
        let mut moves = 0;
        while let Some(step) = self.slab.next_move(&mut budget) {
            let entry = self.live.remove(&step.from).expect("a block that is moved is live");
            assert!(self.live.insert(step.to, entry).is_none(), "a block was moved onto a live one");
            let at = self.order.iter().position(|&handle| handle == step.from).unwrap();
            self.order[at] = step.to;
            self.check(step.to);
            assert_eq!(self.slab.body(step.from), self.slab.body(step.to));
            self.slab.finish_move(step);
            moves += 1;
        }
        moves
    }

    fn check_all(&self) {
        self.order.iter().for_each(|&handle| self.check(handle));
        let bytes: usize = self.live.values().map(|&(_, size)| Slab::rounded(size)).sum();
        assert_eq!(self.slab.bytes_used(), bytes);
        assert_eq!(self.slab.blocks_used(), self.live.len());
        assert!(self.slab.bytes_touched() >= bytes);
        assert_eq!(self.slab.bytes_free(), self.slab.bytes_touched() - bytes);
        assert!(self.slab.bytes_reserved() >= self.slab.bytes_touched());
        let stats = self.slab.stats();
        assert_eq!(stats.iter().map(|class| class.blocks_used * class.block_size).sum::<usize>(), bytes);
        assert_eq!(stats.iter().map(|class| class.chunks).sum::<usize>(), self.slab.chunks_taken());
        if let Some(books) = self.slab.books.as_deref() {
            let rows = books.rows.as_slice();
            let touched: usize = rows.iter().map(|book| book.touched as usize).sum();
            assert_eq!(touched, self.slab.bytes_touched());
            let warm: usize = books.warm.iter().map(|&number| rows[number as usize].touched as usize).sum();
            assert_eq!(warm, books.warm_bytes);
            for (class, this) in books.classes.iter().enumerate() {
                let mine = |book: &&Book| book.class as usize == class && class != 0;
                assert_eq!(rows.iter().filter(mine).map(|book| book.used as usize).sum::<usize>(), this.used);
                assert_eq!(rows.iter().filter(mine).count(), this.chunks as usize);
            }
        }
    }
}

#[test]
fn blocks_keep_their_bytes_under_random_traffic_and_compaction() {
    for seed in [7, 8] {
        let mut rng = Rng::new(seed);
        let mut model = Model::<20, 12>::new();
        let mut moves = 0;
        for number in 0..60_000u64 {
            // Blocks are allocated in waves, so that chunks fill and become empty, and in few classes at a
            // time, so that some classes need several chunks.
            let grows = (number / 10_000) % 2 == 0;
            if rng.below(10) < if grows { 8 } else { 2 } {
                let size = if rng.below(4) == 0 {
                    rng.below(Slab::MAX_BLOCK as u64 + 1)
                } else {
                    500 + rng.below(16)
                };
                model.alloc(number, size as usize).unwrap();
            } else {
                model.free(&mut rng);
            }
            if seed == 7 && number % 50 == 0 {
                let budget = rng.below(400) as usize;
                moves += model.compact(budget);
            }
            if number % 5_000 == 0 {
                model.check_all();
            }
        }
        assert!(seed != 7 || moves > 1_000, "{moves} moves");
        model.check_all();
        while !model.order.is_empty() {
            model.free(&mut rng);
        }
        model.check_all();
        assert_eq!(model.slab.chunks_taken(), 0);
        assert!(model.slab.bytes_touched() <= 3 << 20, "empty chunks give their pages back");
    }
}

#[test]
fn a_slab_of_few_chunks_runs_full_and_recovers() {
    // The slab has at most 16 chunks of at most 8 blocks.
    let (mut moves, mut refused, mut last) = (0, 0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut model = Model::<4, 3>::new();
        for number in 0..3_000u64 {
            let grows = (number / 200) % 2 == 0;
            if rng.below(10) < if grows { 8 } else { 2 } {
                // The sizes belong to chunks of two lengths, so that a chunk number is reused with another
                // piece of memory.
                let size = if number / 500 % 2 == 0 { 16 + rng.below(3) * 8 } else { 900 + rng.below(100) };
                match model.alloc(number, size as usize) {
                    Ok(handle) => last = last.max(handle.raw()),
                    Err(SlabFull) => refused += 1,
                }
            } else {
                model.free(&mut rng);
            }
            if number % 7 == 0 {
                let budget = rng.below(40) as usize;
                moves += model.compact(budget);
            }
            model.check_all();
        }
    }
    assert!(moves > 200 && refused > 1_000, "{moves} moves, {refused} refused");
    assert_eq!(last, (1 << 7) - 1, "the last handle was met");
}

#[test]
fn chunk_numbers_go_from_one_length_to_another() {
    // A chunk of 128 blocks takes one unit of memory if the blocks have 16 bytes, and two if they have 1,024.
    let mut slab = SlabOf::<3, 7>::new();
    let fill = |slab: &mut SlabOf<3, 7>, size| {
        let handles: Vec<Handle> = std::iter::from_fn(|| slab.alloc(size).ok()).collect();
        for (i, &handle) in handles.iter().enumerate() {
            slab.body_mut(handle).fill(i as u8);
        }
        for (i, &handle) in handles.iter().enumerate() {
            assert!(slab.body(handle).iter().all(|&byte| byte == i as u8), "block {i}");
        }
        assert_eq!(handles.len(), 8 * 128 - 1);
        assert_eq!(slab.chunks_taken(), SlabOf::<3, 7>::CHUNKS_MAX);
        handles.iter().for_each(|&handle| slab.free(handle));
        assert_eq!((slab.bytes_used(), slab.chunks_taken()), (0, 0));
    };
    fill(&mut slab, 16);
    fill(&mut slab, 1024);
    let reserved = slab.bytes_reserved();
    for _ in 0..20 {
        fill(&mut slab, 16);
        fill(&mut slab, 1024);
    }
    assert_eq!(slab.bytes_reserved(), reserved, "pieces are used again");
}

#[cfg(target_os = "linux")]
#[test]
fn mappings_do_not_grow_with_the_number_of_chunks() {
    let lines = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    // A chunk has eight blocks, so that 20,000 chunks take few pages.
    let mut slab = SlabOf::<16, 3>::new();
    let before = lines();
    let handles: Vec<Handle> = (0..160_000).map(|_| slab.alloc(64).unwrap()).collect();
    assert_eq!(slab.chunks_taken(), 20_001);
    // Other tests, which run at the same time, add a few mappings of their own.
    assert!(lines() < before + 500, "{} mappings, {before} before", lines());
    // Every second chunk gives its pages back, which must not split a mapping.
    let gone = handles.iter().filter(|handle| handle.raw() >> 3 & 1 == 1);
    gone.for_each(|&handle| slab.free(handle));
    assert_eq!(slab.chunks_taken(), 10_001);
    assert!(lines() < before + 500, "{} mappings, {before} before", lines());
    drop(slab);
}

#[test]
fn compaction_brings_sparse_chunks_together_and_gives_their_pages_back() {
    let mut rng = Rng::new(3);
    let mut model = Model::<20, 12>::new();
    for number in 0..60_000 {
        model.alloc(number, 128).unwrap();
    }
    let chunks = model.slab.chunks_taken();
    assert_eq!(model.compact(1_000_000), 0, "full chunks stay");
    while model.order.len() > 6_000 {
        model.free(&mut rng);
    }
    let touched = model.slab.bytes_touched();
    // Each call has a budget of one step, as compaction between commands may have.
    let moves: usize = (0..100_000).map(|_| model.compact(1)).sum();
    assert!(moves < 6_000, "{moves} moves: no block is moved twice");
    model.check_all();
    assert_eq!((chunks, model.slab.chunks_taken()), (15, 2));
    let now = model.slab.bytes_touched();
    assert!(now <= 2 * 4096 * 128, "{now} of {touched}: two chunks");
    assert!(!model.slab.is_compacting());
    assert_eq!(model.compact(1_000_000), 0, "nothing is left to win");
}

#[test]
fn a_chunk_alone_moves_to_fresh_memory_when_it_is_nearly_empty() {
    let mut rng = Rng::new(4);
    let mut model = Model::<20, 12>::new();
    for number in 0..4_000 {
        model.alloc(number, 256).unwrap();
    }
    while model.order.len() > 1_200 {
        model.free(&mut rng);
    }
    assert_eq!(model.compact(1_000_000), 0, "more than a quarter is in use");
    while model.order.len() > 100 {
        model.free(&mut rng);
    }
    assert_eq!(model.compact(1_000_000), 100);
    model.check_all();
    assert_eq!(model.slab.chunks_taken(), 1);
    assert_eq!(model.compact(1_000_000), 0);
}

#[test]
fn a_chunk_under_evacuation_hands_nothing_out_and_may_run_empty_by_itself() {
    let mut slab = Slab::new();
    let handles: Vec<Handle> = (1..3 * 4096).map(|_| slab.alloc(16).unwrap()).collect();
    // The first chunk keeps 1,000 blocks, the others 3,000 each.
    let chunk_of = |handle: &Handle| Slab::split(*handle).0;
    let (mut first, others): (Vec<Handle>, Vec<Handle>) =
        handles.iter().partition(|handle| chunk_of(handle) == 0);
    first.drain(1000..).for_each(|handle| slab.free(handle));
    others.iter().filter(|handle| Slab::split(**handle).1 >= 3000).for_each(|&handle| slab.free(handle));
    let step = slab.next_move(&mut 100_000).expect("a chunk can be won");
    assert_eq!((chunk_of(&step.from), slab.is_compacting()), (0, true));
    let fresh: Vec<Handle> = (0..500).map(|_| slab.alloc(16).unwrap()).collect();
    assert!(fresh.iter().all(|handle| chunk_of(handle) != 0));
    slab.finish_move(step);
    first.into_iter().filter(|&handle| handle != step.from).for_each(|handle| slab.free(handle));
    assert!(!slab.is_compacting(), "the last block was freed by its owner");
    assert_eq!(slab.next_move(&mut 100_000), None);
}

#[test]
fn a_block_that_its_owner_does_not_know_pins_its_chunk() {
    let mut slab = Slab::new();
    let handles: Vec<Handle> = (0..2 * 4096).map(|_| slab.alloc(16).unwrap()).collect();
    handles.iter().skip(10).for_each(|&handle| slab.free(handle));
    let handles: Vec<Handle> = (0..2 * 4096 - 11).map(|_| slab.alloc(16).unwrap()).collect();
    handles.iter().skip(10).for_each(|&handle| slab.free(handle));
    let used = slab.bytes_used();
    while let Some(step) = slab.next_move(&mut 100_000) {
        slab.cancel_move(step);
    }
    assert_eq!(slab.bytes_used(), used);
}

#[test]
fn an_empty_slab_allocates_nothing_and_a_small_one_little() {
    let mut slab = Slab::new();
    assert_eq!((slab.bytes_directories(), slab.bytes_reserved(), slab.chunks_taken()), (0, 0, 0));
    assert_eq!(slab.next_move(&mut 10), None);
    slab.alloc(16).unwrap();
    assert!(slab.bytes_directories() < 14 << 10, "{}", slab.bytes_directories());
    for size in (24..=Slab::MAX_BLOCK).step_by(8) {
        slab.alloc(size).unwrap();
    }
    // With one block in each of 254 classes, the memory in use is that of the blocks.
    assert_eq!(slab.bytes_used(), (16..=Slab::MAX_BLOCK).step_by(8).sum::<usize>());
    assert!(slab.bytes_touched() < slab.bytes_used() + 256, "handle 0 does not exist");
    assert!(slab.bytes_directories() < 24 << 10, "{}", slab.bytes_directories());
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
    assert_eq!(slab.alloc(Slab::MAX_BLOCK + 1), Err(SlabFull));
    assert_eq!(slab.alloc(usize::MAX), Err(SlabFull));
    slab.clear();
    assert_eq!((slab.bytes_used(), slab.bytes_touched()), (0, 0));
}

#[test]
fn a_chunk_is_used_to_its_last_block_and_reused_by_another_class() {
    let mut slab = Slab::new();
    // 1,000 does not divide the chunk's size, so the end of the chunk's memory is not used.
    let per_chunk = (1 << 20) / 1000;
    let handles: Vec<Handle> = (0..2 * per_chunk - 1).map(|_| slab.alloc(1000).unwrap()).collect();
    let class = slab.stats()[0];
    assert_eq!((class.chunks, class.blocks_used, class.blocks_touched), (2, handles.len(), handles.len()));
    for (i, &handle) in handles.iter().enumerate() {
        slab.body_mut(handle).fill(i as u8);
    }
    for (i, &handle) in handles.iter().enumerate() {
        assert!(slab.body(handle).iter().all(|&byte| byte == i as u8), "block {i}");
    }
    let before = slab.chunks.as_slice().len();
    handles.iter().for_each(|&handle| slab.free(handle));
    assert!(slab.stats().is_empty());
    let other = slab.alloc(808).unwrap();
    assert_eq!(slab.chunks.as_slice().len(), before, "an empty chunk serves any class of its length");
    assert_eq!(slab.body(other).len(), 804);
}

#[test]
fn emptier_chunks_run_empty_first() {
    let mut slab = Slab::new();
    let handles: Vec<Handle> = (0..40_000).map(|_| slab.alloc(128).unwrap()).collect();
    let chunks = slab.stats()[0].chunks;
    // One block in eight stays. Allocation and freeing without growth must then compact the rest.
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
    for size in [16, 24, 88, 1000, 1024, Slab::MAX_BLOCK] {
        slab.alloc(size).unwrap();
    }
    let mut rng = Rng::new(5);
    for i in 0..300_000u32 {
        let raw = if i % 2 == 0 { rng.next_u64() as u32 } else { rng.below(6 << 12) as u32 };
        let Some(handle) = Handle::from_raw(raw) else { continue };
        let size = slab.block_size(handle);
        assert_eq!(slab.body(handle).len(), size.saturating_sub(4));
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
    for raw in [2, block.raw() + 1, block.raw() + 8, 1 << 12, u32::MAX] {
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
            // Freed handles stay in the list, so that they are freed again and written to.
            2 => slab.free(handles[rng.below(handles.len() as u64) as usize]),
            _ => {
                let handle = handles[rng.below(handles.len() as u64) as usize];
                let word = if i % 2 == 0 { rng.next_u64() as u32 } else { rng.below(4096) as u32 };
                if let Some(first) = slab.body_mut(handle).first_chunk_mut::<4>() {
                    *first = word.to_le_bytes();
                }
            }
        }
        assert!(slab.chunks.as_slice().len() < 200);
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
