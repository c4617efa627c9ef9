//! The files and options of a context, and each way in which they can be unusable.

use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, SerialNumber, date_time_ymd};
use sluice_tls::{CertFacts, ClientAuth, Context, Named, Options, Sources};

use crate::certs::{CA, NOW_S, Pair, RSA_KEY, SERVER, named, now, params};
use crate::pair::{context, options, sources};

/// The text of the error that these sources cause.
fn error(sources: &Sources) -> String {
    match Context::build(sources, &options(), NOW_S, now) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The text of the error that these options cause.
fn word_error(change: impl FnOnce(&mut Options)) -> String {
    let mut options = options();
    change(&mut options);
    match Context::build(&sources(), &options, NOW_S, now) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Sources with another certificate and key for the server.
fn with_pair(pair: &Pair) -> Sources {
    Sources { cert: Some(pair.cert.clone()), key: Some(pair.key.clone()), ..sources() }
}

/// A server's certificate for the RSA key; the file of the key has the text `key`.
fn rsa_pair(key: &str) -> Pair {
    let pair = CA.issue_for("server.crt", &params("server"), &KeyPair::from_pem(RSA_KEY).expect("a key"));
    Pair { cert: pair.cert, key: named("server.key", key) }
}

/// A pair whose certificate is valid in that span of years.
fn dated(from: i32, to: i32) -> Pair {
    let mut params = params("server");
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
    CA.issue_for("server.crt", &params, &KeyPair::generate().expect("a key"))
}

#[test]
fn files_that_are_missing_are_named_by_their_parameters() {
    assert_eq!(error(&Sources { cert: None, ..sources() }), "tls-cert-file is not set");
    assert_eq!(error(&Sources { key: None, ..sources() }), "tls-key-file is not set");
    assert_eq!(error(&Sources { client_key: None, ..sources() }), "tls-client-key-file is not set");
    assert_eq!(
        error(&Sources { ca: Vec::new(), ..sources() }),
        "tls-ca-cert-file or tls-ca-cert-dir must be set while tls-auth-clients is not no"
    );
    let without = Sources { client_cert: None, client_key: None, ..sources() };
    assert_eq!(context(&without, &options()).facts().client, None);
}

#[test]
fn files_that_are_something_else_are_named() {
    let cert = |text: &str| error(&Sources { cert: Some(named("a.crt", text)), ..sources() });
    assert_eq!(cert(""), "a.crt: the file has no certificate in PEM form");
    assert_eq!(cert("hello"), "a.crt: the file has no certificate in PEM form");
    assert_eq!(cert(RSA_KEY), "a.crt: the file has no certificate in PEM form");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(cert(broken), "a.crt: a certificate in the file is not X.509 in DER form");
    assert!(cert("-----BEGIN CERTIFICATE-----\nAAAA\n").starts_with("a.crt: the file is not PEM: "));
    let key = |text: &str| error(&Sources { key: Some(named("a.key", text)), ..sources() });
    assert_eq!(key("hello"), "a.key: the file has no private key in PEM form");
    let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(
        key(broken),
        "a.key: the private key is not supported: use RSA of 2048 to 4096 bits, ECDSA on P-256 or P-384, or Ed25519"
    );
    let ca = |text: &str| error(&Sources { ca: vec![named("a.ca", text)], ..sources() });
    assert_eq!(ca("hello"), "a.ca: the file has no certificate in PEM form");
}

#[test]
fn pairs_that_do_not_match_are_refused_with_both_names() {
    let pair = Pair { cert: SERVER.cert.clone(), key: named("other.key", RSA_KEY) };
    let text = "other.key: the private key does not belong to the certificate server.crt";
    assert_eq!(error(&with_pair(&pair)), text);
    let client = Sources { client_key: Some(named("other.key", RSA_KEY)), ..sources() };
    assert_eq!(error(&client), "other.key: the private key does not belong to the certificate client.crt");
}

#[test]
fn certificates_that_are_out_of_date_are_refused() {
    assert_eq!(error(&with_pair(&dated(2020, 2021))), "server.crt: the certificate has expired");
    assert_eq!(error(&with_pair(&dated(2030, 2031))), "server.crt: the certificate is not valid yet");
    let expired = Sources { ca: vec![dated(2020, 2021).cert], ..sources() };
    assert_eq!(error(&expired), "server.crt: the certificate has expired");
    let bundle = Sources { ca: vec![dated(2020, 2021).cert, CA.file()], ..sources() };
    assert_eq!(error(&bundle), "none", "one of the authorities is good");
}

#[test]
fn version_1_is_refused_with_the_way_out() {
    let pair = Pair { cert: named("v1.crt", include_str!("v1.crt")), key: named("a.key", RSA_KEY) };
    let text = error(&with_pair(&pair));
    assert!(
        text.starts_with("v1.crt: the certificate is of X.509 version 1, which is not supported"),
        "{text}"
    );
    assert!(text.contains("openssl x509 -req -extfile"), "{text}");
}

#[test]
fn keys_come_in_several_forms() {
    let works = |pair: &Pair, pass: Option<&[u8]>| {
        error(&Sources { key_pass: pass.map(<[u8]>::to_vec), ..with_pair(pair) })
    };
    assert_eq!(works(&rsa_pair(RSA_KEY), None), "none");
    assert_eq!(works(&rsa_pair(include_str!("pkcs1.key")), None), "none");
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key");
    assert_eq!(works(&CA.issue_for("server.crt", &params("server"), &p384), None), "none");
    for text in [include_str!("encrypted.key"), include_str!("scrypt.key")] {
        let pair = rsa_pair(text);
        assert_eq!(works(&pair, Some(b"secret")), "none");
        assert_eq!(
            works(&pair, Some(b"wrong")),
            "server.key: the private key cannot be decrypted with tls-key-file-pass"
        );
        assert_eq!(
            works(&pair, None),
            "server.key: the private key is encrypted and tls-key-file-pass is not set"
        );
    }
    for text in [include_str!("traditional.key"), include_str!("des.key")] {
        let text = works(&rsa_pair(text), Some(b"secret"));
        assert!(
            text.ends_with("openssl pkcs8 -topk8 -v2 aes-256-cbc -in server.key -out server.key.pk8"),
            "{text}"
        );
    }
    let client = Sources { client_key: Some(rsa_pair(include_str!("encrypted.key")).key), ..sources() };
    assert_eq!(
        error(&client),
        "server.key: the private key is encrypted and tls-client-key-file-pass is not set"
    );
}

#[test]
fn words_that_are_not_understood_are_named() {
    let protocols = |text: &str| word_error(|options| options.protocols = text.to_owned());
    assert_eq!(protocols("TLSv1.2 tlsV1.3"), "none");
    assert_eq!(protocols("TLSv1.1"), "tls-protocols: TLSv1.1 is not supported, TLSv1.2 and TLSv1.3 are");
    assert_eq!(protocols("TLSv1.2 foo"), "tls-protocols: foo is not a version of TLS");
    let suites = |text: &str| word_error(|options| options.ciphersuites = text.to_owned());
    assert_eq!(suites("TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"), "none");
    assert_eq!(
        suites("TLS_AES_128_CCM_SHA256"),
        "tls-ciphersuites: TLS_AES_128_CCM_SHA256 is not supported by this build"
    );
    let ciphers = |text: &str| word_error(|options| options.ciphers = text.to_owned());
    assert_eq!(ciphers("AES128-SHA"), "tls-ciphers: AES128-SHA is not supported by this build");
}

#[test]
fn info_shows_serials_and_dates_as_the_reference_does() {
    let serial = |bytes: &[u8], to: i32| {
        let mut params = params("server");
        params.serial_number = Some(SerialNumber::from_slice(bytes));
        params.not_after = date_time_ymd(to, 1, 1);
        CA.issue_for("server.crt", &params, &KeyPair::generate().expect("a key"))
    };
    for (bytes, text) in
        [(b"\x00".as_slice(), "0"), (b"\x0a", "0A"), (b"\x80\xff", "80FF"), (b"\x01\x00", "0100")]
    {
        let context = context(&with_pair(&serial(bytes, 2030)), &options());
        let facts = CertFacts { serial: text.to_owned(), expires_at_s: 1_893_456_000 };
        assert_eq!(context.facts().server, Some(facts));
    }
    // INFO shows the first certificate of a chain, and of the CA certificates the one that expires first.
    let mut chain = serial(b"\x07", 2031);
    chain.cert.bytes.append(&mut serial(b"\x08", 2030).cert.bytes);
    let ca = |bytes, to| Named { name: "ca.crt".to_owned(), bytes: serial(bytes, to).cert.bytes };
    let sources =
        Sources { ca: vec![ca(b"\x01", 2035), ca(b"\x02", 2033), ca(b"\x03", 2034)], ..with_pair(&chain) };
    let context = context(&sources, &options());
    assert_eq!(context.facts().server.as_ref().map(|facts| facts.serial.as_str()), Some("07"));
    assert_eq!(context.facts().ca.as_ref().map(|facts| facts.serial.as_str()), Some("02"));
    assert_eq!(context.facts().client.as_ref().map(|facts| facts.expires_at_s), Some(2_208_988_800));
}

#[test]
fn a_folder_may_hold_the_same_file_twice_and_other_files() {
    let sources = Sources { ca: vec![named("README", "hello"), CA.file(), CA.file()], ..sources() };
    assert_eq!(error(&sources), "none");
    let off = Options { client_auth: ClientAuth::Off, ..options() };
    assert!(Context::build(&Sources { ca: Vec::new(), ..sources }, &off, NOW_S, now).is_ok());
}
