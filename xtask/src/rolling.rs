//! `cargo xtask rolling`: six nodes of a cluster are restarted as another program, one after the other,
//! while programs read and write through real client libraries.
//!
//! Each node is ended by SIGTERM with `shutdown-on-sigterm failover`, and started in its folder again. The
//! next node follows when this one serves, has the data, and all nodes list it to clients. The requirements
//! are: no call fails in a step in which a node of ours ends; no acknowledged write is lost, and no wrong
//! value read, in any step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::Arguments;
use crate::binaries;
use crate::cluster::{Cluster, PRIMARIES, Replicas};
use crate::error::Result;
use crate::loops::{Found, Loops, of};
use crate::shell::{self, Ran};
use crate::wire::{Connection, encode};

/// The text of `rolling --help`.
const HELP: &str = "\
cargo xtask rolling --from SERVER --to SERVER [option...]

SERVER is `ours` (a release of what is checked out), `stock` (what SLUICE_PEER_SERVER names), or a path.

  --clients a,b       libraries: redis-py, valkey-py, go-redis, rueidis, jedis, lettuce, node-redis, ioredis,
                      redis-rs; by default all
  --mode MODE         `default`: no option of a library is set; `quiet`: those that ask servers for
                      maintenance notifications do not; `tuned`: see xtask/src/loops.rs
  --primaries-first   the primaries end ahead of their replicas, so that each role is handed over twice
  --node-timeout MS   cluster-node-timeout (15,000)
  --keys N            keys of 100 bytes that each primary has at the start (100,000)
  --pause MS          after each step (1,000)
  --logs FOLDER       the logs of the nodes are left there
";

/// Maximum wait for the end of a node; after a handover a node of ours redirects clients for 3 s.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// A library whose errors are counted, but are no failure. The synchronous cluster connection of redis-rs
/// 1.8.1 asks all connections for the map of slots in turn, and returns the error of the first dead
/// connection to the application, at each call, with nodes of the reference as with ours.
const KEEPS_DEAD_CONNECTIONS: &str = "redis-rs";

/// The parameters of an upgrade.
struct Upgrade {
    from: PathBuf,
    to: PathBuf,
    clients: Vec<String>,
    mode: String,
    order: Vec<usize>,
    node_timeout: u64,
    keys: u64,
    pause: Duration,
    logs: Option<PathBuf>,
}

pub(crate) fn rolling(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    if arguments.flag("--help") {
        print!("{HELP}");
        return Ok(());
    }
    let (Some(from), Some(to)) = (arguments.option("--from")?, arguments.option("--to")?) else {
        return Err("needs --from and --to; `cargo xtask rolling --help` says more".into());
    };
    let mut upgrade = Upgrade::between(server(&from)?, server(&to)?);
    let clients = arguments.option("--clients")?.unwrap_or_default();
    upgrade.clients = clients.split(',').filter(|name| !name.is_empty()).map(of).collect();
    upgrade.mode = arguments.option("--mode")?.unwrap_or(upgrade.mode);
    if arguments.flag("--primaries-first") {
        upgrade.order.sort_unstable();
    }
    upgrade.logs = arguments.option("--logs")?.map(PathBuf::from);
    upgrade.node_timeout = arguments.number("--node-timeout", upgrade.node_timeout)?;
    upgrade.keys = arguments.number("--keys", upgrade.keys)?;
    upgrade.pause =
        Duration::from_millis(arguments.number("--pause", upgrade.pause.as_millis().try_into()?)?);
    if let Some(word) = arguments.words()?.first() {
        return Err(format!("what is {word:?}? `cargo xtask rolling --help` says more").into());
    }
    upgrade.run()
}

