//! The registry of functions: libraries by name, and their functions by name, whose case does not matter.
//!
//! Invariant: every name in `functions` is that of a function in `libraries`; of two functions of a library
//! whose names differ in case alone, it is the first.

use crate::library::{Library, LibraryFunction, LoadWatch, MachineLimits, library_head, load_library};
use crate::machine::LibraryImages;
use sluice_base::{glob, heap};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A function in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRef {
    /// Its library's slot.
    pub library: u32,
    /// Its index among the library's functions.
    pub index: u32,
}

/// The libraries and their functions: see the module.
#[derive(Debug, Default)]
pub struct Functions {
    libraries: Vec<Option<Box<Library>>>,
    free: Vec<u32>,
    by_name: BTreeMap<Arc<[u8]>, u32>,
    /// By name in lower case.
    functions: BTreeMap<Box<[u8]>, FunctionRef>,
    /// Functions, those included that another name hides.
    count: usize,
    /// Bytes of libraries beside their machines.
    bytes: usize,
    /// Bytes of machines that runs have, as of the last look.
    lent_bytes: usize,
    /// What the machines of libraries are made from.
    images: LibraryImages,
}

/// The libraries that a load has brought, from its thread to the main one.
pub type LoadedFunctions = Arc<Mutex<Option<Functions>>>;

