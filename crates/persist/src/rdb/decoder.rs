//! A decoder of a file that arrives in pieces. It keeps no bytes except those of the value being decoded.
//!
//! Invariants: (1) a part that needs more bytes has changed nothing and is decoded again from the same
//! position; (2) the memory of a value, a key or a field grows as its bytes arrive, never by an
//! announced length; a compressed string takes at most 264 times its bytes; (3) a value is returned only
//! after each part of it was checked.

use super::crc::Sum;
use super::cursor::{InputCursor, ReadStop, TextHead};
use super::error::{LoadError, Problem};
use super::foreign::{ForeignType, ModuleType};
use super::hash::{self, HashBuilder, HashForm};
use super::kind::{Dialect, ForeignForm, ListForm, MODULE_RECORD, SetForm, ValueKind, ZsetForm};
use super::list::{self, ListBuilder};
use super::set::SetBuilder;
use super::skip::Skip;
use super::stream::StreamBuilder;
use super::zset::{self, ZsetBuilder};
use super::{Item, Loaded, LoadedEntry, Mended, ReadOptions, SlotSizes, Unknown, Usage, op};
use sluice_value::Pages;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// The decoder of a file, or of a single value.
#[derive(Debug)]
pub(super) struct Decoder {
    options: ReadOptions,
    dialect: Dialect,
    version: u32,
    /// Offset in the file of the next step's input.
    offset: u64,
    sum: Sum,
    state: DecoderState,
    /// The fields that precede the next value.
    head: ValueHead,
    /// Whether the file has ended with zeros in place of a checksum.
    is_unsummed: bool,
}

/// The part of the file that is decoded next.
#[derive(Debug)]
enum DecoderState {
    Header,
    /// A type with its key, or an opcode.
    Item,
    /// The value of a string.
    String,
    /// The rest of a long string: `left` bytes.
    Pages {
        left: u64,
        pages: Pages,
    },
    /// The number of a list's nodes.
    ListLen(ListForm),
    /// The next `left` nodes of a list.
    List {
        form: ListForm,
        left: u64,
        builder: Box<ListBuilder>,
    },
    /// The number of a hash's fields.
    HashLen(HashForm),
    /// The next `left` fields of a hash.
    Hash {
        form: HashForm,
        left: u64,
        builder: Box<HashBuilder>,
    },
    /// A hash that is stored as one text, such as a listpack.
    HashText(HashForm),
    /// The next part of a stream.
    Stream(Box<StreamBuilder>),
    /// The number of a sorted set's elements.
    ZsetLen(ZsetForm),
    /// The number of a set's members.
    SetLen,
    /// The next `left` parts of a set.
    Set {
        form: SetForm,
        left: u64,
        builder: Box<SetBuilder>,
    },
    /// The next `left` elements of a sorted set, or the whole set as one text.
    Zset {
        form: ZsetForm,
        left: u64,
        builder: Box<ZsetBuilder>,
    },
    /// A value of a type that this server lacks; the type is at `offset`. It is refused or skipped.
    Foreign {
        form: ForeignForm,
        offset: u64,
    },
    /// The rest of a value that is skipped; an item reports the skipped key afterwards.
    SkipValue {
        skip: Skip,
        kind: ForeignType,
        offset: u64,
    },
    /// The rest of a module's record, which began at `offset`.
    ModuleRecord {
        skip: Skip,
        module: ModuleType,
        offset: u64,
    },
    Checksum,
    Ended,
}

/// The fields that precede a value.
#[derive(Debug, Default)]
struct ValueHead {
    key: Vec<u8>,
    expiry_ms: Option<i64>,
    usage: Usage,
}

/// The result of one step.
#[derive(Debug)]
pub(super) enum DecodeStep<'i> {
    /// The next item of the file.
    Item(Item<'i>),
    /// The file has ended.
    End,
    /// No item is complete: `bytes` bytes must follow those that were taken. The missing bytes belong at
    /// `offset` of the file.
    Need { bytes: usize, offset: u64 },
}

