use super::{day, escaped, pages};
use crate::package::build::Build;
use crate::package::usage::{CHECK_AOF, CHECK_RDB, options_of, server_options};
use crate::shell;
use sluice_config::PARAMS;
use std::io::Write;
use std::process::{Command, Stdio};

fn build() -> Build {
    Build { version: "0.1.0".to_owned(), date: 0, programs: Default::default(), licences: String::new() }
}

fn page(file_name: &str) -> String {
    pages(&build()).into_iter().find(|page| page.file_name() == file_name).expect("a page").text
}

#[test]
fn every_directive_is_in_the_page_of_the_configuration() {
    let text = page("sluice.conf.5");
    for param in &PARAMS {
        let tag = format!(".TP\n.BI {} ", escaped(param.name));
        assert_eq!(text.matches(&tag).count(), 1, "{}", param.name);
    }
    assert!(text.contains("Default: 6379"), "{text}");
    assert!(
        text.contains(".BI appendfsync \" everysec|always|no\"") || text.contains(".BI appendfsync"),
        "{text}"
    );
}

#[test]
fn every_option_is_in_the_page_of_its_program() {
    let server = page("sluice-server.1");
    for option in server_options() {
        assert!(server.contains(&format!(".B {}\n", escaped(option.name))), "{}", option.name);
    }
    for (file, usage) in [("sluice-check-rdb.1", CHECK_RDB), ("sluice-check-aof.1", CHECK_AOF)] {
        let text = page(file);
        for (option, _) in options_of(usage) {
            assert!(text.contains(&format!(".B {}", escaped(option))), "{file}: {option}");
        }
    }
}

#[test]
fn dates_are_those_of_the_calendar() {
    assert_eq!(day(0), "1970-01-01");
    assert_eq!(day(951_782_400), "2000-02-29");
    assert_eq!(day(1_798_761_599), "2026-12-31");
}

/// Each installed viewer must read each page without a warning; a missing viewer is skipped.
#[test]
fn readers_of_manual_pages_find_no_fault() {
    let readers: [&[&str]; 2] =
        [&["mandoc", "-T", "lint", "-W", "warning"], &["groff", "-man", "-Tutf8", "-ww", "-z"]];
    for reader in readers.iter().filter(|reader| shell::on_path(reader[0])) {
        for page in pages(&build()) {
            let mut command = Command::new(reader[0]);
            command.args(&reader[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("it starts");
            let mut input = child.stdin.take().expect("a pipe");
            input.write_all(page.text.as_bytes()).expect("it reads");
            drop(input);
            let output = child.wait_with_output().expect("it ends");
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            assert_eq!(said.concat(), "", "{} of {}", reader[0], page.file_name());
        }
    }
}
