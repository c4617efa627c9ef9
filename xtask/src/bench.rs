//! `cargo xtask bench --peer SERVER`: measures this server and another server of the protocol, and prints the
//! table of docs/performance.md as markdown.
//!
//! Method: each measurement starts a fresh server. The two servers alternate, and the order changes with each
//! round. A ratio is taken per round. The table shows the median of these ratios and their range. Processor
//! time is the kernel's count for the server's process. `rows.rs` has the rows, `measure.rs` measures them,
//! `load.rs` has the load, and `process.rs` reads the counts.
//!
//! Invariants: (1) nothing but the two servers is needed; (2) if a row fails at either server, "did not run"
//! is printed for it, with the error, and the other rows are still measured; (3) no number is printed where a
//! figure is missing.

mod load;
mod measure;
mod process;
mod rows;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::args::Arguments;
use crate::error::Result;
use crate::server::Server;
use crate::wire::Connection;
use crate::{binaries, shell};

use measure::Figures;
use rows::{ROWS, Row, Unit};

/// The options of the command line.
struct Options {
    ours: PathBuf,
    peer: PathBuf,
    rounds: usize,
    /// Factor on the usual number of requests and items.
    scale: f64,
    /// Only rows whose name contains one of these words are measured; all rows if there are no words.
    only: Vec<String>,
    /// Options for both servers.
    options: Vec<String>,
}

/// The processors for the server and the load, if there are enough for both.
struct Pins {
    /// Words that precede the command of a server, such as `taskset -c 0`; `server_everywhere` has the words
    /// for a server that may use every processor.
    server: Vec<String>,
    server_everywhere: Vec<String>,
    described: String,
}

/// The figures of one row: for each round, those of both servers for each line of the row; or the reason why
/// there are no figures.
type Rounds = std::result::Result<Vec<[Vec<Figures>; 2]>, String>;

pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    if arguments.flag("--list") {
        for row in ROWS {
            println!("{:20} {}", row.name, row.about);
        }
        return Ok(());
    }
    let options = options(arguments)?;
    let rows: Vec<&Row> = ROWS.iter().filter(|row| is_wanted(row, &options.only)).collect();
    if rows.is_empty() {
        return Err("no row has such a name; `--list` prints the names".into());
    }
    let machine = process::machine();
    let pins = pin()?;
    let began = shell::now();
    println!("{}", heading(&options, &pins, &machine)?);
    println!("| | unit | Sluice | peer | ratio | range | throughput ratio | range |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let rounds = measure(row, &options, &pins);
        for (index, (about, unit)) in row.lines().iter().enumerate() {
            println!("{}", line(about, *unit, &rounds.as_ref().map(|rounds| of_line(rounds, index))));
        }
    }
    println!("\nMeasured in {}.", shell::seconds(began.elapsed()));
    Ok(())
}

fn options(mut arguments: Arguments) -> Result<Options> {
    let peer = arguments.option("--peer")?.map(PathBuf::from).or_else(binaries::peer_server);
    let peer =
        peer.ok_or(format!("--peer SERVER or {} names the server to compare with", binaries::PEER_VARIABLE))?;
    let rounds = usize::try_from(arguments.number("--rounds", 3)?)?.max(1);
    let scale = arguments.option("--scale")?.map_or(Ok(1.0), |text| text.parse::<f64>())?;
    if !(scale > 0.0 && scale <= 100.0) {
        return Err("--scale needs a number above 0 and up to 100".into());
    }
    let words = |text: Option<String>| -> Vec<String> {
        text.unwrap_or_default()
            .split([',', ' '])
            .filter(|word| !word.is_empty())
            .map(str::to_string)
            .collect()
    };
    let only = words(arguments.option("--only")?);
    let extra = words(arguments.option("--options")?);
    let ours = arguments.option("--ours")?.map(PathBuf::from);
    arguments.words()?;
    let ours = if ours.is_none() { binaries::build_server()? } else { ours };
    let ours = ours.ok_or("--ours SERVER names our server")?;
    Ok(Options { ours, peer, rounds, scale, only, options: extra })
}

fn is_wanted(row: &Row, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|word| row.name.contains(word.as_str()))
}

/// Binds this process to the last processor, and the servers to the first, except servers with I/O threads.
/// Without `taskset`, or with one processor, the kernel chooses.
fn pin() -> Result<Pins> {
    let processors = process::processors();
    let free = || Pins {
        server: Vec::new(),
        server_everywhere: Vec::new(),
        described: "processors chosen by the kernel".into(),
    };
    let (Some(first), Some(last)) = (processors.first(), processors.last()) else { return Ok(free()) };
    if first == last || !shell::on_path("taskset") {
        return Ok(free());
    }
    let mut command = std::process::Command::new("taskset");
    command.args(["-cp", &last.to_string(), &std::process::id().to_string()]);
    shell::output(&mut command)?;
    let held = |list: &[usize]| -> Vec<String> {
        let list: Vec<String> = list.iter().map(usize::to_string).collect();
        vec!["taskset".to_string(), "-c".to_string(), list.join(",")]
    };
    let described = format!(
        "server on processor {first}, load on processor {last}, servers with I/O threads on every processor"
    );
    Ok(Pins { server: held(&[*first]), server_everywhere: held(&processors), described })
}