/// The result of decoding a part.
enum DecodedPart<'i> {
    Nothing,
    Item(Item<'i>),
}

impl Decoder {
    /// A decoder at the beginning of a file.
    pub(super) fn new(options: ReadOptions) -> Decoder {
        let (state, head) = (DecoderState::Header, ValueHead::default());
        Decoder {
            options,
            dialect: Dialect::Redis,
            version: 0,
            offset: 0,
            sum: Sum::new(),
            state,
            head,
            is_unsummed: false,
        }
    }

    /// A decoder at the beginning of a single value of type `kind`, which is at `offset`.
    pub(super) fn of_value(kind: ValueKind, offset: u64, options: ReadOptions) -> Decoder {
        let mut decoder = Decoder::new(options);
        decoder.offset = offset;
        decoder.begin_value(kind, offset);
        decoder
    }

    /// Whether the file has ended with zeros in place of a checksum.
    pub(super) fn is_unsummed(&self) -> bool {
        self.is_unsummed
    }

    /// The version in the header; 0 before the header was read.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// The key whose value is being decoded, and the name of the value's type; `None` outside of a value.
    pub(super) fn under_way(&self) -> Option<(&[u8], &'static str)> {
        let kind = match self.state {
            DecoderState::String | DecoderState::Pages { .. } => "string",
            DecoderState::ListLen(_) | DecoderState::List { .. } => "list",
            DecoderState::HashLen(_) | DecoderState::Hash { .. } | DecoderState::HashText(_) => "hash",
            DecoderState::Stream(_) => "stream",
            DecoderState::ZsetLen(_) | DecoderState::Zset { .. } => "zset",
            DecoderState::SetLen | DecoderState::Set { .. } => "set",
            DecoderState::Foreign { form: ForeignForm::PathHash, .. }
            | DecoderState::SkipValue { kind: ForeignType::PathHash, .. } => "path hash",
            DecoderState::Foreign { .. } | DecoderState::SkipValue { .. } => "module",
            DecoderState::Header
            | DecoderState::Item
            | DecoderState::ModuleRecord { .. }
            | DecoderState::Checksum
            | DecoderState::Ended => return None,
        };
        Some((&self.head.key, kind))
    }

