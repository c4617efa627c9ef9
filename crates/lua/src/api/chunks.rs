//! Chunks of a machine: loaded between runs, kept until they are unloaded, then freed by the collector.

use std::sync::Arc;

use super::{Vm, VmStage};
use crate::code::{LoadedChunk, Proto};
use crate::fault::Fault;
use crate::gc;
use crate::heap::CollectorPhase;
use crate::value::Value;
use crate::vm::cycles::FULL_WORK;
use crate::vm::link;
use crate::vm::machine::Machine;

/// After this many chunks were unloaded, each load runs a slice of the collector, until a cycle has ended.
const UNLOADED_MAX: usize = 128;

/// The slice of the collector that a load runs processes [`FULL_WORK`] values, and one more for every group
/// of this many bytes of the chunk. This is the same rate as in a run with the collector's multiplier 200. A
/// new name and its constant take 44 bytes, and the collector processes them three times before the name is
/// freed.
const BYTES_PER_VALUE: usize = 8;

impl Vm {
    /// Loads a chunk, which stays until it is unloaded. Fails while a run is open. The time is proportional
    /// to the number of the chunk's constants. If a slice of the collector is due, the load also runs this
    /// slice, which is longer for a larger chunk; if memory is short, it runs a whole collection.
    ///
    /// # Errors
    /// `not enough memory`, or a run is open.
    pub fn load(&mut self, proto: &Arc<Proto>) -> Result<LoadedChunk, Fault> {
        self.load_counted(proto).map(|(chunk, _)| chunk)
    }

    /// Like [`Vm::load`], but for a chunk that no other machine loads: data of the compiler are freed if the
    /// machine has made its own copy of them. Also returns the bytes in use that the chunk has added: its
    /// constants, and names that were new to the machine. The program is not included; its bytes are
    /// [`Proto::linked_bytes`].
    ///
    /// # Errors
    /// As [`Vm::load`].
    pub fn load_owned(&mut self, proto: Arc<Proto>) -> Result<(LoadedChunk, usize), Fault> {
        let (chunk, brought) = self.load_counted(&proto)?;
        drop(proto);
        link::drop_constants(&mut self.machine.code, chunk.code);
        Ok((chunk, brought))
    }

    /// Loads a chunk. Also returns the bytes in use that the chunk has added.
    fn load_counted(&mut self, proto: &Arc<Proto>) -> Result<(LoadedChunk, usize), Fault> {
        if self.stage == VmStage::Running {
            return Err(Fault::text("a run is open"));
        }
        let (code, brought) = match self.link_counted(proto) {
            Ok(linked) => linked,
            Err(_) => {
                // The load is tried again after a whole collection, because memory of unloaded chunks may
                // not have been freed yet.
                self.machine.collect(None);
                self.link_counted(proto)?
            }
        };
        self.last_chunk = self.last_chunk.wrapping_add(1).max(1);
        let number = self.last_chunk;
        let Machine { heap, code: linked, .. } = &mut self.machine;
        linked.at_mut(code).loaded = number;
        if heap.collector.phase == CollectorPhase::Mark {
            gc::shade_proto(heap, linked, code);
        }
        // The slice comes after the chunk is marked as loaded. Its size grows with the chunk, because a host
        // that loads large chunks also unloads large ones, and slices of a fixed size would free less than
        // such chunks leave.
        let work = FULL_WORK + brought / BYTES_PER_VALUE;
        if (heap.slice_due || self.unloaded >= UNLOADED_MAX) && self.machine.collect(Some(work)) {
            self.unloaded = 0;
        }
        Ok((LoadedChunk { code, number }, brought))
    }

    /// Like [`Vm::link`], but also returns the bytes in use that were added.
    fn link_counted(&mut self, proto: &Arc<Proto>) -> Result<(u32, usize), Fault> {
        let before = self.bytes();
        let code = self.link(proto)?;
        Ok((code, self.bytes().saturating_sub(before)))
    }

    /// Unloads a chunk. Its program is freed at once if no run is open; slices of the collector, in later
    /// loads or by [`Vm::collect`], free the rest when no run and no value refers to it. An open run of the
    /// chunk continues. Returns false if the chunk was unloaded already. O(1).
    pub fn unload(&mut self, chunk: LoadedChunk) -> bool {
        if !self.has_loaded(chunk) {
            return false;
        }
        self.unloaded += 1;
        let linked = self.machine.code.at_mut(chunk.code);
        linked.loaded = 0;
        // The program is freed at once if no run is open, because it cannot run again.
        if self.stage != VmStage::Running {
            linked.proto = self.no_program.clone();
            self.set_chunk(u32::MAX);
        }
        true
    }

    /// Sets the prototype of the one closure that runs all chunks, and makes the current globals its globals.
    pub(super) fn set_chunk(&mut self, proto: u32) -> Value {
        let Machine { heap, chunk, .. } = &mut self.machine;
        let closure = heap.closures.at_mut(chunk.0);
        (closure.proto, closure.env) = (proto, heap.globals.unwrap_or_default().0);
        (*chunk).into()
    }

    pub(super) fn has_loaded(&self, chunk: LoadedChunk) -> bool {
        self.machine.code.own(chunk.code).is_some_and(|linked| linked.loaded == chunk.number)
    }

    /// Links a prototype, whose objects will lie before the mark (`api.rs`); returns the index of its copy in
    /// the machine.
    pub(crate) fn link(&mut self, proto: &Arc<Proto>) -> Result<u32, Fault> {
        self.machine.is_permanent = true;
        let watching = std::mem::replace(&mut self.machine.heap.watching, false);
        // The mark is dropped so that the slots of unloaded chunks are used again.
        let reuses = self.drop_mark_if(|arena| arena > 0);
        let linked = link::link_into(&mut self.machine, proto);
        self.machine.heap.watching = watching;
        self.machine.is_permanent = false;
        if linked.is_err() && !reuses {
            // The load has failed. All objects that it made are after the mark, so they are freed.
            self.machine.heap.forget_young_greys(&self.machine.code);
            self.truncate();
        } else {
            self.mark();
        }
        linked
    }

    /// Calls `visit` for the string constants of a chunk and its inner functions, until it returns false.
    /// Returns false in that case.
    pub fn visit_texts(&self, chunk: LoadedChunk, visit: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut open = vec![chunk.code];
        while let Some(linked) = open.pop().and_then(|index| self.machine.code.own(index)) {
            open.extend_from_slice(&linked.inner);
            let texts = linked.consts.iter().filter_map(|value| value.as_str());
            for text in texts {
                if !visit(self.machine.heap.bytes(text)) {
                    return false;
                }
            }
        }
        true
    }
}
