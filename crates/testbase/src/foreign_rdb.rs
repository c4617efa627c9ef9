//! RDB files as other servers write them: every opcode, every encoding of a value, and the records and fields
//! that modules and KeyDB write in addition to keys. Only slots under migration (opcode 243) are missing,
//! because a server without cluster mode refuses them. The files serve tests of loading, and of copying such
//! records.
//!
//! A file is a function only of its number. Each feature of a whole file has its own period, so that a
//! hundred files contain most pairs of features.

use sluice_base::Rng;

/// A file that another server could have written.
#[derive(Clone, Debug)]
pub struct ForeignRdb {
    /// The complete file, checksum included.
    pub bytes: Vec<u8>,
    /// Number of keys that a load must produce.
    pub keys: usize,
    /// Number of keys with values of modules; if not 0, loading requires `rdb-version-check relaxed`.
    pub module_keys: usize,
    /// The types of the modules that have written records that belong to no key.
    pub modules: Vec<&'static str>,
    /// Number of auxiliary fields without a meaning to this server.
    pub unknown_fields: usize,
}

/// Number of files; each test takes all of them.
pub const FOREIGN_RDB_FILES: u64 = 200;

/// The file with this number.
pub fn foreign_rdb(number: u64) -> ForeignRdb {
    let mut file = FileBuilder::new(number);
    file.fields();
    if number.is_multiple_of(3) {
        file.module_records(BEFORE_KEYS);
    }
    if number % 4 == 1 {
        file.library();
    }
    let databases = if number.is_multiple_of(7) { 16 } else { 1 + number % 3 };
    for database in 0..databases {
        file.database(database);
    }
    if number % 3 != 1 {
        file.module_records(BEHIND_KEYS);
    }
    file.finish()
}

/// Magic bytes of the supported versions: Redis 1 to 13, Valkey 80 and 81.
fn magic(number: u64) -> String {
    match number % 15 {
        13 => "VALKEY080".to_owned(),
        14 => "VALKEY081".to_owned(),
        version => format!("REDIS{:04}", version + 1),
    }
}

/// A file being written.
struct FileBuilder {
    number: u64,
    rng: Rng,
    /// Whether the numbers of types are those of Valkey 9.
    is_valkey: bool,
    version: u64,
    file: ForeignRdb,
}

