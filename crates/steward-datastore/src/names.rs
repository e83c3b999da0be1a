//! Names within a store: of what belongs to a tenant, and of the account that may use it.
//!
//! Owns: their alphabet, which is safe in every dialect, key, bucket and connection string, and how they are made of a
//! tenant's UID.
//!
//! Must not: look anything up, or trust the alphabet where text becomes SQL: there names are quoted all the same.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use butler_api::name::NameError;
use butler_api::steward::data_store::DataStoreDriver;

/// Longest name: a namespace, an underscore and an object's name, as control planes of older installations have it.
pub const LONGEST: usize = 127;
/// Digits of a UID without its dashes.
const UID_DIGITS: usize = 32;
/// Digits before which a UID has a dash.
const UID_DASHES: [usize; 4] = [8, 12, 16, 20];
/// Begins the names of databases, so that none begins with a digit: not everybody quotes as we do.
const SCHEMA_PREFIX: &str = "tcp";

/// The UID of a tenant control plane, of which its names are made. Kubernetes never gives one out twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantUid(String);

impl FromStr for TenantUid {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: String = text.chars().filter(|character| *character != '-').collect();
        let is_uid = digits.len() == UID_DIGITS
            && digits
                .chars()
                .all(|digit| digit.is_ascii_digit() || matches!(digit, 'a'..='f'));
        if is_uid {
            return Ok(Self(digits));
        }
        Err(NameError {
            what: "UID",
            value: text.to_owned(),
            rule: "the API server gives out 32 lower case hexadecimal digits with dashes between them",
        })
    }
}

impl fmt::Display for TenantUid {
    /// As the API server writes it, so that it can be looked for.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, digit) in self.0.chars().enumerate() {
            if UID_DASHES.contains(&place) {
                formatter.write_char('-')?;
            }
            formatter.write_char(digit)?;
        }
        Ok(())
    }
}

/// What keeps a tenant's state: a database, a bucket, or the prefix of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schema(String);

/// The account of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User(String);

impl Schema {
    /// The schema of a tenant that names none.
    pub fn of(tenant: &TenantUid) -> Self {
        Self(format!("{SCHEMA_PREFIX}{}", tenant.0))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a store of this kind can have a schema of this name.
    pub fn fits(&self, driver: DataStoreDriver) -> Result<(), NameError> {
        let rule = match driver {
            DataStoreDriver::Etcd => None,
            DataStoreDriver::PostgreSql | DataStoreDriver::MySql => self
                .0
                .contains('/')
                .then_some("the name of a database has no slash"),
            DataStoreDriver::Nats => self
                .0
                .contains(['/', '.'])
                .then_some("the name of a bucket has no slash and no dot"),
        };
        rule.map_or(Ok(()), |rule| {
            Err(NameError {
                what: "dataStoreSchema",
                value: self.0.clone(),
                rule,
            })
        })
    }
}

impl User {
    /// The account of a tenant that names none. 32 characters: MySQL takes no more.
    pub fn of(tenant: &TenantUid) -> Self {
        Self(tenant.0.clone())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Schema {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() <= LONGEST && text.split('/').all(is_word) {
            return Ok(Self(text.to_owned()));
        }
        Err(NameError {
            what: "dataStoreSchema",
            value: text.to_owned(),
            rule: "use at most 127 ASCII letters, digits, '_', '-' and '.', beginning with a letter, digit or '_'; \
                   for etcd, several such parts joined by '/'",
        })
    }
}

impl FromStr for User {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() <= LONGEST && is_word(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(NameError {
            what: "dataStoreUsername",
            value: text.to_owned(),
            rule: "use at most 127 ASCII letters, digits, '_', '-' and '.', beginning with a letter, digit or '_'",
        })
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A dot at the beginning would be a path's "here" or "above", which the API server resolves in its prefix.
fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && text
            .chars()
            .all(|inner| inner.is_ascii_alphanumeric() || matches!(inner, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn uid() -> TenantUid {
        "1b4e28ba-2fa1-11d2-883f-0016d3cca427".parse().unwrap()
    }

    #[test]
    fn names_made_of_a_uid_fit_every_store() {
        let schema = Schema::of(&uid());
        assert_eq!(schema.as_str(), "tcp1b4e28ba2fa111d2883f0016d3cca427");
        assert_eq!(
            User::of(&uid()).as_str(),
            "1b4e28ba2fa111d2883f0016d3cca427"
        );
        for driver in [
            DataStoreDriver::Etcd,
            DataStoreDriver::MySql,
            DataStoreDriver::PostgreSql,
            DataStoreDriver::Nats,
        ] {
            schema.fits(driver).unwrap();
        }
        assert_eq!(schema.as_str().parse::<Schema>().unwrap(), schema);
    }

    #[test]
    fn a_uid_is_told_as_the_api_server_writes_it() {
        assert_eq!(uid().to_string(), "1b4e28ba-2fa1-11d2-883f-0016d3cca427");
    }

    #[test]
    fn what_is_no_uid_makes_no_name() {
        for text in [
            "",
            "-",
            "../../etc/passwd",
            "1b4e28ba-2fa1-11d2-883f-0016d3cca42",
            "1B4E28BA-2FA1-11D2-883F-0016D3CCA427",
            "1b4e28ba-2fa1-11d2-883f-0016d3cca427'",
        ] {
            text.parse::<TenantUid>().unwrap_err();
        }
    }

    #[test]
    fn names_of_older_installations_are_kept() {
        for text in ["tenants_tenant_00", "a", "_x", "Kamaji.prod-1", "0815"] {
            assert_eq!(text.parse::<Schema>().unwrap().as_str(), text);
            assert_eq!(text.parse::<User>().unwrap().as_str(), text);
        }
        assert_eq!(
            "a".repeat(LONGEST)
                .parse::<Schema>()
                .unwrap()
                .as_str()
                .len(),
            LONGEST
        );
    }

    #[test]
    fn attacks_are_no_names() {
        let long = "a".repeat(LONGEST + 1);
        for text in [
            "",
            ".",
            "..",
            "a/..",
            "a//b",
            "/a",
            "a/",
            "a b",
            "a\0",
            "a\nb",
            "a\"b",
            "a'b",
            "a`b",
            "a\\b",
            "a%b",
            "a;drop database b",
            "-a",
            "ä",
            "\u{202e}a",
            "a@b",
            "a:b",
            "a?b",
            "a#b",
            "$(DB_USER)",
            &long,
        ] {
            text.parse::<Schema>().unwrap_err();
            text.parse::<User>().unwrap_err();
        }
        "a/b".parse::<User>().unwrap_err();
    }

    #[test]
    fn only_etcd_has_schemas_within_schemas() {
        let nested: Schema = "fleet/a".parse().unwrap();
        nested.fits(DataStoreDriver::Etcd).unwrap();
        nested.fits(DataStoreDriver::PostgreSql).unwrap_err();
        nested.fits(DataStoreDriver::MySql).unwrap_err();
        let error = nested.fits(DataStoreDriver::Nats).unwrap_err().to_string();
        assert_eq!(
            error,
            "dataStoreSchema \"fleet/a\" is not valid: the name of a bucket has no slash and no dot"
        );
    }
}
