use super::*;
use sluice_base::Rng;

fn one(bytes: &str) -> ParsedHead {
    head(bytes.as_bytes())
}

fn request_of(bytes: &str) -> HttpRequest {
    match one(bytes) {
        ParsedHead::Request { request, used } => {
            assert_eq!(used, bytes.len());
            request
        }
        other => panic!("{other:?} of {bytes:?}"),
    }
}

const HOST: &str = "Host: a\r\n";

#[test]
fn requests_name_a_page_a_format_and_a_token() {
    let request = request_of("GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: bearer  secret \r\n\r\n");
    assert_eq!(request.resource, Some(Resource::Metrics));
    assert_eq!(request.token.as_deref(), Some(&b"secret"[..]));
    assert!(request.stays && !request.is_head);
    assert_eq!(request.format, MetricsFormat::Prometheus);
    let request = request_of("HEAD /healthz?x=1 HTTP/1.0\r\n\r\n");
    assert_eq!((request.resource, request.is_head, request.stays), (Some(Resource::Health), true, false));
    assert!(request_of("GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n").stays);
    assert!(!request_of("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").stays);
    let slots = request_of("GET /metrics/slots?x HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: none\r\n\r\n");
    assert_eq!((slots.resource, slots.is_from_some_page), (Some(Resource::SlotMetrics), false));
    assert_eq!(request_of("GET /metrics/ HTTP/1.1\r\nHost: a\r\n\r\n").resource, None);
    let page = request_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").resource;
    assert_eq!(page, Some(Resource::Page));
}

#[test]
fn what_the_page_asks_for_stands_behind_a_question_mark() {
    let resource = |path: &str| request_of(&format!("GET {path} HTTP/1.1\r\n{HOST}\r\n")).resource;
    let data = |looks_at_keys| Some(Resource::PageData { looks_at_keys });
    assert_eq!(resource("/page/data"), data(false));
    assert_eq!(resource("/page/data?keys=1"), data(true));
    assert_eq!(resource("/page/data?x=2&keys=1&y"), data(true));
    assert_eq!(resource("/page/data?keys=2"), data(false));
    let history = |since| Some(Resource::PageHistory { since, of: 0 });
    assert_eq!(resource("/page/history?since=17"), history(17));
    for path in ["/page/history", "/page/history?since=-1", "/page/history?since=99999999999999999999"] {
        assert_eq!(resource(path), history(0), "{path}");
    }
    let of = Some(Resource::PageHistory { since: 3, of: 1_795_670_842_540 });
    assert_eq!(resource("/page/history?since=3&of=1795670842540"), of);
    assert_eq!(resource("/page"), None);
}

#[test]
fn credentials_are_hexadecimal_digits_with_a_colon_between() {
    let head_with = |value: &str| one(&format!("GET / HTTP/1.1\r\n{HOST}Sluice-User: {value}\r\n\r\n"));
    let shown = |value: &str| match head_with(value) {
        ParsedHead::Request { request, .. } => request.credentials,
        other => panic!("{other:?}"),
    };
    let of = |user: &[u8], password: &[u8]| {
        Some(BasicCredentials { user: user.into(), password: password.into(), peer: "".into() })
    };
    assert_eq!(shown("616c:3a00"), of(b"al", b":\0"));
    assert_eq!(shown("616C:"), of(b"al", b""));
    assert_eq!(request_of(&format!("GET / HTTP/1.1\r\n{HOST}\r\n")).credentials, None);
    for value in ["", "61", "6:61", "6g:61", "61:61:61", "61:\u{e9}"] {
        assert_eq!(head_with(value), ParsedHead::Refused(HttpStatus::BadRequest), "{value}");
    }
}

#[test]
fn a_host_is_an_address_or_this_machine_or_somebody_elses_name() {
    let is_own = |host: &str| request_of(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).names_own_host;
    for host in
        ["127.0.0.1", "127.0.0.1:9121", "10.0.0.7:80", "localhost:9121", "LOCALHOST", "[::1]", "[::1]:9121"]
    {
        assert!(is_own(host), "{host}");
    }
    for host in
        ["a", "evil.example:9121", "127.0.0.1.evil.example", "localhost.evil.example:1", "[::1", "::1", ""]
    {
        assert!(!is_own(host), "{host}");
    }
    assert!(request_of("GET / HTTP/1.0\r\n\r\n").names_own_host);
}

#[test]
fn the_format_is_the_one_that_the_client_prefers() {
    let format =
        |accept: &str| request_of(&format!("GET / HTTP/1.1\r\n{HOST}Accept: {accept}\r\n\r\n")).format;
    let of_prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                         application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
                         text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    assert_eq!(format(of_prometheus), MetricsFormat::OpenMetrics);
    assert_eq!(format("application/openmetrics-text"), MetricsFormat::OpenMetrics);
    assert_eq!(
        format("application/openmetrics-text; version=\"1.0.0\", */*;q=0.1"),
        MetricsFormat::OpenMetrics
    );
    for text in [
        "*/*",
        "text/plain",
        "text/html",
        "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0.5, text/plain;q=0.7",
        "application/openmetrics-text;q=x",
        ";;;=,=;q",
    ] {
        assert_eq!(format(text), MetricsFormat::Prometheus, "{text}");
    }
}

