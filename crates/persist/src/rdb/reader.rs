//! Reads a file that is in memory, item by item.

use super::crc::Sum;
use super::list::{self, ListNode};
use super::{Usage, Version, form, op};
use sluice_base::lzf;
use std::borrow::Cow;

/// Why a file was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Bytes before the place.
    pub offset: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can be wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It begins as no file does, or as one of a version that is not known.
    Magic,
    /// It ends too early.
    CutOff,
    /// A value of this type, or an opcode, that is not known.
    Unknown(u8),
    /// A length stands where none may be, or the other way round.
    Length,
    /// A compressed string that cannot be.
    Compression,
    /// A list that cannot be.
    List,
    /// Another checksum than the contents have.
    Checksum,
}

/// Something in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A field about the file.
    Aux(Cow<'a, [u8]>, Cow<'a, [u8]>),
    /// A database begins.
    Db(u64),
    /// How many keys it has, and how many with an expiry: a hint.
    Sizes(u64, u64),
    /// A key with a string.
    String {
        /// The key.
        key: Cow<'a, [u8]>,
        /// The string; an integer as its digits.
        value: Cow<'a, [u8]>,
        /// Its expiry, ms since the epoch.
        expiry_ms: Option<i64>,
        /// Its last use.
        usage: Usage,
    },
    /// A key with a list.
    List {
        /// The key.
        key: Cow<'a, [u8]>,
        /// The parts that it was written in. Without any element it is no list: the key is to be passed over.
        nodes: Vec<ListNode<'a>>,
        /// Its expiry, ms since the epoch.
        expiry_ms: Option<i64>,
        /// Its last use.
        usage: Usage,
    },
}

/// A file being read.
#[derive(Debug)]
pub struct Reader<'a> {
    file: &'a [u8],
    at: usize,
    version: Version,
    /// Whether a checksum ends the file.
    summed: bool,
    ended: bool,
}

impl<'a> Reader<'a> {
    /// Begins to read. Cost: O(1).
    pub fn new(file: &'a [u8]) -> Result<Reader<'a>, LoadError> {
        let magic = LoadError { offset: 0, problem: Problem::Magic };
        let (version, summed) = match file.split_at_checked(9) {
            Some((b"VALKEY080", _)) => (Version::Valkey, true),
            Some(([b'R', b'E', b'D', b'I', b'S', b'0', b'0', digits @ ..], _)) => {
                match sluice_base::num::parse_i64(digits.strip_prefix(b"0").unwrap_or(digits)) {
                    Some(number @ 1..=11) => (Version::Common, number >= SUMMED_FROM),
                    _ => return Err(magic),
                }
            }
            _ => return Err(magic),
        };
        Ok(Reader { file, at: 9, version, summed, ended: false })
    }

    /// Who the file was written for.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Bytes after the end of the file.
    pub fn rest(&self) -> &'a [u8] {
        &self.file[self.at..]
    }

