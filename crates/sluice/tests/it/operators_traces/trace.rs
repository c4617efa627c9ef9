//! A trace as it is written: which nodes there are, and the steps with what is read of each reply.

use super::reads::Read;

/// A file of `conformance/operators`.
#[derive(Default)]
pub struct Trace {
    /// Servers, which are numbered from 1 on.
    pub nodes: usize,
    /// Sentinels, `s1` and so on. They are stock ones always: this server is none.
    pub sentinels: usize,
    /// Whether the servers are nodes of a cluster.
    pub has_cluster: bool,
    /// Whether clients and the bus speak TLS.
    pub has_tls: bool,
    /// Lines of every server's configuration.
    pub directives: Vec<String>,
    /// Lines of every server's file of users.
    pub users: Vec<String>,
    /// Groups of both kinds of nodes: `o` is one of ours, `s` a stock one.
    pub mixed: Vec<String>,
    pub steps: Vec<Step>,
}

/// A command or an act, with the indented lines below.
pub struct Step {
    /// The number of the line in the file.
    pub line: usize,
    /// Whether the step is tried again until the reads have what they name.
    pub is_repeated: bool,
    /// What is done.
    pub words: Vec<String>,
    /// What is read of each reply.
    pub reads: Vec<Read>,
}

impl Trace {
    pub fn parse(text: &str) -> Trace {
        let mut trace = Trace::default();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let content = line.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            if line.starts_with(' ') {
                let step = trace.steps.last_mut().unwrap_or_else(|| panic!("line {number} reads of nothing"));
                step.reads.push(Read::parse(content).unwrap_or_else(|| panic!("line {number}: {content}")));
                continue;
            }
            let (first, rest) = content.split_once(' ').unwrap_or((content, ""));
            match first {
                "nodes" | "servers" => {
                    trace.nodes = rest.parse().unwrap();
                    trace.has_cluster = first == "nodes";
                }
                "sentinels" => trace.sentinels = rest.parse().unwrap(),
                "tls" => trace.has_tls = true,
                "mixed" => trace.mixed.extend(rest.split(' ').map(str::to_owned)),
                "with" => trace.directives.push(rest.to_owned()),
                "user" => trace.users.push(content.to_owned()),
                _ => {
                    let is_repeated = first == "until";
                    let words = words_of(if is_repeated { rest } else { content });
                    trace.steps.push(Step { line: number, is_repeated, words, reads: Vec::new() });
                }
            }
        }
        trace
    }
}

/// Words between spaces; one in quotes may have spaces, or be empty.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("a quote that ends"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}