impl Functions {
    /// A registry of these libraries, whose names are all different.
    ///
    /// # Errors
    /// The text of the first error, without a code.
    pub fn of_codes<'a>(
        codes: impl Iterator<Item = &'a Arc<[u8]>>,
        limits: MachineLimits,
        watch: &mut dyn LoadWatch,
    ) -> Result<Functions, Vec<u8>> {
        let mut functions = Functions::default();
        for code in codes {
            functions.load(code.clone(), limits, watch)?;
        }
        Ok(functions)
    }

    /// An empty registry whose libraries will have in common what those of this one have.
    pub fn beside(&self) -> Functions {
        Functions { images: self.images.clone(), ..Functions::default() }
    }

    /// What the machines of libraries are made from.
    pub fn images(&mut self) -> &mut LibraryImages {
        &mut self.images
    }

    /// Loads a library whose name is new, in one go.
    ///
    /// # Errors
    /// The text of the error, without a code.
    pub fn load(
        &mut self,
        code: Arc<[u8]>,
        limits: MachineLimits,
        watch: &mut dyn LoadWatch,
    ) -> Result<(), Vec<u8>> {
        let head = library_head(&code)?;
        self.may_load(&head.name, false)?;
        let library = load_library(head, code, limits, &mut self.images, watch)?;
        self.add(library, false).map(drop)
    }

    /// Whether a library of this name may be loaded.
    ///
    /// # Errors
    /// There is one, and it is not to be replaced.
    pub fn may_load(&self, name: &[u8], replaces: bool) -> Result<(), Vec<u8>> {
        match self.by_name.contains_key(name) && !replaces {
            true => Err([b"Library '", name, b"' already exists"].concat()),
            false => Ok(()),
        }
    }

    /// Adds a library. The one whose place the new one takes comes out.
    ///
    /// # Errors
    /// There is one of that name, which is not replaced, or another library has a function of the same name:
    /// nothing was changed.
    pub fn add(&mut self, library: Library, replaces: bool) -> Result<Option<Box<Library>>, Vec<u8>> {
        self.may_load(&library.name, replaces)?;
        self.find_collision(&library, |slot| self.by_name.get(&library.name) == Some(&slot))?;
        let old = self.remove(&library.name.clone());
        self.insert(Box::new(library));
        Ok(old)
    }

    /// Adds all libraries of another registry. Those whose places they take come out.
    ///
    /// # Errors
    /// As [`Functions::add`]: nothing was changed.
    pub fn join(&mut self, other: Functions, replaces: bool) -> Result<Functions, Vec<u8>> {
        if let Some(name) = other.by_name.keys().find(|name| !replaces && self.by_name.contains_key(*name)) {
            return Err([b"Library ", &**name, b" already exists"].concat());
        }
        let leaves = |slot| self.get(slot).is_some_and(|library| other.by_name.contains_key(&library.name));
        for library in other.iter() {
            self.find_collision(library, leaves)?;
        }
        let mut replaced = Functions::default();
        self.images.adopt(other.images);
        for library in other.libraries.into_iter().flatten() {
            if let Some(old) = self.remove(&library.name.clone()) {
                replaced.insert(old);
            }
            self.insert(library);
        }
        Ok(replaced)
    }

    /// Removes a library.
    pub fn remove(&mut self, name: &[u8]) -> Option<Box<Library>> {
        let slot = self.by_name.remove(name)?;
        let library = self.libraries.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.functions.retain(|_, function| function.library != slot);
        self.count -= library.functions.len();
        self.bytes -= library.footprint();
        Some(library)
    }

    fn insert(&mut self, library: Box<Library>) {
        let slot = self.free.pop().unwrap_or(self.libraries.len() as u32);
        for (index, function) in library.functions.iter().enumerate() {
            let found = FunctionRef { library: slot, index: index as u32 };
            self.functions.entry(function.name.to_ascii_lowercase().into()).or_insert(found);
        }
        self.count += library.functions.len();
        self.bytes += library.footprint();
        self.by_name.insert(library.name.clone(), slot);
        if slot as usize == self.libraries.len() {
            self.libraries.push(None);
        }
        self.libraries[slot as usize] = Some(library);
    }

    /// Whether a function of the library has the name of one that stays: `leaves` says of a slot that its
    /// library goes.
    fn find_collision(&self, library: &Library, leaves: impl Fn(u32) -> bool) -> Result<(), Vec<u8>> {
        let collides = |function: &&LibraryFunction| {
            let found = self.functions.get(&*function.name.to_ascii_lowercase());
            found.is_some_and(|found| !leaves(found.library))
        };
        match library.functions.iter().find(collides) {
            Some(function) => Err([b"Function ", &*function.name, b" already exists"].concat()),
            None => Ok(()),
        }
    }

    /// The function of a name in any case. As in the reference, the name that is asked for ends at a zero
    /// byte.
    pub fn find(&self, name: &[u8]) -> Option<FunctionRef> {
        let name = sluice_commands::until_zero(name);
        if let Some(found) = self.functions.get(name) {
            return Some(*found);
        }
        self.functions.get(&*name.to_ascii_lowercase()).copied()
    }

    /// The slot of a library.
    pub fn slot(&self, name: &[u8]) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The library in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&Library> {
        self.libraries.get(slot as usize)?.as_deref()
    }

    /// The library in a slot, to lend its machine or to take it back.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Library> {
        self.libraries.get_mut(slot as usize)?.as_deref_mut()
    }

    /// A function where it was found.
    pub fn function(&self, found: FunctionRef) -> Option<&LibraryFunction> {
        self.get(found.library)?.functions.get(found.index as usize)
    }

    /// All libraries, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Library> {
        self.by_name.values().filter_map(|slot| self.get(*slot))
    }

    /// The libraries whose names match a pattern in any case, by name.
    pub fn matching<'a>(&'a self, pattern: Option<&'a [u8]>) -> impl Iterator<Item = &'a Library> {
        let pattern = pattern.map(glob::Pattern::nocase);
        self.iter().filter(move |library| pattern.as_ref().is_none_or(|it| it.matches(&library.name)))
    }

    /// The code of all libraries, by name.
    pub fn codes(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.iter().map(|library| &library.code)
    }

    /// How many libraries there are.
    pub fn libraries(&self) -> usize {
        self.by_name.len()
    }

    /// How many functions they have.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A run has a machine of so many bytes, or none.
    pub fn note_lent(&mut self, bytes: usize) {
        self.lent_bytes = bytes;
    }

    /// Gives all machines a limit of bytes. O(libraries).
    pub fn set_limit(&mut self, bytes: usize) {
        let libraries = self.libraries.iter_mut().flatten();
        libraries.filter_map(|library| library.machine.as_mut()).for_each(|machine| machine.set_limit(bytes));
    }

    /// Bytes of all machines. O(libraries).
    pub fn machine_bytes(&self) -> usize {
        let machines = self.libraries.iter().flatten().filter_map(|library| library.machine.as_ref());
        machines.map(|machine| machine.bytes()).sum::<usize>() + self.lent_bytes
    }

    /// Bytes beside the machines, about.
    pub fn footprint(&self) -> usize {
        let names = self.by_name.len() * (size_of::<Arc<[u8]>>() + 8) + self.functions.len() * 48;
        self.bytes + names + heap::vec(&self.libraries) + heap::vec(&self.free) + self.images.footprint()
    }
}

#[cfg(test)]
mod tests;
