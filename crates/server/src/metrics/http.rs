//! HTTP as far as the metrics endpoint speaks it: requests out of bytes, replies into bytes. It knows no
//! socket and no clock.
//!
//! A browser that shows the page sends credentials in a header of its own, [`USER_HEADER`], in hexadecimal
//! digits: a page from elsewhere cannot send that without asking first, and nobody answers such a question.
//!
//! Invariants: (1) a request is a head of [`HEAD_BYTES_MAX`] bytes at most and has no body: one that
//! announces a body is refused, and its connection closed, so that nothing behind the head is taken for a
//! request that a proxy has not seen; (2) no bytes make it panic, or allocate more than they are.

use httparse::{EMPTY_HEADER, Header};
use sluice_numbers::info::text::MetricsFormat;
use sluice_numbers::page::details::BasicCredentials;
use std::net::IpAddr;

/// Most connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Longest head of a request. Prometheus sends less than one KiB.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Most headers of a request.
pub const HEADERS_MAX: usize = 64;
/// The header with a user and a password: hexadecimal digits of each, a colon between.
pub const USER_HEADER: &str = "sluice-user";
/// The header that the page sends with each request. A page from elsewhere would have to ask whether it may,
/// which nobody answers: so no other site has a visitor's browser ask for anything that costs.
pub const PAGE_HEADER: &str = "sluice-page";

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedHead {
    /// The head of a request is not whole.
    Partial,
    /// A request.
    Request {
        request: HttpRequest,
        /// The bytes of its head.
        used: usize,
    },
    /// It is not served, and neither is what follows.
    Refused(HttpStatus),
}

/// A request without a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// What it asks for; none: there is nothing under that path.
    pub resource: Option<Resource>,
    /// The reply has no body (HEAD).
    pub is_head: bool,
    /// The connection stays.
    pub stays: bool,
    /// What it shows behind `Authorization: Bearer`.
    pub token: Option<Box<[u8]>>,
    /// Who wants to see names of keys, as [`USER_HEADER`] says.
    pub credentials: Option<BasicCredentials>,
    /// It has the header [`PAGE_HEADER`].
    pub is_from_page: bool,
    /// A browser sends it in the name of some page, as the header `Sec-Fetch-Site` says.
    pub is_from_some_page: bool,
    /// The host that it names is an address or this machine: no name that somebody else has pointed here.
    pub names_own_host: bool,
    /// The format that it prefers.
    pub format: MetricsFormat,
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// All numbers, for machines.
    Metrics,
    /// Keys and memory of each hash slot, for machines.
    SlotMetrics,
    /// Whether the server should be sent clients.
    Health,
    /// The page for people.
    Page,
    /// What the page shows now.
    PageData {
        /// With the largest keys.
        looks_at_keys: bool,
    },
    /// What the page draws over time.
    PageHistory {
        /// Points behind this one.
        since: u64,
        /// The history that `since` belongs to.
        of: i64,
    },
}

impl Resource {
    /// Whether it shows anything of the server, so that the token is asked for.
    pub fn is_guarded(self) -> bool {
        match self {
            Resource::Metrics
            | Resource::SlotMetrics
            | Resource::PageData { .. }
            | Resource::PageHistory { .. } => true,
            Resource::Health | Resource::Page => false,
        }
    }

    /// Whether a browser asks for it in the name of a page.
    pub fn is_for_the_page(self) -> bool {
        matches!(self, Resource::PageData { .. } | Resource::PageHistory { .. })
    }
}

/// What is under a path. A further resource is an arm here, and one in `EndpointThread::answer`.
fn resource_of(path: &str) -> Option<Resource> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(of, _)| *of == name).map(|(_, value)| value)
    };
    match path {
        "/metrics" => Some(Resource::Metrics),
        "/metrics/slots" => Some(Resource::SlotMetrics),
        "/healthz" => Some(Resource::Health),
        "/" => Some(Resource::Page),
        "/page/data" => Some(Resource::PageData { looks_at_keys: value("keys") == Some("1") }),
        "/page/history" => {
            let since = value("since").and_then(|id| id.parse().ok()).unwrap_or(0);
            Some(Resource::PageHistory { since, of: value("of").and_then(|of| of.parse().ok()).unwrap_or(0) })
        }
        _ => None,
    }
}

