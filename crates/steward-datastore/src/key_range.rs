//! Which keys of an etcd belong to a tenant.
//!
//! Owns: the one rule by which a schema becomes a range of keys. The range is closed: it begins with a slash after the
//! schema and ends right behind it, so that no key of a longer name is in it, and nothing is open-ended.
//!
//! Must not: speak to etcd.

use crate::names::Schema;

/// The byte that ends a tenant's prefix, and the one after it, which ends the tenant's range.
const SLASH: u8 = b'/';
const AFTER_SLASH: u8 = SLASH + 1;

/// What the API server is told by `--etcd-prefix`; it adds the slash behind it.
pub fn etcd_prefix(schema: &Schema) -> String {
    format!("/{schema}")
}

/// The keys from `start` on and before `end`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    start: Vec<u8>,
    end: Vec<u8>,
}

impl KeyRange {
    /// The keys of a tenant: those that begin with `/<schema>/`, as the API server writes them
    /// when it is told [`etcd_prefix`].
    pub fn of(schema: &Schema) -> Self {
        let path = etcd_prefix(schema).into_bytes();
        let closed_by = |last: u8| path.iter().copied().chain([last]).collect();
        Self {
            start: closed_by(SLASH),
            end: closed_by(AFTER_SLASH),
        }
    }

    /// Those of the keys that have this name behind the tenant's prefix: of one kind of object, as the API server names them.
    #[must_use]
    pub(crate) fn below(&self, name: &str) -> Self {
        let closed_by = |last: u8| {
            let path = self.start.iter().chain(name.as_bytes());
            path.copied().chain([last]).collect()
        };
        Self {
            start: closed_by(SLASH),
            end: closed_by(AFTER_SLASH),
        }
    }

    /// The first key that can be in the range, which is also what all keys in it begin with.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// The first key behind the range.
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// Whether the key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }

    /// Whether some key is in both ranges.
    pub fn touches(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schema() -> impl Strategy<Value = Schema> {
        // Few letters and much sharing, so that names are often equal, nested or one longer than the other.
        "[ab_.0-]{1,3}(/[ab0]{1,2}){0,2}".prop_filter_map("a name", |text| text.parse().ok())
    }

    proptest! {
        #[test]
        fn a_key_is_in_the_range_if_it_begins_with_the_prefix(schema in schema(), key in "(/[ab0]{0,3}){0,4}") {
            let range = KeyRange::of(&schema);
            let prefix = format!("/{schema}/");
            prop_assert_eq!(range.start(), prefix.as_bytes());
            prop_assert_eq!(range.contains(key.as_bytes()), key.starts_with(&prefix));
        }

        #[test]
        fn any_byte_behind_the_prefix_stays_in_the_range(schema in schema(), rest in proptest::collection::vec(any::<u8>(), 0..9)) {
            let range = KeyRange::of(&schema);
            let key: Vec<u8> = range.start().iter().copied().chain(rest).collect();
            prop_assert!(range.contains(&key));
            prop_assert!(!range.contains(range.end()));
        }

        #[test]
        fn a_kind_of_object_is_within_the_tenants_range(schema in schema(), name in "[a-z]{1,9}", rest in "(/[ab0]{0,3}){0,4}") {
            let range = KeyRange::of(&schema);
            let below = range.below(&name);
            let key = format!("/{schema}{rest}");
            prop_assert_eq!(below.contains(key.as_bytes()), key.starts_with(&format!("/{schema}/{name}/")));
            prop_assert!(range.contains(below.start()) && range.contains(below.end()));
        }

        #[test]
        fn ranges_touch_if_one_prefix_begins_with_the_other(one in schema(), other in schema()) {
            let (a, b) = (KeyRange::of(&one), KeyRange::of(&other));
            let nested = a.start().starts_with(b.start()) || b.start().starts_with(a.start());
            prop_assert_eq!(a.touches(&b), nested);
            prop_assert_eq!(b.touches(&a), nested);
        }

        #[test]
        fn ranges_that_do_not_touch_share_no_key(one in schema(), other in schema(), key in "(/[ab0]{0,3}){0,4}") {
            let (a, b) = (KeyRange::of(&one), KeyRange::of(&other));
            let shared = a.contains(key.as_bytes()) && b.contains(key.as_bytes());
            prop_assert!(a.touches(&b) || !shared);
        }
    }

    #[test]
    fn a_longer_name_is_another_tenant() {
        let range = KeyRange::of(&"tenant-1".parse().unwrap());
        assert!(range.contains(b"/tenant-1/registry/pods"));
        assert!(!range.contains(b"/tenant-10/registry/pods"));
        assert!(!range.contains(b"/tenant-1"));
        assert!(!range.contains(b"/tenant-10"));
        assert_eq!(range.end(), b"/tenant-10");
    }
}
