//! `cargo xtask differential`: sends the same random commands to our server and to the reference; compares
//! every reply, byte by byte unless a rule allows more, and at the end of each stream the keys, types,
//! expiries, encodings and values.
//!
//! Invariants: (1) with the same options and servers, stream `k` of seed `s` is always the same, so these
//! two numbers identify a failure; (2) a difference is printed with both replies and the smallest stream
//! found that shows it, as lines for a command line client; (3) the allowed differences are data:
//! `differential/rules.rs` and `conformance/differences.toml`, with reasons.

mod allowed;
mod cluster;
mod command;
mod compare;
mod generator;
mod grammar;
mod hostile;
mod listening;
mod logs;
mod pair;
mod payload;
mod player;
mod rules;
mod scripts;
mod shrink;
mod special;
mod streams;
mod tracking;
mod users;
mod values;
mod workload;
mod zsets;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sluice_base::Rng;

use crate::args::Arguments;
use crate::error::Result;
use crate::{binaries, shell};

use crate::server::Server;
use crate::wire::Connection;
use allowed::Allowed;
use command::Command;
use grammar::Grammar;
pub(crate) use payload::crc64;
use player::{Failure, Player};
use workload::Workload;

/// Number of commands in one stream.
const STREAM: u64 = 2000;

/// Number of broken requests of each kind after each stream that showed no difference.
const BROKEN_REQUESTS: u64 = 3;

/// Commands to clusters after which each kind of redirect must have occurred.
const REDIRECTED_COMMANDS: u64 = 10_000;

/// Clients track changes (CLIENT TRACKING) in at most one of this many streams.
const TRACKED_STREAMS: u64 = 3;

/// The file of the known differences.
const DIFFERENCES: &str = "conformance/differences.toml";

/// The options of the command line.
struct Options {
    ours: PathBuf,
    peer: PathBuf,
    commands: u64,
    seed: u64,
    /// The only stream to play; `None`: all streams.
    stream: Option<u64>,
    /// The protocol version; `None`: both, alternately.
    resp: Option<u8>,
    /// Number of different failures after which the run ends.
    failures_max: u64,
    /// Further options of our server alone.
    ours_extra: Vec<String>,
    /// Further options of both servers.
    both_extra: Vec<String>,
    /// The commands to send, as patterns of full names or `@group`; empty: all commands.
    only: Vec<String>,
    /// Whether the state after each stream is compared.
    state: bool,
    /// Whether both servers write append-only files, which are loaded after each stream.
    logs: bool,
    /// Whether both servers are cluster nodes.
    cluster: bool,
    /// Whether each stream is printed before it is played.
    print: bool,
    /// Whether COMMAND INFO and COMMAND DOCS are compared; they never are if `resp` is 2.
    metadata: bool,
    /// Whether our server must be a build with debug assertions, which sums the parts of its memory and
    /// aborts when a command accesses a key that it does not declare.
    checked: bool,
}

pub(crate) fn differential(arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    let both = [bounds(options.logs), options.both_extra.clone()].concat();
    let start = |binary: &Path, extra: &[String]| match options.cluster {
        true => cluster::start(binary, extra),
        false => Server::start(binary, extra).map(|server| vec![server]),
    };
    let ours = start(&options.ours, &[&both, options.ours_extra.as_slice()].concat())?;
    let peers = start(&options.peer, &both)?;
    let mut connections = (Connection::open(ours[0].port)?, Connection::open(peers[0].port)?);
    let mut grammar = Grammar::load(&mut connections.0, &mut connections.1, options.cluster)?;
    if !options.only.is_empty() {
        grammar.commands.retain(|entry| options.only.iter().any(|pattern| entry.is_meant(pattern)));
    }
    if options.logs {
        // ROLE is left out, because its reply has the replication offset. The reference's offset also counts
        // bytes of the log, ours only bytes that replicas are sent.
        grammar.commands.retain(|entry| entry.name != "role");
    }
    if grammar.commands.is_empty() {
        return Err("no command is left to send".into());
    }
    let differing = if options.metadata && options.resp != Some(2) { metadata(&mut connections)? } else { 0 };
    let mut players = Vec::new();
    for (ours, peer) in ours.into_iter().zip(peers) {
        let mut player = Player::new(ours, peer, &grammar)?;
        player.looks_at_state = options.state;
        player.looks_at_logs = options.logs;
        players.push(player);
    }
    let (failures, memory_looks) = run(&options, &grammar, players)?;
    if options.checked && memory_looks == 0 {
        return Err("our server has no debug assertions: it checked nothing".into());
    }
    if failures + differing > 0 {
        return Err(format!("{failures} different failures, {differing} differences in metadata").into());
    }
    Ok(())
}

