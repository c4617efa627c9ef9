//! The arguments of `--check-move`, which checks another server before its data move here, and the
//! environment variables with the password.
//!
//! Invariant: no password is taken from the command line, where other users of the machine would see it, and
//! no error repeats a word that may be a password.

use std::fmt;
use std::time::Duration;

/// The argument that starts the check of a move.
pub const CHECK_MOVE: &[u8] = b"--check-move";

/// The server to ask, and the options of the check.
pub struct MovePlan {
    host: String,
    port: u16,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    output: ReportForm,
    timeout: Duration,
    transport: MoveTransport,
    /// The configuration file and directives for TLS; empty without `--tls`.
    pub words: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportForm {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveTransport {
    Plain,
    Tls,
}

impl fmt::Debug for MovePlan {
    /// Shows the plan without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MovePlan({}, {:?}, {:?}, {:?})", self.target(), self.output, self.transport, self.timeout)
    }
}

impl MovePlan {
    /// Parses the arguments after the program's name. `environment` looks up a variable.
    ///
    /// # Errors
    /// The first mistake in the arguments, as a sentence.
    pub fn read(
        words: Vec<Vec<u8>>,
        environment: &dyn Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<MovePlan, String> {
        let (host, port) = (String::new(), 0);
        let (user, mut password, output, transport) = (None, None, ReportForm::Text, MoveTransport::Plain);
        let timeout = TIMEOUT_DEFAULT;
        let mut plan =
            MovePlan { host, port, user, password: None, output, timeout, transport, words: Vec::new() };
        let mut words = words.into_iter();
        let value = |word: &str, next: Option<Vec<u8>>| next.ok_or(format!("{word} needs a value"));
        while let Some(word) = words.next() {
            match word.as_slice() {
                CHECK_MOVE => {
                    let target = words.next().ok_or("--check-move needs HOST:PORT")?;
                    (plan.host, plan.port) = target_of(&target)?;
                }
                b"--user" => plan.user = Some(value("--user", words.next())?),
                b"--pass-from-env" => {
                    let name = value("--pass-from-env", words.next())?;
                    let name = String::from_utf8_lossy(&name);
                    let found = environment(&name);
                    password = Some(found.ok_or(format!("the environment has no variable {name}"))?);
                }
                b"--pass" | b"--password" | b"-a" | b"--askpass" => return Err(NO_PASSWORD_HERE.to_owned()),
                b"--json" => plan.output = ReportForm::Json,
                b"--tls" => plan.transport = MoveTransport::Tls,
                b"--timeout" => plan.timeout = timeout_of(&value("--timeout", words.next())?)?,
                _ => plan.words.push(word),
            }
        }
        if plan.transport == MoveTransport::Plain && !plan.words.is_empty() {
            return Err("a configuration file and directives are for --tls only; see --help".to_owned());
        }
        let usual = || ["VALKEYCLI_AUTH", "REDISCLI_AUTH"].into_iter().find_map(environment);
        plan.password = password.or_else(usual).filter(|password| !password.is_empty());
        if plan.user.is_some() && plan.password.is_none() {
            return Err(format!("--user needs a password. {NO_PASSWORD_HERE}"));
        }
        Ok(plan)
    }

    /// Host and port in printable ASCII.
    pub fn target(&self) -> String {
        shown_target(&self.host, self.port)
    }

    /// The host's name or address, as given.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The client port of the server that is asked.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection uses TLS.
    pub fn wants_tls(&self) -> bool {
        self.transport == MoveTransport::Tls
    }

    /// Whether the report is printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.output == ReportForm::Json
    }

    /// The time limit for opening a connection and for each reply.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The user's name in printable ASCII.
    pub(crate) fn user(&self) -> Option<String> {
        self.user.as_deref().map(super::shown::shown)
    }

