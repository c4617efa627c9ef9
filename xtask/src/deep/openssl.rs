//! `openssl s_client` against our server: each version and cipher suite that is served, examples of those
//! that are refused, and features of OpenSSL's client that rustls's lacks. OpenSSL makes the certificates,
//! with RSA and ECDSA keys.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::binaries;
use crate::error::Result;
use crate::server::Server;
use crate::shell::Ran;

/// Arguments with which OpenSSL makes a key of each kind.
const KEYS: [(&str, &[&str]); 3] = [
    ("rsa", &["-newkey", "rsa:2048"]),
    ("p256", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ("p384", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"]),
];

/// Suites of TLS 1.3.
const SUITES_13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// Suites of TLS 1.2 that are served, without the prefix for the kind of key.
const SUITES_12: [&str; 3] = ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"];

/// Versions, suites and curves that are refused: arguments of `s_client`, at the security level that lets a
/// client offer them.
const REFUSED: [&[&str]; 8] = [
    &["-tls1", "-cipher", "ALL:@SECLEVEL=0"],
    &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "AES256-GCM-SHA384:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "ALL:@SECLEVEL=0", "-curves", "secp521r1"],
];

pub(super) fn run() -> Result<Ran> {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("openssl: skipped: there is no program openssl");
        return Ok(Ran::Skipped);
    }
    let binary = binaries::build_server()?.ok_or("there is no server to run")?;
    let mut faults = Vec::new();
    let mut count = 0;
    for (kind, how) in KEYS {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = start(&binary, kind, how, port)?;
        let mut check = |words: &[&str], input: &[u8], wanted: &dyn Fn(&Output) -> bool| -> Result<()> {
            let output = client(port, words, input)?;
            count += 1;
            if !wanted(&output) {
                let said = String::from_utf8_lossy(&output.stderr);
                let line = said.lines().last().unwrap_or_default();
                faults.push(format!("{kind}: s_client {}: {line}", words.join(" ")));
            }
            Ok(())
        };
        for suite in SUITES_13 {
            check(&["-tls1_3", "-ciphersuites", suite], PING, &is_served)?;
        }
        let of_key = if kind == "rsa" { "ECDHE-RSA" } else { "ECDHE-ECDSA" };
        for suite in SUITES_12 {
            check(&["-tls1_2", "-cipher", &format!("{of_key}-{suite}")], PING, &is_served)?;
        }
        for curve in ["X25519", "P-256", "P-384"] {
            check(&["-tls1_3", "-curves", curve], PING, &is_served)?;
            // With TLS 1.2 the list of curves must also have the curve of an ECDSA certificate.
            let others = ["P-256", "P-384"].into_iter().filter(|other| *other != curve);
            let all = std::iter::once(curve).chain(others).collect::<Vec<_>>().join(":");
            check(&["-tls1_2", "-curves", &all], PING, &is_served)?;
        }
        for words in REFUSED {
            check(words, PING, &is_refused)?;
        }
        // Sessions must be resumed, in both versions.
        for version in ["-tls1_2", "-tls1_3"] {
            let file = std::env::temp_dir().join(format!("sluice-session-{port}"));
            let name = file.to_string_lossy().into_owned();
            check(&[version, "-sess_out", &name], PING, &is_served)?;
            check(&[version, "-sess_in", &name], PING, &|output| {
                is_served(output) && String::from_utf8_lossy(&output.stdout).contains("Reused, TLS")
            })?;
            let _ = std::fs::remove_file(file);
        }
        // Renegotiation must end the connection without affecting others; a key update must not end it.
        check(&["-tls1_2"], b"R\n", &|output| !is_pong(output))?;
        check(&["-tls1_3"], b"K\nPING\n", &is_served)?;
        // The server must accept records of all lengths, and a server name and protocols that it does not
        // use.
        let lines = [vec![b'x'; 40_000], b"\nPING\n".to_vec()].concat();
        check(&["-tls1_3"], &[b"ECHO ".to_vec(), lines].concat(), &is_served)?;
        check(&["-tls1_2", "-max_send_frag", "512"], PING, &is_served)?;
        check(&["-tls1_3", "-servername", "example.org", "-alpn", "http/1.1,h2"], PING, &is_served)?;
        drop(server);
    }
    println!("openssl: {count} connections, {} not as they should be", faults.len());
    match faults.is_empty() {
        true => Ok(Ran::Passed),
        false => Err(faults.join("\n").into()),
    }
}

/// The request that the client types.
const PING: &[u8] = b"PING\n";

/// A server with a certificate whose key is of this kind.
fn start(binary: &Path, kind: &str, how: &[&str], port: u16) -> Result<Server> {
    let folder = std::env::temp_dir().join(format!("sluice-openssl-{kind}-{port}"));
    std::fs::create_dir_all(&folder)?;
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (key, certificate) = (file("key.pem"), file("certificate.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(how)
        .args(["-keyout", &key, "-out", &certificate])
        .output()?;
    if !made.status.success() {
        return Err(format!("openssl req: {}", String::from_utf8_lossy(&made.stderr)).into());
    }
    let words = ["--tls-port", &port.to_string(), "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let words =
        [words.as_slice(), &["--tls-ca-cert-file", &certificate, "--tls-auth-clients", "no"]].concat();
    let server = Server::start(binary, &words.iter().map(ToString::to_string).collect::<Vec<_>>());
    // The folder is no longer needed, because the server has read the files.
    let _ = std::fs::remove_dir_all(&folder);
    server
}

/// The output of OpenSSL's client for this input. The client ends when its input ends, or after 10 s.
fn client(port: u16, words: &[&str], input: &[u8]) -> Result<Output> {
    let mut child = Command::new("timeout")
        .args(["10", "openssl", "s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut typed = child.stdin.take().ok_or("no input")?;
    // The client takes letters at the beginning of a piece for its own commands, so each line is written
    // alone, after a pause for reading the previous one; QUIT makes the server close the connection after
    // the replies.
    std::thread::sleep(std::time::Duration::from_millis(150));
    for line in input.split_inclusive(|byte| *byte == b'\n').chain([b"QUIT\n".as_slice()]) {
        // An error ends the input, because a refused connection takes none.
        if typed.write_all(line).and_then(|()| typed.flush()).is_err() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(typed);
    Ok(child.wait_with_output()?)
}

fn is_pong(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("+PONG")
}

fn is_served(output: &Output) -> bool {
    is_pong(output)
}

fn is_refused(output: &Output) -> bool {
    !is_pong(output) && !output.status.success()
}