/// Options of both servers: a limit on the allocation for a hostile offset, the DEBUG subcommands that
/// some generators use, and with `logs` the append-only file.
fn bounds(logs: bool) -> Vec<String> {
    let words = ["--proto-max-bulk-len", "1mb", "--enable-debug-command", "local"];
    let of_logs = logs::OPTIONS.iter().take_while(|_| logs);
    words.iter().chain(of_logs).map(|word| (*word).to_string()).collect()
}

/// Reads the command line.
fn options(arguments: &[String]) -> Result<Options> {
    let mut arguments = Arguments::new(arguments);
    let peer = arguments.option("--peer")?.map(PathBuf::from).or_else(binaries::peer_server);
    let ours = arguments.option("--ours")?.map(PathBuf::from);
    let checked = arguments.flag("--checked");
    let ours = match (ours, checked) {
        (Some(ours), _) => Some(ours),
        (None, true) => binaries::build_checked_server()?,
        (None, false) => binaries::build_server()?,
    };
    let number = |text: Option<String>| text.map(|text| text.parse::<u64>()).transpose();
    let options = Options {
        ours: ours.ok_or("--ours BIN names our server")?,
        peer: peer.ok_or(format!("--peer BIN or {} names the reference server", binaries::PEER_VARIABLE))?,
        commands: arguments.number("--commands", 50_000)?,
        seed: arguments.number("--seed", shell::unix_seconds())?,
        stream: number(arguments.option("--stream")?)?,
        resp: number(arguments.option("--resp")?)?.map(u8::try_from).transpose()?,
        failures_max: arguments.number("--failures", 10)?,
        ours_extra: words_of(arguments.option("--ours-extra")?),
        both_extra: words_of(arguments.option("--both-extra")?),
        only: words_of(arguments.option("--only")?),
        state: !arguments.flag("--replies-only"),
        logs: arguments.flag("--append-only"),
        cluster: arguments.flag("--cluster"),
        print: arguments.flag("--print"),
        metadata: !arguments.flag("--no-metadata"),
        checked,
    };
    arguments.words()?;
    Ok(options)
}

/// The words of a text, separated by blanks or commas.
fn words_of(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    text.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_string).collect()
}

/// Compares the servers' metadata of the commands that ours has; returns the number of differences.
fn metadata(connections: &mut (Connection, Connection)) -> Result<usize> {
    connections.0.speak(3)?;
    connections.1.speak(3)?;
    let differences = grammar::metadata_differences(&mut connections.0, &mut connections.1)?;
    for difference in differences.iter().take(40) {
        println!("metadata: {difference}");
    }
    if differences.len() > 40 {
        println!("metadata: and {} more", differences.len() - 40);
    }
    Ok(differences.len())
}

/// Plays streams until the commands are used up or enough failures were found. Returns the number of
/// different failures, and how often our server reported the sizes of its memory's parts.
fn run(options: &Options, grammar: &Grammar, mut players: Vec<Player<'_>>) -> Result<(usize, u64)> {
    let mut allowed = Allowed::load(&shell::root().join(DIFFERENCES))?;
    let began = shell::now();
    let streams = match options.stream {
        Some(stream) => stream..stream + 1,
        None => 0..options.commands.div_ceil(STREAM),
    };
    println!("differential: seed {}, {} commands of ours are sent", options.seed, grammar.commands.len());
    let (mut seen, mut repeats, mut stricter) = (BTreeSet::new(), 0, 0);
    for stream in streams {
        if seen.len() as u64 >= options.failures_max {
            println!("\nenough: --failures {} was reached", options.failures_max);
            break;
        }
        let commands = commands_of(options, grammar, stream);
        let count = players.len() as u64;
        let player = &mut players[usize::try_from(stream % count).unwrap_or(0)];
        if options.print {
            commands.iter().for_each(|command| println!("{}", line_of(command)));
        }
        // Streams with keys that expire at random moments are not tracked, because these keys would be
        // invalidated at random moments, too.
        player.tracks = stream % TRACKED_STREAMS == TRACKED_STREAMS - 1
            && !options.cluster
            && !Workload::new(grammar, seed_of(options.seed, stream)).is_mortal();
        player.speak(options.resp.unwrap_or(if stream % 2 == 0 { 2 } else { 3 }));
        let Some(failure) = player.play(&commands, &mut allowed)? else {
            compare_protocol(seed_of(options.seed, stream), player, &mut seen)?;
            continue;
        };
        if refuses_what_the_peer_takes(grammar, &failure) && stricter <= stream / STREAMS_PER_REFUSAL {
            stricter += 1;
            continue;
        }
        if !seen.insert(signature(grammar, &failure)) {
            repeats += 1;
            continue;
        }
        println!("\ndifference {}: --seed {} --stream {stream}", seen.len(), options.seed);
        report(grammar, player, &commands, &failure)?;
    }
    println!("\ndifferential: {}", shell::seconds(began.elapsed()));
    summarise(grammar, &players);
    if stricter > 0 {
        println!(
            "{stricter} streams ended early: ours refused a payload with changed bytes that the peer took"
        );
    }
    if repeats > 0 {
        println!("{repeats} further streams failed as one of the above did");
    }
    if seen.is_empty() {
        allowed.report();
    }
    let is_whole =
        options.stream.is_none() && options.only.is_empty() && options.commands >= REDIRECTED_COMMANDS;
    if options.cluster && is_whole && seen.is_empty() {
        count_redirects(&players)?;
    }
    Ok((seen.len(), players.iter().map(|player| player.memory_looks).sum()))
}

