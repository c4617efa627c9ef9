//! Chunks of a machine: loaded between runs, kept until they are unloaded, then left to the collector.

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

/// Chunks that are unloaded before a cycle begins for their sake.
const UNLOADED_MAX: usize = 128;

/// Bytes of a chunk for which a slice looks at one value more than [`FULL_WORK`]: as in a run, at 200
/// percent. A new name and its constant are 44 bytes, which the collector handles three times until the name
/// is gone.
const BYTES_PER_VALUE: usize = 8;

impl Vm {
    /// Loads a chunk, which stays until it is unloaded. Not while a run is open. Costs time in proportion to
    /// the chunk's constants, and where a slice of the collector is due, that slice, which is as much longer
    /// as the chunk is.
    ///
    /// # Errors
    /// `not enough memory`, or a run is open.
    pub fn load(&mut self, proto: &Arc<Proto>) -> Result<LoadedChunk, Fault> {
        self.load_counted(proto).map(|(chunk, _)| chunk)
    }

    /// As [`Vm::load`], for a chunk that no other machine loads: of what the compiler has made, what the
    /// machine has of its own goes. Returns the bytes in use that the chunk has brought, too: its constants,
    /// and names that were new to the machine. The program counts elsewhere: see [`Proto::linked_bytes`].
    ///
    /// # Errors
    /// As [`Vm::load`].
    pub fn load_owned(&mut self, proto: Arc<Proto>) -> Result<(LoadedChunk, usize), Fault> {
        let (chunk, brought) = self.load_counted(&proto)?;
        drop(proto);
        link::drop_constants(&mut self.machine.code, chunk.code);
        Ok((chunk, brought))
    }

    /// Loads a chunk. Returns the bytes in use that the chunk has brought, too.
    fn load_counted(&mut self, proto: &Arc<Proto>) -> Result<(LoadedChunk, usize), Fault> {
        if self.stage == VmStage::Running {
            return Err(Fault::text("a run is open"));
        }
        let (code, brought) = match self.link_counted(proto) {
            Ok(linked) => linked,
            Err(_) => {
                // What was unloaded may be in the way.
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
        // Not before the chunk is one of those that are kept. As much as a chunk brings, another one leaves:
        // slices of one size would free less than chunks of many constants leave.
        let work = FULL_WORK + brought / BYTES_PER_VALUE;
        if (heap.slice_due || self.unloaded >= UNLOADED_MAX) && self.machine.collect(Some(work)) {
            self.unloaded = 0;
        }
        Ok((LoadedChunk { code, number }, brought))
    }

    /// The prototype of [`Vm::link`], and the bytes in use that it has brought.
    fn link_counted(&mut self, proto: &Arc<Proto>) -> Result<(u32, usize), Fault> {
        let before = self.bytes();
        let code = self.link(proto)?;
        Ok((code, self.bytes().saturating_sub(before)))
    }

    /// Gives a chunk back: its program goes at once where no run is open, and the rest by slices of the
    /// collector, in loads that follow or by [`Vm::collect`], when no run and no value refers to it any more.
    /// A run of it that is open goes on. False when the chunk was unloaded before. O(1).
    pub fn unload(&mut self, chunk: LoadedChunk) -> bool {
        if !self.has_loaded(chunk) {
            return false;
        }
        self.unloaded += 1;
        let linked = self.machine.code.at_mut(chunk.code);
        linked.loaded = 0;
        // Outside a run it cannot begin again.
        if self.stage != VmStage::Running {
            linked.proto = self.no_program.clone();
            self.set_chunk(u32::MAX);
        }
        true
    }

    /// What chunks run as, with that prototype and the globals of today.
    pub(super) fn set_chunk(&mut self, proto: u32) -> Value {
        let Machine { heap, chunk, .. } = &mut self.machine;
        let closure = heap.closures.at_mut(chunk.0);
        (closure.proto, closure.env) = (proto, heap.globals.unwrap_or_default().0);
        (*chunk).into()
    }

    pub(super) fn has_loaded(&self, chunk: LoadedChunk) -> bool {
        self.machine.code.own(chunk.code).is_some_and(|linked| linked.loaded == chunk.number)
    }

    /// The index of a chunk's prototype, made before the mark.
    pub(crate) fn link(&mut self, proto: &Arc<Proto>) -> Result<u32, Fault> {
        self.machine.is_permanent = true;
        let watching = std::mem::replace(&mut self.machine.heap.watching, false);
        // What chunks that were unloaded left is used again.
        let reuses = self.drop_mark_if(|arena| arena > 0);
        let linked = link::link_into(&mut self.machine, proto);
        self.machine.heap.watching = watching;
        self.machine.is_permanent = false;
        if linked.is_err() && !reuses {
            // What was made so far goes.
            self.machine.heap.forget_young_greys(&self.machine.code);
            self.truncate();
        } else {
            self.mark();
        }
        linked
    }

    /// Visits the texts among all constants of a chunk. False where `visit` answered so, and no more follow.
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
