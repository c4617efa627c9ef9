//! Images. An image has the objects of a machine that was sealed (`Vm::seal`) before it loaded a program; all
//! machines with the same libraries share them.
//!
//! Invariants: (1) an image never changes: its tables are read-only, its strings are hashed, and each table
//! has recorded which metamethods it lacks; (2) objects of an image refer only to objects of the image.

use std::sync::Arc;

use crate::arena::{Arena, Object};
use crate::heap::{Heap, HostState, REMEMBERED};
use crate::native::Native;
use crate::object::NativeClosure;
use crate::strings::StringSlot;
use crate::symbols::{MachineSymbols, SymbolTable};
use crate::table::{LuaTable, guard};
use crate::value::{StrRef, TableRef, Value};
use crate::vm::Known;
use crate::vm::machine::Machine;

/// The objects shared by machines with the same libraries: see [`crate::Vm::of_image`].
#[derive(Clone, Debug)]
pub struct VmImage(Arc<ImageParts>);

#[derive(Debug)]
struct ImageParts {
    texts: Arc<[StringSlot]>,
    tables: Arc<[LuaTable]>,
    closures: Arc<[NativeClosure]>,
    natives: Arc<Vec<Native>>,
    symbols: Arc<SymbolTable>,
    events: Arc<[(Value, u32)]>,
    globals: Option<TableRef>,
    string_meta: Option<TableRef>,
    joiner: Value,
    known: Known,
    looks_into_errors: bool,
    host: HostState,
    /// Bytes of the image, which count as in use in each machine.
    bytes: usize,
}

impl VmImage {
    /// The image of a sealed machine without a chunk.
    pub(crate) fn of(machine: Machine, host: HostState) -> VmImage {
        let Machine { mut heap, natives, symbols, known, looks_into_errors, .. } = machine;
        for index in 0..heap.strings.texts.slots.len() as u32 {
            heap.strings.hash(StrRef(index));
        }
        for table in &mut heap.tables.slots {
            table.guard |= guard::READ_ONLY | guard::OLD;
            for (event, (name, hash)) in heap.events.iter().enumerate().take(usize::from(REMEMBERED)) {
                if table.get_str(*name, *hash, &heap.strings).is_nil() {
                    table.lacks |= 1 << event;
                }
            }
        }
        VmImage(Arc::new(ImageParts {
            texts: heap.strings.texts.into_image(),
            tables: heap.tables.into_image(),
            closures: heap.natives.into_image(),
            natives,
            symbols: Arc::new(symbols.own),
            events: heap.events,
            globals: heap.globals,
            string_meta: heap.string_meta,
            joiner: heap.joiner,
            known,
            looks_into_errors,
            host,
            bytes: heap.bytes,
        }))
    }

    /// A machine over the image that may use `limit` bytes, including those of the image.
    pub(crate) fn machine(&self, limit: usize) -> Machine {
        let parts = &*self.0;
        let mut heap = Heap::empty(limit);
        heap.strings.texts = Arena::of_image(&parts.texts);
        heap.tables = Arena::of_image(&parts.tables);
        heap.natives = Arena::of_image(&parts.closures);
        heap.events = parts.events.clone();
        heap.globals = parts.globals;
        heap.string_meta = parts.string_meta;
        heap.joiner = parts.joiner;
        heap.host = parts.host.clone();
        (heap.bytes, heap.shared_bytes) = (parts.bytes, parts.bytes);
        Machine {
            heap,
            natives: parts.natives.clone(),
            known: parts.known,
            symbols: MachineSymbols { shared: Some(parts.symbols.clone()), own: SymbolTable::default() },
            looks_into_errors: parts.looks_into_errors,
            is_permanent: true,
            ..Machine::default()
        }
    }

    /// Approximate heap bytes of the image.
    pub fn footprint(&self) -> usize {
        fn bytes<T: Object>(slots: &[T]) -> usize {
            size_of_val(slots) + slots.iter().map(Object::outside).sum::<usize>()
        }
        let parts = &*self.0;
        bytes(&parts.texts)
            + bytes(&parts.tables)
            + bytes(&parts.closures)
            + size_of_val(&**parts.natives)
            + parts.symbols.footprint()
            + size_of::<ImageParts>()
    }
}