/// Whether our server refused a payload that the reference accepted. Such a payload has changed bytes, and
/// only our server checks it completely. The datasets differ from then on. If this happens in more than one
/// of [`STREAMS_PER_REFUSAL`] streams, it counts as a difference.
fn refuses_what_the_peer_takes(grammar: &Grammar, failure: &Failure) -> bool {
    let is_restore = grammar.full_name(&failure.command).starts_with("restore");
    is_restore && failure.ours == b"-ERR Bad data format\r\n" && failure.peer == b"+OK\r\n"
}

/// Number of streams for each allowed refusal; see [`refuses_what_the_peer_takes`].
const STREAMS_PER_REFUSAL: u64 = 20;

/// Sends a few broken requests, and a few requests of unauthenticated clients, and prints those whose
/// replies differ in a way that is not in `seen` yet.
fn compare_protocol(seed: u64, player: &Player<'_>, seen: &mut BTreeSet<String>) -> Result<()> {
    let mut rng = Rng::new(seed);
    let ports = [player.ours.port, player.peer.port];
    for round in 0..BROKEN_REQUESTS {
        let long = round == 0 && rng.below(8) == 0;
        let bytes = if long { hostile::long_bytes(&mut rng) } else { hostile::bytes(&mut rng) };
        compare_answers(ports, &bytes, "", seen)?;
        compare_answers(
            ports,
            &hostile::bytes_of_replies(&mut rng),
            " with replies turned off and on",
            seen,
        )?;
    }
    // The password is set by two connections that stay open, and that remove it again, whatever happens in
    // between.
    let mut owners = [Connection::open(ports[0])?, Connection::open(ports[1])?];
    for owner in &mut owners {
        set_password(owner, hostile::PASSWORD)?;
        owner.ask(&[b"AUTH", hostile::PASSWORD])?;
    }
    let compared = (0..BROKEN_REQUESTS).try_for_each(|_| {
        compare_answers(
            ports,
            &hostile::bytes_before_auth(&mut rng),
            " of a client that has to authenticate",
            seen,
        )
    });
    owners.iter_mut().try_for_each(|owner| set_password(owner, b""))?;
    compared
}

/// Sets the password for new connections; an empty one removes it.
fn set_password(owner: &mut Connection, password: &[u8]) -> Result<()> {
    let reply = owner.ask(&[b"CONFIG", b"SET", b"requirepass", password])?;
    if reply.is_error() { Err(format!("no password can be set: {}", reply.string()).into()) } else { Ok(()) }
}

/// Sends the bytes to both servers; prints them if the replies differ in a way that is not in `seen` yet.
fn compare_answers(ports: [u16; 2], bytes: &[u8], whose: &str, seen: &mut BTreeSet<String>) -> Result<()> {
    let Some(answers) = hostile::differ(ports, bytes)? else { return Ok(()) };
    if seen.contains(&outline_of_answers(&answers)) {
        return Ok(());
    }
    let (small, answers) = hostile::smallest(ports, bytes)?;
    if seen.insert(outline_of_answers(&answers)) {
        println!("\ndifference {}: the answers to these bytes{whose}:\n  {}", seen.len(), shown(&small));
        println!("  ours:  {}\n  peer:  {}", shown(&answers[0]), shown(&answers[1]));
    }
    Ok(())
}

