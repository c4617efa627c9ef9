//! The registry of functions: libraries by name, and their functions by name in any case.
//!
//! Invariant: every name in `functions` belongs to a function in `libraries`; if the names of two functions
//! of a library differ in case alone, `functions` has the function registered first.

use crate::library::{Library, LibraryFunction, LoadWatch, MachineLimits, library_head, load_library};
use crate::machine::LibraryImages;
use sluice_base::{glob, heap};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The position of a function in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRef {
    /// The slot of the function's library.
    pub library: u32,
    /// The function's index among the functions of its library.
    pub index: u32,
}

/// The libraries and their functions.
#[derive(Debug, Default)]
pub struct Functions {
    libraries: Vec<Option<Box<Library>>>,
    free: Vec<u32>,
    by_name: BTreeMap<Arc<[u8]>, u32>,
    /// Functions by name, in lower case.
    functions: BTreeMap<Box<[u8]>, FunctionRef>,
    /// The number of functions, including functions that are hidden by a name that differs in case alone.
    count: usize,
    /// Bytes of the libraries, without their machines.
    bytes: usize,
    /// Bytes of the machine that a run has taken out of its library, as last measured.
    lent_bytes: usize,
    /// The images from which new machines of libraries are made.
    images: LibraryImages,
}

/// The libraries that a load has read, on their way from the loading thread to the main thread.
pub type LoadedFunctions = Arc<Mutex<Option<Functions>>>;

impl Functions {
    /// A registry of the libraries with these codes. The names of all libraries and functions must differ.
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

    /// An empty registry with the images of this one.
    pub fn beside(&self) -> Functions {
        Functions { images: self.images.clone(), ..Functions::default() }
    }

    /// The images from which new machines of libraries are made.
    pub fn images(&mut self) -> &mut LibraryImages {
        &mut self.images
    }

    /// Loads a library with a new name, and runs its program to the end.
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

    /// Checks whether a library of this name may be loaded.
    ///
    /// # Errors
    /// A library of that name exists, and `replaces` is false.
    pub fn may_load(&self, name: &[u8], replaces: bool) -> Result<(), Vec<u8>> {
        match self.by_name.contains_key(name) && !replaces {
            true => Err([b"Library '", name, b"' already exists"].concat()),
            false => Ok(()),
        }
    }

    /// Adds a library. Returns the replaced library, if any.
    ///
    /// # Errors
    /// A library of that name exists and `replaces` is false, or another library has a function of the same
    /// name. Nothing was changed.
    pub fn add(&mut self, library: Library, replaces: bool) -> Result<Option<Box<Library>>, Vec<u8>> {
        self.may_load(&library.name, replaces)?;
        self.find_collision(&library, |slot| self.by_name.get(&library.name) == Some(&slot))?;
        let old = self.remove(&library.name.clone());
        self.insert(Box::new(library));
        Ok(old)
    }

    /// Adds all libraries of another registry. Returns the replaced libraries.
    ///
    /// # Errors
    /// As for [`Functions::add`]. Nothing was changed.
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

    /// Removes a library and its functions. Returns the library, or `None` if no library has that name.
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

    /// Checks that no function of the library has the name of a function that stays. `leaves` returns
    /// whether the library in a slot will be removed.
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

    /// The function with this name, whose letters may be of either case. As in the reference, `name` ends at
    /// its first zero byte.
    pub fn find(&self, name: &[u8]) -> Option<FunctionRef> {
        let name = sluice_commands::until_zero(name);
        if let Some(found) = self.functions.get(name) {
            return Some(*found);
        }
        self.functions.get(&*name.to_ascii_lowercase()).copied()
    }

    /// The slot of a library by its exact name.
    pub fn slot(&self, name: &[u8]) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The library in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&Library> {
        self.libraries.get(slot as usize)?.as_deref()
    }

    /// The library in a slot, for taking its machine or putting the machine back.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Library> {
        self.libraries.get_mut(slot as usize)?.as_deref_mut()
    }

    /// The function at a position that [`Functions::find`] returned.
    pub fn function(&self, found: FunctionRef) -> Option<&LibraryFunction> {
        self.get(found.library)?.functions.get(found.index as usize)
    }

    /// All libraries, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Library> {
        self.by_name.values().filter_map(|slot| self.get(*slot))
    }

    /// The libraries whose names match a glob pattern in any case (all libraries for `None`), ordered by
    /// name.
    pub fn matching<'a>(&'a self, pattern: Option<&'a [u8]>) -> impl Iterator<Item = &'a Library> {
        let pattern = pattern.map(glob::Pattern::nocase);
        self.iter().filter(move |library| pattern.as_ref().is_none_or(|it| it.matches(&library.name)))
    }

    /// The code of all libraries, by name.
    pub fn codes(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.iter().map(|library| &library.code)
    }

    /// The number of libraries.
    pub fn libraries(&self) -> usize {
        self.by_name.len()
    }

    /// The number of functions, including functions that are hidden by a name that differs in case alone.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Records the size in bytes of the machine that a run has taken; 0 when the machine is back in its
    /// library.
    pub fn note_lent(&mut self, bytes: usize) {
        self.lent_bytes = bytes;
    }

    /// Limits the memory of every library's machine to `bytes`, except a machine that a run has taken.
    /// O(libraries).
    pub fn set_limit(&mut self, bytes: usize) {
        let libraries = self.libraries.iter_mut().flatten();
        libraries.filter_map(|library| library.machine.as_mut()).for_each(|machine| machine.set_limit(bytes));
    }

    /// Bytes of all libraries' machines, including the machine that a run has taken. O(libraries).
    pub fn machine_bytes(&self) -> usize {
        let machines = self.libraries.iter().flatten().filter_map(|library| library.machine.as_ref());
        machines.map(|machine| machine.bytes()).sum::<usize>() + self.lent_bytes
    }

    /// Approximate bytes of the registry, without the machines.
    pub fn footprint(&self) -> usize {
        let names = self.by_name.len() * (size_of::<Arc<[u8]>>() + 8) + self.functions.len() * 48;
        self.bytes + names + heap::vec(&self.libraries) + heap::vec(&self.free) + self.images.footprint()
    }
}

#[cfg(test)]
mod tests;