    /// The next item; `None` at the end, when the checksum is right.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Item<'a>>, LoadError> {
        if self.ended {
            return Ok(None);
        }
        let (mut expiry_ms, mut usage) = (None, Usage::Unsaid);
        loop {
            let offset = self.at;
            match self.byte()? {
                op::EXPIRY_MS => expiry_ms = Some(i64::from_le_bytes(self.array()?)),
                op::EXPIRY_S => expiry_ms = Some(i64::from(i32::from_le_bytes(self.array()?)) * 1000),
                op::IDLE => usage = Usage::Idle(self.len()?),
                op::FREQUENCY => usage = Usage::Frequency(self.byte()?),
                op::TYPE_STRING => {
                    let (key, value) = (self.text()?, self.text()?);
                    return Ok(Some(Item::String { key, value, expiry_ms, usage }));
                }
                form @ (op::TYPE_LIST
                | op::TYPE_LIST_ZIPLIST
                | op::TYPE_LIST_QUICKLIST
                | op::TYPE_LIST_QUICKLIST_2) => {
                    let (key, nodes) = (self.text()?, self.list(form)?);
                    return Ok(Some(Item::List { key, nodes, expiry_ms, usage }));
                }
                op::AUX => return Ok(Some(Item::Aux(self.text()?, self.text()?))),
                op::SELECT_DB => return Ok(Some(Item::Db(self.len()?))),
                op::RESIZE_DB => return Ok(Some(Item::Sizes(self.len()?, self.len()?))),
                op::EOF => return self.end().map(|()| None),
                other => return Err(LoadError { offset, problem: Problem::Unknown(other) }),
            }
        }
    }

    /// The parts of a list of this type.
    fn list(&mut self, form: u8) -> Result<Vec<ListNode<'a>>, LoadError> {
        if form == op::TYPE_LIST_ZIPLIST {
            return Ok(vec![self.list_node(form)?]);
        }
        // A number that cannot be asks for no memory: the nodes come one by one.
        let mut left = self.len()?;
        let mut nodes = Vec::new();
        while left > 0 {
            nodes.push(self.list_node(form)?);
            left -= 1;
        }
        Ok(nodes)
    }

    fn list_node(&mut self, form: u8) -> Result<ListNode<'a>, LoadError> {
        let offset = self.at;
        let container = if form == op::TYPE_LIST_QUICKLIST_2 { self.len()? } else { list::PACKED };
        let node = match (form, container) {
            (op::TYPE_LIST, _) | (_, list::PLAIN) => Some(ListNode::Plain(self.text()?)),
            (op::TYPE_LIST_QUICKLIST_2, list::PACKED) => ListNode::of_listpack(self.text()?),
            (_, list::PACKED) => ListNode::of_ziplist(&self.text()?),
            _ => None,
        };
        node.ok_or(LoadError { offset, problem: Problem::List })
    }

    fn end(&mut self) -> Result<(), LoadError> {
        if self.summed {
            self.check_sum()?;
        }
        self.ended = true;
        Ok(())
    }

    fn check_sum(&mut self) -> Result<(), LoadError> {
        let offset = self.at;
        let wanted = u64::from_le_bytes(self.array()?);
        let mut sum = Sum::new();
        sum.add(&self.file[..offset]);
        if wanted != 0 && wanted != sum.value() {
            return Err(LoadError { offset, problem: Problem::Checksum });
        }
        Ok(())
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], LoadError> {
        match self.file[self.at..].get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(LoadError { offset: self.at, problem: Problem::CutOff }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        let offset = self.at;
        self.bytes(N)?.try_into().map_err(|_| LoadError { offset, problem: Problem::CutOff })
    }

    fn byte(&mut self) -> Result<u8, LoadError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn len(&mut self) -> Result<u64, LoadError> {
        let offset = self.at;
        let first = self.byte()?;
        self.len_from(first)?.ok_or(LoadError { offset, problem: Problem::Length })
    }

    /// A length whose first byte is `first`; `None` when that begins something else.
    fn len_from(&mut self, first: u8) -> Result<Option<u64>, LoadError> {
        Ok(Some(match first {
            0..0x40 => u64::from(first),
            0x40..0x80 => u64::from(first & 0x3f) << 8 | u64::from(self.byte()?),
            form::LEN_32 => u64::from(u32::from_be_bytes(self.array()?)),
            form::LEN_64 => u64::from_be_bytes(self.array()?),
            _ => return Ok(None),
        }))
    }

    fn text(&mut self) -> Result<Cow<'a, [u8]>, LoadError> {
        let offset = self.at;
        let digits = |number: i64| Cow::Owned(number.to_string().into_bytes());
        let first = self.byte()?;
        match first {
            form::INT_8 => Ok(digits(i64::from(i8::from_le_bytes(self.array()?)))),
            form::INT_16 => Ok(digits(i64::from(i16::from_le_bytes(self.array()?)))),
            form::INT_32 => Ok(digits(i64::from(i32::from_le_bytes(self.array()?)))),
            form::LZF => {
                let (small, len) = (self.len()?, self.len()?);
                let small = self.bytes(usize::try_from(small).unwrap_or(usize::MAX))?;
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let text = lzf::decompress(small, len);
                text.map(Cow::Owned).ok_or(LoadError { offset, problem: Problem::Compression })
            }
            _ => {
                let len = self.len_from(first)?.ok_or(LoadError { offset, problem: Problem::Length })?;
                self.bytes(usize::try_from(len).unwrap_or(usize::MAX)).map(Cow::Borrowed)
            }
        }
    }
}

/// Reads any bytes as a file, to the end or the first mistake. For fuzzing.
pub fn fuzz_rdb(data: &[u8]) {
    let Ok(mut reader) = Reader::new(data) else { return };
    while let Ok(Some(item)) = reader.next() {
        if let Item::List { nodes, .. } = item {
            let mut context = sluice_value::ListContext::default();
            let list = ListNode::list(&nodes, &mut context);
            let elements: usize = nodes.iter().map(|node| node.len()).sum();
            assert_eq!(list.len(), elements);
        }
    }
}

/// Files of earlier versions have no checksum.
const SUMMED_FROM: i64 = 5;
