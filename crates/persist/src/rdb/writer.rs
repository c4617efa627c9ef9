//! A writer of files in pieces: the caller takes the bytes when there are enough.

use super::crc::Sum;
use super::list::{self, CutNode, NodeCutter};
use super::{CompressionMethod, Text, Usage, Version, form, op, zset};
use sluice_base::num::{IntBuffer, parse_i64};
use sluice_base::{Bytes, lzf};
use sluice_collections::listpack;
use sluice_value::{
    Direction, HashEncoding, HashRef, ListItem, ListRef, PAGE_BYTES, Pages, Piece, SetEncoding, SetRef,
    ZsetRef,
};

/// Options of writing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// The readers for which the file is written.
    pub version: Version,
    /// The compression of the file.
    pub compression: Compression,
    /// Config `rdbchecksum`; if off, the checksum is zero.
    pub checksum: bool,
}

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing in the file is compressed.
    None,
    /// Strings of more than 20 bytes and less than 4 GiB are compressed by LZF if that saves 4 bytes or more.
    Strings,
    /// The whole file is compressed: a [`super::Packer`] takes the output of the [`Writer`].
    Whole(CompressionMethod),
}

impl Compression {
    /// Compression of strings if `wanted`, and otherwise no compression.
    pub fn of_strings(wanted: bool) -> Compression {
        if wanted { Compression::Strings } else { Compression::None }
    }
}

/// A file being written.
pub struct Writer {
    out: Vec<u8>,
    /// Number of bytes at the front of `out` that are in the checksum.
    summed: usize,
    sum: Sum,
    options: WriteOptions,
    compresses: bool,
}

impl Writer {
    /// Begins a file with its magic bytes.
    pub fn new(options: WriteOptions) -> Writer {
        let out = options.version.magic().to_vec();
        Writer::with(out, options)
    }

    fn with(out: Vec<u8>, options: WriteOptions) -> Writer {
        let compresses = options.compression == Compression::Strings;
        Writer { out, summed: 0, sum: Sum::new(), options, compresses }
    }

    /// Switches the compression of strings on or off from here on; compression stays off if the options do
    /// not ask for it.
    pub fn compress(&mut self, wanted: bool) {
        self.compresses = wanted && self.options.compression == Compression::Strings;
    }

    /// Begins records without a file around them.
    pub(super) fn records(options: WriteOptions) -> Writer {
        Writer::with(Vec::new(), options)
    }

    /// Begins a single value of type `kind`.
    pub(super) fn of_value(kind: u8, options: WriteOptions) -> Writer {
        Writer::with(vec![kind], options)
    }

    /// Writes an auxiliary field. Its name is a constant of this program, never a name that was read.
    /// Fields precede the first database.
    pub fn aux(&mut self, name: &'static str, value: Text<'_>) {
        self.out.push(op::AUX);
        self.text(Text::Bytes(name.as_bytes()));
        self.text(value);
    }

    /// Writes a function library: its code as it was loaded. Libraries precede the first database.
    pub fn function(&mut self, code: &[u8]) {
        self.out.push(op::FUNCTION);
        self.text(Text::Bytes(code));
    }

    /// Writes an import of slots that is under way: its name, and the first and last slot of each range.
    /// Imports precede the first database, and are not allowed in files of [`Version::Common`].
    pub fn slot_import(&mut self, name: &[u8; 40], ranges: &[(u16, u16)]) {
        self.out.push(op::SLOT_IMPORT);
        self.len(name.len() as u64);
        self.out.extend_from_slice(name);
        self.len(ranges.len() as u64);
        for (first, last) in ranges {
            self.len(u64::from(*first));
            self.len(u64::from(*last));
        }
    }

    /// Selects a database that was begun before.
    pub fn select(&mut self, number: usize) {
        self.out.push(op::SELECT_DB);
        self.len(number as u64);
    }

