//! The options of CLIENT LIST and CLIENT KILL that select clients.
//!
//! Every option except MAXAGE, IDLE and SKIPME has a negated form with `NOT-` before its name. A client is
//! selected if all required traits hold and no excluded trait does. Repeated ids accumulate; if another
//! option is repeated, its last value counts.

use sluice_acl::Users;
use sluice_base::num;
use sluice_command::is_word;
use sluice_commands::{Args, CmdError, until_zero};
use sluice_session::line::LineSources;
use sluice_session::{Session, ip_of};

/// The condition that selects clients.
#[derive(Debug)]
pub(super) struct ClientFilter<'a> {
    is: ClientTraits<'a>,
    is_not: ClientTraits<'a>,
    /// Minimum time since connecting, in seconds.
    age_s_min: Option<i64>,
    /// Minimum time since the last request, in seconds.
    idle_s_min: Option<i64>,
    /// Whether the caller is excluded; the code that calls [`ClientFilter::chooses`] applies this.
    pub(super) skip_me: SkipMe,
}

/// The values of SKIPME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkipMe {
    /// The caller is never selected.
    Yes,
    /// The caller is treated like any other client.
    No,
}

/// The values of TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    Replica,
    Primary,
    Pubsub,
    /// The connection of a slot import. No word after TYPE stands for this value or for `SlotExport`.
    SlotImport,
    SlotExport,
}

/// Traits that options may require or exclude.
#[derive(Debug, Default)]
struct ClientTraits<'a> {
    /// Ids, sorted after all are parsed. `None` means no condition; an empty list matches no client.
    ids: Option<Vec<i64>>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    ip: Option<&'a [u8]>,
    kind: Option<ClientType>,
    user: Option<&'a [u8]>,
    flags: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    lib_name: Option<&'a [u8]>,
    lib_ver: Option<&'a [u8]>,
    db: Option<usize>,
    capa: Option<&'a [u8]>,
}

/// Whether an option requires or excludes a trait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FilterPolarity {
    Is,
    IsNot,
}

impl<'a> ClientFilter<'a> {
    /// The client with this address, the caller included: the old form of CLIENT KILL.
    pub(super) fn of_addr(addr: &'a [u8]) -> ClientFilter<'a> {
        ClientFilter {
            is: ClientTraits { addr: Some(addr), ..ClientTraits::default() },
            is_not: ClientTraits::default(),
            age_s_min: None,
            idle_s_min: None,
            skip_me: SkipMe::No,
        }
    }

    /// Parses the options from argument `first` on.
    pub(super) fn parse(
        args: Args<'a>,
        first: usize,
        skip_me: SkipMe,
        databases: usize,
        users: &Users,
    ) -> Result<ClientFilter<'a>, CmdError> {
        let mut filter = ClientFilter {
            is: ClientTraits::default(),
            is_not: ClientTraits::default(),
            age_s_min: None,
            idle_s_min: None,
            skip_me,
        };
        let mut i = first;
        while let Some(option) = args.get(i) {
            let option = until_zero(option);
            let (sense, name) = match option.split_at_checked(4) {
                Some((prefix, rest)) if prefix.eq_ignore_ascii_case(b"NOT-") => (FilterPolarity::IsNot, rest),
                _ => (FilterPolarity::Is, option),
            };
            let traits = if sense == FilterPolarity::Is { &mut filter.is } else { &mut filter.is_not };
            if name.eq_ignore_ascii_case(b"ID") {
                i += 1 + traits.read_ids(args, i + 1)?;
                continue;
            }
            let value = args.get(i + 1).ok_or(CmdError::Syntax)?;
            if !traits.read(name, value, sense, databases, users)? {
                filter.read_own(option, value)?;
            }
            i += 2;
        }
        for ids in [&mut filter.is.ids, &mut filter.is_not.ids].into_iter().flatten() {
            ids.sort_unstable();
            ids.dedup();
        }
        Ok(filter)
    }