    /// Decodes the next item from `input` and returns the number of its bytes that were used; the next
    /// call gets the rest.
    pub(super) fn step<'i>(&mut self, input: &'i [u8]) -> Result<(usize, DecodeStep<'i>), LoadError> {
        // All bytes before `taken` are decoded, and those before `summed` are in the checksum.
        let (mut taken, mut summed) = (0, 0);
        let step = loop {
            match self.state {
                DecoderState::Ended => break DecodeStep::End,
                DecoderState::Checksum => {
                    self.add_up(&input[summed..taken]);
                    summed = taken;
                }
                _ => {}
            }
            let mut cursor = InputCursor::new(&input[taken..], self.offset);
            let found = self.part(&mut cursor);
            match found {
                Ok(found) => {
                    taken += cursor.at();
                    self.offset += cursor.at() as u64;
                    if let DecodedPart::Item(item) = found {
                        break DecodeStep::Item(item);
                    }
                }
                Err(ReadStop::Need { total, offset }) => break DecodeStep::Need { bytes: total, offset },
                Err(ReadStop::Bad(error)) => return Err(*error),
            }
        };
        self.add_up(&input[summed..taken]);
        Ok((taken, step))
    }

    fn add_up(&mut self, bytes: &[u8]) {
        if self.options.checksum {
            self.sum.add(bytes);
        }
    }

    /// Decodes the part that the state names.
    fn part<'i>(&mut self, cursor: &mut InputCursor<'i>) -> Result<DecodedPart<'i>, ReadStop> {
        match &mut self.state {
            DecoderState::Header => self.header(cursor),
            DecoderState::Item => self.item(cursor),
            DecoderState::String => self.string(cursor),
            DecoderState::Pages { left, pages } => {
                let bytes = cursor.take_some(*left)?;
                pages.append(bytes);
                *left -= bytes.len() as u64;
                if *left > 0 {
                    return Ok(DecodedPart::Nothing);
                }
                let pages = std::mem::take(pages);
                Ok(self.entry(Loaded::Pages(pages)))
            }
            DecoderState::ListLen(form) => {
                let (form, left) = (*form, cursor.len()?);
                self.begin_list(form, left);
                Ok(self.list_end())
            }
            DecoderState::List { form, left, builder } => {
                node(*form, builder, cursor)?;
                *left -= 1;
                Ok(self.list_end())
            }
            DecoderState::HashLen(form) => {
                let form = *form;
                self.begin_hash(form, cursor)
            }
            DecoderState::Hash { form, left, builder } => {
                field(*form, builder, cursor)?;
                *left -= 1;
                Ok(self.hash_end())
            }
            DecoderState::HashText(form) => {
                let form = *form;
                self.hash_text(form, cursor)
            }
            DecoderState::Stream(builder) => match builder.step(cursor)? {
                Some((stream, mended)) => Ok(self.mended_entry(Loaded::Stream(stream), mended)),
                None => Ok(DecodedPart::Nothing),
            },
            DecoderState::SetLen => {
                let left = cursor.len()?;
                self.begin_set(SetForm::Members, left);
                Ok(self.set_end())
            }
            DecoderState::Set { form, left, builder } => {
                member(*form, builder, cursor)?;
                *left -= 1;
                Ok(self.set_end())
            }
            DecoderState::ZsetLen(form) => {
                let (form, left) = (*form, cursor.len()?);
                self.begin_zset(form, left);
                self.zset_end(cursor)
            }
            DecoderState::Zset { form, left, builder } => {
                zset::part(*form, builder, cursor)?;
                *left -= 1;
                self.zset_end(cursor)
            }
            DecoderState::Foreign { .. }
            | DecoderState::SkipValue { .. }
            | DecoderState::ModuleRecord { .. } => self.pass_over(cursor),
            DecoderState::Checksum => self.checksum(cursor),
            DecoderState::Ended => Ok(DecodedPart::Nothing),
        }
    }

    /// Decodes the number of a hash's fields, after the earliest expiry in the forms that have one.
    fn begin_hash<'i>(
        &mut self,
        form: HashForm,
        cursor: &mut InputCursor<'i>,
    ) -> Result<DecodedPart<'i>, ReadStop> {
        let first_ms = match form {
            _ if form.begins_with_expiry() => i64::from_le_bytes(cursor.array()?),
            // Draft expiries count from the epoch, as if the earliest expiry were 1 ms.
            HashForm::DraftPairs => 1,
            _ => 0,
        };
        let left = cursor.len()?;
        let builder = Box::new(HashBuilder::new(form, first_ms, left, self.options.hash));
        self.state = DecoderState::Hash { form, left, builder };
        Ok(self.hash_end())
    }

    /// Decodes a hash that is stored as one text.
    fn hash_text<'i>(
        &mut self,
        form: HashForm,
        cursor: &mut InputCursor<'i>,
    ) -> Result<DecodedPart<'i>, ReadStop> {
        if form.begins_with_expiry() {
            // The earliest expiry is dropped, because the listpack contains it again.
            cursor.array::<8>()?;
        }
        let offset = cursor.offset();
        match hash::of_text(form, &cursor.text()?, self.options.hash) {
            None if form == HashForm::Zipmap => cursor.bad(offset, Problem::Zipmap),
            None => cursor.bad(offset, Problem::Hash),
            Some(hash) if hash.is_empty() => Ok(self.empty()),
            Some(hash) => Ok(self.entry(Loaded::Hash(hash))),
        }
    }

    /// Refuses a value of a type that this server lacks, or begins to skip it.
    fn foreign<'i>(
        &mut self,
        form: ForeignForm,
        offset: u64,
        cursor: &mut InputCursor<'i>,
    ) -> Result<DecodedPart<'i>, ReadStop> {
        let kind = form.type_ahead(cursor)?;
        match (form.parts(), self.options.unknown) {
            (Some(parts), Unknown::Skip) => {
                self.state = DecoderState::SkipValue { skip: Skip::new(parts), kind, offset };
                Ok(DecodedPart::Nothing)
            }
            (None, _) | (_, Unknown::Refuse) => {
                let key = self.head.key.clone();
                cursor.bad(offset, Problem::Unsupported { kind, key })
            }
        }
    }

    /// Refuses a foreign value or begins to skip it, or continues to skip a value or a record.
    fn pass_over<'i>(&mut self, cursor: &mut InputCursor<'i>) -> Result<DecodedPart<'i>, ReadStop> {
        match &mut self.state {
            DecoderState::Foreign { form, offset } => {
                let (form, offset) = (*form, *offset);
                self.foreign(form, offset, cursor)
            }
            DecoderState::SkipValue { skip, kind, offset } => {
                let ended = skip.step(cursor)?;
                let (kind, offset) = (*kind, *offset);
                if !ended {
                    return Ok(DecodedPart::Nothing);
                }
                self.state = DecoderState::Item;
                let head = std::mem::take(&mut self.head);
                let ValueHead { key, expiry_ms, .. } = head;
                Ok(DecodedPart::Item(Item::Skipped { key, kind, offset, expiry_ms }))
            }
            DecoderState::ModuleRecord { skip, module, offset } => {
                if !skip.step(cursor)? {
                    return Ok(DecodedPart::Nothing);
                }
                let (module, bytes) = (*module, cursor.offset() - *offset);
                self.state = DecoderState::Item;
                Ok(DecodedPart::Item(Item::ModuleRecord { module, bytes }))
            }
            _ => Ok(DecodedPart::Nothing),
        }
    }

    fn header<'i>(&mut self, cursor: &mut InputCursor<'i>) -> Result<DecodedPart<'i>, ReadStop> {
        // A file that is no RDB file is refused before nine bytes have arrived.
        let mut head = [0; HEADER_LEN];
        let mut peek = *cursor;
        let mut come = 0;
        while come < HEADER_LEN
            && let Ok(byte) = peek.byte()
        {
            head[come] = byte;
            come += 1;
        }
        let known = header_of(&head[..come], self.options.unknown);
        let (dialect, version) = match known {
            Ok(Some(header)) => header,
            // Reports how many bytes are missing.
            Ok(None) => return peek.byte().map(|_| DecodedPart::Nothing),
            Err(error) => return cursor.bad(0, error.problem),
        };
        cursor.take(HEADER_LEN as u64)?;
        (self.dialect, self.version, self.state) = (dialect, version, DecoderState::Item);
        Ok(DecodedPart::Nothing)
    }

    /// Decodes a type and a key, or an opcode and its arguments.
    fn item<'i>(&mut self, cursor: &mut InputCursor<'i>) -> Result<DecodedPart<'i>, ReadStop> {
        let offset = cursor.offset();
        let item = match cursor.byte()? {
            op::EXPIRY_MS => {
                self.head.expiry_ms = Some(i64::from_le_bytes(cursor.array()?));
                return Ok(DecodedPart::Nothing);
            }
            op::EXPIRY_S => {
                self.head.expiry_ms = Some(i64::from(i32::from_le_bytes(cursor.array()?)) * 1000);
                return Ok(DecodedPart::Nothing);
            }
            op::IDLE => {
                self.head.usage = Usage::Idle(cursor.len()?);
                return Ok(DecodedPart::Nothing);
            }
            op::FREQUENCY => {
                self.head.usage = Usage::Frequency(cursor.byte()?);
                return Ok(DecodedPart::Nothing);
            }
            op::MODULE_AUX => {
                let module = ModuleType(cursor.len()?);
                // Two numbers are read and not used: the first announces the second, which says when the
                // module wants the record.
                let _ = (cursor.len()?, cursor.len()?);
                self.state = DecoderState::ModuleRecord { skip: Skip::new(MODULE_RECORD), module, offset };
                return Ok(DecodedPart::Nothing);
            }
            op::EOF => {
                // Files of versions before `SUMMED_FROM` have no checksum.
                self.state =
                    if self.version >= SUMMED_FROM { DecoderState::Checksum } else { DecoderState::Ended };
                return Ok(DecodedPart::Nothing);
            }
            op::AUX => Item::Aux(cursor.text()?, cursor.text()?),
            op::SELECT_DB => Item::Db(cursor.len()?),
            op::RESIZE_DB => Item::Sizes(cursor.len()?, cursor.len()?),
            op::SLOT_INFO => Item::Slot(slot_sizes(cursor)?),
            op::SLOT_IMPORT if self.dialect == Dialect::Valkey => slot_import(cursor)?,
            op::FUNCTION => Item::Function(cursor.text()?),
            op::FUNCTION_OLD => return cursor.bad(offset, Problem::OldFunction),
            number => {
                let Some(kind) = ValueKind::of(number, self.dialect) else {
                    return cursor.bad(offset, Problem::Unknown(number));
                };
                if matches!(kind, ValueKind::String)
                    && let Some((key, text)) = cursor.short_pair()
                {
                    return Ok(self.entry_of(Cow::Borrowed(key), Loaded::Str(text), None));
                }
                self.head.key = cursor.text()?.into_owned();
                self.begin_value(kind, offset);
                return Ok(DecodedPart::Nothing);
            }
        };
        Ok(DecodedPart::Item(item))
    }

    /// Prepares for a value of this type, which begins at `offset`.
    fn begin_value(&mut self, kind: ValueKind, offset: u64) {
        match kind {
            ValueKind::String => self.state = DecoderState::String,
            ValueKind::List(ListForm::Ziplist) => self.begin_list(ListForm::Ziplist, 1),
            ValueKind::List(form) => self.state = DecoderState::ListLen(form),
            ValueKind::Hash(form) if form.is_counted() => self.state = DecoderState::HashLen(form),
            ValueKind::Hash(form) => self.state = DecoderState::HashText(form),
            ValueKind::Stream(form) => self.state = DecoderState::Stream(Box::new(StreamBuilder::new(form))),
            ValueKind::Set(SetForm::Members) => self.state = DecoderState::SetLen,
            ValueKind::Set(form) => self.begin_set(form, 1),
            ValueKind::Zset(form @ (ZsetForm::Ziplist | ZsetForm::Listpack)) => self.begin_zset(form, 1),
            ValueKind::Zset(form @ (ZsetForm::Texts | ZsetForm::Doubles)) => {
                self.state = DecoderState::ZsetLen(form);
            }
            ValueKind::Foreign(form) => self.state = DecoderState::Foreign { form, offset },
        }
    }

    fn begin_list(&mut self, form: ListForm, left: u64) {
        let builder = Box::new(ListBuilder::new(self.options.list));
        self.state = DecoderState::List { form, left, builder };
    }

    /// Returns the list, or reports it as empty, if no more nodes follow.
    fn list_end<'i>(&mut self) -> DecodedPart<'i> {
        match std::mem::replace(&mut self.state, DecoderState::Item) {
            DecoderState::List { left: 0, builder, .. } => match builder.finish() {
                Some(list) => self.entry(Loaded::List(list)),
                None => self.empty(),
            },
            state => {
                self.state = state;
                DecodedPart::Nothing
            }
        }
    }

    /// Returns the hash, or reports it as empty, if no more fields follow.
    fn hash_end<'i>(&mut self) -> DecodedPart<'i> {
        match std::mem::replace(&mut self.state, DecoderState::Item) {
            DecoderState::Hash { left: 0, builder, .. } => match builder.finish() {
                Some(hash) => self.entry(Loaded::Hash(hash)),
                None => self.empty(),
            },
            state => {
                self.state = state;
                DecodedPart::Nothing
            }
        }
    }

    fn begin_set(&mut self, form: SetForm, left: u64) {
        let builder = Box::new(SetBuilder::new(self.options.set, left));
        self.state = DecoderState::Set { form, left, builder };
    }

    /// Returns the set, or reports it as empty, if no more parts follow.
    fn set_end<'i>(&mut self) -> DecodedPart<'i> {
        match std::mem::replace(&mut self.state, DecoderState::Item) {
            DecoderState::Set { left: 0, builder, .. } => match builder.finish() {
                Some(set) => self.entry(Loaded::Set(set)),
                None => self.empty(),
            },
            state => {
                self.state = state;
                DecodedPart::Nothing
            }
        }
    }

    /// Reports the key as one whose value has no elements.
    fn empty<'i>(&mut self) -> DecodedPart<'i> {
        self.state = DecoderState::Item;
        DecodedPart::Item(Item::Empty { key: std::mem::take(&mut self.head).key })
    }

    fn begin_zset(&mut self, form: ZsetForm, left: u64) {
        let builder = Box::new(ZsetBuilder::new(&self.options));
        self.state = DecoderState::Zset { form, left, builder };
    }

    /// Returns the sorted set, or reports it as empty, if no more parts follow. Errors: it is malformed.
    fn zset_end<'i>(&mut self, cursor: &InputCursor<'i>) -> Result<DecodedPart<'i>, ReadStop> {
        match std::mem::replace(&mut self.state, DecoderState::Item) {
            DecoderState::Zset { form, left: 0, builder } => match builder.finish() {
                Ok(Some(zset)) => Ok(self.entry(Loaded::Zset(zset))),
                Ok(None) => Ok(DecodedPart::Item(Item::Empty { key: std::mem::take(&mut self.head).key })),
                Err(problem) => {
                    // Restores the state, so that the error can name the key.
                    self.state = DecoderState::ZsetLen(form);
                    cursor.bad(cursor.offset(), problem)
                }
            },
            state => {
                self.state = state;
                Ok(DecodedPart::Nothing)
            }
        }
    }

    /// Decodes a string. A long one goes into pages as its bytes arrive; any other must
    /// have arrived completely.
    fn string<'i>(&mut self, cursor: &mut InputCursor<'i>) -> Result<DecodedPart<'i>, ReadStop> {
        let mut peek = *cursor;
        match peek.text_head()? {
            TextHead::Plain(left) if left > WHOLE_BYTES_MAX => {
                *cursor = peek;
                self.state = DecoderState::Pages { left, pages: Pages::new() };
                Ok(DecodedPart::Nothing)
            }
            TextHead::Plain(_) | TextHead::Int(_) | TextHead::Lzf { .. } => {
                let text = cursor.text()?;
                Ok(self.entry(Loaded::Str(text)))
            }
        }
    }

    /// Returns the key with its value.
    fn entry<'i>(&mut self, value: Loaded<'i>) -> DecodedPart<'i> {
        self.mended_entry(value, None)
    }

    fn mended_entry<'i>(&mut self, value: Loaded<'i>, mended: Option<Mended>) -> DecodedPart<'i> {
        self.state = DecoderState::Item;
        let key = Cow::Owned(std::mem::take(&mut self.head.key));
        self.entry_of(key, value, mended)
    }

    /// Returns a key with its value, its expiry and its usage.
    fn entry_of<'i>(
        &mut self,
        key: Cow<'i, [u8]>,
        value: Loaded<'i>,
        mended: Option<Mended>,
    ) -> DecodedPart<'i> {
        let (expiry_ms, usage) = (self.head.expiry_ms.take(), std::mem::take(&mut self.head.usage));
        DecodedPart::Item(Item::LoadedEntry(LoadedEntry { key, value, expiry_ms, usage, mended }))
    }

    fn checksum<'i>(&mut self, cursor: &mut InputCursor<'i>) -> Result<DecodedPart<'i>, ReadStop> {
        let offset = cursor.offset();
        let wanted = u64::from_le_bytes(cursor.array()?);
        // Zeros mean that there is no checksum.
        self.is_unsummed = wanted == 0;
        if self.options.checksum && wanted != 0 && wanted != self.sum.value() {
            return cursor.bad(offset, Problem::Checksum);
        }
        self.state = DecoderState::Ended;
        Ok(DecodedPart::Nothing)
    }
}