impl FileBuilder {
    fn new(number: u64) -> FileBuilder {
        let magic = magic(number);
        let digits = magic.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        FileBuilder {
            number,
            rng: Rng::new(number),
            is_valkey: magic.starts_with("VALKEY"),
            version: digits.parse().expect("the magic ends in digits"),
            file: ForeignRdb {
                bytes: magic.into_bytes(),
                keys: 0,
                module_keys: 0,
                modules: Vec::new(),
                unknown_fields: 0,
            },
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.file.bytes.extend_from_slice(bytes);
    }

    /// Writes a length in the shortest form, or sometimes in a longer one.
    fn len(&mut self, len: u64) {
        match (len, self.rng.below(8)) {
            (0..0x40, 1..) => self.put(&[len as u8]),
            (0..0x4000, 1..) => self.put(&[0x40 | (len >> 8) as u8, len as u8]),
            (0..0x1_0000_0000, 1..) => self.put(&[&[0x80][..], &(len as u32).to_be_bytes()].concat()),
            _ => self.put(&[&[0x81][..], &len.to_be_bytes()].concat()),
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.len(text.len() as u64);
        self.put(text);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.put(&[AUX]);
        self.text(name);
        self.text(value);
    }

    /// Writes fields about the file: fields that every server writes, and fields that only one other server
    /// or none writes.
    fn fields(&mut self) {
        let (name, version) = if self.is_valkey { ("valkey-ver", "9.0.1") } else { ("redis-ver", "7.4.1") };
        self.field(name.as_bytes(), version.as_bytes());
        for (name, value) in [("redis-bits", "64"), ("ctime", "1700000000"), ("used-mem", "1048576")] {
            self.field(name.as_bytes(), value.as_bytes());
        }
        if self.number.is_multiple_of(4) {
            for (name, value) in [("repl-stream-db", "0"), ("repl-id", REPLID), ("repl-offset", "14")] {
                self.field(name.as_bytes(), value.as_bytes());
            }
        }
        // Redis up to 6 writes the first of these fields, and Redis from 7 on the second.
        let base: &[u8] = if self.number.is_multiple_of(2) { b"aof-preamble" } else { b"aof-base" };
        self.field(base, if self.number.is_multiple_of(5) { b"1" } else { b"0" });
        let unknown: &[(&[u8], &[u8])] = match self.number % 6 {
            0 => &[],
            1 => &[(b"lua", b"return 1"), (b"lua", b"return 2")],
            2 => &[(b"", b""), (b"no\nname\xff", b"\x00\x01")],
            3 => &[(b"repl-masters", b"127.0.0.1 6379"), (b"mvcc-tstamp", b"1700000000")],
            4 => &[(b"server-kind", b"cloud"), (b"server-kind", b"cloud")],
            _ => &[(b"unknown", &[b'u'; 100_000])],
        };
        for (name, value) in unknown {
            self.unknown_field(name, value);
        }
        if self.number == MANY_FIELDS_AT {
            (0..MANY_FIELDS)
                .for_each(|at: u32| self.unknown_field(b"mvcc-tstamp", at.to_string().as_bytes()));
        }
    }

    fn unknown_field(&mut self, name: &[u8], value: &[u8]) {
        self.file.unknown_fields += 1;
        self.field(name, value);
    }

    fn module_id(&mut self, name: &str, version: u64) {
        let letter = |byte: u8| LETTERS.iter().position(|letter| *letter == byte).expect("a letter") as u64;
        let id = name.bytes().fold(0, |id, byte| id << 6 | letter(byte)) << 10 | version;
        self.len(id);
    }

    /// Writes the parts of a module's data, whose number, kinds and order are random, and the end mark.
    fn module_parts(&mut self) {
        for _ in 0..self.rng.below(12) {
            let kind = 1 + self.rng.below(5);
            self.len(kind);
            let number = self.rng.next_u64() >> self.rng.below(64);
            match kind {
                1 | 2 => self.len(number),
                3 => self.put(&(number as f32).to_le_bytes()),
                4 => self.put(&(number as f64).to_le_bytes()),
                _ => match self.rng.below(4) {
                    0 => self.put(b"\xc3\x04\x04\x00v\x20\x00"),
                    1 => self.put(b"\xc2\x01\x02\x03\x04"),
                    _ => {
                        let len = self.rng.below(300) as usize;
                        // These bytes would be opcodes elsewhere.
                        self.text(&vec![0xff - (number % 16) as u8; len]);
                    }
                },
            }
        }
        self.len(0);
    }

    /// Writes records of several modules that belong to no key; some of the records are empty.
    fn module_records(&mut self, when: u64) {
        for _ in 0..=self.rng.below(4) {
            let (name, version) = MODULES[self.rng.below(MODULES.len() as u64) as usize];
            self.put(&[MODULE_AUX]);
            self.module_id(name, version);
            self.len(2);
            self.len(when);
            match self.rng.below(3) {
                0 => self.len(0),
                _ => self.module_parts(),
            }
            if !self.file.modules.contains(&name) {
                self.file.modules.push(name);
            }
        }
    }

    fn library(&mut self) {
        let code = format!(
            "#!lua name=library{}\nredis.register_function('f', function() return 1 end)",
            self.number
        );
        self.put(&[FUNCTION]);
        self.text(code.as_bytes());
    }

    fn database(&mut self, database: u64) {
        self.put(&[SELECT_DB]);
        self.len(database);
        if self.number % 3 != 2 {
            self.put(&[RESIZE_DB]);
            let (keys, expires) = (self.rng.below(50), self.rng.below(9));
            self.len(keys);
            self.len(expires);
        }
        if self.number.is_multiple_of(5) {
            self.put(&[SLOT_INFO]);
            for number in [16_383, 3, 1] {
                self.len(number);
            }
        }
        let dialect_kinds = VALUES.iter().filter(|form| match form.family {
            Family::Both => true,
            Family::Redis => !self.is_valkey && self.version >= 12,
            Family::Valkey => self.is_valkey,
        });
        let forms: Vec<&ValueForm> = dialect_kinds.collect();
        for form in forms {
            if self.rng.below(3) > 0 {
                self.key(form);
            }
        }
        if self.number % 10 == 9 {
            self.module_key();
        }
        if self.number % 6 == 5 && database == 0 {
            self.module_records(BEHIND_KEYS);
        }
    }

    /// Writes fields that may precede a key, in any combination.
    fn key_head(&mut self) {
        // KeyDB writes these fields for each key.
        if self.number % 8 == 3 {
            self.unknown_field(b"mvcc-tstamp", b"1857000000000000000");
        }
        if self.number % 8 == 7 {
            self.unknown_field(b"keydb-subexpire-key", b"member");
            self.unknown_field(b"keydb-subexpire-when", b"32503680000000");
        }
        match self.rng.below(4) {
            0 => self.put(&[&[EXPIRY_MS][..], &32_503_680_000_123_i64.to_le_bytes()].concat()),
            1 => self.put(&[&[EXPIRY_S][..], &2_147_483_600_i32.to_le_bytes()].concat()),
            _ => {}
        }
        match self.rng.below(4) {
            0 => {
                self.put(&[FREQUENCY]);
                self.put(&[17]);
            }
            1 => {
                self.put(&[IDLE]);
                self.len(1000);
            }
            _ => {}
        }
    }

    fn key(&mut self, form: &ValueForm) {
        self.key_head();
        self.put(&[form.number]);
        let key = format!("{} {}", form.number, self.file.keys);
        self.text(key.as_bytes());
        self.put(form.value);
        self.file.keys += 1;
    }

    fn module_key(&mut self) {
        self.key_head();
        self.put(&[MODULE_VALUE]);
        let key = format!("module {}", self.file.module_keys);
        self.text(key.as_bytes());
        let (name, version) = MODULES[self.rng.below(MODULES.len() as u64) as usize];
        self.module_id(name, version);
        self.module_parts();
        self.file.module_keys += 1;
    }

    fn finish(mut self) -> ForeignRdb {
        self.put(&[EOF]);
        if self.version >= SUMMED_FROM {
            // Zero means that there is no checksum.
            let sum = if self.number.is_multiple_of(4) { 0 } else { crc_64(&self.file.bytes) };
            self.put(&sum.to_le_bytes());
        }
        self.file
    }
}

/// CRC-64 of Jones, reflected, computed bit by bit, independently of the implementation under test.
fn crc_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
            sum >> 1 ^ if sum & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    })
}