#[test]
fn what_may_hide_another_request_is_refused() {
    for headers in [
        "Content-Length: 5\r\n",
        "Content-Length: +0\r\n",
        "Content-Length: 0, 0\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: 0\r\ncontent-length: 44\r\n",
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding: identity\r\nContent-Length: 0\r\n",
        "Host: b\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        " folded: x\r\n",
        "no colon\r\n",
        "space : x\r\n",
        "null: \0\r\n",
    ] {
        let bytes = format!("GET /metrics HTTP/1.1\r\n{HOST}{headers}\r\n");
        assert_eq!(one(&bytes), ParsedHead::Refused(HttpStatus::BadRequest), "{headers}");
    }
    assert_eq!(one("GET /metrics HTTP/1.1\r\n\r\n"), ParsedHead::Refused(HttpStatus::BadRequest), "no host");
    assert_eq!(one("GET /metrics HTTP/2.0\r\n\r\n"), ParsedHead::Refused(HttpStatus::BadRequest));
    assert_eq!(one("\x16\x03\x01\x02\x00"), ParsedHead::Refused(HttpStatus::BadRequest), "TLS");
    assert_eq!(one("*1\r\n$4\r\nPING\r\n"), ParsedHead::Refused(HttpStatus::BadRequest), "RESP");
    assert_eq!(
        one(&format!("POST /metrics HTTP/1.1\r\n{HOST}\r\n")),
        ParsedHead::Refused(HttpStatus::MethodNotAllowed)
    );
}

#[test]
fn a_head_has_a_bound() {
    let long = |bytes: usize| format!("GET / HTTP/1.1\r\n{HOST}x: {}", "y".repeat(bytes));
    assert_eq!(one(&long(HEAD_BYTES_MAX - 100)), ParsedHead::Partial);
    assert_eq!(one(&long(HEAD_BYTES_MAX)), ParsedHead::Refused(HttpStatus::HeadTooLarge));
    assert_eq!(one(&(long(HEAD_BYTES_MAX) + "\r\n\r\n")), ParsedHead::Refused(HttpStatus::HeadTooLarge));
    let many = format!("GET / HTTP/1.1\r\n{HOST}{}\r\n", "x: y\r\n".repeat(HEADERS_MAX));
    assert_eq!(one(&many), ParsedHead::Refused(HttpStatus::HeadTooLarge));
    assert_eq!(one(&"\r\n".repeat(HEAD_BYTES_MAX)), ParsedHead::Refused(HttpStatus::HeadTooLarge));
}

#[test]
fn tokens_are_the_same_or_not() {
    assert!(is_token(b"secret", b"secret"));
    for other in [&b""[..], b"secre", b"secrets", b"Secret", b"secresecret", b"secretsecret"] {
        assert!(!is_token(b"secret", other), "{other:?}");
    }
    assert!(!is_token(b"", b"x"));
}

#[test]
fn a_reply_says_its_length_also_where_its_body_is_left_out() {
    let form = ReplyForm { is_head: false, stays: true };
    let text = String::from_utf8(reply(HttpStatus::Ok, text_of(&[b"ab", b"c"]), form)).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"),
        "{text}"
    );
    assert!(text.ends_with("Connection: keep-alive\r\n\r\nabc"), "{text}");
    let form = ReplyForm { is_head: true, stays: false };
    let text = String::from_utf8(reply(HttpStatus::Ok, text_of(&[b"abc"]), form)).unwrap();
    assert!(text.contains("Content-Length: 3\r\n") && text.ends_with("Connection: close\r\n\r\n"), "{text}");
    assert!(
        String::from_utf8(refuse(HttpStatus::MethodNotAllowed)).unwrap().contains("\r\nAllow: GET, HEAD\r\n")
    );
}

/// Random bytes that resemble requests. A parsed request is never longer than the bytes. The beginning of a
/// request is reported as incomplete, and bytes that were refused never become a request when bytes are
/// added.
#[test]
fn any_bytes_are_a_request_a_beginning_or_refused() {
    let seeds = [
        "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/plain;q=0.5,*/*\r\nAuthorization: Bearer x\r\n\r\n",
        "HEAD /healthz HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    ];
    let words = [
        "\r\n",
        "\n",
        ":",
        "Content-Length: 1\r\n",
        "HTTP/1.1",
        " ",
        "\0",
        ";q=",
        ",",
        "é",
        "Bearer ",
        "\r\n\r\n",
    ];
    let mut rng = Rng::new(7);
    let mut below = |end: usize| rng.below(end as u64) as usize;
    for _ in 0..20_000 {
        let mut bytes = seeds[below(seeds.len())].as_bytes().to_vec();
        for _ in 0..below(5) {
            let at = below(bytes.len() + 1);
            match below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, below(256) as u8),
                2 => drop(bytes.splice(at..at, words[below(words.len())].bytes())),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << below(8)),
            }
        }
        let cut = below(bytes.len() + 1);
        match (head(&bytes[..cut]), head(&bytes)) {
            (ParsedHead::Partial, ParsedHead::Request { used, .. }) => {
                assert!(used > cut && used <= bytes.len())
            }
            (ParsedHead::Partial, _) => {}
            (ParsedHead::Request { used, request }, whole) => {
                assert!(used <= cut);
                assert_eq!(whole, ParsedHead::Request { used, request });
            }
            (ParsedHead::Refused(_), whole) => assert!(matches!(whole, ParsedHead::Refused(_)), "{bytes:?}"),
        }
    }
}

fn text_of<'a>(body: &'a [&'a [u8]]) -> HttpContent<'a> {
    HttpContent { kind: "text/plain", headers: "", body }
}
