//! What kine is told: it translates the API server's etcd into the other stores.
//!
//! Owns: the connection string per driver, with everything in it escaped as that driver's parser in kine expects.
//!
//! Must not: be used for etcd, which the API server speaks to itself.

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;

use crate::connection::Endpoint;
use crate::names::Schema;

/// kine's `--endpoint` for a tenant; none for etcd. kine connects to one member.
pub fn endpoint(
    driver: DataStoreDriver,
    member: &Endpoint,
    schema: &Schema,
    user: &str,
    password: &SecretText,
) -> Option<SecretText> {
    let password = password.expose();
    let text = match driver {
        DataStoreDriver::Etcd => return None,
        // Not a URL but the form of Go's driver, which takes user and password as they are: it looks for the last '/', the
        // last '@' before it and the first ':' after the scheme.
        DataStoreDriver::MySql => format!("mysql://{user}:{password}@tcp({member})/{schema}"),
        DataStoreDriver::PostgreSql => format!(
            "postgres://{}:{}@{member}/{schema}",
            escaped(user),
            escaped(password)
        ),
        DataStoreDriver::Nats => format!(
            "nats://{}:{}@{member}?bucket={schema}&noEmbed",
            escaped(user),
            escaped(password)
        ),
    };
    Some(SecretText::new(text))
}

/// The same, as a container's argument that Kubernetes fills in from the variables of the tenant's Secret
/// (`DB_USER`, `DB_PASSWORD`, `DB_CONNECTION_STRING`, `DB_SCHEMA`), so that no password is in a pod's spec. Right for
/// passwords of letters and digits alone, which Steward's are.
pub const fn endpoint_argument(driver: DataStoreDriver) -> Option<&'static str> {
    match driver {
        DataStoreDriver::Etcd => None,
        DataStoreDriver::MySql => Some(
            "--endpoint=mysql://$(DB_USER):$(DB_PASSWORD)@tcp($(DB_CONNECTION_STRING))/$(DB_SCHEMA)",
        ),
        DataStoreDriver::PostgreSql => Some(
            "--endpoint=postgres://$(DB_USER):$(DB_PASSWORD)@$(DB_CONNECTION_STRING)/$(DB_SCHEMA)",
        ),
        DataStoreDriver::Nats => Some(
            "--endpoint=nats://$(DB_USER):$(DB_PASSWORD)@$(DB_CONNECTION_STRING)?bucket=$(DB_SCHEMA)&noEmbed",
        ),
    }
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

    fn string(driver: DataStoreDriver, member: &str, user: &str, password: &str) -> Option<String> {
        endpoint(
            driver,
            &member.parse().unwrap(),
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
    fn the_argument_filled_in_by_kubernetes_says_the_same() {
        for driver in [
            DataStoreDriver::MySql,
            DataStoreDriver::PostgreSql,
            DataStoreDriver::Nats,
        ] {
            let filled = endpoint_argument(driver)
                .unwrap()
                .replace("$(DB_USER)", "tenant")
                .replace("$(DB_PASSWORD)", "secret")
                .replace("$(DB_CONNECTION_STRING)", "db:1")
                .replace("$(DB_SCHEMA)", "fleet");
            let told = string(driver, "db:1", "tenant", "secret").unwrap();
            assert_eq!(filled, format!("--endpoint={told}"));
        }
        assert_eq!(endpoint_argument(DataStoreDriver::Etcd), None);
    }
}