/// The distinguishing parts of two replies to a broken request: at most 40 bytes from the first difference,
/// without digits.
fn outline_of_answers(answers: &[Vec<u8>; 2]) -> String {
    let common = answers[0].iter().zip(&answers[1]).take_while(|(a, b)| a == b).count();
    let rest = |answer: &[u8]| {
        let rest = &answer[common..answer.len().min(common + 40)];
        rest.iter().filter(|byte| !byte.is_ascii_digit()).map(|byte| *byte as char).collect::<String>()
    };
    format!("{} / {}", rest(&answers[0]), rest(&answers[1]))
}

/// The seed of a stream. Both numbers are mixed, because the generator increments its state by a fixed step,
/// so seeds that differ by this step would give the same stream except for its first draw.
fn seed_of(seed: u64, stream: u64) -> u64 {
    Rng::new(Rng::new(seed).next_u64() ^ stream).next_u64()
}

/// The commands of a stream.
fn commands_of(options: &Options, grammar: &Grammar, stream: u64) -> Vec<Command> {
    let count = STREAM.min(options.commands.saturating_sub(stream.saturating_mul(STREAM)).max(1));
    let count = if options.stream.is_some() { STREAM } else { count };
    let seed = seed_of(options.seed, stream);
    let drawn = Workload::new(grammar, seed).stream(usize::try_from(count).unwrap_or(usize::MAX));
    let node = usize::try_from(stream % cluster::NODES as u64).unwrap_or(0);
    if options.cluster { cluster::place(grammar, drawn, seed, node) } else { drawn }
}

