//! Whether a tenant may have the names it asks for.
//!
//! Owns: the decision, as a function of what others hold. Names made of a UID are never refused; a name that somebody
//! chose is honoured unless it belongs to the server, or what another tenant holds touches it.
//!
//! Must not: speak to a store. That a name is free among tenants does not mean that nobody else uses it: the drivers look
//! at that when they make it.

use butler_api::name::NameError;
use butler_api::steward::data_store::DataStoreDriver;

use crate::key_range::KeyRange;
use crate::names::{Schema, User};

/// What a tenant holds or asks for in one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is, as `namespace/name`.
    pub tenant: String,
    /// What keeps its state.
    pub schema: Schema,
    /// Its account.
    pub user: User,
}

/// Why a tenant cannot have what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The store cannot have a schema of this name.
    #[error(transparent)]
    Name(NameError),
    /// The schema is the server's own.
    #[error(
        "dataStoreSchema \"{schema}\" is the database server's own; choose another, or leave it out"
    )]
    SchemaReserved {
        /// What was asked for.
        schema: Schema,
    },
    /// The account is the server's or Steward's own.
    #[error(
        "dataStoreUsername \"{user}\" is an account of the database server itself; choose another, or leave it out"
    )]
    UserReserved {
        /// What was asked for.
        user: User,
    },
    /// Another tenant's state is, or would be, within reach.
    #[error(
        "dataStoreSchema \"{schema}\" touches \"{held}\", which keeps the state of {holder}; choose another, or leave it out"
    )]
    SchemaTaken {
        /// What was asked for.
        schema: Schema,
        /// What it touches.
        held: Schema,
        /// Whose that is.
        holder: String,
    },
    /// Another tenant has this account.
    #[error(
        "dataStoreUsername \"{user}\" is the account of {holder}; choose another, or leave it out"
    )]
    UserTaken {
        /// What was asked for.
        user: User,
        /// Whose it is.
        holder: String,
    },
    /// The store can keep one tenant only, and has one.
    #[error(
        "a NATS store keeps one control plane, as all its accounts see all buckets, and keeps {holder}; make another DataStore"
    )]
    StoreTaken {
        /// Whose state it keeps.
        holder: String,
    },
}

impl Refusal {
    /// The reason in one word, for conditions and metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "InvalidDataStoreSchema",
            Self::SchemaReserved { .. } => "DataStoreSchemaReserved",
            Self::UserReserved { .. } => "DataStoreUsernameReserved",
            Self::SchemaTaken { .. } => "DataStoreSchemaTaken",
            Self::UserTaken { .. } => "DataStoreUsernameTaken",
            Self::StoreTaken { .. } => "DataStoreTaken",
        }
    }
}

/// Whether many tenants can share a store of this kind and be kept apart.
pub const fn is_shareable(driver: DataStoreDriver) -> bool {
    !matches!(driver, DataStoreDriver::Nats)
}

/// Decides about a claim, given what all others hold in the same store. `administrator` is the account Steward itself
/// logs in with, where it has a name.
pub fn decide<'a>(
    driver: DataStoreDriver,
    claim: &Claim,
    administrator: Option<&str>,
    held_by_others: impl IntoIterator<Item = &'a Claim>,
) -> Result<(), Refusal> {
    claim.schema.fits(driver).map_err(Refusal::Name)?;
    if is_reserved_schema(driver, claim.schema.as_str()) {
        return Err(Refusal::SchemaReserved {
            schema: claim.schema.clone(),
        });
    }
    if is_reserved_user(driver, claim.user.as_str()) || administrator == Some(claim.user.as_str()) {
        return Err(Refusal::UserReserved {
            user: claim.user.clone(),
        });
    }
    for other in held_by_others {
        if other.tenant == claim.tenant {
            continue;
        }
        if !is_shareable(driver) {
            return Err(Refusal::StoreTaken {
                holder: other.tenant.clone(),
            });
        }
        if touches(driver, &claim.schema, &other.schema) {
            return Err(Refusal::SchemaTaken {
                schema: claim.schema.clone(),
                held: other.schema.clone(),
                holder: other.tenant.clone(),
            });
        }
        if claim.user == other.user {
            return Err(Refusal::UserTaken {
                user: claim.user.clone(),
                holder: other.tenant.clone(),
            });
        }
    }
    Ok(())
}

fn touches(driver: DataStoreDriver, one: &Schema, other: &Schema) -> bool {
    match driver {
        DataStoreDriver::Etcd => KeyRange::of(one).touches(&KeyRange::of(other)),
        // Where file names are, so are names of databases: some servers do not tell cases apart.
        DataStoreDriver::MySql => one.as_str().eq_ignore_ascii_case(other.as_str()),
        DataStoreDriver::PostgreSql | DataStoreDriver::Nats => one == other,
    }
}

fn is_reserved_schema(driver: DataStoreDriver, name: &str) -> bool {
    match driver {
        // A tenant's role is called like its schema, and etcd refuses nothing to the role of this name.
        DataStoreDriver::Etcd => name == "root",
        DataStoreDriver::PostgreSql => ["postgres", "template0", "template1"].contains(&name),
        DataStoreDriver::MySql => ["information_schema", "mysql", "performance_schema", "sys"]
            .iter()
            .any(|reserved| name.eq_ignore_ascii_case(reserved)),
        DataStoreDriver::Nats => false,
    }
}

