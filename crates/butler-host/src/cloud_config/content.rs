//! Contents of files: the encodings in which they may be written.

use std::io::Read as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::MultiGzDecoder;

/// More than this comes out of no compressed file: a machine's user data is small, and a bomb is not.
const LARGEST: u64 = 64 * 1024 * 1024;

/// How the content of a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    base64: bool,
    gzip: bool,
}

impl Encoding {
    pub(super) const RULE: &str =
        "use text/plain, b64, base64, gz, gzip, gz+b64, gz+base64, gzip+b64 or gzip+base64";
    pub(super) const PLAIN: Self = Self {
        base64: false,
        gzip: false,
    };

    /// Both spellings of both words, as cloud-config has them.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let (gzip, base64) = match name.to_ascii_lowercase().trim() {
            "" | "text/plain" => (false, false),
            "b64" | "base64" => (false, true),
            "gz" | "gzip" => (true, false),
            "gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64" => (true, true),
            _ => return None,
        };
        Some(Self { base64, gzip })
    }

    /// The bytes of the file, or the rule that the text breaks.
    pub(super) fn decode(self, text: &str) -> Result<Vec<u8>, String> {
        let mut bytes = text.as_bytes().to_vec();
        if self.base64 {
            bytes.retain(|byte| !byte.is_ascii_whitespace());
            bytes = STANDARD.decode(&bytes).map_err(|_| {
                "the encoding says base64, and it is not (standard alphabet, padded)".to_owned()
            })?;
        }
        if self.gzip {
            bytes = decompress(&bytes).map_err(|rule| {
                if self.base64 {
                    rule
                } else {
                    format!("{rule}; compressed bytes are no text: write them as gz+b64")
                }
            })?;
        }
        Ok(bytes)
    }
}

fn decompress(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(LARGEST + 1)
        .read_to_end(&mut content)
        .map_err(|_| "the encoding says gzip, and it is not, or it is cut off".to_owned())?;
    if u64::try_from(content.len()).is_ok_and(|length| length > LARGEST) {
        return Err(format!(
            "it is larger than {} MiB when decompressed",
            LARGEST / 1024 / 1024
        ));
    }
    Ok(content)
}
