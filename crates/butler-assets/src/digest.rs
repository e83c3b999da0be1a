//! SHA-256 digests: the newtype, hashing while data flows by, and the checksum files projects publish.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const HEX_LENGTH: usize = 64;
const BUFFER_SIZE: usize = 128 * 1024;

/// A SHA-256 digest, as 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digest of a file and its size, read in pieces.
    pub fn of_file(path: &Path) -> io::Result<(Self, u64)> {
        let mut hasher = Hasher::default();
        let mut file = File::open(path)?;
        let size = hasher.update_from(&mut file)?;
        Ok((hasher.finish(), size))
    }

    /// The hexadecimal digits.
    pub fn as_hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The text is not a SHA-256 digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a SHA-256 digest of 64 hexadecimal digits")]
pub struct InvalidDigest(String);

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        if text.len() == HEX_LENGTH && text.chars().all(|digit| digit.is_ascii_hexdigit()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(InvalidDigest(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// A running SHA-256.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds everything that is left to read and says how much it was.
    pub(crate) fn update_from(&mut self, reader: &mut impl Read) -> io::Result<u64> {
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut total = 0;
        loop {
            let count = reader.read(&mut buffer)?;
            if count == 0 {
                return Ok(total);
            }
            self.update(&buffer[..count]);
            total += length(count);
        }
    }

    pub(crate) fn finish(self) -> Digest {
        use fmt::Write as _;
        let mut hex = String::with_capacity(HEX_LENGTH);
        for byte in self.0.finalize() {
            write!(hex, "{byte:02x}").expect("writing to a String does not fail");
        }
        Digest(hex)
    }
}

/// Hashes and counts what is written through it.
pub(crate) struct HashingWriter<W> {
    inner: W,
    hasher: Hasher,
    written: u64,
}

impl<W: Write> HashingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hasher: Hasher::default(),
            written: 0,
        }
    }

    pub(crate) fn finish(self) -> (W, Digest, u64) {
        (self.inner, self.hasher.finish(), self.written)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.written += length(count);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A length in memory as a length on disk.
pub(crate) fn length(count: usize) -> u64 {
    u64::try_from(count).expect("no supported platform addresses more than 64 bits")
}

/// The digest a checksum file states for a file name.
///
/// Projects publish either the bare digest or lines of `<digest>  <name>`; some prefix the name with `*` or `./`.
pub(crate) fn stated_digest(checksum_file: &str, file_name: &str) -> Option<Digest> {
    let lines = || {
        checksum_file
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let named = lines().find_map(|line| {
        let (digest, name) = line.split_once(char::is_whitespace)?;
        let name = name.trim_start().trim_start_matches('*');
        let base = name.rsplit('/').next().unwrap_or(name);
        (base == file_name).then(|| digest.parse().ok()).flatten()
    });
    named.or_else(|| {
        let mut lines = lines();
        let only = lines.next().filter(|_| lines.next().is_none())?;
        only.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digest_of_nothing_is_the_well_known_one() {
        assert_eq!(Digest::of(b"").as_hex(), EMPTY);
    }

    #[test]
    fn bare_checksum_file_is_understood() {
        assert_eq!(
            stated_digest(&format!("{EMPTY}\n"), "kubelet"),
            Some(Digest::of(b""))
        );
    }

    #[test]
    fn list_of_checksums_is_searched_by_name() {
        let other = "0".repeat(HEX_LENGTH);
        let list = format!("{other}  a.tar.gz\n{EMPTY} *./b.tar.gz\n");
        assert_eq!(stated_digest(&list, "b.tar.gz"), Some(Digest::of(b"")));
        assert_eq!(stated_digest(&list, "c.tar.gz"), None);
    }

    #[test]
    fn web_page_instead_of_a_checksum_is_no_digest() {
        assert_eq!(stated_digest("<html>not found</html>", "kubelet"), None);
    }
}
