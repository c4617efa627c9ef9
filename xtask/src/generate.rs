//! `cargo xtask gen`: what is written from the tables of the product, `sluice.conf` and a part of `docs/compat.md`.
//! With `--check` it only says whether they are fresh.

use crate::Result;
use sluice_config::{Honoured, PARAMS};
use std::fs;

const CONF: &str = "sluice.conf";
const COMPAT: &str = "docs/compat.md";
const BEGIN: &str = "<!-- directives -->\n";
const END: &str = "<!-- /directives -->";

/// Writes or checks the generated files.
pub(crate) fn generate(arguments: &[String]) -> Result<()> {
    let check = arguments.iter().any(|argument| argument == "--check");
    let compat = fs::read_to_string(COMPAT)?;
    let files = [(CONF, sluice_config::example_conf()), (COMPAT, with_directives(&compat)?)];
    for (path, wanted) in files {
        let fresh = fs::read_to_string(path).is_ok_and(|present| present == wanted);
        if fresh {
            continue;
        }
        if check {
            return Err(format!("{path} is not what the tables say; run `cargo xtask gen`").into());
        }
        fs::write(path, wanted)?;
        println!("wrote {path}");
    }
    Ok(())
}

fn with_directives(page: &str) -> Result<String> {
    let begin = page.find(BEGIN).ok_or("docs/compat.md lost its marker of directives")? + BEGIN.len();
    let end = page.find(END).ok_or("docs/compat.md lost its end marker of directives")?;
    let mut table = String::from("| directive | waits for |\n|---|---|\n");
    for param in &PARAMS {
        match param.honoured {
            Honoured::Yes => {}
            Honoured::NotYet(feature) => table.push_str(&format!("| `{}` | {feature} |\n", param.name)),
            Honoured::Ignored(reason) => table.push_str(&format!("| `{}` | never: {reason} |\n", param.name)),
        }
    }
    Ok(format!("{}{table}{}", &page[..begin], &page[end..]))
}