/// The dialect and version of a file, according to the bytes of its header that have arrived; `None` if
/// more bytes are needed. Errors: the file cannot be read.
pub(super) fn header_of(head: &[u8], unknown: Unknown) -> Result<Option<(Dialect, u32)>, LoadError> {
    let bad = |problem| Err(LoadError { offset: 0, problem });
    let fits = |(at, byte): (usize, &u8)| {
        [b"VALKEY000", b"REDIS0000"]
            .iter()
            .any(|magic| if magic[at] == b'0' { byte.is_ascii_digit() } else { *byte == magic[at] })
    };
    if !head.iter().enumerate().all(fits) {
        return bad(Problem::Magic);
    }
    if head.len() < HEADER_LEN {
        return Ok(None);
    }
    let (dialect, digits) = match (head.strip_prefix(b"VALKEY"), head.strip_prefix(b"REDIS")) {
        (Some(digits), _) => (Dialect::Valkey, digits),
        (None, Some(digits)) => (Dialect::Redis, digits),
        (None, None) => return bad(Problem::Magic),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return bad(Problem::Magic);
    }
    let version = digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    let known = match dialect {
        Dialect::Redis => (1..=VERSION_REDIS_MAX).contains(&version),
        Dialect::Valkey => VERSIONS_VALKEY.contains(&version),
    };
    match !known && (version == 0 || unknown == Unknown::Refuse) {
        true => bad(Problem::Version(version)),
        false => Ok(Some((dialect, version))),
    }
}