    /// Begins a database that has `keys` keys, of which `expires` have an expiry.
    pub fn db(&mut self, number: usize, keys: usize, expires: usize) {
        self.select(number);
        self.out.push(op::RESIZE_DB);
        self.len(keys as u64);
        self.len(expires as u64);
    }

    /// Writes a key with a string. `expiry_ms` is in ms since the epoch.
    pub fn string(&mut self, key: &[u8], value: Text<'_>, expiry_ms: Option<i64>, usage: Usage) {
        self.key(op::TYPE_STRING, key, expiry_ms, usage);
        self.text(value);
    }

    /// Writes a key with a string in pages. Pieces are passed to `give`; the rest stays pending. Pages
    /// that are written unchanged are shared with the string, so they are not copied.
    ///
    /// With [`Compression::Strings`], pages are compressed one by one, and the concatenated results are one
    /// compressed string. Its length precedes the string, so the compressed pages are kept until the last
    /// one is done. If too little is saved, the string is written uncompressed.
    pub fn pages(
        &mut self,
        key: &[u8],
        pages: &Pages,
        expiry_ms: Option<i64>,
        usage: Usage,
        give: &mut (impl FnMut(Bytes) + ?Sized),
    ) {
        self.key(op::TYPE_STRING, key, expiry_ms, usage);
        self.value_pages(pages, give);
    }

    /// Writes the value of a string in pages.
    pub(super) fn value_pages(&mut self, pages: &Pages, give: &mut (impl FnMut(Bytes) + ?Sized)) {
        if let Some(small) = self.compressed_pages(pages) {
            self.out.push(form::LZF);
            self.len(small.iter().map(|page| page.len() as u64).sum());
            self.len(pages.len() as u64);
            small.into_iter().for_each(|page| self.give_shared(&page, give));
            return;
        }
        self.len(pages.len() as u64);
        // One buffer of zeros for all holes of the string, created at the first hole.
        let mut hole = None;
        for piece in pages.pieces(0..pages.len()) {
            match piece {
                Piece::Page(page) => self.give_shared(page, give),
                Piece::Zeros(PAGE_BYTES) => {
                    let zeros = hole.get_or_insert_with(|| Bytes::from_vec(vec![0; PAGE_BYTES]));
                    self.give_shared(zeros, give);
                }
                Piece::Part(_) | Piece::Zeros(_) => {
                    self.out.extend_from_slice(piece.bytes());
                    self.give_enough(give);
                }
            }
        }
    }

    /// Writes shared bytes. If there are at least `SHARED_FROM` bytes, they become a piece of their own,
    /// which is not copied.
    fn give_shared(&mut self, bytes: &Bytes, give: &mut (impl FnMut(Bytes) + ?Sized)) {
        if bytes.len() < SHARED_FROM {
            self.out.extend_from_slice(bytes);
            return self.give_enough(give);
        }
        if self.pending() > 0 {
            give(Bytes::from_vec(self.take()));
        }
        if self.options.checksum {
            self.sum.add(bytes);
        }
        give(bytes.clone());
    }

    /// Passes the pending bytes to `give` if there are `GIVEN_FROM` or more.
    pub(super) fn give_enough(&mut self, give: &mut (impl FnMut(Bytes) + ?Sized)) {
        if self.pending() >= GIVEN_FROM {
            give(Bytes::from_vec(self.take()));
        }
    }