/// Statuses of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStatus {
    Ok,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    Unavailable,
}

impl HttpStatus {
    fn line(self) -> &'static str {
        match self {
            HttpStatus::Ok => "200 OK",
            HttpStatus::BadRequest => "400 Bad Request",
            HttpStatus::Unauthorized => "401 Unauthorized",
            HttpStatus::Forbidden => "403 Forbidden",
            HttpStatus::NotFound => "404 Not Found",
            HttpStatus::MethodNotAllowed => "405 Method Not Allowed",
            HttpStatus::HeadTooLarge => "431 Request Header Fields Too Large",
            HttpStatus::Unavailable => "503 Service Unavailable",
        }
    }

    /// A header that the status must have.
    fn header(self) -> &'static str {
        match self {
            HttpStatus::Unauthorized => "WWW-Authenticate: Bearer realm=\"metrics\"\r\n",
            HttpStatus::MethodNotAllowed => "Allow: GET, HEAD\r\n",
            _ => "",
        }
    }
}

/// Reads the head of a request. Cost: a pass over the bytes.
pub fn head(bytes: &[u8]) -> ParsedHead {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let used = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used <= HEAD_BYTES_MAX => used,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => return ParsedHead::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return ParsedHead::Refused(HttpStatus::HeadTooLarge),
        Err(_) => return ParsedHead::Refused(HttpStatus::BadRequest),
    };
    match request(&parsed) {
        Ok(request) => ParsedHead::Request { request, used },
        Err(status) => ParsedHead::Refused(status),
    }
}

fn request(parsed: &httparse::Request<'_, '_>) -> Result<HttpRequest, HttpStatus> {
    let headers = &*parsed.headers;
    let all =
        |name: &'static str| headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    let only = |name: &'static str| -> Result<Option<&Header<'_>>, HttpStatus> {
        let mut found = all(name);
        let first = found.next();
        found.next().map_or(Ok(first), |_| Err(HttpStatus::BadRequest))
    };
    // No request has a body here, and one that might have one ends the connection.
    if all("transfer-encoding").next().is_some() {
        return Err(HttpStatus::BadRequest);
    }
    if only("content-length")?.is_some_and(|length| length.value != b"0") {
        return Err(HttpStatus::BadRequest);
    }
    let is_1_1 = parsed.version == Some(1);
    let host = only("host")?;
    if host.is_none() && is_1_1 {
        return Err(HttpStatus::BadRequest);
    }
    let is_head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(HttpStatus::MethodNotAllowed),
    };
    let resource = resource_of(parsed.path.unwrap_or_default());
    let says = |word: &str| all("connection").flat_map(words).any(|said| said.eq_ignore_ascii_case(word));
    let stays = if is_1_1 { !says("close") } else { says("keep-alive") };
    let token = only("authorization")?.and_then(|header| bearer(header.value)).map(Into::into);
    let credentials = only(USER_HEADER)?.map(|header| credentials(header.value));
    Ok(HttpRequest {
        resource,
        is_head,
        stays,
        token,
        credentials: credentials.transpose()?,
        is_from_page: only(PAGE_HEADER)?.is_some(),
        is_from_some_page: all("sec-fetch-site").any(|header| header.value != b"none"),
        names_own_host: host.is_none_or(|host| is_own_host(host.value)),
        format: format_of(all("accept")),
    })
}

/// What [`USER_HEADER`] says.
fn credentials(value: &[u8]) -> Result<BasicCredentials, HttpStatus> {
    let mut parts = value.split(|byte| *byte == b':').map(unhex);
    match (parts.next().flatten(), parts.next().flatten(), parts.next()) {
        (Some(user), Some(password), None) => Ok(BasicCredentials { user, password, peer: "".into() }),
        _ => Err(HttpStatus::BadRequest),
    }
}

