//! The part of HTTP that the metrics endpoint needs: parses requests and formats replies, without
//! sockets and clocks.
//!
//! A browser that shows the page sends credentials in a separate header, [`USER_HEADER`], in hexadecimal
//! digits. A page from elsewhere would need a preflight request for that header, and such a request is
//! always refused.
//!
//! Invariants: (1) a request is a head of at most [`HEAD_BYTES_MAX`] bytes and has no body; a request
//! that announces a body is refused, and its connection closed, so that bytes after the head are never
//! taken for a request that a proxy has not seen; (2) no input causes a panic, or an allocation larger
//! than the input.

use httparse::{EMPTY_HEADER, Header};
use sluice_numbers::info::text::MetricsFormat;
use sluice_numbers::page::details::BasicCredentials;
use std::net::IpAddr;

/// Maximum number of connections at the same time.
pub const CONNECTIONS_MAX: usize = 64;
/// Maximum length in bytes of a request's head. Prometheus sends less than one KiB.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of headers of a request.
pub const HEADERS_MAX: usize = 64;
/// The header with a user and a password, both in hexadecimal digits, separated by a colon.
pub const USER_HEADER: &str = "sluice-user";
/// The header that the page sends with each request. A page from elsewhere would need a preflight request for
/// this header, and such a request is always refused, so no other site can make a visitor's browser send
/// costly requests.
pub const PAGE_HEADER: &str = "sluice-page";

/// The result of parsing received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedHead {
    /// The head of a request is incomplete.
    Partial,
    /// The head of a request is complete.
    Request {
        request: HttpRequest,
        /// Length of the head in bytes.
        used: usize,
    },
    /// The bytes are no request that can be served. The connection is closed after the refusal, because the
    /// bytes that follow cannot be parsed either.
    Refused(HttpStatus),
}

/// A request without a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The requested resource; `None` if there is no resource at that path.
    pub resource: Option<Resource>,
    /// Whether the reply has no body (HEAD).
    pub is_head: bool,
    /// Whether the connection stays open after the reply.
    pub stays: bool,
    /// The token after `Authorization: Bearer`.
    pub token: Option<Box<[u8]>>,
    /// The credentials in [`USER_HEADER`], with which the page asks for names of keys.
    pub credentials: Option<BasicCredentials>,
    /// Whether the request has the header [`PAGE_HEADER`].
    pub is_from_page: bool,
    /// Whether a browser sends the request on behalf of a page, according to the header `Sec-Fetch-Site`.
    pub is_from_some_page: bool,
    /// Whether the `Host` is an address or localhost, or is missing, and therefore is not a name that a
    /// stranger may have pointed to this machine.
    pub names_own_host: bool,
    /// The text format that the client prefers.
    pub format: MetricsFormat,
}

/// A resource of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// All metrics, in a text format for machines.
    Metrics,
    /// Keys and memory of each hash slot, for machines.
    SlotMetrics,
    /// Whether clients should be directed to this server.
    Health,
    /// The page for people.
    Page,
    /// The current data for the page.
    PageData {
        /// Whether the largest keys are included.
        looks_at_keys: bool,
    },
    /// The points of the page's charts.
    PageHistory {
        /// Number of the last point that the page has; later points are returned.
        since: u64,
        /// When the history to which `since` belongs began, ms since the epoch.
        of: i64,
    },
}

impl Resource {
    /// Whether the resource shows data of the server, so that a configured token is required.
    pub fn is_guarded(self) -> bool {
        match self {
            Resource::Metrics
            | Resource::SlotMetrics
            | Resource::PageData { .. }
            | Resource::PageHistory { .. } => true,
            Resource::Health | Resource::Page => false,
        }
    }

    /// Whether the page requests this resource itself.
    pub fn is_for_the_page(self) -> bool {
        matches!(self, Resource::PageData { .. } | Resource::PageHistory { .. })
    }
}

/// The resource at a path. A new resource needs an arm here and an arm in `EndpointThread::answer`.
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

/// The HTTP statuses that this endpoint uses.
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

    /// The header that a reply of this status must have, with its line end; empty for most statuses.
    fn header(self) -> &'static str {
        match self {
            HttpStatus::Unauthorized => "WWW-Authenticate: Bearer realm=\"metrics\"\r\n",
            HttpStatus::MethodNotAllowed => "Allow: GET, HEAD\r\n",
            _ => "",
        }
    }
}

/// Parses the head of a request. Cost: one pass over the bytes.
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
    // This endpoint serves no request with a body. A request that might have a body ends the connection.
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

/// Decodes the value of [`USER_HEADER`].
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

/// Whether no name server is needed for a `Host`, because it is an address or `localhost`.
fn is_own_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let text = text.trim();
    let name = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => text.rsplit_once(':').map_or(text, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// The parts of a header's value that are separated by commas.
fn words<'h>(header: &Header<'h>) -> impl Iterator<Item = &'h str> {
    std::str::from_utf8(header.value).unwrap_or_default().split(',').map(str::trim)
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// The format that a client prefers: OpenMetrics if the client's preference for it is at least that for
/// the older Prometheus format, and otherwise the Prometheus format.
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

/// A quality value from `0` to `1`, in thousandths; 0 if malformed.
fn thousandths(text: &str) -> u32 {
    let quality: f32 = text.parse().unwrap_or(0.0);
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

/// Whether a request's token is correct. The time of the comparison does not depend on where the two
/// tokens differ.
pub fn is_token(wanted: &[u8], shown: &[u8]) -> bool {
    let mut differs = wanted.len() ^ shown.len();
    for (at, byte) in shown.iter().enumerate() {
        let other = wanted.get(at % wanted.len().max(1)).copied().unwrap_or(0);
        differs |= usize::from(std::hint::black_box(other ^ byte));
    }
    std::hint::black_box(differs) == 0
}

/// The form of a reply: with or without a body, and whether the connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyForm {
    /// Whether the body is left out (HEAD).
    pub is_head: bool,
    /// Whether the connection stays open after the reply.
    pub stays: bool,
}

/// The body of a reply, with its headers.
#[derive(Clone, Copy, Debug)]
pub struct HttpContent<'a> {
    /// The media type, for the header `Content-Type`.
    pub kind: &'a str,
    /// Further headers, each with its line end.
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

/// A reply with one line of text.
pub fn say(status: HttpStatus, text: &str, form: ReplyForm) -> Vec<u8> {
    let body = [text.as_bytes(), b"\n"];
    reply(status, HttpContent { kind: "text/plain; charset=utf-8", headers: "", body: &body }, form)
}

/// The reply to an invalid request; the connection is closed after it.
pub fn refuse(status: HttpStatus) -> Vec<u8> {
    let text = status.line().split_once(' ').map_or("", |(_, text)| text);
    say(status, text, ReplyForm { is_head: false, stays: false })
}

#[cfg(test)]
mod tests;