/// Decodes a node of a list.
fn node(form: ListForm, builder: &mut ListBuilder, cursor: &mut InputCursor<'_>) -> Result<(), ReadStop> {
    let offset = cursor.offset();
    let container = if form == ListForm::Nodes { cursor.len()? } else { list::PACKED };
    let is_node = match (form, container) {
        (ListForm::Elements, _) => {
            builder.add_plain(&cursor.text()?);
            true
        }
        (ListForm::Nodes, list::PLAIN) => {
            let element = cursor.text()?;
            // As in the reference, a node that is an element without bytes is refused.
            let has_bytes = !element.is_empty();
            if has_bytes {
                builder.add_plain(&element);
            }
            has_bytes
        }
        (ListForm::Nodes, list::PACKED) => builder.add_listpack(&cursor.text()?),
        (ListForm::Ziplist | ListForm::Ziplists, _) => builder.add_ziplist(&cursor.text()?),
        (ListForm::Nodes, _) => false,
    };
    if is_node { Ok(()) } else { cursor.bad(offset, Problem::List) }
}

/// The value in place of the expiry of a field that has none.
const NO_FIELD_EXPIRY: i64 = -1;

/// Decodes a field of a hash.
fn field(form: HashForm, builder: &mut HashBuilder, cursor: &mut InputCursor<'_>) -> Result<(), ReadStop> {
    let offset = cursor.offset();
    if matches!(form, HashForm::RedisPairs | HashForm::DraftPairs) {
        let expiry = builder.expiry_of(cursor.len()?);
        let (name, value) = (cursor.text()?, cursor.text()?);
        let is_new = expiry.is_ok_and(|expiry| builder.add(&name, &value, expiry));
        return if is_new { Ok(()) } else { cursor.bad(offset, Problem::Hash) };
    }
    let (name, value) = (cursor.text()?, cursor.text()?);
    let expiry = match form {
        HashForm::Volatile => i64::from_le_bytes(cursor.array()?),
        HashForm::Pairs
        | HashForm::Zipmap
        | HashForm::Ziplist
        | HashForm::Listpack
        | HashForm::RedisPairs
        | HashForm::RedisListpack
        | HashForm::DraftPairs
        | HashForm::DraftListpack => NO_FIELD_EXPIRY,
    };
    if expiry < NO_FIELD_EXPIRY {
        return cursor.bad(offset, Problem::Hash);
    }
    let is_new = builder.add(&name, &value, Some(expiry).filter(|at| *at != NO_FIELD_EXPIRY));
    if is_new { Ok(()) } else { cursor.bad(offset, Problem::Hash) }
}

