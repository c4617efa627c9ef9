//! Sessions that are resumed by ticket, by the cache, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustls::client::Tls12Resumption;
use rustls::{ClientConfig, SupportedProtocolVersion};
use sluice_tls::{ClientAuth, Context, NameField, Options};

use crate::certs::{CLIENT, NOW_S};
use crate::pair::{End, context, options, sources};
use crate::plain::{self, BOTH, Plain};

/// Makes a connection of a client; returns whether the session was resumed.
fn connect(context: &Context, config: &Arc<ClientConfig>) -> bool {
    let (mut client, mut server) = (Plain::client(config), End::new(context.accept().expect("one")));
    client.shake(&mut server, usize::MAX, b"PING\r\n");
    assert_eq!(server.plain(), b"PING\r\n");
    assert_eq!(server.session.peer_names(NameField::Cn), [b"alice"], "also of a resumed session");
    server.session.is_resumed()
}

/// Whether the second and third connections of a client were resumed.
fn again(
    context: &Context,
    version: &'static SupportedProtocolVersion,
    tickets: Tls12Resumption,
) -> [bool; 2] {
    let mut config = plain::client(&[version], Some(&CLIENT));
    config.resumption = config.resumption.tls12_resumption(tickets);
    let config = Arc::new(config);
    assert!(!connect(context, &config));
    [connect(context, &config), connect(context, &config)]
}

#[test]
fn sessions_resume_by_ticket_and_by_id() {
    let context = context(&sources(), &options());
    for version in BOTH {
        assert_eq!(again(&context, version, Tls12Resumption::SessionIdOrTickets), [true; 2], "{version:?}");
    }
    assert_eq!(again(&context, &rustls::version::TLS12, Tls12Resumption::SessionIdOnly), [true; 2]);
}

#[test]
fn no_session_resumes_without_caching() {
    let context = context(&sources(), &Options { session_caching: false, ..options() });
    for version in BOTH {
        for way in [Tls12Resumption::SessionIdOrTickets, Tls12Resumption::SessionIdOnly] {
            assert_eq!(again(&context, version, way), [false; 2], "{version:?}");
        }
    }
}

#[test]
fn another_context_does_not_take_tickets_of_the_first() {
    let contexts = [context(&sources(), &options()), context(&sources(), &options())];
    for version in BOTH {
        let config = Arc::new(plain::client(&[version], Some(&CLIENT)));
        assert!(!connect(&contexts[0], &config));
        assert!(!connect(&contexts[1], &config));
    }
}

#[test]
fn sessions_resume_for_as_long_as_the_timeout_says() {
    static CLOCK_S: AtomicI64 = AtomicI64::new(NOW_S);
    let now = || CLOCK_S.load(Ordering::Relaxed);
    let options = Options { session_timeout_s: 100, client_auth: ClientAuth::Required, ..options() };
    let context = Context::build(&sources(), &options, NOW_S, now).expect("a context");
    let ways = [Tls12Resumption::SessionIdOrTickets, Tls12Resumption::SessionIdOnly];
    for (wait_s, resumes) in
        [(0, true), (60, true), (99, true), (101, false), (250, false), (1_000_000, false)]
    {
        for way in ways {
            // TLS 1.3 also checks the age that the client reports, and plain rustls uses the machine's clock,
            // so this test takes TLS 1.2 alone.
            let mut config = plain::client(&[&rustls::version::TLS12], Some(&CLIENT));
            config.resumption = config.resumption.tls12_resumption(way);
            let config = Arc::new(config);
            assert!(!connect(&context, &config));
            CLOCK_S.fetch_add(wait_s, Ordering::Relaxed);
            assert_eq!(connect(&context, &config), resumes, "after {wait_s} s, {way:?}");
        }
    }
}

#[test]
fn the_cache_forgets_the_oldest() {
    let context = context(&sources(), &Options { session_cache_size: 2, ..options() });
    let client = || {
        let mut config = plain::client(&[&rustls::version::TLS12], Some(&CLIENT));
        config.resumption = config.resumption.tls12_resumption(Tls12Resumption::SessionIdOnly);
        Arc::new(config)
    };
    let clients = [client(), client(), client()];
    for config in &clients {
        assert!(!connect(&context, config));
    }
    assert!(connect(&context, &clients[2]));
    assert!(connect(&context, &clients[1]));
    assert!(!connect(&context, &clients[0]));
}
