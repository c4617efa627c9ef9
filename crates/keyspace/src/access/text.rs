//! Edits of strings: several changes of one string that count as one event.

use super::{DbMut, SetExpiry};
use crate::Key;
use crate::db::Found;
use crate::effects::Event;
use crate::new_value::NewValue;
use crate::view::{Str, WrongType};
use sluice_value::Encoding;

/// A string that is being changed, until [`StrEdit::done`] or [`StrEdit::unchanged`] ends the edit.
pub struct StrEdit<'e, 'd> {
    db: &'e mut DbMut<'d>,
    key: Key<'e>,
    found: Found,
    grew: bool,
}

impl<'d> DbMut<'d> {
    /// Opens the string of a key for changes. The string is converted to the encoding `raw` and, if it
    /// is shorter than `len_min` bytes, is extended with zero bytes to that length; an absent key is
    /// created. The caller has checked the size limit.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_str<'e>(&'e mut self, key: Key<'e>, len_min: usize) -> Result<StrEdit<'e, 'd>, WrongType> {
        let Some(found) = self.find(key) else {
            self.insert(key, NewValue::written(Str::Inline(b""), len_min, b""), SetExpiry::Clear);
            return Ok(self.str_edit(key, true));
        };
        let entry = self.dbs[self.number].entry(found.handle);
        let len = entry.as_str()?.len();
        let is_raw = entry.encoding() == Encoding::Raw;
        let clock = self.access.touch.after(entry.clock());
        self.dbs[self.number].set_clock(found.handle, clock);
        if is_raw && len >= len_min {
            return Ok(StrEdit { db: self, key, found, grew: false });
        }
        match entry_value(self, found) {
            Str::Shared(_) | Str::Pages(_) if len < len_min => {
                self.write_outside(found, len_min, b"");
            }
            Str::Shared(_) | Str::Pages(_) => {}
            Str::Int(_) | Str::Inline(_) => {
                if !self.write_inside(found, len_min, b"") {
                    self.write_anew(found, key, len_min, b"");
                }
            }
        }
        Ok(self.str_edit(key, len < len_min))
    }

    /// Opens the string of a key that exists.
    fn str_edit<'e>(&'e mut self, key: Key<'e>, grew: bool) -> StrEdit<'e, 'd> {
        let found = self.dbs[self.number].find(key).expect("the string was stored just now");
        StrEdit { db: self, key, found, grew }
    }
}

fn entry_value<'a>(db: &'a DbMut<'_>, found: Found) -> Str<'a> {
    db.dbs[db.number].entry(found.handle).as_str().unwrap_or(Str::Inline(b""))
}

impl StrEdit<'_, '_> {
    /// The string, to read.
    pub fn text(&self) -> Str<'_> {
        entry_value(self.db, self.found)
    }

    /// Whether the edit grew or created the string when it began.
    pub fn grew(&self) -> bool {
        self.grew
    }

    /// Writes `bytes` at `offset`; they must end within the string.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.text().len());
        match self.text() {
            Str::Shared(_) | Str::Pages(_) => {
                self.db.write_outside(self.found, offset, bytes);
            }
            Str::Int(_) | Str::Inline(_) => {
                if !self.db.write_inside(self.found, offset, bytes) {
                    self.db.write_anew(self.found, self.key, offset, bytes);
                    self.find_again();
                }
            }
        }
    }

    /// Replaces the whole string with `bytes`.
    pub fn replace(&mut self, bytes: Vec<u8>) {
        self.db.overwrite(self.found, self.key, NewValue::RawOwned(bytes), SetExpiry::Keep);
        self.find_again();
    }

    fn find_again(&mut self) {
        let found = self.db.dbs[self.db.number].find(self.key);
        self.found = found.expect("the string was stored just now");
    }

    /// Ends the edit: `event` happened to the key, which counts as `changes` changes.
    pub fn done(self, event: Event, changes: u64) {
        self.db.effects.key_modified(self.db.number, self.key, event, changes);
    }

    /// Ends an edit that changed nothing. If the edit grew the string, the command is propagated all the
    /// same, so that replicas and the AOF grow the string, too.
    pub fn unchanged(self) {
        if self.grew {
            self.db.effects.force();
        }
    }
}