    /// Parses an option without a negated form.
    fn read_own(&mut self, option: &[u8], value: &[u8]) -> Result<(), CmdError> {
        if option.eq_ignore_ascii_case(b"MAXAGE") {
            self.age_s_min = Some(positive(value, "maxage")?);
        } else if option.eq_ignore_ascii_case(b"IDLE") {
            self.idle_s_min = Some(positive(value, "idle")?);
        } else if option.eq_ignore_ascii_case(b"SKIPME") && is_word(value, "YES") {
            self.skip_me = SkipMe::Yes;
        } else if option.eq_ignore_ascii_case(b"SKIPME") && is_word(value, "NO") {
            self.skip_me = SkipMe::No;
        } else {
            return Err(CmdError::Syntax);
        }
        Ok(())
    }

    /// Whether the client is selected, apart from SKIPME. O(log ids).
    pub(super) fn chooses(&self, session: &Session, now_s: i64, sources: LineSources<'_>) -> bool {
        let caller = &session.caller;
        self.age_s_min.is_none_or(|min| now_s - i64::from(caller.origin.created_s) >= min)
            && self.idle_s_min.is_none_or(|min| now_s - caller.traffic.last_s >= min)
            && self.is.verdicts(session, sources).into_iter().flatten().all(|met| met)
            && !self.is_not.verdicts(session, sources).into_iter().flatten().any(|met| met)
    }
}

impl<'a> ClientTraits<'a> {
    /// Parses the ids from argument `first` on, possibly none. Returns their number.
    fn read_ids(&mut self, args: Args<'a>, first: usize) -> Result<usize, CmdError> {
        let ids = self.ids.get_or_insert_default();
        let mut count = 0;
        while let Some(id) = args.get(first + count).and_then(num::parse_i64) {
            if id < 1 {
                return Err(CmdError::text("ERR client-id should be greater than 0"));
            }
            ids.push(id);
            count += 1;
        }
        Ok(count)
    }

