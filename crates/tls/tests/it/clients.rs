//! Certificates that clients and servers show.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use sluice_tls::{ClientAuth, NameField, Options, SessionError, Sources};

use crate::certs::{Authority, CA, Pair, params};
use crate::pair::{End, context, handshake, options, sources};

/// A handshake of a client that shows `pair`, or nothing, with a server that asks for certificates as
/// `auth` says. Returns the server's end, or its error.
fn shake(auth: ClientAuth, pair: Option<&Pair>, version: &str) -> Result<End, SessionError> {
    let options = |client_auth| Options { client_auth, protocols: version.to_owned(), ..options() };
    let server = context(&sources(), &options(auth));
    if let Some(pair) = pair {
        let sources =
            Sources { client_cert: Some(pair.cert.clone()), client_key: Some(pair.key.clone()), ..sources() };
        let client = context(&sources, &options(auth));
        return handshake(&server, &client, usize::MAX).map(|(server, _)| server);
    }
    let version = if version == "TLSv1.2" { &rustls::version::TLS12 } else { &rustls::version::TLS13 };
    let config = std::sync::Arc::new(crate::plain::client(&[version], None));
    let mut client = crate::plain::Plain::client(&config);
    let mut server = End::new(server.accept().expect("one"));
    for _ in 0..4 {
        let flight = client.answer();
        server.receive(&flight, usize::MAX)?;
        let flight = server.answer();
        client.receive(&flight).expect("received");
    }
    Ok(server)
}

const VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];

/// A certificate whose parameters were changed before it was signed.
fn issue(change: impl FnOnce(&mut CertificateParams)) -> Pair {
    let mut params = params("alice");
    change(&mut params);
    CA.issue_for("client.crt", &params, &KeyPair::generate().expect("a key"))
}

#[test]
fn a_required_certificate_must_be_there() {
    for version in VERSIONS {
        let refused = shake(ClientAuth::Required, None, version).err();
        let text = "peer did not return a certificate";
        assert_eq!(refused, Some(SessionError::Certificate(text.to_owned())));
        let server = shake(ClientAuth::Optional, None, version).expect("a handshake");
        assert!(server.session.is_established() && !server.session.has_peer_certificate());
        assert!(server.session.peer_names(NameField::Cn).is_empty());
        assert!(shake(ClientAuth::Off, None, version).is_ok());
    }
}

#[test]
fn names_come_out_of_the_certificate() {
    let uri = |text: &str| SanType::URI(text.try_into().expect("ASCII"));
    let pair = issue(|params| params.subject_alt_names = vec![uri("urn:a"), uri("spiffe://b/c")]);
    for version in VERSIONS {
        for auth in [ClientAuth::Required, ClientAuth::Optional] {
            let server = shake(auth, Some(&pair), version).expect("a handshake");
            assert!(server.session.has_peer_certificate());
            assert_eq!(server.session.peer_names(NameField::Cn), [b"alice"]);
            let uris: [&[u8]; 2] = [b"urn:a", b"spiffe://b/c"];
            assert_eq!(server.session.peer_names(NameField::Uri), uris);
        }
        let server = shake(ClientAuth::Off, Some(&pair), version).expect("a handshake");
        assert!(!server.session.has_peer_certificate(), "it was not asked for");
    }
}

#[test]
fn a_name_with_a_nul_is_none() {
    let uri = |text: &str| SanType::URI(text.try_into().expect("ASCII"));
    let pair = issue(|params| {
        params.distinguished_name.push(DnType::CommonName, "admin\0.example");
        params.subject_alt_names = vec![uri("urn:ad\0min"), uri("urn:b")];
    });
    let server = shake(ClientAuth::Required, Some(&pair), "TLSv1.3").expect("a handshake");
    assert!(server.session.has_peer_certificate());
    assert!(server.session.peer_names(NameField::Cn).is_empty());
    assert_eq!(server.session.peer_names(NameField::Uri), [b"urn:b"]);
}

