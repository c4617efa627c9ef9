//! MIGRATE, as its handler leaves it to the process: what is sent where.

use crate::payload::dumped;
use sluice_persist::rdb;
use sluice_resp::command::push_command;
use sluice_value::Value;

/// Keys on their way to another server.
#[derive(Debug)]
pub struct Migration {
    /// Its number: for `Engine::end_migration`.
    pub id: u64,
    /// Name or address of the other server.
    pub host: String,
    /// Its port; 0 where the client's text is none.
    pub port: u16,
    /// The database there.
    pub db: i64,
    /// How long a connection, a write or a reply may take, ms.
    pub timeout_ms: u64,
    /// How the other server is to be asked in.
    pub credentials: Option<MigrationCredentials>,
    /// REPLACE: keys there are overwritten.
    pub replaces: bool,
    /// COPY: the keys stay.
    pub copies: bool,
    /// `list-max-listpack-size`, which payloads of lists follow.
    pub list_fill: i32,
    /// The other server is a node of this cluster, which takes keys of a slot that it does not own yet.
    pub is_between_nodes: bool,
    /// Payloads hold compressed strings.
    pub compress: bool,
    /// What is moved.
    pub keys: Vec<MigratedKey>,
}

/// AUTH and AUTH2.
#[derive(Debug)]
pub struct MigrationCredentials {
    pub user: Option<Vec<u8>>,
    pub password: Vec<u8>,
}

/// A key, as it was at the moment of the migration.
#[derive(Debug)]
pub struct MigratedKey {
    pub name: Vec<u8>,
    /// Its hash here.
    pub hash: u64,
    /// 0: it does not expire.
    pub ttl_ms: u64,
    pub root: Value,
}

/// What came of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationOutcome {
    /// The numbers of the keys that the other server has acknowledged, ascending.
    pub taken: Vec<usize>,
    /// What the client is told, if not `OK`: an error with its code.
    pub error: Option<Vec<u8>>,
}

impl Migration {
    /// How many keys there are.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Appends the request that authenticates, if one is wanted.
    pub fn push_auth(&self, out: &mut Vec<u8>) -> bool {
        let Some(MigrationCredentials { user, password }) = &self.credentials else { return false };
        let words = [Some(&b"AUTH"[..]), user.as_deref(), Some(password)];
        let words: Vec<&[u8]> = words.into_iter().flatten().collect();
        push_command(out, words.into_iter());
        true
    }

    /// Appends the request that selects the database.
    pub fn push_select(&self, out: &mut Vec<u8>) {
        let db = self.db.to_string();
        push_command(out, [&b"SELECT"[..], db.as_bytes()].into_iter());
    }

    /// Appends the request that restores a key. Cost: that of DUMP.
    pub fn push_restore(&self, number: usize, out: &mut Vec<u8>) {
        let Some(key) = self.keys.get(number) else { return };
        let payload = rdb::dump(dumped(&key.root, self.list_fill), self.compress);
        let ttl = key.ttl_ms.to_string();
        let command = if self.is_between_nodes { &b"RESTORE-ASKING"[..] } else { b"RESTORE" };
        let words = [command, &key.name, ttl.as_bytes(), &payload, b"REPLACE"];
        let count = if self.replaces { 5 } else { 4 };
        push_command(out, words[..count].iter().copied());
    }

    /// The keys that are deleted in the end.
    pub fn held(&self) -> Vec<(u64, Box<[u8]>)> {
        if self.copies {
            return Vec::new();
        }
        self.keys.iter().map(|key| (key.hash, key.name.as_slice().into())).collect()
    }
}