/// The long run: from the reference to ours, from ours to ours, and back, each once with the replicas and
/// once with the primaries first; in the second and the third upgrade, nodes of ours hand over each role.
pub(crate) fn deep(ours: Option<&Path>) -> Result<Ran> {
    let Some(peer) = binaries::peer_server() else {
        println!("rolling: skipped: {} names no reference server", binaries::PEER_VARIABLE);
        return Ok(Ran::Skipped);
    };
    let ours = ours.map_or_else(|| server("ours"), |path| Ok(path.to_path_buf()))?;
    for (from, to) in [(&peer, &ours), (&ours, &ours), (&ours, &peer)] {
        for is_primary_first in [false, true] {
            let mut upgrade = Upgrade::between(from.clone(), to.clone());
            if is_primary_first {
                upgrade.order.sort_unstable();
            }
            upgrade.run()?;
        }
    }
    Ok(Ran::Passed)
}

/// The program for a word of the command line.
fn server(word: &str) -> Result<PathBuf> {
    match word {
        "ours" => binaries::build_server()?.ok_or_else(|| "the workspace has no server yet".into()),
        "stock" => binaries::peer_server()
            .ok_or_else(|| format!("{} names no reference server", binaries::PEER_VARIABLE).into()),
        path => Ok(PathBuf::from(path)),
    }
}

impl Upgrade {
    /// The default upgrade, which restarts the replicas first.
    fn between(from: PathBuf, to: PathBuf) -> Upgrade {
        let order = (PRIMARIES..2 * PRIMARIES).chain(0..PRIMARIES).collect();
        let (clients, mode) = (Vec::new(), "default".to_owned());
        let pause = Duration::from_secs(1);
        Upgrade { from, to, clients, mode, order, node_timeout: 15_000, keys: 100_000, pause, logs: None }
    }