/// Starts a server for one measurement.
fn start(binary: &Path, launcher: &[String], options: &[String]) -> Result<Server> {
    let extra = [options, &["--maxclients".to_string(), "20000".to_string()]].concat();
    Server::start_by(launcher, binary, &extra)
}

/// The text above the table.
fn heading(options: &Options, pins: &Pins, machine: &str) -> Result<String> {
    let mut text = String::new();
    for (side, binary) in [("Sluice", &options.ours), ("peer", &options.peer)] {
        let server = start(binary, &pins.server, &options.options)?;
        let info = Connection::open(server.port)?.ask(&[b"INFO", b"server"])?.string();
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let version = ["sluice_version", "valkey_version", "redis_version"];
        let version = version.iter().find_map(|name| Some(format!("{name} {}", field(name)?.trim())));
        let said = field("process_id").map(str::trim);
        if said != Some(server.pid().to_string().as_str()) {
            return Err(format!("{side}: INFO names process {said:?}, not {}", server.pid()).into());
        }
        writeln!(text, "- {side}: {} ({})", binary.display(), version.unwrap_or("no version".into()))?;
    }
    writeln!(text, "- machine: {machine}; {}", pins.described)?;
    let Options { rounds, scale, options, .. } = options;
    write!(text, "- {rounds} rounds, scale {scale}")?;
    if !options.is_empty() {
        write!(text, ", both with `{}`", options.join(" "))?;
    }
    writeln!(text)?;
    Ok(text)
}

/// Measures one row in all rounds; the first error of either side ends the row.
fn measure(row: &Row, options: &Options, pins: &Pins) -> Rounds {
    let launcher = if row.takes_all_processors() { &pins.server_everywhere } else { &pins.server };
    let own = row.options.iter().map(ToString::to_string);
    let words: Vec<String> = options.options.iter().cloned().chain(own).collect();
    let mut rounds = Vec::new();
    for round in 0..row.rounds(options.rounds) {
        let mut pair = [Vec::new(), Vec::new()];
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let (name, binary) = [("Sluice", &options.ours), ("the peer", &options.peer)][side];
            let figures =
                start(binary, launcher, &words).and_then(|server| measure::run(row, &server, options.scale));
            pair[side] = figures.map_err(|error| format!("{name}: {error}"))?;
        }
        rounds.push(pair);
    }
    Ok(rounds)
}

/// The figures of one line of a row, in each round.
fn of_line(rounds: &[[Vec<Figures>; 2]], index: usize) -> Vec<[Figures; 2]> {
    rounds.iter().map(|[ours, peer]| [ours[index], peer[index]]).collect()
}

/// One line of the table.
fn line(about: &str, unit: Unit, rounds: &std::result::Result<Vec<[Figures; 2]>, &String>) -> String {
    let rounds = match rounds {
        Ok(rounds) => rounds,
        Err(error) => {
            let error = error.replace(['|', '\n', '\r'], " ");
            return format!("| {about} | did not run: {} | | | | | | |", error.trim());
        }
    };
    let side = |side: usize| median(rounds.iter().map(|pair| pair[side].cost).collect());
    let ratio = |of: fn(&Figures) -> f64| -> Vec<f64> {
        rounds.iter().map(|pair| of(&pair[0]) / of(&pair[1])).collect()
    };
    let cost = ratio(|figures| figures.cost);
    let rate = ratio(|figures| figures.rate);
    let rates = if rate.iter().all(|ratio| ratio.is_finite()) {
        format!("{:.2} | {}", median(rate.clone()), range(&rate))
    } else {
        "– | –".to_string()
    };
    let (ours, peer) = (unit.figure(side(0)), unit.figure(side(1)));
    format!(
        "| {about} | {} | {ours} | {peer} | {:.2} | {} | {rates} |",
        unit.text(),
        median(cost.clone()),
        range(&cost)
    )
}

/// The middle number, or the mean of the two in the middle. There must be at least one number.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 { numbers[middle] } else { (numbers[middle - 1] + numbers[middle]) / 2.0 }
}

fn range(numbers: &[f64]) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.2}–{most:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_between_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(range(&[1.25, 0.5]), "0.50–1.25");
    }

    #[test]
    fn a_line_takes_the_median_of_ratios_and_not_the_ratio_of_medians() {
        let pair = |ours: f64, peer: f64| {
            [Figures { cost: ours, rate: 1.0 / ours }, Figures { cost: peer, rate: 1.0 / peer }]
        };
        let text = line("GET", Unit::Processor, &Ok(vec![pair(1.0, 2.0), pair(3.0, 3.0), pair(8.0, 10.0)]));
        assert!(text.contains("| 3.000 | 3.000 | 0.80 | 0.50–1.00 | 1.25 | 1.00–2.00 |"), "{text}");
    }

    #[test]
    fn a_row_that_was_refused_has_no_number() {
        let text = line("GET", Unit::Processor, &Err(&"the peer: -ERR a|b\r\n".into()));
        assert!(text.contains("did not run: the peer: -ERR a b"), "{text}");
        assert_eq!(text.matches('|').count(), 9, "{text}");
    }

    #[test]
    fn names_of_rows_are_unique_and_their_requests_are_well_formed() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS {
            row.check();
        }
    }
}