/// Decodes a part of a set: one member, or all members as one text.
fn member(form: SetForm, builder: &mut SetBuilder, cursor: &mut InputCursor<'_>) -> Result<(), ReadStop> {
    let offset = cursor.offset();
    if builder.add(form, &cursor.text()?) {
        return Ok(());
    }
    cursor.bad(offset, Problem::Set)
}

fn slot_sizes(cursor: &mut InputCursor<'_>) -> Result<SlotSizes, ReadStop> {
    let slot = slot(cursor)?;
    Ok(SlotSizes { slot, keys: cursor.len()?, expires: cursor.len()? })
}

/// Decodes an import of slots: its name and its slots.
fn slot_import<'i>(cursor: &mut InputCursor<'i>) -> Result<Item<'i>, ReadStop> {
    let name_at = cursor.offset();
    let name = cursor.text()?;
    if name.len() != IMPORT_NAME_LEN {
        return cursor.bad(name_at, Problem::ImportName);
    }
    let offset = cursor.offset();
    let count = cursor.len()?;
    if count == 0 || count > u64::from(SLOTS) {
        return cursor.bad(offset, Problem::Length);
    }
    let (mut ranges, mut seen) = (Vec::new(), [false; SLOTS as usize]);
    for _ in 0..count {
        let offset = cursor.offset();
        let (start, end) = (cursor.len()?, cursor.len()?);
        // Ranges must not overlap, so iterating over the slots takes at most 16,384 steps.
        let slots = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let slots =
            slots.and_then(|(start, end)| seen.get_mut(start..=end)).filter(|slots| !slots.is_empty());
        match (slots, u16::try_from(start), u16::try_from(end)) {
            (Some(slots), Ok(first), Ok(last)) if !slots.contains(&true) => {
                slots.fill(true);
                ranges.push((first, last));
            }
            _ => return cursor.bad(offset, Problem::ImportRange { start, end }),
        }
    }
    Ok(Item::SlotImport { name, ranges })
}

fn slot(cursor: &mut InputCursor<'_>) -> Result<u16, ReadStop> {
    let offset = cursor.offset();
    match u16::try_from(cursor.len()?) {
        Ok(slot) if slot < SLOTS => Ok(slot),
        _ => cursor.bad(offset, Problem::Length),
    }
}

pub(super) const HEADER_LEN: usize = 9;
/// The first version whose files have a checksum.
pub(super) const SUMMED_FROM: u32 = 5;
/// The last RDB version of Redis whose types and opcodes are known.
const VERSION_REDIS_MAX: u32 = 13;
/// The RDB versions from that of Valkey 9.0 to that of 9.2.
pub(super) const VERSIONS_VALKEY: RangeInclusive<u32> = VERSION_VALKEY..=81;
/// The RDB version of Valkey 9.0, in which payloads and files for Valkey 9 are written.
pub(super) const VERSION_VALKEY: u32 = 80;
/// Longer strings that are not compressed go into pages as they arrive, because the keyspace keeps
/// strings of this size in pages.
const WHOLE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the name of an import of slots.
const IMPORT_NAME_LEN: usize = 40;
/// Number of hash slots in a cluster.
const SLOTS: u16 = 16_384;