/// The servers whose files have an encoding.
#[derive(Clone, Copy)]
enum Family {
    Both,
    Redis,
    Valkey,
}

/// An encoding of a value: the number of its type, and an example.
struct ValueForm {
    number: u8,
    family: Family,
    value: &'static [u8],
}

const fn form(number: u8, family: Family, value: &'static [u8]) -> ValueForm {
    ValueForm { number, family, value }
}

/// Every supported encoding, some of them with several values.
const VALUES: &[ValueForm] = &[
    form(0, Family::Both, b"\x05hello"),
    form(0, Family::Both, b"\xc0\x85"),
    form(0, Family::Both, b"\xc1\x00\x80"),
    form(0, Family::Both, b"\xc2\x00\x00\x00\x80"),
    form(0, Family::Both, b"\xc3\x04\x04\x00v\x20\x00"),
    form(1, Family::Both, b"\x02\x01a\x01b"),
    form(2, Family::Both, b"\x02\x01a\x01b"),
    form(3, Family::Both, b"\x03\x01m\x033.5\x01n\xfe\x01o\xff"),
    form(3, Family::Both, b"\x01\x01m\x02-0"),
    form(4, Family::Both, b"\x02\x01f\x04vvvv\x01n\xc0\x05"),
    form(5, Family::Both, b"\x02\x01m\0\0\0\0\0\0\0\x80\x01n\0\0\0\0\0\0\xf0\x3f"),
    form(9, Family::Both, b"\x10\x02\x01f\x04\x01vvvv_\x01n\x01\x005\xff"),
    form(
        10,
        Family::Both,
        b"\x29\x29\0\0\0\x24\0\0\0\x08\0\0\x02ab\x04\xf1\x02\xfd\x02\xfe\xff\x03\xc0\x00\x80\x04\xf0\x00\x00\x80\x05\xd0\x00\x00\x00\
          \x80\x06\x02c1\xff",
    ),
    form(11, Family::Both, b"\x0c\x02\0\0\0\x02\0\0\0\x01\0\x02\0"),
    form(12, Family::Both, b"\x10\x10\0\0\0\x0d\0\0\0\x02\0\x00\x01m\x03\xf6\xff"),
    form(12, Family::Both, b"\x12\x12\0\0\0\x0d\0\0\0\x02\0\x00\x01m\x03\x02-0\xff"),
    form(13, Family::Both, b"\x19\x19\0\0\0\x16\0\0\0\x04\0\0\x01f\x03\x04vvvv\x06\x01n\x03\xf6\xff"),
    form(14, Family::Both, b"\x01\x10\x10\0\0\0\x0d\0\0\0\x02\0\x00\x01m\x03\xf6\xff"),
    form(15, Family::Both, b"\x00\x00\x05\x07\x00"),
    // This stream has an incorrect length, as Redis 5 has written it.
    form(15, Family::Both, b"\x00\x03\x05\x07\x00"),
    form(
        15,
        Family::Both,
        b"\x01\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x1d\x1d\0\0\0\x0a\0\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01\x02\x01\x00\x01\x00\
          \x01\x81v\x02\x04\x01\xff\x01\x01\x01\x01\x01g\x01\x01\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x05\0\0\0\0\0\0\0\x01\x01\x01\
          c\x05\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01",
    ),
    form(16, Family::Both, b"\x15\x15\0\0\0\x04\0\x81f\x02\x84vvvv\x05\x81n\x02\x05\x01\xff"),
    form(17, Family::Both, b"\x0c\x0c\0\0\0\x02\0\x81m\x02\x05\x01\xff"),
    form(17, Family::Both, b"\x0e\x0e\0\0\0\x02\0\x81m\x02\x82-0\x03\xff"),
    form(18, Family::Both, b"\x02\x01\x05plain\x02\x15\x15\0\0\0\x04\0\x81f\x02\x84vvvv\x05\x81n\x02\x05\x01\xff"),
    form(19, Family::Both, b"\x00\x00\x05\x07\x00\x00\x00\x00\x09\x01\x01g\x05\x07\x09\x00\x01\x01c\x05\0\0\0\0\0\0\0\x00"),
    form(20, Family::Both, b"\x15\x15\0\0\0\x04\0\x81f\x02\x84vvvv\x05\x81n\x02\x05\x01\xff"),
    form(
        21,
        Family::Both,
        b"\x00\x00\x05\x07\x00\x00\x00\x00\x09\x01\x01g\x05\x07\x09\x00\x01\x01c\x05\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x00",
    ),
    form(22, Family::Redis, b"\x02\x81\0\0\x1d\x8f\xd9\x62\x10\x00\x01f\x01v\x00\x01n\x01w"),
    form(
        22,
        Family::Valkey,
        b"\x02\x01f\x01v\x00\x10\x62\xd9\x8f\x1d\0\0\x01n\x01w\xff\xff\xff\xff\xff\xff\xff\xff",
    ),
    form(
        23,
        Family::Redis,
        b"\x1f\x1f\0\0\0\x06\0\x81f\x02\x81v\x02\xf4\x00\x10\x62\xd9\x8f\x1d\0\0\x09\x81n\x02\x81w\x02\x00\x01\xff",
    ),
    form(24, Family::Redis, b"\x00\x10\x62\xd9\x8f\x1d\0\0\x02\x18\x01f\x01v\x00\x01n\x01w"),
    form(
        25,
        Family::Redis,
        b"\x00\x10\x62\xd9\x8f\x1d\0\0\x1f\x1f\0\0\0\x06\0\x81f\x02\x81v\x02\xf4\x00\x10\x62\xd9\x8f\x1d\0\0\x09\x81n\x02\x81w\x02\x00\
          \x01\xff",
    ),
];

