//! How the cells of the shared queue lie in memory.
//!
//! Three layouts were measured; `--cfg sluice_cells="…"` builds another layout than the default, so that
//! the measurement can be repeated on other machines. The figures are from `bench/record/queue-1.txt`,
//! for two processors, two consumers and batches of 16:
//!
//! | name | cell | neighbours in time are | memory of 4096 words | ns a job |
//! |---|---|---|---|---|
//! | packed, the default | 16 bytes: sequence and value | neighbours in memory | 64 KiB | 2.8 |
//! | padded | 128 bytes | 128 bytes apart | 512 KiB | 2.9 |
//! | permuted | 16 bytes | 128 bytes apart | 64 KiB | 5.1 |

use crate::Capacity;
use crate::primitive::AtomicUsize;
use crate::slot::Slot;

/// One slot with its sequence number.
#[derive(Debug)]
#[cfg_attr(sluice_cells = "padded", repr(align(128)))]
pub(super) struct Cell<T> {
    /// The side that may use the cell: see the table in `spmc`.
    pub(super) sequence: AtomicUsize,
    pub(super) slot: Slot<T>,
}

/// All cells of a ring.
#[derive(Debug)]
pub(super) struct Cells<T> {
    mask: usize,
    cells: Box<[Cell<T>]>,
}

impl<T> Cells<T> {
    /// Free cells for the indexes `start .. start + capacity`.
    pub(super) fn new(capacity: Capacity, start: usize) -> Cells<T> {
        let mask = capacity.mask();
        let mut indexes = vec![0; capacity.count()];
        for index in (0..capacity.count()).map(|nth| start.wrapping_add(nth)) {
            indexes[cell_index(index, mask)] = index;
        }
        let cell = |index| Cell { sequence: AtomicUsize::new(index), slot: Slot::new() };
        Cells { mask, cells: indexes.into_iter().map(cell).collect() }
    }

    /// A copy of the mask and the address of the cells, to be kept in registers. Through the shared pointer
    /// both would be loaded again after each acquire, which took a fifth of the time of a batch.
    #[inline(always)]
    pub(super) fn view(&self) -> CellsView<'_, T> {
        CellsView { mask: self.mask, cells: &self.cells }
    }

    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        self.mask + 1
    }
}

/// The mask and the address of the cells, copied out of the ring.
#[derive(Debug)]
pub(super) struct CellsView<'a, T> {
    mask: usize,
    cells: &'a [Cell<T>],
}

impl<T> Clone for CellsView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CellsView<'_, T> {}

impl<'a, T> CellsView<'a, T> {
    /// The cell of `index`.
    #[inline(always)]
    pub(super) fn at(self, index: usize) -> &'a Cell<T> {
        &self.cells[cell_index(index, self.mask)]
    }

    /// The number of cells, which a consumer adds to an index when it frees the cell.
    #[inline(always)]
    pub(super) fn capacity(self) -> usize {
        self.mask + 1
    }
}

/// The position in memory of the cell of `index`.
#[inline(always)]
const fn cell_index(index: usize, mask: usize) -> usize {
    let index = index & mask;
    // Eight cells of 16 bytes take 128 bytes. A ring of less than 64 cells has too few cache lines over which
    // neighbouring cells could be spread.
    if cfg!(sluice_cells = "permuted") && mask >= 63 {
        let bits = mask.count_ones();
        ((index << 3) | (index >> (bits - 3))) & mask
    } else {
        index
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::cell_index;

    #[test]
    fn every_cell_has_one_index() {
        for bits in 1..=10 {
            let mask = (1 << bits) - 1;
            let mut indexes: Vec<_> = (0..=mask).map(|index| cell_index(index, mask)).collect();
            indexes.sort_unstable();
            assert!(indexes.into_iter().eq(0..=mask));
        }
    }
}
