//! The way to data stores that this release speaks to: etcd, PostgreSQL, MySQL and NATS.
//!
//! Owns: how access and grants become the settings of a driver, and which kind of failure each of its errors is. Decides
//! nothing else: names are judged by [`steward_datastore::decide`], and what is done in a store is the driver's.

use steward_datastore::{
    AnyStore, Claim, ClientCertificate, Connection, Credentials, Error, Leftovers, Refusal,
    Standing, Store, Tenant, Tls, decide, migrate,
};

use crate::move_port::{Arrival, Remains};

use super::{StoreAccess, StoreAnswer, StoreError, StoreErrorKind, StoreGrant, StorePort};

/// All drivers. Connections are made for a call and closed with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drivers;

impl StorePort for Drivers {
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a> {
        Box::pin(async { driver(store)?.check().await.map_err(|error| told(&error)) })
    }

    fn ensure<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(open(store, grant))
    }

    fn discard<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(clear(store, grant))
    }
}

/// Sees to it that a control plane has its part of a store, and may do there what it must.
pub(crate) async fn open(store: &StoreAccess, grant: &StoreGrant) -> Result<(), StoreError> {
    let tenant = tenant(grant)?;
    may_have(store, grant, &tenant)?;
    let done = driver(store)?.ensure_tenant(&tenant).await;
    done.map_err(|error| told(&error))
}

/// Takes a control plane's part of a store away.
pub(crate) async fn clear(store: &StoreAccess, grant: &StoreGrant) -> Result<(), StoreError> {
    let tenant = tenant(grant)?;
    may_have(store, grant, &tenant)?;
    let done = driver(store)?.drop_tenant(&tenant).await;
    done.map_err(|error| told(&error))
}

/// Takes away what a control plane's account may do in a store; its state stays.
pub(crate) async fn seal(store: &StoreAccess, grant: &StoreGrant) -> Result<(), StoreError> {
    let tenant = tenant(grant)?;
    may_have(store, grant, &tenant)?;
    let done = driver(store)?.revoke(&tenant).await;
    done.map_err(|error| told(&error))
}

/// Copies a control plane's state, into which nobody can write from then on, and verifies that all of it arrived. What becomes of
/// that which has its names in the target, and is its, `remains` says.
pub(crate) async fn copy(
    from: &StoreAccess,
    to: &StoreAccess,
    grant: &StoreGrant,
    remains: Remains,
) -> Result<Arrival, StoreError> {
    let tenant = tenant(grant)?;
    may_have(to, grant, &tenant)?;
    let (source, target) = (driver(from)?, driver(to)?);
    let leftovers = match remains {
        Remains::Go => Leftovers::Remove,
        Remains::Stay => Leftovers::Refuse,
    };
    let copied = migrate(&source, &target, &tenant, leftovers).await;
    copied
        .map(|copied| Arrival {
            entries: copied.entries,
            behind: copied.behind,
        })
        .map_err(|error| told(&error))
}

fn driver(store: &StoreAccess) -> Result<AnyStore, StoreError> {
    let connection = connection(store)?;
    AnyStore::new(connection).map_err(|error| told(&error))
}

fn connection(store: &StoreAccess) -> Result<Connection, StoreError> {
    let endpoints = store.endpoints.iter().map(|endpoint| endpoint.parse());
    let endpoints: Result<_, _> = endpoints.collect();
    let login = store.username.clone().zip(store.password.clone());
    Ok(Connection {
        driver: store.driver,
        endpoints: endpoints.map_err(|error| told(&Error::Settings(error)))?,
        administrator: login.map(|(user, password)| Credentials {
            user: user.expose().to_owned(),
            password,
        }),
        tls: store.authority_pem.clone().map(|authority_pem| Tls {
            authority_pem,
            authority_key_pem: store.authority_key.clone(),
            client: store
                .client
                .clone()
                .map(|(certificate_pem, key_pem)| ClientCertificate {
                    certificate_pem,
                    key_pem,
                }),
        }),
    })
}

