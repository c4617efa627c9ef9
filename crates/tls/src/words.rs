//! OpenSSL's cipher strings and names of versions.
//!
//! A word for suites that OpenSSL has and this build lacks (RSA key exchange, CBC, DHE) is refused by name
//! if it adds suites; if it removes suites, it is accepted.

use rustls::{CipherSuite, SupportedProtocolVersion};

use crate::BuildError;

/// A suite of TLS 1.2 with the groups that contain it.
struct Suite {
    suite: CipherSuite,
    name: &'static str,
    /// Bits of the suite's key, for `@STRENGTH`.
    bits: u32,
    groups: &'static [&'static str],
}

/// The cipher suites of TLS 1.2 that rustls implements, in the order in which OpenSSL prefers them.
const SUITES: &[Suite] = &[
    Suite {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        bits: 256,
        groups: &["aECDSA", "ECDSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Suite {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        bits: 256,
        groups: &["aRSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Suite {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        bits: 256,
        groups: &["aECDSA", "ECDSA", "CHACHA20"],
    },
    Suite {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        bits: 256,
        groups: &["aRSA", "CHACHA20"],
    },
    Suite {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        bits: 128,
        groups: &["aECDSA", "ECDSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    Suite {
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        bits: 128,
        groups: &["aRSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
];

/// Groups that every suite belongs to.
const EVERY: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH", "kECDH", "TLSv1.2", "FIPS"];

/// Groups of OpenSSL that add nothing, because OpenSSL does not offer their suites, or offers them only
/// together with other words.
const EMPTY: &[&str] = &["MEDIUM", "LOW", "EXP", "EXPORT", "COMPLEMENTOFDEFAULT", "COMPLEMENTOFALL"];

/// Groups whose suites this build lacks.
const LACKING: &[&str] = &[
    "kRSA",
    "RSA",
    "DHE",
    "EDH",
    "kDHE",
    "kEDH",
    "DH",
    "kDH",
    "kDHr",
    "kDHd",
    "aDH",
    "ADH",
    "AECDH",
    "aNULL",
    "eNULL",
    "NULL",
    "PSK",
    "kPSK",
    "aPSK",
    "kECDHEPSK",
    "kDHEPSK",
    "kRSAPSK",
    "SRP",
    "kSRP",
    "aSRP",
    "DSS",
    "aDSS",
    "kGOST",
    "aGOST",
    "GOST94",
    "GOST89MAC",
    "3DES",
    "DES",
    "RC4",
    "RC2",
    "IDEA",
    "SEED",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "AESCCM",
    "AESCCM8",
    "MD5",
    "SHA",
    "SHA1",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "CBC",
];

/// Suites of TLS 1.3 by name, in OpenSSL's order.
const SUITES_13: &[(&str, CipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
];

/// OpenSSL's name of a suite, or rustls's name of a suite that is in none of the tables above.
pub(crate) fn suite_name(suite: CipherSuite) -> String {
    let old = SUITES.iter().find(|row| row.suite == suite).map(|row| row.name);
    let new = SUITES_13.iter().find(|row| row.1 == suite).map(|row| row.0);
    old.or(new).map_or_else(|| format!("{suite:?}"), str::to_owned)
}

/// The versions that `tls-protocols` names; both if the text is empty.
pub(crate) fn protocols(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, BuildError> {
    let (mut has_12, mut has_13) = (false, false);
    for word in text.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => has_12 = true,
            "tlsv1.3" => has_13 = true,
            "tlsv1" | "tlsv1.0" | "tlsv1.1" | "sslv2" | "sslv3" => {
                return Err(BuildError::new(format!(
                    "tls-protocols: {word} is not supported, TLSv1.2 and TLSv1.3 are"
                )));
            }
            _ => return Err(BuildError::new(format!("tls-protocols: {word} is not a version of TLS"))),
        }
    }
    let versions: [(bool, &'static SupportedProtocolVersion); 2] =
        [(has_13, &rustls::version::TLS13), (has_12, &rustls::version::TLS12)];
    let any = has_12 || has_13;
    Ok(versions.into_iter().filter(|(has, _)| *has || !any).map(|(_, version)| version).collect())
}

/// The suites of TLS 1.3 that `tls-ciphersuites` names, in that order; all if the text is empty.
pub(crate) fn ciphersuites(text: &str) -> Result<Vec<CipherSuite>, BuildError> {
    let mut suites = Vec::new();
    for word in text.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        let found = SUITES_13.iter().find(|(name, _)| *name == word);
        let (_, suite) = found.ok_or_else(|| {
            BuildError::new(format!("tls-ciphersuites: {word} is not supported by this build"))
        })?;
        if !suites.contains(suite) {
            suites.push(*suite);
        }
    }
    if suites.is_empty() {
        suites.extend(SUITES_13.iter().map(|(_, suite)| *suite));
    }
    Ok(suites)
}

/// The suites of TLS 1.2 that `tls-ciphers` chooses, in order of preference; all if the text is empty.
pub(crate) fn ciphers(text: &str) -> Result<Vec<CipherSuite>, BuildError> {
    let text = if text.trim().is_empty() { "DEFAULT" } else { text };
    let (mut chosen, mut killed): (Vec<&Suite>, Vec<&str>) = (Vec::new(), Vec::new());
    for word in text.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
        let (operator, rest) = match word.as_bytes()[0] {
            sign @ (b'!' | b'-' | b'+' | b'@') => (sign, &word[1..]),
            _ => (b' ', word),
        };
        if operator == b'@' {
            command(word, &mut chosen)?;
            continue;
        }
        let matching = select(rest, operator == b' ')?;
        match operator {
            b'!' => {
                killed.extend(matching.iter().map(|suite| suite.name));
                chosen.retain(|suite| !killed.contains(&suite.name));
            }
            b'-' => chosen.retain(|suite| !matching.iter().any(|other| other.name == suite.name)),
            b'+' => {
                let is_matching = |suite: &&Suite| matching.iter().any(|other| other.name == suite.name);
                // A stable sort: suites that match move to the end.
                chosen.sort_by_key(is_matching);
            }
            _ => {
                for suite in matching {
                    if !killed.contains(&suite.name) && !chosen.iter().any(|other| other.name == suite.name) {
                        chosen.push(suite);
                    }
                }
            }
        }
    }
    if chosen.is_empty() {
        return Err(BuildError::new(format!("tls-ciphers: {text} has no cipher that this build supports")));
    }
    Ok(chosen.into_iter().map(|suite| suite.suite).collect())
}

/// Applies a command. `@STRENGTH` sorts the suites; `@SECLEVEL=n` is met by every suite here up to level 3.
fn command(word: &str, chosen: &mut [&Suite]) -> Result<(), BuildError> {
    match word {
        "@STRENGTH" => chosen.sort_by_key(|suite| std::cmp::Reverse(suite.bits)),
        "@SECLEVEL=0" | "@SECLEVEL=1" | "@SECLEVEL=2" | "@SECLEVEL=3" => {}
        _ => return Err(BuildError::new(format!("tls-ciphers: {word} is not supported"))),
    }
    Ok(())
}

/// The suites that a word names. The word is a suite's name, a group, or groups joined by `+`. `asks`:
/// whether the word adds suites; then a word for suites that this build lacks is an error.
fn select(word: &str, asks: bool) -> Result<Vec<&'static Suite>, BuildError> {
    if let Some(suite) = SUITES.iter().find(|suite| suite.name == word) {
        return Ok(vec![suite]);
    }
    let mut matching: Vec<&'static Suite> = SUITES.iter().collect();
    for group in word.split('+') {
        if EVERY.contains(&group) {
            continue;
        }
        let known = SUITES.iter().any(|suite| suite.groups.contains(&group));
        if !known && asks && !EMPTY.contains(&group) {
            let known = LACKING.contains(&group) || group.contains('-');
            let reason = if known { "is not supported by this build" } else { "is an unknown cipher" };
            return Err(BuildError::new(format!("tls-ciphers: {word} {reason}")));
        }
        matching.retain(|suite| suite.groups.contains(&group));
    }
    Ok(matching)
}

#[cfg(test)]
mod tests {
    use super::{ciphers, ciphersuites, protocols, suite_name};

    /// The names of the suites that a text chooses, or the error.
    fn chosen(text: &str) -> String {
        match ciphers(text) {
            Ok(suites) => suites.into_iter().map(suite_name).collect::<Vec<_>>().join(":"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_of_openssl_choose_suites() {
        let all = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:\
                   ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";
        let aes = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256:\
                   ECDHE-RSA-AES128-GCM-SHA256";
        let rsa = "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256";
        let small_first = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
                           ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
                           ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
        let chacha_last = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
                           ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
                           ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
        for (text, wanted) in [
            ("", all),
            ("DEFAULT", all),
            ("ALL", all),
            ("HIGH", all),
            ("HIGH:!aNULL:!MD5", all),
            ("HIGH:MEDIUM:!LOW", all),
            ("DEFAULT:!MEDIUM", all),
            ("DEFAULT@", "tls-ciphers: DEFAULT@ is an unknown cipher"),
            ("DEFAULT:@SECLEVEL=2", all),
            ("ECDHE", all),
            ("EECDH+AESGCM", aes),
            ("ECDHE+AESGCM:!kRSA:!DHE", aes),
            ("AESGCM", aes),
            ("HIGH:!CHACHA20", aes),
            ("HIGH:-CHACHA20", aes),
            ("aRSA", rsa),
            ("HIGH:!ECDSA", rsa),
            ("AES128:HIGH", small_first),
            ("AES128:HIGH:@STRENGTH", all_by_strength()),
            ("HIGH:+CHACHA20", chacha_last),
            ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            (
                "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384",
                "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384",
            ),
            ("ECDHE-RSA-AES128-GCM-SHA256,ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            ("aRSA+AES128", "ECDHE-RSA-AES128-GCM-SHA256"),
            ("!AES128:aRSA+AES128:aRSA+AES256", "ECDHE-RSA-AES256-GCM-SHA384"),
        ] {
            assert_eq!(chosen(text), wanted, "{text}");
        }
    }

    /// The suites in the order that `AES128:HIGH:@STRENGTH` gives them.
    fn all_by_strength() -> &'static str {
        "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:\
         ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"
    }

    #[test]
    fn what_is_lacking_is_refused_by_name() {
        for (text, reason) in [
            ("AES128-SHA", "AES128-SHA is not supported by this build"),
            ("HIGH:AES256-GCM-SHA384", "AES256-GCM-SHA384 is not supported by this build"),
            ("ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES128-SHA256 is not supported by this build"),
            ("DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256 is not supported by this build"),
            ("kRSA", "kRSA is not supported by this build"),
            ("DHE+AESGCM", "DHE+AESGCM is not supported by this build"),
            ("HIGH:3DES", "3DES is not supported by this build"),
            ("foo", "foo is an unknown cipher"),
            ("HIGH:@BEST", "@BEST is not supported"),
            ("HIGH:@SECLEVEL=5", "@SECLEVEL=5 is not supported"),
            ("HIGH:!ALL", "HIGH:!ALL has no cipher that this build supports"),
            ("!aNULL", "!aNULL has no cipher that this build supports"),
            ("aRSA+ECDSA", "aRSA+ECDSA has no cipher that this build supports"),
        ] {
            assert_eq!(chosen(text), format!("tls-ciphers: {reason}"));
        }
    }

    #[test]
    fn suites_of_tls_13_come_in_the_order_that_is_given() {
        let names =
            |text| ciphersuites(text).expect("suites").into_iter().map(suite_name).collect::<Vec<_>>();
        let text = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
        assert_eq!(names(text).join(":"), text);
        assert_eq!(names("").len(), 3);
        assert!(ciphersuites("TLS_AES_128_CCM_8_SHA256").is_err());
    }

    #[test]
    fn protocols_default_to_both() {
        for (text, count) in [("", 2), ("TLSv1.2", 1), ("tlsv1.3", 1), (" TLSv1.3  TLSv1.2 ", 2)] {
            assert_eq!(protocols(text).expect("versions").len(), count);
        }
    }
}
