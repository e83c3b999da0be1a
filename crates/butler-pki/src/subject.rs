//! Subjects with several organizations.
//!
//! A certificate of a user in several groups names each as an organization, but the subject of `rcgen` holds one value per
//! attribute. Such a certificate is therefore issued with a plain subject first, which is exchanged here and signed anew.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey};

use crate::{Error, LeafRequest, facts};

pub(crate) const TAG_BIT_STRING: u8 = 0x03;
const TAG_UTF8_STRING: u8 = 0x0c;
pub(crate) const TAG_SEQUENCE: u8 = 0x30;
const TAG_SET: u8 = 0x31;
/// The object identifier 2.5.4.3, encoded.
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
/// The object identifier 2.5.4.10, encoded.
const ORGANIZATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];
/// The base64 characters on one line of a PEM file.
const PEM_LINE: usize = 64;

/// The same certificate with the subject of the request, organizations first as kubeadm writes them.
pub(crate) fn replace(
    certificate_pem: &str,
    request: &LeafRequest,
    key: &KeyPair,
) -> Result<String, Error> {
    let signed = facts::with_certificate(certificate_pem, |certificate| {
        let unsigned: &[u8] = certificate.tbs_certificate.as_ref();
        let plain_subject = certificate.tbs_certificate.subject.as_raw();
        let algorithm = algorithm_identifier(certificate.as_raw(), unsigned);
        let (Some((before, after)), Some(algorithm)) =
            (around(content(unsigned), plain_subject), algorithm)
        else {
            return Err(Error::ReadCertificate {
                problem: "its parts are not where they belong".to_owned(),
            });
        };
        let unsigned = element(
            TAG_SEQUENCE,
            &[
                before,
                &subject(&request.common_name, &request.organizations),
                after,
            ]
            .concat(),
        );
        let signature = key.sign(&unsigned).map_err(|source| Error::Sign {
            common_name: request.common_name.clone(),
            source,
        })?;
        // The first octet of a bit string counts its unused bits.
        let signature = element(TAG_BIT_STRING, &[&[0], signature.as_slice()].concat());
        Ok(element(
            TAG_SEQUENCE,
            &[unsigned.as_slice(), algorithm, &signature].concat(),
        ))
    })??;
    Ok(pem("CERTIFICATE", &signed))
}

/// A subject, organizations first as kubeadm writes them.
pub(crate) fn subject(common_name: &str, organizations: &[String]) -> Vec<u8> {
    let organizations = organizations
        .iter()
        .map(|name| (ORGANIZATION, name.as_str()));
    let names = organizations.chain([(COMMON_NAME, common_name)]);
    let attributes: Vec<u8> = names
        .flat_map(|(kind, value)| {
            let value = element(TAG_UTF8_STRING, value.as_bytes());
            element(
                TAG_SET,
                &element(TAG_SEQUENCE, &[kind.as_slice(), &value].concat()),
            )
        })
        .collect();
    element(TAG_SEQUENCE, &attributes)
}

/// The signature algorithm of a certificate: what follows the signed part, up to the signature.
fn algorithm_identifier<'a>(certificate: &'a [u8], signed_part: &[u8]) -> Option<&'a [u8]> {
    let rest = content(certificate).get(signed_part.len()..)?;
    rest.get(..header_length(rest) + content(rest).len())
}

/// What comes before and after the first occurrence of `part` that is followed by something.
fn around<'a>(whole: &'a [u8], part: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    // Issuer and subject differ, as no authority issues a leaf in its own name; search from the end all the same.
    let position = whole
        .windows(part.len())
        .rposition(|window| window == part)?;
    Some((&whole[..position], &whole[position + part.len()..]))
}

/// One element of DER: tag, length, content.
pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut bytes = vec![tag];
    match (u8::try_from(content.len()), u8::try_from(significant.len())) {
        (Ok(short), _) if short < 0x80 => bytes.push(short),
        (_, count) => {
            bytes.push(0x80 | count.unwrap_or(u8::MAX));
            bytes.extend_from_slice(significant);
        }
    }
    bytes.extend_from_slice(content);
    bytes
}

/// How many octets of an element precede its content.
fn header_length(element: &[u8]) -> usize {
    match element.get(1) {
        Some(long) if long & 0x80 != 0 => 2 + usize::from(long & 0x7f),
        _ => 2,
    }
}

/// The content of the first element.
fn content(element: &[u8]) -> &[u8] {
    let header = header_length(element);
    let length = match element.get(1) {
        Some(short) if short & 0x80 == 0 => usize::from(*short),
        _ => element
            .get(2..header)
            .unwrap_or_default()
            .iter()
            .fold(0, |length, byte| (length << 8) | usize::from(*byte)),
    };
    element.get(header..header + length).unwrap_or_default()
}

/// DER as PEM.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, remaining) = rest.split_at(rest.len().min(PEM_LINE));
        text.push_str(line);
        text.push('\n');
        rest = remaining;
    }
    text + &format!("-----END {label}-----\n")
}