/// Prints the number of redirects from ours, and fails if one kind did not occur, because such a run has
/// tested little of the cluster.
fn count_redirects(players: &[Player<'_>]) -> Result<()> {
    let mut unmet = Vec::new();
    for (at, start) in cluster::REDIRECTS.iter().enumerate() {
        let count: u64 = players.iter().map(|player| player.redirects[at]).sum();
        println!("answers with {}: {count}", start.trim_matches(['-', ' ']));
        unmet.extend((count == 0).then_some(*start));
    }
    if unmet.is_empty() { Ok(()) } else { Err(format!("nothing was answered with {unmet:?}").into()) }
}

/// Prints what was compared, and figures about the quality of the drawn commands.
fn summarise(grammar: &Grammar, players: &[Player<'_>]) {
    let mut tally: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, (all, errors)) in players.iter().flat_map(|player| &player.tally) {
        let sum = tally.entry(name).or_default();
        *sum = (sum.0 + all, sum.1 + errors);
    }
    let (total, errors) = tally.values().fold((0, 0), |sum, (all, errors)| (sum.0 + all, sum.1 + errors));
    let sum = |count: fn(&Player<'_>) -> u64| players.iter().map(count).sum::<u64>();
    let unexplained_max = players.iter().map(|player| player.unexplained_max).max().unwrap_or(0);
    println!(
        "{total} replies compared, {errors} of them errors; a client waited {} times, another was sent {} messages, \
         senders that had subscribed {}; clients that track were told to drop {} keys",
        sum(|player| player.waits),
        sum(|player| player.messages),
        sum(|player| player.heard),
        sum(|player| player.dropped)
    );
    if sum(|player| player.log_looks) > 0 {
        println!("append-only files were loaded by each other {} times", sum(|player| player.log_looks));
    }
    match sum(|player| player.memory_looks) {
        0 => println!("the parts of memory were not summed: only a build with debug assertions does that"),
        looks => println!(
            "the parts of memory were summed {looks} times; what they missed was {}.{} % at most",
            unexplained_max / 10,
            unexplained_max % 10
        ),
    }
    let names = || grammar.commands.iter().map(|entry| (entry.name.as_str(), tally.get(entry.name.as_str())));
    if total < 20_000 {
        return;
    }
    let never: Vec<&str> = names().filter(|(_, tally)| tally.is_none()).map(|(name, _)| name).collect();
    let errors_only = |tally: &(u64, u64)| tally.0 >= 200 && tally.0 == tally.1;
    let only: Vec<&str> =
        names().filter(|(_, tally)| tally.is_some_and(errors_only)).map(|(name, _)| name).collect();
    for (names, what) in [(never, "never drawn"), (only, "never answered with anything but errors")] {
        if !names.is_empty() {
            println!("{what}: {}", names.join(" "));
        }
    }
}

/// The key by which failures count as the same: the command, the types of the replies, and the
/// words of errors.
fn signature(grammar: &Grammar, failure: &Failure) -> String {
    let outline = |reply: &[u8]| -> String {
        let length = if reply.starts_with(b"-") || reply.starts_with(b"(") { 40 } else { 1 };
        let text = String::from_utf8_lossy(&reply[..reply.len().min(length)]).into_owned();
        text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
    };
    let name = grammar.full_name(&failure.command);
    format!("{name} {} {}", outline(&failure.ours), outline(&failure.peer))
}

/// Prints a failure, shrinks its stream and prints the result.
fn report(grammar: &Grammar, player: &mut Player<'_>, commands: &[Command], failure: &Failure) -> Result<()> {
    println!("command {} of the stream", failure.index);
    print_replies(failure);
    let name = grammar.full_name(&failure.command);
    let mut quiet = Allowed::load(&shell::root().join(DIFFERENCES))?;
    let head = &commands[..commands.len().min(failure.index + 1)];
    let mut last = failure.clone();
    let mut again = |part: &[Command]| -> Result<bool> {
        let found = player.play(part, &mut quiet)?.filter(|found| grammar.full_name(&found.command) == name);
        let fails = found.is_some();
        last = found.unwrap_or_else(|| last.clone());
        Ok(fails)
    };
    if !again(head)? {
        println!("playing it again did not show it: a reply depends on time or on chance");
        return Ok(());
    }
    let small = shrink::shrink(head, &mut again)?;
    println!("{} commands are enough:", small.len());
    for command in &small {
        println!("  {}", line_of(command));
    }
    print_replies(&last);
    Ok(())
}

/// Prints the command and both replies.
fn print_replies(failure: &Failure) {
    println!("  to:    {}", line(&failure.command));
    let (ours, peer) = (&failure.ours, &failure.peer);
    let common = ours.iter().zip(peer).take_while(|(a, b)| a == b).count();
    // In a long reply only the last equal bytes are printed, so that the different part is visible.
    let from = if common > SHOWN_IN_FRONT_MAX { common - SHOWN_IN_FRONT } else { 0 };
    let skipped = if from > 0 { format!("(from byte {from}) ...") } else { String::new() };
    println!("  ours:  {skipped}{}", shown(&ours[from..]));
    println!("  peer:  {skipped}{}", shown(&peer[from..]));
}

/// Number of equal bytes before the first difference above which only the last
/// [`SHOWN_IN_FRONT`] are printed.
const SHOWN_IN_FRONT_MAX: usize = 300;

/// Equal bytes that are printed before the first difference in a long reply.
const SHOWN_IN_FRONT: usize = 200;

/// A raw reply on one line of bounded length.
fn shown(raw: &[u8]) -> String {
    let text = raw.escape_ascii().to_string();
    match text.get(..600) {
        Some(head) => format!("{head}... ({} bytes)", raw.len()),
        None => text,
    }
}

/// A command in the syntax of a command line client, preceded by its client unless that is the first.
fn line_of(command: &Command) -> String {
    match command.client {
        0 => line(&command.words),
        client => format!("client {client}: {}", line(&command.words)),
    }
}

/// Words in the syntax of a command line client.
fn line(words: &[Vec<u8>]) -> String {
    let quoted = |word: &Vec<u8>| {
        let plain = !word.is_empty() && word.iter().all(|b| b.is_ascii_graphic() && !b"\"'\\".contains(b));
        if plain { String::from_utf8_lossy(word).into_owned() } else { format!("\"{}\"", escaped(word)) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The inside of a quoted word, with bytes that are not printable as `\xhh`.
fn escaped(word: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", *byte as char),
        b' '..=b'~' => (*byte as char).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    word.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::{Rng, line, seed_of};
    use std::collections::BTreeSet;

    #[test]
    fn no_stream_of_a_seed_is_a_part_of_another() {
        let mut states = BTreeSet::new();
        for seed in 0..64 {
            for stream in 0..64 {
                let mut rng = Rng::new(seed_of(seed, stream));
                assert!((0..8).all(|_| states.insert(rng.next_u64())), "seed {seed}, stream {stream}");
            }
        }
    }

    #[test]
    fn a_line_quotes_what_a_command_line_client_would_misread() {
        let words = [b"SET".to_vec(), b"".to_vec(), b"a \"\\\n\xff".to_vec()];
        assert_eq!(line(&words), r#"SET "" "a \"\\\x0a\xff""#);
    }
}
