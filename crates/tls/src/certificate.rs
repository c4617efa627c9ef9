//! Reading certificates: serial number, dates, names, usages.
//!
//! Certificates of operators and of peers are parsed here, even those of peers that webpki has refused, so
//! none of them may cause a panic.

use x509_cert::certificate::{CertificateInner, Raw, Version};
use x509_cert::der::asn1::{
    Ia5StringRef, ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef,
};
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use rustls_pki_types::CertificateDer;

use crate::BuildError;

/// Object identifier of commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Object identifier of Netscape's certificate type.
const NETSCAPE_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.113730.1.1");

/// Object identifier of subjectAltName.
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// The facts about a certificate that INFO shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertFacts {
    /// Serial number in upper-case hexadecimal, two digits a byte; zero is `0` and minus five `-05`,
    /// as in the reference.
    pub serial: String,
    /// When the certificate expires, in unix seconds.
    pub expires_at_s: i64,
}

/// The certificates in use that INFO shows; `None` if no file is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The first certificate of `tls-cert-file`, which is the server's own.
    pub server: Option<CertFacts>,
    /// The first certificate of `tls-alt-cert-file`.
    pub server_alt: Option<CertFacts>,
    /// The first certificate of `tls-client-cert-file`.
    pub client: Option<CertFacts>,
    /// The CA certificate that expires first, including one that has expired already.
    pub ca: Option<CertFacts>,
}

/// The field of a client's certificate that holds the client's name (`tls-auth-clients-user`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameField {
    /// The common name of the subject.
    Cn,
    /// The URIs of subjectAltName.
    Uri,
}

/// A certificate whose DER has been parsed.
pub(crate) struct Certificate(CertificateInner<Raw>);

impl Certificate {
    /// Parses DER; `None` if the bytes are no certificate.
    pub(crate) fn read(der: &[u8]) -> Option<Certificate> {
        CertificateInner::from_der(der).ok().map(Certificate)
    }

    /// Whether the certificate is of X.509 version 1, which has no extensions.
    pub(crate) fn is_version_1(&self) -> bool {
        self.0.tbs_certificate.version == Version::V1
    }

    /// The time from which the certificate is valid, in unix seconds.
    pub(crate) fn valid_from_s(&self) -> i64 {
        seconds(self.0.tbs_certificate.validity.not_before)
    }

    /// The time up to which the certificate is valid, in unix seconds.
    pub(crate) fn expires_at_s(&self) -> i64 {
        seconds(self.0.tbs_certificate.validity.not_after)
    }

    pub(crate) fn facts(&self) -> CertFacts {
        CertFacts { serial: self.serial(), expires_at_s: self.expires_at_s() }
    }

    /// The serial number as the reference prints it: `-` and the magnitude of a negative one, `0` for zero.
    fn serial(&self) -> String {
        let bytes = self.0.tbs_certificate.serial_number.as_bytes();
        let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
        let mut magnitude = bytes.to_vec();
        if is_negative {
            // The magnitude is the two's complement: all bits are inverted, and one is added.
            let mut carry = true;
            for byte in magnitude.iter_mut().rev() {
                (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
            }
        }
        let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
        let digits: String = magnitude[zeros..].iter().map(|byte| format!("{byte:02X}")).collect();
        match (is_negative, digits.is_empty()) {
            (_, true) => "0".to_owned(),
            (true, false) => format!("-{digits}"),
            (false, false) => digits,
        }
    }

    /// The names in `field`, in order; names with a NUL byte are left out.
    pub(crate) fn names(&self, field: NameField) -> Vec<Vec<u8>> {
        let names = match field {
            NameField::Cn => self.common_name().into_iter().collect(),
            NameField::Uri => self.uris(),
        };
        names.into_iter().filter(|name: &Vec<u8>| !name.contains(&0)).collect()
    }

    /// The bytes of the subject's first common name; `None` if there is none, or if it has another string
    /// type than UTF8String, PrintableString, IA5String and TeletexString.
    fn common_name(&self) -> Option<Vec<u8>> {
        let parts = self.0.tbs_certificate.subject.0.iter();
        let value = &parts.flat_map(|part| part.0.iter()).find(|pair| pair.oid == COMMON_NAME)?.value;
        match value.tag() {
            Tag::Utf8String => {
                value.decode_as::<Utf8StringRef<'_>>().ok().map(|text| text.as_bytes().to_vec())
            }
            Tag::PrintableString => {
                value.decode_as::<PrintableStringRef<'_>>().ok().map(|text| text.as_bytes().to_vec())
            }
            Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().ok().map(|text| text.as_bytes().to_vec()),
            Tag::TeletexString => {
                value.decode_as::<TeletexStringRef<'_>>().ok().map(|text| text.as_bytes().to_vec())
            }
            _ => None,
        }
    }

    /// The URIs of subjectAltName.
    fn uris(&self) -> Vec<Vec<u8>> {
        let extensions = self.0.tbs_certificate.extensions.iter().flatten();
        let Some(extension) = extensions.into_iter().find(|extension| extension.extn_id == SUBJECT_ALT_NAME)
        else {
            return Vec::new();
        };
        let Ok(names) = SubjectAltName::from_der(extension.extn_value.as_bytes()) else { return Vec::new() };
        let uris = names.0.into_iter().filter_map(|name| match name {
            GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_bytes().to_vec()),
            _ => None,
        });
        uris.collect()
    }

