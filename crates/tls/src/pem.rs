//! Blocks of PEM files.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{PemObject, SectionKind};

use crate::BuildError;

/// The bytes of a file, with a name for error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The file's name as the operator wrote it.
    pub name: String,
    /// The whole contents of the file.
    pub bytes: Vec<u8>,
}

/// The certificates of a file, in order. `TRUSTED CERTIFICATE` blocks are not understood.
pub(crate) fn certificates(file: &SourceFile) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    CertificateDer::pem_slice_iter(&file.bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| BuildError::new(format!("{}: the file is not PEM: {error}", file.name)))
}

/// The first block of a kind of private key, with its kind.
pub(crate) fn key(file: &SourceFile) -> Option<(SectionKind, Vec<u8>)> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(&file.bytes).filter_map(Result::ok).find(|(kind, _)| {
        matches!(kind, SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey)
    })
}

/// The content of the first block with this label, for labels that rustls-pki-types does not know.
pub(crate) fn block(file: &SourceFile, label: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(&file.bytes).ok()?;
    let begin = text.find(&format!("-----BEGIN {label}-----"))?;
    let rest = &text[begin..];
    let end_line = format!("-----END {label}-----");
    let end = rest.find(&end_line)? + end_line.len();
    let renamed = rest[..end].replace(label, "PRIVATE KEY");
    let (_, bytes) = <(SectionKind, Vec<u8>)>::from_pem_slice(renamed.as_bytes()).ok()?;
    Some(bytes)
}
