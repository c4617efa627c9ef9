//! The process's title, as `ps` shows it: written over the memory in which the kernel handed over the
//! arguments.

use sluice_config::{Config, param};

/// The memory of the arguments and of the environment that follows them.
#[derive(Debug)]
pub struct Title {
    /// The program's name as it was invoked.
    name: String,
    start: *mut u8,
    len: usize,
    config_file: String,
}

impl Title {
    /// Finds the memory and moves the environment out of it; `None` where the kernel does not
    /// report its address.
    ///
    /// Must be called while the process has one thread. Afterwards `std::env::args` is invalid.
    pub fn take(config_file: &str) -> Option<Title> {
        let name = std::env::args_os().next()?.to_string_lossy().into_owned();
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // Fields 48 to 51 of proc(5), counted after the last parenthesis because the second
        // field may contain blanks.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let address = |field: usize| fields.get(field - 3)?.parse::<usize>().ok();
        let (start, arg_end, env_start, env_end) = (address(48)?, address(49)?, address(50)?, address(51)?);
        if start == 0 || arg_end <= start {
            return None;
        }
        let mut end = arg_end;
        if env_start == arg_end && env_end > env_start {
            let variables: Vec<_> = std::env::vars_os().collect();
            for (key, value) in variables {
                // SAFETY: no other thread exists yet (the caller's contract), so no thread reads the
                // environment meanwhile.
                // JUSTIFICATION: the library copies the value out of the memory that the title takes.
                unsafe { std::env::set_var(key, value) };
            }
            end = env_end;
        }
        Some(Title { name, start: start as *mut u8, len: end - start, config_file: config_file.to_owned() })
    }

    /// Shows the title that the configured template gives.
    pub fn show(&mut self, config: &Config) {
        let text = expand(config, &self.name, &self.config_file);
        let bytes = text.as_bytes();
        // The last byte stays zero, because the kernel reads up to a zero byte.
        let len = bytes.len().min(self.len - 1);
        // SAFETY: the memory is mapped for the life of the process, and no other reference to it exists: the
        // arguments were copied where they were read, the environment was moved away. `bytes` is our own
        // allocation, so they do not overlap.
        // JUSTIFICATION: there is no other way to change what `ps` shows without a privilege.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, len);
            std::ptr::write_bytes(self.start.add(len), 0, self.len - len);
        }
    }
}

/// The template with the values of its variables, without trailing blanks.
fn expand(config: &Config, name: &str, config_file: &str) -> String {
    let template = config.str(param::PROC_TITLE_TEMPLATE);
    let unix = config.str(param::UNIXSOCKET);
    let port = config.int(param::PORT);
    let tls_port = config.int(param::TLS_PORT);
    let served = if port == 0 { tls_port } else { port };
    let listen = match (served, config.list(param::BIND).first()) {
        (0, _) => unix.clone().into_owned(),
        (_, Some(first)) => format!("{}:{served}", String::from_utf8_lossy(first)),
        (_, None) => format!("*:{served}"),
    };
    let mut out = String::new();
    let mut rest = &*template;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            out.push('{');
            rest = after;
            continue;
        }
        let Some((variable, after)) = rest.split_once('}') else { break };
        rest = after;
        match variable {
            "title" => out.push_str(name),
            "listen-addr" => out.push_str(&listen),
            "port" => out.push_str(&port.to_string()),
            "tls-port" => out.push_str(&tls_port.to_string()),
            "unixsocket" => out.push_str(&unix),
            "config-file" => out.push_str(config_file),
            "server-mode" if config.bool(param::CLUSTER_ENABLED) => out.push_str("[cluster]"),
            // `server-mode` expands to nothing without a cluster. The table of directives accepts no other
            // variable.
            _ => {}
        }
    }
    out.push_str(rest);
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(lines: &str) -> String {
        let config = sluice_config::parse_file(lines.as_bytes(), "test", b"", &mut |_: &[u8]| Ok(Vec::new()));
        expand(&config.expect("valid lines"), "server", "/etc/a.conf")
    }

    #[test]
    fn a_template_names_what_the_server_is() {
        assert_eq!(title("port 7"), "server *:7");
        assert_eq!(title("port 7\nbind 127.0.0.1 ::1"), "server 127.0.0.1:7");
        assert_eq!(title("port 0\nunixsocket /s"), "server /s");
        assert_eq!(title("port 7\ncluster-enabled yes"), "server *:7 [cluster]");
        let all = "T {title} {listen-addr} {port} {tls-port} {unixsocket} {config-file} {server-mode}{{x";
        assert_eq!(
            title(&format!("port 7\nunixsocket /s\nproc-title-template \"{all}\"")),
            "T server *:7 7 0 /s /etc/a.conf {x"
        );
    }
}