    fn run(&self) -> Result<()> {
        let (from, to) = (version(&self.from)?, version(&self.to)?);
        let first = if self.order[0] < PRIMARIES { "primaries" } else { "replicas" };
        println!("rolling: {from} to {to}, {first} first, clients: {}", self.mode);
        let timeout = self.node_timeout.to_string();
        let options =
            ["--cluster-node-timeout", &timeout, "--shutdown-on-sigterm", "failover", "--save", "3600 1"];
        let mut cluster = Cluster::start(&self.from, Replicas::One, &options)?;
        self.fill(&cluster)?;
        let mut loops = Loops::start(&self.clients, &self.mode, &cluster.ports())?;
        if loops.is_empty() {
            return Err("no client library is there".into());
        }
        let is_ours = from.contains("luice");
        let mut sums = BTreeMap::new();
        let mut failed = Vec::new();
        for &at in &self.order {
            let before = refusals(&cluster)?;
            loops.report()?;
            let role = if cluster.is_primary(at)? { "primary" } else { "replica" };
            let (began, since) = (shell::now(), shell::unix_ms());
            cluster.nodes[at].signal("-TERM")?;
            cluster.nodes[at].wait_for_end(END_PATIENCE)?;
            let ended = began.elapsed();
            cluster.nodes[at].begin_again(&self.to)?;
            cluster.until_back(at)?;
            println!(
                "  node {at}, a {role}: ended after {:.3} s, back after {:.3} s",
                ended.as_secs_f64(),
                began.elapsed().as_secs_f64()
            );
            std::thread::sleep(self.pause);
            for (node, (before, after)) in before.iter().zip(refusals(&cluster)?).enumerate() {
                // The counters of a restarted node begin at 0.
                let before = |kind: &str| before.get(kind).copied().filter(|_| node != at).unwrap_or(0);
                let more = after.iter().filter(|(kind, count)| **count > before(kind));
                let more: Vec<_> =
                    more.map(|(kind, count)| format!("{kind} {}", count - before(kind))).collect();
                if !more.is_empty() {
                    println!("    node {node} has answered: {}", more.join(", "));
                }
            }
            self.keep_logs(&cluster)?;
            for found in loops.report()? {
                let bar = found.has_lost_nothing();
                failed.extend(bar.err().map(|error| error.to_string()));
                if is_ours && !found.errors.is_empty() && found.name != KEEPS_DEAD_CONNECTIONS {
                    failed.push(format!("{}: calls failed as node {at}, a {role}, ended", found.name));
                }
                tell(&found, since);
                let sum: &mut Sum = sums.entry(found.name.clone()).or_default();
                sum.add(&found, at);
            }
        }
        for (name, sum) in sums {
            println!("  {name}: {}", sum.text());
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
    }

    fn keep_logs(&self, cluster: &Cluster) -> Result<()> {
        let Some(folder) = &self.logs else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        for (at, node) in cluster.nodes.iter().enumerate() {
            std::fs::copy(node.folder().join("log"), folder.join(format!("node-{at}.log")))?;
        }
        Ok(())
    }

    /// Writes keys, so that each node has data to load, and each replica has data to copy.
    fn fill(&self, cluster: &Cluster) -> Result<()> {
        for (at, tag) in ["{3}", "{1}", "{0}"].iter().enumerate() {
            let mut connection = Connection::open(cluster.nodes[at].port)?;
            let value = [b'x'; 100];
            let numbers: Vec<u64> = (0..self.keys).collect();
            for numbers in numbers.chunks(1_000) {
                let mut bytes = Vec::new();
                for number in numbers {
                    let key = format!("{tag}:filling:{number}");
                    encode(&[&b"SET"[..], key.as_bytes(), &value], &mut bytes);
                }
                connection.send(&bytes);
                let answers = connection.receive(numbers.len());
                if answers.replies.iter().any(|reply| reply != b"+OK\r\n") || answers.end.is_some() {
                    return Err(format!("keys are refused: {:?}", answers.end).into());
                }
            }
        }
        Ok(())
    }
}

/// The number of error replies of each node, by the first word of the error.
fn refusals(cluster: &Cluster) -> Result<Vec<BTreeMap<String, u64>>> {
    let texts = cluster.ask_each(&["INFO", "errorstats"])?;
    let counts = |text: String| {
        let lines =
            text.lines().filter_map(|line| line.trim().strip_prefix("errorstat_")?.split_once(":count="));
        lines.filter_map(|(kind, count)| Some((kind.to_owned(), count.parse().ok()?))).collect()
    };
    Ok(texts.iter().map(|text| counts(text.string())).collect())
}

/// The first words of a program's version.
fn version(binary: &Path) -> Result<String> {
    let text = shell::output(std::process::Command::new(binary).arg("--version"))?;
    Ok(text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// Prints the number of errors and the longest gap, if there are errors or a person would notice the gap.
/// Also prints the errors by kind, the lost writes and the wrong values, 12 lines at most.
fn tell(found: &Found, since_ms: u64) {
    let after = i64::try_from(found.gap_at_ms).unwrap_or(0) - i64::try_from(since_ms).unwrap_or(0);
    if !found.errors.is_empty() || found.gap_ms > 250 {
        println!(
            "    {}: {} errors, longest gap {} ms from {after} ms on",
            found.name,
            found.errors.len(),
            found.gap_ms
        );
    }
    for text in found.kinds(since_ms).iter().chain(&found.lost).chain(&found.wrong).take(12) {
        println!("      {text}");
    }
}

/// The totals of a library over all steps.
#[derive(Default)]
struct Sum {
    writes: u64,
    reads: u64,
    errors: usize,
    lost: usize,
    wrong: usize,
    gap_ms: u64,
    gap_of: usize,
}

impl Sum {
    fn add(&mut self, found: &Found, node: usize) {
        self.writes += found.writes;
        self.reads += found.reads;
        self.errors += found.errors.len();
        self.lost += found.lost.len();
        self.wrong += found.wrong.len();
        if found.gap_ms > self.gap_ms {
            (self.gap_ms, self.gap_of) = (found.gap_ms, node);
        }
    }

    fn text(&self) -> String {
        format!(
            "{} writes, {} reads, {} errors, {} lost, {} wrong, longest gap {} ms (node {})",
            self.writes, self.reads, self.errors, self.lost, self.wrong, self.gap_ms, self.gap_of
        )
    }
}
