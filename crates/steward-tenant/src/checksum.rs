//! Fingerprints of text, for annotations and statuses.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// SHA-256 over all pieces, in lower case hexadecimal. Each piece ends by its length, so that they cannot run together.
pub(crate) fn checksum<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece.as_bytes());
        hasher.update(piece.len().to_be_bytes());
    }
    hasher
        .finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