fn unhex(digits: &[u8]) -> Option<Box<[u8]>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Whether a `Host` names this machine without anybody's help: an address, or `localhost`.
fn is_own_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let text = text.trim();
    let name = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => text.rsplit_once(':').map_or(text, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// What stands between commas in a header.
fn words<'h>(header: &Header<'h>) -> impl Iterator<Item = &'h str> {
    std::str::from_utf8(header.value).unwrap_or_default().split(',').map(str::trim)
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// The format that a client prefers: the older one where it says nothing.
fn format_of<'a, 'h: 'a>(accept: impl Iterator<Item = &'a Header<'h>>) -> MetricsFormat {
    let (mut open_metrics, mut text) = (0, 0);
    for range in accept.flat_map(words) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut quality, mut version) = (1000, None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => quality = thousandths(value.trim()),
                "version" => version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        match kind {
            "application/openmetrics-text" if matches!(version, None | Some("1.0.0" | "0.0.1")) => {
                open_metrics = quality.max(open_metrics);
            }
            "text/plain" if matches!(version, None | Some("0.0.4")) => text = quality.max(text),
            "text/*" | "*/*" => text = quality.max(text),
            _ => {}
        }
    }
    if open_metrics > 0 && open_metrics >= text {
        MetricsFormat::OpenMetrics
    } else {
        MetricsFormat::Prometheus
    }
}

/// A quality, `0` to `1` with three decimals at most, in thousandths; 0 for what is none.
fn thousandths(text: &str) -> u32 {
    let quality: f32 = text.parse().unwrap_or(0.0);
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

/// Whether a request shows the token. Where it stops to be the same does not show in the time that this
/// takes.
pub fn is_token(wanted: &[u8], shown: &[u8]) -> bool {
    let mut differs = wanted.len() ^ shown.len();
    for (at, byte) in shown.iter().enumerate() {
        let other = wanted.get(at % wanted.len().max(1)).copied().unwrap_or(0);
        differs |= usize::from(std::hint::black_box(other ^ byte));
    }
    std::hint::black_box(differs) == 0
}

/// What a reply says of its connection and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyForm {
    /// The body is left out (HEAD).
    pub is_head: bool,
    /// The connection stays.
    pub stays: bool,
}

/// What a reply's body is.
#[derive(Clone, Copy, Debug)]
pub struct HttpContent<'a> {
    /// Its type.
    pub kind: &'a str,
    /// Further headers, each with its end.
    pub headers: &'a str,
    /// The body, in parts.
    pub body: &'a [&'a [u8]],
}

/// The bytes of a reply.
pub fn reply(status: HttpStatus, content: HttpContent<'_>, form: ReplyForm) -> Vec<u8> {
    let HttpContent { kind, headers, body } = content;
    let length: usize = body.iter().map(|part| part.len()).sum();
    let connection = if form.stays { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{}{headers}Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: {connection}\r\n\r\n",
        status.line(),
        status.header()
    );
    let mut bytes = head.into_bytes();
    if !form.is_head {
        body.iter().for_each(|part| bytes.extend_from_slice(part));
    }
    bytes
}

/// A reply of a line of text.
pub fn say(status: HttpStatus, text: &str, form: ReplyForm) -> Vec<u8> {
    let body = [text.as_bytes(), b"\n"];
    reply(status, HttpContent { kind: "text/plain; charset=utf-8", headers: "", body: &body }, form)
}

/// The reply to a request that is refused; its connection is closed behind it.
pub fn refuse(status: HttpStatus) -> Vec<u8> {
    let text = status.line().split_once(' ').map_or("", |(_, text)| text);
    say(status, text, ReplyForm { is_head: false, stays: false })
}

#[cfg(test)]
mod tests;
