//! A parsed trace: its nodes, and its steps, each with what is read from the replies.

use super::reads::Read;

/// A file of `conformance/operators`.
#[derive(Default)]
pub struct Trace {
    /// Number of servers, which are numbered from 1 on.
    pub nodes: usize,
    /// Number of sentinels, `s1` and so on. They are always the reference's, because this
    /// server is no sentinel.
    pub sentinels: usize,
    /// Whether the servers are nodes of a cluster.
    pub has_cluster: bool,
    /// Whether clients and the bus use TLS.
    pub has_tls: bool,
    /// Lines of every server's configuration.
    pub directives: Vec<String>,
    /// Lines of every server's ACL file.
    pub users: Vec<String>,
    /// Groups of nodes of both kinds, one letter for each node: `o` is ours, `s` the reference's.
    pub mixed: Vec<String>,
    pub steps: Vec<Step>,
}

/// A command or an action, with the indented lines below it.
pub struct Step {
    /// The number of the line in the file.
    pub line: usize,
    /// Whether the step is repeated until its reads succeed.
    pub is_repeated: bool,
    /// The words of the command or action.
    pub words: Vec<String>,
    /// What is read from each reply of the step.
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

/// Words separated by spaces; a word in quotes may contain spaces, or be empty.
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