    /// The arguments of AUTH; `None` where there is no password.
    pub fn auth(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_deref()?;
        let user = self.user.as_deref();
        Some([b"AUTH".as_slice()].into_iter().chain(user).chain([password]).collect())
    }
}

/// Host and port in printable ASCII, an IPv6 address in brackets.
pub fn shown_target(host: &str, port: u16) -> String {
    let host = super::shown::shown(host.as_bytes());
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Parses `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
fn target_of(text: &[u8]) -> Result<(String, u16), String> {
    let text = std::str::from_utf8(text).map_err(|_| "the target is not valid text".to_owned())?;
    if text.contains("://") || text.contains('@') {
        return Err(format!(
            "the target is HOST:PORT, without a scheme and without a user. {NO_PASSWORD_HERE}"
        ));
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None if text.matches(':').count() > 1 => (text, None),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if port.is_none() && host.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() {
        return Err(format!("the target is HOST:PORT; for this machine 127.0.0.1:{host}"));
    }
    let port = port.map_or(Ok(PORT_DEFAULT), |port| {
        let number = port.parse::<u16>().ok().filter(|port| *port != 0);
        let shown = super::shown::shown(port.as_bytes());
        number.ok_or_else(|| format!("'{shown}' is not a port: 1 to 65535"))
    })?;
    if host.is_empty() { Err("the target has no host".to_owned()) } else { Ok((host.to_owned(), port)) }
}

fn timeout_of(text: &[u8]) -> Result<Duration, String> {
    let seconds = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = seconds.filter(|seconds| (1..=3600).contains(seconds));
    seconds.map(Duration::from_secs).ok_or("--timeout is a number of seconds from 1 to 3600".to_owned())
}

const PORT_DEFAULT: u16 = 6379;
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
const NO_PASSWORD_HERE: &str = "The password is read from the environment: VALKEYCLI_AUTH, \
     REDISCLI_AUTH, or the variable that --pass-from-env names";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<MovePlan, String> {
        let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        MovePlan::read(words, &|name| match name {
            "MINE" => Some(b"mine".to_vec()),
            "REDISCLI_AUTH" => Some(b"usual".to_vec()),
            _ => None,
        })
    }

    #[test]
    fn targets_have_a_host_and_may_have_a_port() {
        for (target, host, port) in [
            ("here:7000", "here", 7000),
            ("here", "here", 6379),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[::1]:7000", "::1", 7000),
            ("::1", "::1", 6379),
        ] {
            let plan = read(&format!("--check-move {target}")).unwrap();
            assert_eq!((plan.host(), plan.port()), (host, port), "{target}");
        }
        for target in ["here:0", "here:x", ":7", "here:70000", "redis://here", "u:secret@here:1"] {
            let error = read(&format!("--check-move {target}")).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        assert_eq!(read("--check-move here:70000").unwrap_err(), "'70000' is not a port: 1 to 65535");
        assert_eq!(
            read("--check-move 7000").unwrap_err(),
            "the target is HOST:PORT; for this machine 127.0.0.1:7000"
        );
    }

    #[test]
    fn passwords_come_from_the_environment_alone() {
        let auth = |line: &str| -> Vec<Vec<u8>> {
            read(line).unwrap().auth().unwrap().into_iter().map(<[u8]>::to_vec).collect()
        };
        assert_eq!(auth("--check-move h"), [b"AUTH".to_vec(), b"usual".to_vec()]);
        assert_eq!(
            auth("--check-move h --user me --pass-from-env MINE"),
            [b"AUTH".to_vec(), b"me".to_vec(), b"mine".to_vec()]
        );
        assert!(read("--check-move h --pass-from-env NONE").is_err());
        for line in ["--check-move h --pass secret", "-a secret --check-move h", "--check-move h secret"] {
            assert!(!read(line).unwrap_err().contains("secret"), "{line}");
        }
        assert!(!format!("{:?}", read("--check-move h").unwrap()).contains("usual"));
    }

    #[test]
    fn directives_belong_to_tls() {
        assert!(read("--check-move h --tls-ca-cert-file ca").is_err());
        let plan = read("--check-move h --tls --json --tls-ca-cert-file ca --timeout 3").unwrap();
        assert!(plan.wants_tls() && plan.is_json());
        assert_eq!((plan.words.len(), plan.timeout()), (2, Duration::from_secs(3)));
        assert!(read("--check-move h --timeout 0").is_err());
    }
}
