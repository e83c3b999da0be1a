//! What kine is told: it translates the API server's etcd into the other stores.
//!
//! Owns: the connection string per driver, with everything in it escaped as that driver's parser in kine expects.
//!
//! Must not: be used for etcd, which the API server speaks to itself.

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;

use crate::connection::Endpoint;
use crate::names::Schema;

/// kine's `--endpoint` for a tenant; none for etcd, nor for a store without members. Of PostgreSQL and NATS kine is told all
/// members and finds one that takes writes; of MySQL it knows the first alone ([`knows_all_members`]).
pub fn endpoint(
    driver: DataStoreDriver,
    members: &[Endpoint],
    schema: &Schema,
    user: &str,
    password: &SecretText,
) -> Option<SecretText> {
    let (first, others) = members.split_first()?;
    let password = password.expose();
    let text = match driver {
        DataStoreDriver::Etcd => return None,
        // Not a URL but the form of Go's driver, which takes user and password as they are: it looks for the last '/', the
        // last '@' before it and the first ':' after the scheme.
        DataStoreDriver::MySql => format!("mysql://{user}:{password}@tcp({first})/{schema}"),
        DataStoreDriver::PostgreSql => {
            let login = format!("{}:{}", escaped(user), escaped(password));
            let (place, query) = postgresql_place(members);
            format!("postgres://{login}@{place}/{schema}{query}")
        }
        DataStoreDriver::Nats => {
            // What the first says, its login and its query, holds for all.
            let others = others.iter().map(|member| format!(",nats://{member}"));
            format!(
                "nats://{}:{}@{first}?bucket={schema}&noEmbed{}",
                escaped(user),
                escaped(password),
                others.collect::<String>()
            )
        }
    };
    Some(SecretText::new(text))
}

/// Whether kine uses all members of a store. Go's driver of MySQL connects to one address.
pub const fn knows_all_members(driver: DataStoreDriver) -> bool {
    !matches!(driver, DataStoreDriver::MySql)
}

/// Where members of PostgreSQL are, as the host of a URL and what follows its path. Of several the one that takes writes is asked
/// for: the others are its standbys.
fn postgresql_place(members: &[Endpoint]) -> (String, String) {
    const WRITABLE: &str = "target_session_attrs=read-write";
    let joined = |part: fn(&Endpoint) -> String| {
        let parts: Vec<_> = members.iter().map(part).collect();
        parts.join(",")
    };
    if members.len() == 1 {
        return (joined(Endpoint::to_string), String::new());
    }
    // Go reads no list with IPv6 addresses as the host of a URL; in the query it may be anything.
    if members.iter().any(|member| member.host.contains(':')) {
        let hosts = joined(|member| member.host.clone());
        let ports = joined(|member| member.port.to_string());
        return (
            String::new(),
            format!("?host={hosts}&port={ports}&{WRITABLE}"),
        );
    }
    (joined(Endpoint::to_string), format!("?{WRITABLE}"))
}

/// Whom kine logs in as: the tenant, or on NATS the one account there is.
pub const fn logs_in_as_tenant(driver: DataStoreDriver) -> bool {
    !matches!(driver, DataStoreDriver::Etcd | DataStoreDriver::Nats)
}

/// Percent-encodes everything that could mean something in a URL.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn string(
        driver: DataStoreDriver,
        members: &str,
        user: &str,
        password: &str,
    ) -> Option<String> {
        let members: Vec<_> = members
            .split(' ')
            .map(|member| member.parse().unwrap())
            .collect();
        endpoint(
            driver,
            &members,
            &"fleet".parse().unwrap(),
            user,
            &SecretText::new(password),
        )
        .map(|text| text.expose().to_owned())
    }

    #[test]
    fn kine_is_told_in_the_form_of_each_driver() {
        assert_eq!(
            string(DataStoreDriver::Etcd, "a:1", "tenant", "secret"),
            None
        );
        assert_eq!(
            string(DataStoreDriver::MySql, "db.svc:3306", "tenant", "secret").unwrap(),
            "mysql://tenant:secret@tcp(db.svc:3306)/fleet"
        );
        assert_eq!(
            string(
                DataStoreDriver::PostgreSql,
                "[::1]:5432",
                "tenant",
                "secret"
            )
            .unwrap(),
            "postgres://tenant:secret@[::1]:5432/fleet"
        );
        assert_eq!(
            string(DataStoreDriver::Nats, "nats:4222", "root", "secret").unwrap(),
            "nats://root:secret@nats:4222?bucket=fleet&noEmbed"
        );
    }

    #[test]
    fn no_password_can_lead_to_another_server() {
        assert_eq!(
            string(
                DataStoreDriver::PostgreSql,
                "db:1",
                "a:b",
                "x@evil:1/y?z#%ä"
            )
            .unwrap(),
            "postgres://a%3Ab:x%40evil%3A1%2Fy%3Fz%23%25%C3%A4@db:1/fleet"
        );
        assert_eq!(
            string(DataStoreDriver::Nats, "db:1", "a", "x@evil:1?bucket=y&z").unwrap(),
            "nats://a:x%40evil%3A1%3Fbucket%3Dy%26z@db:1?bucket=fleet&noEmbed"
        );
    }

    #[test]
    fn kine_is_told_all_members_where_it_can_use_them() {
        let told = |driver, members| string(driver, members, "tenant", "secret").unwrap();
        assert_eq!(
            told(DataStoreDriver::PostgreSql, "db-0.db:5432 db-1.db:5433"),
            "postgres://tenant:secret@db-0.db:5432,db-1.db:5433/fleet?target_session_attrs=read-write"
        );
        assert_eq!(
            told(DataStoreDriver::PostgreSql, "[fd00::1]:5432 db-1.db:5433"),
            "postgres://tenant:secret@/fleet?host=fd00::1,db-1.db&port=5432,5433&target_session_attrs=read-write"
        );
        assert_eq!(
            told(DataStoreDriver::Nats, "n-0:4222 n-1:4222 [fd00::2]:4222"),
            "nats://tenant:secret@n-0:4222?bucket=fleet&noEmbed,nats://n-1:4222,nats://[fd00::2]:4222"
        );
        assert_eq!(
            told(DataStoreDriver::MySql, "db-0:3306 db-1:3306"),
            "mysql://tenant:secret@tcp(db-0:3306)/fleet"
        );
        assert!(!knows_all_members(DataStoreDriver::MySql));
    }

    #[test]
    fn a_store_without_members_has_no_place() {
        let schema = "fleet".parse().unwrap();
        let password = SecretText::new("secret");
        let told = endpoint(
            DataStoreDriver::PostgreSql,
            &[],
            &schema,
            "tenant",
            &password,
        );
        assert!(told.is_none());
    }
}