fn tenant(grant: &StoreGrant) -> Result<Tenant, StoreError> {
    let refused = |error| refused(&Refusal::Name(error));
    Ok(Tenant {
        owner: grant.uid.parse().map_err(refused)?,
        schema: grant.schema.parse().map_err(refused)?,
        user: grant.user.parse().map_err(refused)?,
        password: grant.password.clone(),
        standing: if grant.established {
            Standing::Established
        } else {
            Standing::New
        },
    })
}

/// That nobody else of ours has it is known before; here it is about the server's own names, and Steward's.
fn may_have(store: &StoreAccess, grant: &StoreGrant, tenant: &Tenant) -> Result<(), StoreError> {
    let claim = Claim {
        tenant: grant.uid.clone(),
        schema: tenant.schema.clone(),
        user: tenant.user.clone(),
    };
    let administrator = store.username.as_ref().map(butler_pki::SecretText::expose);
    decide(store.driver, &claim, administrator, []).map_err(|refusal| refused(&refusal))
}

fn refused(refusal: &Refusal) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Taken,
        message: refusal.to_string(),
    }
}

fn told(error: &Error) -> StoreError {
    StoreError {
        kind: kind(error),
        message: error.in_full(),
    }
}

const fn kind(error: &Error) -> StoreErrorKind {
    match error {
        Error::Settings(_)
        | Error::LoginRefused { .. }
        | Error::NotAllowed { .. }
        | Error::AuthenticationOff { .. } => StoreErrorKind::Refused,
        Error::Unreachable { .. } | Error::TookTooLong { .. } => StoreErrorKind::Unreachable,
        Error::NotOurs { .. } | Error::TargetInUse { .. } => StoreErrorKind::Taken,
        Error::Name(_) | Error::DifferentDrivers { .. } | Error::SameStore { .. } => {
            StoreErrorKind::Unsupported
        }
        Error::Unhealthy { .. }
        | Error::Request { .. }
        | Error::NoPassword { .. }
        | Error::CopyIncomplete { .. }
        | Error::SourceShrank { .. }
        | Error::SourceOpened { .. } => StoreErrorKind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use butler_api::steward::data_store::DataStoreDriver;
    use butler_pki::SecretText;

    use super::*;

    fn access(endpoint: &str) -> StoreAccess {
        StoreAccess {
            name: "default".to_owned(),
            driver: DataStoreDriver::PostgreSql,
            endpoints: vec![endpoint.to_owned()],
            authority_pem: None,
            authority_key: None,
            client: None,
            username: Some(SecretText::new("steward")),
            password: Some(SecretText::new("hunter2")),
        }
    }

    fn grant(schema: &str, user: &str) -> StoreGrant {
        StoreGrant {
            uid: "6f9619ff-8b86-4011-b42d-00c04fc964ff".to_owned(),
            schema: schema.to_owned(),
            user: user.to_owned(),
            password: Some(SecretText::new("swordfish")),
            established: false,
        }
    }

    #[tokio::test]
    async fn nobody_gets_the_account_of_the_administrator() {
        let error = Drivers
            .ensure(&access("127.0.0.1:1"), &grant("shop", "steward"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Taken);
        assert!(error.message.contains("dataStoreUsername"), "{error}");
    }

    #[tokio::test]
    async fn a_name_that_is_none_reaches_no_server() {
        for grant in [
            grant("shop\"; drop database x", "shop"),
            grant("shop", ""),
            grant("postgres", "shop"),
        ] {
            let error = Drivers
                .ensure(&access("127.0.0.1:1"), &grant)
                .await
                .unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Taken, "{error}");
        }
    }

    #[tokio::test]
    async fn what_went_wrong_is_told_without_secrets() {
        // Nobody listens on this port.
        let closed = Drivers.check(&access("127.0.0.1:1")).await.unwrap_err();
        assert_eq!(closed.kind, StoreErrorKind::Unreachable, "{closed}");
        let misspelt = Drivers
            .check(&access("https://db.example.com"))
            .await
            .unwrap_err();
        assert_eq!(misspelt.kind, StoreErrorKind::Refused, "{misspelt}");
        for error in [closed, misspelt] {
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    }
}