#[test]
fn a_client_is_refused_by_chain_and_usage() {
    let stranger = Authority::new("another CA").issue("client.crt", "alice");
    let server_only = issue(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    for version in VERSIONS {
        for auth in [ClientAuth::Required, ClientAuth::Optional] {
            let refused = |pair| shake(auth, Some(pair), version).err().map(|error| error.to_string());
            assert_eq!(
                refused(&stranger).as_deref(),
                Some("peer's certificate is refused: UnknownIssuer"),
                "{version}"
            );
            assert_eq!(
                refused(&server_only).as_deref(),
                Some("peer's certificate is refused: InvalidPurpose"),
                "{version}"
            );
        }
    }
}

#[test]
fn a_client_is_refused_by_dates() {
    // The certificate is valid when the client's context is built, and expired when the server checks it.
    let pair = issue(|params| params.not_after = rcgen::date_time_ymd(2026, 6, 1));
    let later = || 1_790_000_000;
    let server = sluice_tls::Context::build(&sources(), &options(), later(), later).expect("a context");
    let client =
        Sources { client_cert: Some(pair.cert.clone()), client_key: Some(pair.key.clone()), ..sources() };
    let refused = handshake(&server, &context(&client, &options()), usize::MAX).err();
    assert_eq!(refused, Some(SessionError::Certificate("Expired".to_owned())));
}

#[test]
fn a_server_is_verified_by_its_chain_and_not_by_its_name() {
    let stranger = Authority::new("another CA");
    let pair = stranger.issue("server.crt", "server");
    let other = Sources {
        cert: Some(pair.cert.clone()),
        key: Some(pair.key.clone()),
        ca: vec![CA.file()],
        ..Sources::default()
    };
    let options = Options { client_auth: ClientAuth::Off, ..options() };
    let mut server = End::new(context(&other, &options).accept().expect("one"));
    let mut client = End::new(context(&sources(), &options).connect().expect("one"));
    client.session.start(&mut client.buffers).expect("started");
    let hello = client.answer();
    server.receive(&hello, usize::MAX).expect("received");
    let flight = server.answer();
    let refused = client.receive(&flight, usize::MAX);
    assert_eq!(refused, Err(SessionError::Certificate("UnknownIssuer".to_owned())));
    let alert = client.answer();
    assert_eq!(server.receive(&alert, usize::MAX), Err(SessionError::Alert("UnknownCA".to_owned())));
}

#[test]
fn a_certificate_that_signs_itself_is_trusted_where_it_is_among_the_authorities() {
    let mut params = params("self");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let cert = params.self_signed(&key).expect("a certificate");
    let file =
        |name: &str, text: String| sluice_tls::Named { name: name.to_owned(), bytes: text.into_bytes() };
    let sources = Sources {
        cert: Some(file("self.crt", cert.pem())),
        key: Some(file("self.key", key.serialize_pem())),
        ca: vec![file("self.crt", cert.pem())],
        ..Sources::default()
    };
    let context = context(&sources, &options());
    let (server, _) = handshake(&context, &context, usize::MAX).expect("a handshake");
    assert_eq!(server.session.peer_names(NameField::Cn), [b"self"]);
}

#[test]
fn without_authorities_no_server_can_be_verified() {
    let sources = Sources { ca: Vec::new(), ..sources() };
    let context = context(&sources, &Options { client_auth: ClientAuth::Off, ..options() });
    assert_eq!(context.connect().err(), Some(SessionError::NoAuthority));
    assert!(context.accept().is_ok());
}

#[test]
fn only_who_may_sign_vouches_for_others() {
    // A certificate that is no CA's is among the CA certificates, as in a folder with all certificates of a
    // machine. That certificate itself is trusted, but not a certificate that its key has signed.
    let leaf_params = params("leaf");
    let leaf_key = KeyPair::generate().expect("a key");
    let leaf = CA.issue_for("leaf.crt", &leaf_params, &leaf_key);
    let issuer = rcgen::Issuer::from_params(&leaf_params, &leaf_key);
    let key = KeyPair::generate().expect("a key");
    let forged = params("admin").signed_by(&key, &issuer).expect("a certificate");
    let forged = Pair {
        cert: crate::certs::named("forged.crt", &forged.pem()),
        key: crate::certs::named("forged.key", &key.serialize_pem()),
    };
    let server = Sources { ca: vec![CA.file(), leaf.cert.clone()], ..sources() };
    let server = context(&server, &options());
    let shown = |pair: &Pair| {
        let own =
            Sources { client_cert: Some(pair.cert.clone()), client_key: Some(pair.key.clone()), ..sources() };
        handshake(&server, &context(&own, &options()), usize::MAX)
    };
    assert!(shown(&leaf).is_ok());
    assert!(shown(&forged).is_err());
}

#[test]
fn older_usages_are_asked_as_openssl_does() {
    let netscape = |bits: u8| {
        issue(|params| {
            let content = vec![3, 2, 0, bits];
            let extension = rcgen::CustomExtension::from_oid_content(&[2, 16, 840, 1, 113730, 1, 1], content);
            params.custom_extensions.push(extension);
        })
    };
    assert!(shake(ClientAuth::Required, Some(&netscape(0x80)), "").is_ok(), "a client's");
    assert!(shake(ClientAuth::Required, Some(&netscape(0x40)), "").is_err(), "a server's");
    let key_usage = |usage| issue(|params| params.key_usages = vec![usage]);
    let signs = key_usage(rcgen::KeyUsagePurpose::DigitalSignature);
    let encrypts = key_usage(rcgen::KeyUsagePurpose::KeyEncipherment);
    assert!(shake(ClientAuth::Required, Some(&signs), "").is_ok());
    assert!(shake(ClientAuth::Required, Some(&encrypts), "").is_err());
}