    /// The pieces of a string, each compressed; `None` if strings are not to be compressed, if the string has
    /// 4 GiB or more, or if too little is saved. A piece that cannot be compressed takes one more byte for
    /// every 32 bytes. A page of zeros is compressed only once, because a string may have thousands.
    fn compressed_pages(&self, pages: &Pages) -> Option<Vec<Bytes>> {
        let len = pages.len();
        if !self.compresses || len > u32::MAX as usize {
            return None;
        }
        let mut left = len.saturating_sub(COMPRESSION_GAIN);
        let mut all = Vec::new();
        let mut hole: Option<Bytes> = None;
        for piece in pages.pieces(0..len) {
            let is_hole = matches!(piece, Piece::Zeros(PAGE_BYTES));
            let small = match &hole {
                Some(small) if is_hole => small.clone(),
                Some(_) | None => {
                    let bytes = piece.bytes();
                    let mut small = lzf::compress(bytes, left.min(bytes.len() + bytes.len().div_ceil(32)))?;
                    small.shrink_to_fit();
                    Bytes::from_vec(small)
                }
            };
            left = left.checked_sub(small.len())?;
            if is_hole && hole.is_none() {
                hole = Some(small.clone());
            }
            all.push(small);
        }
        Some(all)
    }

    /// Writes a key with a list in nodes of `max_listpack_size`, the setting `list-max-listpack-size`.
    /// Pieces are passed to `give`; the rest stays pending.
    pub fn list(
        &mut self,
        key: &[u8],
        list: ListRef<'_>,
        max_listpack_size: i32,
        expiry_ms: Option<i64>,
        usage: Usage,
        give: &mut (impl FnMut(Bytes) + ?Sized),
    ) {
        self.key(op::TYPE_LIST_QUICKLIST_2, key, expiry_ms, usage);
        self.value_list(list, max_listpack_size, give);
    }

    /// Writes the value of a list.
    pub(super) fn value_list(
        &mut self,
        list: ListRef<'_>,
        max_listpack_size: i32,
        give: &mut (impl FnMut(Bytes) + ?Sized),
    ) {
        let cut = NodeCutter::new(list, max_listpack_size);
        // The number of nodes comes first, so the list is cut twice; keeping the nodes of the first time
        // could take gigabytes.
        let mut nodes = 0;
        cut.nodes(list, &mut |_| nodes += 1);
        self.len(nodes);
        let mut packed = Vec::new();
        cut.nodes(list, &mut |node| match node {
            CutNode::Plain(bytes) => {
                self.len(list::PLAIN);
                if !self.compressed(bytes) {
                    self.len(bytes.len() as u64);
                    self.give_shared(bytes, give);
                }
                self.give_enough(give);
            }
            CutNode::Packed(row, count) => {
                self.len(list::PACKED);
                listpack::of_row(row, count, &mut packed);
                self.text(Text::Bytes(&packed));
                self.give_enough(give);
            }
        });
    }

    /// Writes a key with a hash. Pieces are passed to `give`; the rest stays pending.
    pub fn hash(
        &mut self,
        key: &[u8],
        hash: HashRef<'_>,
        expiry_ms: Option<i64>,
        usage: Usage,
        give: &mut impl FnMut(Bytes),
    ) {
        self.key(self.hash_kind(hash), key, expiry_ms, usage);
        self.value_hash(hash, give);
    }

    /// The type number of a hash in a file. In files of [`Version::Common`], fields lose their expiries,
    /// because not all readers of such files know these.
    pub(super) fn hash_kind(&self, hash: HashRef<'_>) -> u8 {
        match (hash.encoding(), self.options.version) {
            (HashEncoding::Listpack, _) => op::TYPE_HASH_LISTPACK,
            (HashEncoding::Hashtable, Version::Valkey) if hash.volatile_len() > 0 => op::TYPE_HASH_VOLATILE,
            (HashEncoding::Hashtable, _) => op::TYPE_HASH,
        }
    }

    /// Writes the value of a hash.
    pub(super) fn value_hash(&mut self, hash: HashRef<'_>, give: &mut impl FnMut(Bytes)) {
        let kind = self.hash_kind(hash);
        if let Some((row, count)) = hash.row().filter(|_| kind == op::TYPE_HASH_LISTPACK) {
            let mut packed = Vec::new();
            listpack::of_row(row, 2 * count, &mut packed);
            self.text(Text::Bytes(&packed));
            return self.give_enough(give);
        }
        self.len(hash.len() as u64);
        for field in hash.iter() {
            self.item(field.name, give);
            self.item(field.value, give);
            if kind == op::TYPE_HASH_VOLATILE {
                self.out.extend_from_slice(&field.expiry.unwrap_or(NO_EXPIRY).to_le_bytes());
            }
            self.give_enough(give);
        }
    }