    /// Whether the certificate may sign others: its basic constraints say CA, and its key usage,
    /// if present, allows it.
    pub(crate) fn may_sign(&self) -> bool {
        use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};
        let tbs = &self.0.tbs_certificate;
        let is_authority =
            matches!(tbs.get::<BasicConstraints>(), Ok(Some((_, constraints))) if constraints.ca);
        is_authority
            && match tbs.get::<KeyUsage>() {
                Ok(Some((_, usage))) => usage.key_cert_sign(),
                Ok(None) => true,
                Err(_) => false,
            }
    }

    /// Whether keyUsage and Netscape's certificate type, if present, allow this side of TLS,
    /// by OpenSSL's rules.
    pub(crate) fn serves_as(&self, usage: OlderUsage) -> bool {
        use x509_cert::ext::pkix::KeyUsage;
        let tbs = &self.0.tbs_certificate;
        let by_key = match tbs.get::<KeyUsage>() {
            Ok(None) => true,
            Ok(Some((_, key))) => {
                let any = key.digital_signature() || key.key_agreement();
                any || matches!(usage, OlderUsage::Server) && key.key_encipherment()
            }
            Err(_) => false,
        };
        let mut extensions = tbs.extensions.iter().flatten();
        let netscape = extensions.find(|extension| extension.extn_id == NETSCAPE_TYPE);
        let by_type = netscape.is_none_or(|extension| {
            let bit = match usage {
                OlderUsage::Client => 0x80,
                OlderUsage::Server => 0x40,
            };
            // A DER bit string has a tag, a length, the number of unused bits, and the bits.
            matches!(extension.extn_value.as_bytes(), [3, _, _, bits, ..] if bits & bit != 0)
        });
        by_key && by_type
    }

    /// Whether the certificate's extended key usages, if present, allow `usage`.
    pub(crate) fn allows(&self, usage: ObjectIdentifier) -> bool {
        use x509_cert::ext::pkix::ExtendedKeyUsage;
        match self.0.tbs_certificate.get::<ExtendedKeyUsage>() {
            Ok(Some((_, usages))) => usages.0.contains(&usage),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// The sides of TLS, as far as keyUsage and Netscape's certificate type distinguish them; webpki reads
/// neither extension.
#[derive(Clone, Copy)]
pub(crate) enum OlderUsage {
    Client,
    Server,
}

/// Unix seconds of a time in a certificate.
fn seconds(time: x509_cert::time::Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}

/// The facts of the certificate that expires first.
pub(crate) fn earliest<'a>(certificates: impl Iterator<Item = &'a Certificate>) -> Option<CertFacts> {
    certificates.min_by_key(|certificate| certificate.expires_at_s()).map(Certificate::facts)
}

/// Reads the certificates of the file `name`.
pub(crate) fn read_all(name: &str, ders: &[CertificateDer<'static>]) -> Result<Vec<Certificate>, BuildError> {
    let unreadable =
        || BuildError::new(format!("{name}: a certificate in the file is not X.509 in DER form"));
    ders.iter().map(|der| Certificate::read(der).ok_or_else(unreadable)).collect()
}

/// Checks the dates of a certificate of the file `name`.
pub(crate) fn check_dates(name: &str, certificate: &Certificate, now_s: i64) -> Result<(), BuildError> {
    if certificate.expires_at_s() < now_s {
        return Err(BuildError::new(format!("{name}: the certificate has expired")));
    }
    if certificate.valid_from_s() > now_s {
        return Err(BuildError::new(format!("{name}: the certificate is not valid yet")));
    }
    Ok(())
}

/// For the fuzzer: parses bytes as a certificate and reads its serial, expiry, names, usages, version, and
/// whether it may sign.
pub fn fuzz_certificate(data: &[u8]) {
    let Some(certificate) = Certificate::read(data) else { return };
    let facts = certificate.facts();
    assert!(!facts.serial.is_empty() && facts.expires_at_s >= 0);
    for field in [NameField::Cn, NameField::Uri] {
        assert!(certificate.names(field).iter().all(|name| !name.contains(&0)));
    }
    let _allowed = certificate.allows(COMMON_NAME);
    let _usage = [OlderUsage::Server, OlderUsage::Client].map(|usage| certificate.serves_as(usage));
    let _signs = (certificate.is_version_1(), certificate.may_sign());
}
