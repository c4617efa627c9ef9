//! HTTP as far as the metrics endpoint speaks it: requests out of bytes, replies into bytes. It knows no
//! socket and no clock.
//!
//! Invariants: (1) a request is a head of [`HEAD_BYTES_MAX`] bytes at most and has no body: one that
//! announces a body is refused, and its connection closed, so that nothing behind the head is taken for a
//! request that a proxy has not seen; (2) no bytes make it panic, or allocate more than they are.

use httparse::{EMPTY_HEADER, Header};
use sluice_engine::MetricsFormat;

/// Most connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Longest head of a request. Prometheus sends less than one KiB.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Most headers of a request.
pub const HEADERS_MAX: usize = 64;

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedHead {
    /// The head of a request is not whole.
    Partial,
    /// A request.
    Request {
        request: Request,
        /// The bytes of its head.
        used: usize,
    },
    /// It is not served, and neither is what follows.
    Refused(Status),
}

/// A request without a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The page that it asks for; none: there is no such page.
    pub page: Option<Page>,
    /// The reply has no body (HEAD).
    pub is_head: bool,
    /// The connection stays.
    pub stays: bool,
    /// What it shows behind `Authorization: Bearer`.
    pub token: Option<Box<[u8]>>,
    /// The format that it prefers.
    pub format: MetricsFormat,
}

/// The pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// All numbers.
    Metrics,
    /// Whether the server should be sent clients.
    Health,
}

/// Which path has which page. A further page is a row here, and an arm in `Endpoint::answer`.
const ROUTES: &[(&str, Page)] = &[("/metrics", Page::Metrics), ("/healthz", Page::Health)];

/// Statuses of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    BadRequest,
    Unauthorized,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }

    /// A header that the status must have.
    fn header(self) -> &'static str {
        match self {
            Status::Unauthorized => "WWW-Authenticate: Bearer realm=\"metrics\"\r\n",
            Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
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
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return ParsedHead::Refused(Status::HeadTooLarge),
        Err(_) => return ParsedHead::Refused(Status::BadRequest),
    };
    match request(&parsed) {
        Ok(request) => ParsedHead::Request { request, used },
        Err(status) => ParsedHead::Refused(status),
    }
}

fn request(parsed: &httparse::Request<'_, '_>) -> Result<Request, Status> {
    let headers = &*parsed.headers;
    let all =
        |name: &'static str| headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    let only = |name: &'static str| -> Result<Option<&Header<'_>>, Status> {
        let mut found = all(name);
        let first = found.next();
        found.next().map_or(Ok(first), |_| Err(Status::BadRequest))
    };
    // No request has a body here, and one that might have one ends the connection.
    if all("transfer-encoding").next().is_some() {
        return Err(Status::BadRequest);
    }
    if only("content-length")?.is_some_and(|length| length.value != b"0") {
        return Err(Status::BadRequest);
    }
    let is_1_1 = parsed.version == Some(1);
    if only("host")?.is_none() && is_1_1 {
        return Err(Status::BadRequest);
    }
    let is_head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Status::MethodNotAllowed),
    };
    let path = parsed.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let page = ROUTES.iter().find(|(of, _)| *of == path).map(|(_, page)| *page);
    let says = |word: &str| all("connection").flat_map(words).any(|said| said.eq_ignore_ascii_case(word));
    let stays = if is_1_1 { !says("close") } else { says("keep-alive") };
    let token = only("authorization")?.and_then(|header| bearer(header.value)).map(Into::into);
    Ok(Request { page, is_head, stays, token, format: format_of(all("accept")) })
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

/// The bytes of a reply; `body` in parts.
pub fn reply(status: Status, kind: &str, body: &[&[u8]], form: ReplyForm) -> Vec<u8> {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let connection = if form.stays { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{}Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: {connection}\r\n\r\n",
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
pub fn say(status: Status, text: &str, form: ReplyForm) -> Vec<u8> {
    reply(status, "text/plain; charset=utf-8", &[text.as_bytes(), b"\n"], form)
}

/// The reply to a request that is refused; its connection is closed behind it.
pub fn refuse(status: Status) -> Vec<u8> {
    let text = status.line().split_once(' ').map_or("", |(_, text)| text);
    say(status, text, ReplyForm { is_head: false, stays: false })
}

#[cfg(test)]
mod tests;
