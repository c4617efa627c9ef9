//! Private keys: plain ones in three forms, encrypted ones in PKCS#8 form only.

use pkcs8::pkcs5::Error as Pkcs5Error;
use rustls_pki_types::pem::SectionKind;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use crate::pem::SourceFile;
use crate::{BuildError, pem};

/// Reads the private key of a file. `pass_parameter` names the parameter with the passphrase, for errors.
pub(crate) fn read(
    file: &SourceFile,
    pass: Option<&[u8]>,
    pass_parameter: &str,
) -> Result<PrivateKeyDer<'static>, BuildError> {
    let name = &file.name;
    if is_traditional_encrypted(&file.bytes) {
        return Err(BuildError::new(format!(
            "{name}: the private key is encrypted in the traditional PEM form, which is not supported; convert it \
             with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in {name} -out {name}.pk8"
        )));
    }
    if let Some(encrypted) = pem::block(file, "ENCRYPTED PRIVATE KEY") {
        return decrypt(name, &encrypted, pass, pass_parameter);
    }
    let (kind, bytes) = pem::key(file)
        .ok_or_else(|| BuildError::new(format!("{name}: the file has no private key in PEM form")))?;
    Ok(match kind {
        SectionKind::RsaPrivateKey => PrivatePkcs1KeyDer::from(bytes).into(),
        SectionKind::EcPrivateKey => PrivateSec1KeyDer::from(bytes).into(),
        _ => PrivatePkcs8KeyDer::from(bytes).into(),
    })
}

/// Whether the key is encrypted in OpenSSL's traditional form, by the header of its block.
fn is_traditional_encrypted(bytes: &[u8]) -> bool {
    let mark = b"Proc-Type: 4,ENCRYPTED";
    bytes.windows(mark.len()).any(|window| window == mark)
}

/// Decrypts the content of an `ENCRYPTED PRIVATE KEY` block.
fn decrypt(
    name: &str,
    encrypted: &[u8],
    pass: Option<&[u8]>,
    pass_parameter: &str,
) -> Result<PrivateKeyDer<'static>, BuildError> {
    let pass = pass.ok_or_else(|| {
        BuildError::new(format!("{name}: the private key is encrypted and {pass_parameter} is not set"))
    })?;
    let unsupported = || {
        BuildError::new(format!(
            "{name}: the private key is encrypted in a way that is not supported; convert it with: openssl pkcs8 \
             -topk8 -v2 aes-256-cbc -in {name} -out {name}.pk8"
        ))
    };
    let info = pkcs8::EncryptedPrivateKeyInfo::try_from(encrypted).map_err(|_| unsupported())?;
    let plain = info.decrypt(pass).map_err(|error| match error {
        pkcs8::Error::EncryptedPrivateKey(Pkcs5Error::DecryptFailed | Pkcs5Error::EncryptFailed)
        | pkcs8::Error::Asn1(_) => {
            BuildError::new(format!("{name}: the private key cannot be decrypted with {pass_parameter}"))
        }
        _ => unsupported(),
    })?;
    Ok(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}
