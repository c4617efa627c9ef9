//! Tickets: the state of a session, encrypted under a key of the server, which the client keeps.
//!
//! Invariants: (1) a key encrypts for at most one lifetime and decrypts for at most one more; (2)
//! a ticket older than the lifetime is not accepted; (3) no nonce is used twice under a key: nonces are
//! counted, and keys are random. The format is `key name (16) | nonce (12) | sealed (time made (8) | state) |
//! tag (16)`.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::SecureRandom;
use rustls::server::ProducesTickets;

use crate::provider::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// Bytes of a key's name.
const NAME_LEN: usize = 16;

/// Longest lifetime of a ticket, in seconds: seven days, by RFC 8446 4.6.1.
const LIFETIME_S_MAX: u64 = 7 * 24 * 3600;

/// The most tickets that a key encrypts; this is far below what AES-GCM with distinct nonces allows.
const SEALED_MAX: u64 = 1 << 32;

/// Seals and opens tickets.
pub(crate) struct Tickets {
    keys: Mutex<TicketKeys>,
    random: &'static dyn SecureRandom,
    lifetime_s: u32,
    now: fn() -> i64,
}

#[derive(Default)]
struct TicketKeys {
    current: Option<Arc<TicketKey>>,
    previous: Option<Arc<TicketKey>>,
    /// Number of tickets that `current` has sealed.
    sealed: u64,
}

struct TicketKey {
    name: [u8; NAME_LEN],
    key: LessSafeKey,
    made_s: i64,
}

impl Tickets {
    /// A producer of tickets that has no key yet. `now` is the clock, in unix seconds.
    pub(crate) fn new(random: &'static dyn SecureRandom, lifetime_s: u64, now: fn() -> i64) -> Tickets {
        let lifetime_s = u32::try_from(lifetime_s.min(LIFETIME_S_MAX)).unwrap_or(u32::MAX);
        Tickets { keys: Mutex::default(), random, lifetime_s, now }
    }

    /// Makes a random key with a random name.
    fn make_key(&self, now_s: i64) -> Option<Arc<TicketKey>> {
        let (mut name, mut secret) = ([0; NAME_LEN], [0; 32]);
        self.random.fill(&mut name).ok()?;
        self.random.fill(&mut secret).ok()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &secret).ok()?);
        Some(Arc::new(TicketKey { name, key, made_s: now_s }))
    }

    /// Locks and returns the keys. Keys that are too old are dropped first.
    fn keys_at(&self, now_s: i64) -> std::sync::MutexGuard<'_, TicketKeys> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let lifetime_s = i64::from(self.lifetime_s);
        let age_s = |key: &Arc<TicketKey>| now_s.saturating_sub(key.made_s);
        if keys.current.as_ref().is_some_and(|key| age_s(key) > lifetime_s) || keys.sealed >= SEALED_MAX {
            keys.previous = keys.current.take();
            keys.sealed = 0;
        }
        if keys.previous.as_ref().is_some_and(|key| age_s(key) > 2 * lifetime_s) {
            keys.previous = None;
        }
        keys
    }

    /// The key for encryption at `now_s`, with a nonce that is new for this key.
    fn sealing_key(&self, now_s: i64) -> Option<(Arc<TicketKey>, [u8; NONCE_LEN])> {
        let mut keys = self.keys_at(now_s);
        if keys.current.is_none() {
            keys.current = Some(self.make_key(now_s)?);
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&keys.sealed.to_be_bytes());
        keys.sealed += 1;
        Some((Arc::clone(keys.current.as_ref()?), nonce))
    }

    /// The key named `name`, if it may still decrypt.
    fn opening_key(&self, name: &[u8], now_s: i64) -> Option<Arc<TicketKey>> {
        let keys = self.keys_at(now_s);
        [&keys.current, &keys.previous].into_iter().flatten().find(|key| key.name == name).cloned()
    }
}

/// The most bytes of a session state in a ticket.
const PLAIN_MAX: usize = 16 * 1024;

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime_s
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        // A ticket's length has 16 bits, and a certificate chain may be longer. The client then gets no
        // ticket.
        if plain.len() > PLAIN_MAX {
            return None;
        }
        let now_s = (self.now)();
        let (key, nonce) = self.sealing_key(now_s)?;
        let mut sealed = Vec::with_capacity(8 + plain.len());
        sealed.extend_from_slice(&now_s.to_be_bytes());
        sealed.extend_from_slice(plain);
        let name = Aad::from(key.name);
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        key.key.seal_in_place_append_tag(nonce_used, name, &mut sealed).ok()?;
        Some([key.name.as_slice(), nonce.as_slice(), sealed.as_slice()].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let now_s = (self.now)();
        let key = self.opening_key(name, now_s)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.key.open_in_place(nonce, Aad::from(key.name), &mut sealed).ok()?;
        let (made_s, state) = opened.split_first_chunk::<8>()?;
        let age_s = now_s.saturating_sub(i64::from_be_bytes(*made_s));
        (age_s <= i64::from(self.lifetime_s)).then(|| state.to_vec())
    }
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Tickets").field("lifetime_s", &self.lifetime_s).finish_non_exhaustive()
    }
}