    /// Parses one option; `false` if no trait has this name.
    fn read(
        &mut self,
        name: &[u8],
        value: &'a [u8],
        sense: FilterPolarity,
        databases: usize,
        users: &Users,
    ) -> Result<bool, CmdError> {
        let texts: [(&[u8], &mut Option<&'a [u8]>); 6] = [
            (b"ADDR", &mut self.addr),
            (b"LADDR", &mut self.laddr),
            (b"IP", &mut self.ip),
            (b"NAME", &mut self.name),
            (b"LIB-NAME", &mut self.lib_name),
            (b"LIB-VER", &mut self.lib_ver),
        ];
        for (text, slot) in texts {
            if name.eq_ignore_ascii_case(text) {
                *slot = Some(value);
                return Ok(true);
            }
        }
        if name.eq_ignore_ascii_case(b"TYPE") {
            self.kind = Some(ClientType::parse(value)?);
        } else if name.eq_ignore_ascii_case(b"USER") {
            if users.get(value).is_none() {
                return Err(CmdError::owned([b"ERR No such user '", until_zero(value), b"'"].concat()));
            }
            self.user = Some(value);
        } else if name.eq_ignore_ascii_case(b"FLAGS") {
            let letters = until_zero(value);
            only_letters(letters, FLAGS, "flags", sense)?;
            self.flags = Some(letters);
        } else if name.eq_ignore_ascii_case(b"CAPA") {
            let letters = until_zero(value);
            only_letters(letters, CAPAS, "capa", sense)?;
            self.capa = Some(letters);
        } else if name.eq_ignore_ascii_case(b"DB") {
            self.db = Some(database(value, sense, databases)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// One value for each trait: whether the client has the trait; `None` for a trait without a condition.
    fn verdicts(&self, session: &Session, sources: LineSources<'_>) -> [Option<bool>; 12] {
        let caller = &session.caller;
        // An empty name in an option selects no client, not even clients without a name.
        let label = |wanted: Option<&[u8]>, label: &[u8]| wanted.map(|w| !label.is_empty() && w == label);
        [
            self.ids.as_ref().map(|ids| ids.binary_search(&(caller.id.0 as i64)).is_ok()),
            self.addr.map(|addr| until_zero(addr) == caller.origin.addr.as_bytes()),
            self.laddr.map(|laddr| until_zero(laddr) == caller.origin.laddr.as_bytes()),
            self.ip.map(|ip| until_zero(ip) == ip_of(&caller.origin.addr).as_bytes()),
            self.kind.map(|kind| kind == ClientType::of(session)),
            self.user.map(|user| user == caller.user_name()),
            self.flags.map(|flags| {
                let letters = session.flag_letters(sources);
                flags.iter().all(|letter| letters.as_bytes().contains(letter))
            }),
            label(self.name, caller.name()),
            label(self.lib_name, caller.lib_name()),
            label(self.lib_ver, caller.lib_ver()),
            self.db.map(|db| db == caller.db),
            self.capa.map(|capa| capa.is_empty() || caller.flags.capa_redirect),
        ]
    }
}

impl ClientType {
    fn parse(word: &[u8]) -> Result<ClientType, CmdError> {
        let word = until_zero(word);
        [
            ("normal", ClientType::Normal),
            ("replica", ClientType::Replica),
            ("slave", ClientType::Replica),
            ("primary", ClientType::Primary),
            ("master", ClientType::Primary),
            ("pubsub", ClientType::Pubsub),
        ]
        .into_iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, kind)| kind)
        .ok_or_else(|| CmdError::owned([b"ERR Unknown client type '", word, b"'"].concat()))
    }

    fn of(session: &Session) -> ClientType {
        // A client in MONITOR mode counts as a normal one.
        match () {
            () if session.caller.is_primary() => ClientType::Primary,
            () if session.caller.is_import() => ClientType::SlotImport,
            () if session.caller.is_export() => ClientType::SlotExport,
            () if session.caller.replica.is_some() => ClientType::Replica,
            () if session.caller.subscribed.is_any() => ClientType::Pubsub,
            () => ClientType::Normal,
        }
    }
}

fn positive(value: &[u8], what: &str) -> Result<i64, CmdError> {
    let number = num::parse_i64(value)
        .ok_or_else(|| CmdError::owned(format!("ERR {what} is not an integer or out of range")))?;
    if number < 1 {
        return Err(CmdError::owned(format!("ERR {what} should be greater than 0")));
    }
    Ok(number)
}

fn database(value: &[u8], sense: FilterPolarity, databases: usize) -> Result<usize, CmdError> {
    let what = if sense == FilterPolarity::Is { "DB" } else { "NOT-DB" };
    let number = num::parse_i64(value)
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| CmdError::owned(format!("ERR {what} is not an integer or out of range")))?;
    usize::try_from(number).ok().filter(|db| *db < databases).ok_or_else(|| {
        CmdError::owned(format!("ERR {what} number should be between 0 and {}", databases - 1))
    })
}

fn only_letters(value: &[u8], known: &[u8], what: &str, sense: FilterPolarity) -> Result<(), CmdError> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(());
    }
    let which = match sense {
        FilterPolarity::Is => "provided".to_owned(),
        FilterPolarity::IsNot => format!("NOT-{}", what.to_ascii_uppercase()),
    };
    let mut text = format!("ERR Unknown {what} found in the {which} filter: ").into_bytes();
    text.extend_from_slice(value);
    Err(CmdError::owned(text))
}

/// All letters of the flags of CLIENT LIST, including those of features that do not exist yet.
const FLAGS: &[u8] = b"ABEHIMNOPRSTUbcdeirtux";
/// All letters of capabilities.
const CAPAS: &[u8] = b"r";
