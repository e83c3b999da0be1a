//! Values that must not be seen: they have no `Display`, and `Debug` shows their size alone.

use std::{collections::BTreeMap, fmt};

/// What opens the door to an infrastructure, by the keys of its Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(BTreeMap<String, Vec<u8>>);

impl Credentials {
    /// Credentials of these values.
    pub fn new(values: BTreeMap<String, Vec<u8>>) -> Self {
        Self(values)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// The value of a key that is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)
            .and_then(|value| std::str::from_utf8(value).ok())
            .map(str::trim)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.0.keys().collect();
        formatter
            .debug_tuple("Credentials")
            .field(&format_args!("values of {keys:?} withheld"))
            .finish()
    }
}

/// What a machine is told at its first boot. Holds bootstrap tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData(Vec<u8>);

impl UserData {
    /// User data of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{} bytes withheld]", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_seen_in_a_log() {
        let values = BTreeMap::from([("password".to_owned(), b"hunter2".to_vec())]);
        let credentials = Credentials::new(values);
        assert_eq!(credentials.text("password"), Some("hunter2"));
        let shown = format!("{credentials:?} {:?}", UserData::new("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