fn is_reserved_user(driver: DataStoreDriver, name: &str) -> bool {
    match driver {
        DataStoreDriver::Etcd => name == "root",
        DataStoreDriver::PostgreSql => {
            name.starts_with("pg_") || ["none", "postgres", "public"].contains(&name)
        }
        DataStoreDriver::MySql => {
            name.eq_ignore_ascii_case("root")
                || name.starts_with("mysql.")
                || name.starts_with("mariadb.")
        }
        DataStoreDriver::Nats => false,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use DataStoreDriver::{Etcd, MySql, Nats, PostgreSql};

    fn claim(tenant: &str, schema: &str, user: &str) -> Claim {
        Claim {
            tenant: tenant.to_owned(),
            schema: schema.parse().unwrap(),
            user: user.parse().unwrap(),
        }
    }

    fn refusal(driver: DataStoreDriver, mine: &Claim, other: &Claim) -> &'static str {
        decide(driver, mine, Some("steward"), [other])
            .map_or_else(|refusal| refusal.reason(), |()| "")
    }

    #[test]
    fn a_schema_within_that_of_another_tenant_is_refused() {
        let other = claim("a/one", "fleet", "one");
        for schema in ["fleet", "fleet/two"] {
            let mine = claim("b/two", schema, "two");
            assert_eq!(refusal(Etcd, &mine, &other), "DataStoreSchemaTaken");
            assert_eq!(refusal(Etcd, &other, &mine), "DataStoreSchemaTaken");
        }
        assert_eq!(refusal(Etcd, &claim("b/two", "fleet2", "two"), &other), "");
    }

    #[test]
    fn names_that_differ_in_case_are_one_database_on_some_servers() {
        let other = claim("a/one", "Fleet", "one");
        let mine = claim("b/two", "fleet", "two");
        assert_eq!(refusal(MySql, &mine, &other), "DataStoreSchemaTaken");
        assert_eq!(refusal(PostgreSql, &mine, &other), "");
    }

    #[test]
    fn an_account_has_one_tenant() {
        let other = claim("a/one", "one", "shared");
        let mine = claim("b/two", "two", "shared");
        for driver in [Etcd, MySql, PostgreSql] {
            assert_eq!(refusal(driver, &mine, &other), "DataStoreUsernameTaken");
        }
    }

    #[test]
    fn a_tenant_does_not_stand_in_its_own_way() {
        let mine = claim("a/one", "one", "one");
        for driver in [Etcd, MySql, PostgreSql, Nats] {
            assert_eq!(refusal(driver, &mine, &mine), "");
        }
    }

    #[test]
    fn nats_keeps_one_tenant() {
        let error = decide(
            Nats,
            &claim("b/two", "two", "two"),
            None,
            [&claim("a/one", "one", "one")],
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "a NATS store keeps one control plane, as all its accounts see all buckets, and keeps a/one; make another DataStore"
        );
    }

    #[test]
    fn what_belongs_to_the_server_is_no_tenants() {
        let nobody: [&Claim; 0] = [];
        for (driver, schema, user, reason) in [
            (Etcd, "root", "a", "DataStoreSchemaReserved"),
            (Etcd, "a", "root", "DataStoreUsernameReserved"),
            (PostgreSql, "template1", "a", "DataStoreSchemaReserved"),
            (
                PostgreSql,
                "a",
                "pg_read_all_data",
                "DataStoreUsernameReserved",
            ),
            (MySql, "MySQL", "a", "DataStoreSchemaReserved"),
            (MySql, "a", "mariadb.sys", "DataStoreUsernameReserved"),
            (PostgreSql, "a", "steward", "DataStoreUsernameReserved"),
            (PostgreSql, "a/b", "a", "InvalidDataStoreSchema"),
        ] {
            let refused =
                decide(driver, &claim("a/a", schema, user), Some("steward"), nobody).unwrap_err();
            assert_eq!(refused.reason(), reason, "{refused}");
        }
    }

    #[test]
    fn names_made_of_two_uids_never_touch() {
        let of = |uid: &str| {
            let uid = uid.parse().unwrap();
            Claim {
                tenant: format!("n/{uid:?}"),
                schema: Schema::of(&uid),
                user: User::of(&uid),
            }
        };
        let one = of("1b4e28ba-2fa1-11d2-883f-0016d3cca427");
        let two = of("1b4e28ba-2fa1-11d2-883f-0016d3cca428");
        for driver in [Etcd, MySql, PostgreSql] {
            assert_eq!(refusal(driver, &one, &two), "");
        }
    }

    proptest! {
        /// The danger this is for: whoever joins, nobody who was let in shares a key with another.
        #[test]
        fn tenants_that_were_let_in_share_no_key(
            names in proptest::collection::vec("[ab]{1,2}(/[ab]{1,2}){0,2}", 1..8),
            keys in proptest::collection::vec("(/[ab]{1,2}){1,4}", 20),
        ) {
            let mut held: Vec<Claim> = Vec::new();
            for (number, name) in names.iter().enumerate() {
                let asked = claim(&format!("n/{number}"), name, &format!("user{number}"));
                if decide(Etcd, &asked, None, &held).is_ok() {
                    held.push(asked);
                }
            }
            prop_assert!(!held.is_empty());
            for key in &keys {
                let owners = held.iter().filter(|claim| KeyRange::of(&claim.schema).contains(key.as_bytes()));
                prop_assert!(owners.count() <= 1);
            }
        }
    }
}