    /// Writes a key with a set. Pieces are passed to `give`; the rest stays pending.
    pub fn set(
        &mut self,
        key: &[u8],
        set: SetRef<'_>,
        expiry_ms: Option<i64>,
        usage: Usage,
        give: &mut impl FnMut(Bytes),
    ) {
        self.key(set_kind(set), key, expiry_ms, usage);
        self.value_set(set, give);
    }

    /// Writes the value of a set in the form of [`set_kind`].
    pub(super) fn value_set(&mut self, set: SetRef<'_>, give: &mut impl FnMut(Bytes)) {
        if let Some(ints) = set.intset() {
            self.text(Text::Bytes(ints));
            return;
        }
        if let Some((row, count)) = set.row() {
            let mut packed = Vec::new();
            listpack::of_row(row, count, &mut packed);
            self.text(Text::Bytes(&packed));
            return;
        }
        self.len(set.len() as u64);
        for member in set.iter() {
            self.item(member, give);
            self.give_enough(give);
        }
    }

    /// Writes a string of a collection.
    fn item(&mut self, item: ListItem<'_>, give: &mut impl FnMut(Bytes)) {
        match item {
            ListItem::Int(number) => self.text(Text::Int(number)),
            ListItem::Bytes(bytes) => self.text(Text::Bytes(bytes)),
            ListItem::Shared(bytes) => {
                if !self.compressed(bytes) {
                    self.len(bytes.len() as u64);
                    self.give_shared(bytes, give);
                }
            }
        }
    }

    /// Writes a key with a sorted set. Pieces are passed to `give`; the rest stays pending.
    pub fn zset(
        &mut self,
        key: &[u8],
        zset: ZsetRef<'_>,
        expiry_ms: Option<i64>,
        usage: Usage,
        give: &mut (impl FnMut(Bytes) + ?Sized),
    ) {
        let kind = if zset::is_listpack(zset) { op::TYPE_ZSET_LISTPACK } else { op::TYPE_ZSET_2 };
        self.key(kind, key, expiry_ms, usage);
        self.value_zset(zset, give);
    }

    /// Writes the value of a sorted set: a listpack, or elements from the highest score down.
    pub(super) fn value_zset(&mut self, zset: ZsetRef<'_>, give: &mut (impl FnMut(Bytes) + ?Sized)) {
        if zset::is_listpack(zset) {
            let mut packed = Vec::new();
            zset::listpack_of(zset, &mut packed);
            return self.text(Text::Bytes(&packed));
        }
        self.len(zset.len() as u64);
        for (member, score) in zset.iter(0..usize::MAX, Direction::Down) {
            self.text(Text::Bytes(member));
            self.out.extend_from_slice(&score.to_le_bytes());
            self.give_enough(give);
        }
    }

    /// Writes the fields that precede a value of type `kind`.
    pub(super) fn key(&mut self, kind: u8, key: &[u8], expiry_ms: Option<i64>, usage: Usage) {
        if let Some(at) = expiry_ms {
            self.out.push(op::EXPIRY_MS);
            self.out.extend_from_slice(&at.to_le_bytes());
        }
        match usage {
            Usage::Absent => {}
            Usage::Idle(seconds) => {
                self.out.push(op::IDLE);
                self.len(seconds);
            }
            Usage::Frequency(counter) => self.out.extend_from_slice(&[op::FREQUENCY, counter]),
        }
        self.out.push(kind);
        self.text(Text::Bytes(key));
    }