/// Types under which modules write records, with versions of their encodings. They are the types of Redis
/// Stack, and types with extreme values.
const MODULES: &[(&str, u64)] = &[
    ("ReJSON-RL", 3),
    ("ft_index0", 2),
    ("ft_invidx", 1),
    ("MBbloom--", 4),
    ("MBbloomCF", 4),
    ("CMSk-TYPE", 0),
    ("TopK-TYPE", 0),
    ("TSDB-TYPE", 7),
    ("graphmeta", 14),
    ("AAAAAAAAA", 0),
    ("_________", 1023),
];

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const REPLID: &str = "8371445ee67a5f0ad1b1b8c4d5d6c8e0a1b2c3d4";
/// The file with the number `MANY_FIELDS_AT` has `MANY_FIELDS` fields, as many as KeyDB writes for many keys.
const MANY_FIELDS_AT: u64 = 8;
const MANY_FIELDS: u32 = 80_000;

/// What a module's record says about the time of its load: before the keys, or after them.
const BEFORE_KEYS: u64 = 1;
const BEHIND_KEYS: u64 = 2;

/// The first version whose files have a checksum.
const SUMMED_FROM: u64 = 5;

const SLOT_INFO: u8 = 0xf4;
const FUNCTION: u8 = 0xf5;
const MODULE_AUX: u8 = 0xf7;
const IDLE: u8 = 0xf8;
const FREQUENCY: u8 = 0xf9;
const AUX: u8 = 0xfa;
const RESIZE_DB: u8 = 0xfb;
const EXPIRY_MS: u8 = 0xfc;
const EXPIRY_S: u8 = 0xfd;
const SELECT_DB: u8 = 0xfe;
const EOF: u8 = 0xff;
const MODULE_VALUE: u8 = 7;
