//! The subset of YAML that the examples use: maps and lists in lines, lists in brackets, texts with and
//! without quotes, blocks of text (`|`), comments, documents, and anchors (`&name`, `*name`, `<<`).
//!
//! Other syntax is parsed as text, so a look-up of a key in it fails.

use std::collections::BTreeMap;

/// A parsed value: text, list or map.
#[derive(Clone, Debug)]
pub enum Yaml {
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// The value at the end of a path of keys, separated by dots.
    #[track_caller]
    pub fn at(&self, way: &str) -> &Yaml {
        way.split('.').fold(self, |here, key| here.get(key).unwrap_or_else(|| panic!("no {key} in {here:?}")))
    }

    pub fn get(&self, key: &str) -> Option<&Yaml> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The entries of a map; empty for another value.
    pub fn entries(&self) -> &[(String, Yaml)] {
        match self {
            Yaml::Map(entries) => entries,
            Yaml::Text(_) | Yaml::List(_) => &[],
        }
    }

    /// The items of a list; empty for another value.
    pub fn items(&self) -> &[Yaml] {
        match self {
            Yaml::List(items) => items,
            Yaml::Text(_) | Yaml::Map(_) => &[],
        }
    }

    #[track_caller]
    pub fn text(&self) -> &str {
        match self {
            Yaml::Text(text) => text,
            Yaml::List(_) | Yaml::Map(_) => panic!("no text: {self:?}"),
        }
    }

    /// The texts of a list.
    pub fn texts(&self) -> Vec<String> {
        self.items().iter().map(|item| item.text().to_owned()).collect()
    }
}

/// The documents of a file.
pub fn documents(file: &str) -> Vec<Yaml> {
    let documents = file.split("\n---\n");
    documents
        .map(|text| {
            let lines = text.lines().map(str::to_owned).collect();
            Reader { lines, at: 0, names: BTreeMap::new() }.block(0)
        })
        .collect()
}

struct Reader {
    lines: Vec<String>,
    at: usize,
    names: BTreeMap<String, Yaml>,
}

fn depth_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

impl Reader {
    /// The next line that is not empty, and its indentation.
    fn line(&mut self) -> Option<(usize, String)> {
        while let Some(line) = self.lines.get(self.at) {
            let text = line.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Some((depth_of(line), text.to_owned()));
            }
            self.at += 1;
        }
        None
    }

    /// A map or a list with at least this indentation; an empty text if there is none.
    fn block(&mut self, least: usize) -> Yaml {
        match self.line() {
            Some((depth, text)) if depth >= least && is_item(&text) => self.list(depth),
            Some((depth, _)) if depth >= least => self.map(depth),
            _ => Yaml::Text(String::new()),
        }
    }

    fn list(&mut self, depth: usize) -> Yaml {
        let mut items = Vec::new();
        while let Some((_, text)) = self.line().filter(|(here, text)| *here == depth && is_item(text)) {
            let rest = text[1..].trim_start();
            if split_key(rest).is_some() {
                // This line is the first one of a map that continues below.
                self.lines[self.at] = format!("{}{rest}", " ".repeat(depth + 2));
                items.push(self.map(depth + 2));
            } else {
                self.at += 1;
                items.push(self.scalar(rest));
            }
        }
        Yaml::List(items)
    }

    fn map(&mut self, depth: usize) -> Yaml {
        let mut entries: Vec<(String, Yaml)> = Vec::new();
        while let Some((_, text)) = self.line().filter(|(here, _)| *here == depth) {
            let (key, rest) = split_key(&text).unwrap_or_else(|| panic!("neither key nor item: {text}"));
            self.at += 1;
            let value = match rest.strip_prefix('&') {
                Some(name) => {
                    let value = self.block(depth + 1);
                    self.names.insert(name.to_owned(), value.clone());
                    value
                }
                None if rest.is_empty() => self.block(depth + 1),
                None if rest == "|" => self.literal(depth),
                None => self.scalar(rest),
            };
            match key {
                "<<" => entries.extend(value.entries().iter().cloned()),
                key => entries.push((key.to_owned(), value)),
            }
        }
        Yaml::Map(entries)
    }

    /// The following lines with a greater indentation, without the indentation of the first of these lines.
    fn literal(&mut self, depth: usize) -> Yaml {
        let from = self.at;
        let is_in = |line: &String| line.trim().is_empty() || depth_of(line) > depth;
        self.at += self.lines[from..].iter().take_while(|line| is_in(line)).count();
        let lines = &self.lines[from..self.at];
        let margin = lines.first().map_or(0, |line| depth_of(line));
        let text = lines.iter().map(|line| format!("{}\n", line.get(margin..).unwrap_or_default()));
        Yaml::Text(text.collect())
    }

    fn scalar(&self, text: &str) -> Yaml {
        if let Some(name) = text.strip_prefix('*') {
            return self.names.get(name).unwrap_or_else(|| panic!("no &{name}")).clone();
        }
        match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            Some(inner) => Yaml::List(inner.split(", ").map(|item| self.scalar(item)).collect()),
            None => Yaml::Text(text.trim_matches('"').to_owned()),
        }
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// The key of a line, and the rest of the line.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.split_once(": ").or_else(|| text.strip_suffix(':').map(|key| (key, "")))?;
    (!key.starts_with(['"', '['])).then_some((key, rest.trim()))
}