    /// Number of bytes that wait to be taken.
    pub fn pending(&self) -> usize {
        self.out.len()
    }

    /// Takes the bytes written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        self.add_up();
        self.summed = 0;
        std::mem::take(&mut self.out)
    }

    /// Ends the file and returns the bytes not taken yet.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(op::EOF);
        self.add_up();
        let sum = if self.options.checksum { self.sum.value() } else { 0 };
        self.out.extend_from_slice(&sum.to_le_bytes());
        self.out
    }

    fn add_up(&mut self) {
        if self.options.checksum {
            self.sum.add(&self.out[self.summed..]);
        }
        self.summed = self.out.len();
    }

    pub(super) fn len(&mut self, len: u64) {
        match len {
            0..64 => self.out.push(len as u8),
            64..16384 => self.out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
            16384..=0xffff_ffff => {
                self.out.push(form::LEN_32);
                self.out.extend_from_slice(&(len as u32).to_be_bytes());
            }
            _ => {
                self.out.push(form::LEN_64);
                self.out.extend_from_slice(&len.to_be_bytes());
            }
        }
    }

    /// Writes a text: as an integer, compressed, or plain.
    pub(super) fn text(&mut self, text: Text<'_>) {
        match text {
            Text::Int(number) if self.small_int(number) => {}
            Text::Int(number) => self.bytes(IntBuffer::new().format(number)),
            Text::Bytes(bytes) => {
                let number = if bytes.len() <= INT_DIGITS_MAX { parse_i64(bytes) } else { None };
                if number.is_some_and(|number| self.small_int(number)) {
                    return;
                }
                if !self.compressed(bytes) {
                    self.bytes(bytes);
                }
            }
        }
    }

    /// Writes bytes unchanged.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn small_int(&mut self, number: i64) -> bool {
        if let Ok(small) = i8::try_from(number) {
            self.out.push(form::INT_8);
            self.out.extend_from_slice(&small.to_le_bytes());
        } else if let Ok(small) = i16::try_from(number) {
            self.out.push(form::INT_16);
            self.out.extend_from_slice(&small.to_le_bytes());
        } else if let Ok(small) = i32::try_from(number) {
            self.out.push(form::INT_32);
            self.out.extend_from_slice(&small.to_le_bytes());
        } else {
            return false;
        }
        true
    }

    fn compressed(&mut self, bytes: &[u8]) -> bool {
        if !self.compresses || bytes.len() <= COMPRESSED_OVER || bytes.len() > u32::MAX as usize {
            return false;
        }
        let Some(small) = lzf::compress(bytes, bytes.len() - COMPRESSION_GAIN) else { return false };
        self.out.push(form::LZF);
        self.len(small.len() as u64);
        self.len(bytes.len() as u64);
        self.out.extend_from_slice(&small);
        true
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }
}

/// The type number with which a set is written.
pub(super) fn set_kind(set: SetRef<'_>) -> u8 {
    match set.encoding() {
        SetEncoding::Intset => op::TYPE_SET_INTSET,
        SetEncoding::Listpack => op::TYPE_SET_LISTPACK,
        SetEncoding::Hashtable => op::TYPE_SET,
    }
}

/// Pending bytes become a piece when they are this many or more. Pieces of shared bytes, and the pieces
/// before them, may be smaller.
const GIVEN_FROM: usize = 256 << 10;
/// Shorter shared bytes are copied, because handling a separate piece costs about as much as the copy.
const SHARED_FROM: usize = 16 << 10;
/// The value that is written instead of the expiry for a field without an expiry.
const NO_EXPIRY: i64 = -1;
/// Length in bytes of the longest 32-bit integer in decimal, with its sign.
const INT_DIGITS_MAX: usize = 11;
/// Only strings of more than this many bytes are compressed.
const COMPRESSED_OVER: usize = 20;
/// Compression must save at least this many bytes.
const COMPRESSION_GAIN: usize = 4;
