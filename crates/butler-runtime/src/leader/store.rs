//! The Lease object: reading, watching and writing it, never over a version that was not seen.

use std::time::Instant;

use futures::Stream;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watch_object};

use super::decide::Observed;

/// Where a Lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name, by custom that of the component.
    pub name: String,
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "lease {}/{}", self.namespace, self.name)
    }
}

/// A write of the Lease did not succeed.
pub(super) enum WriteFailure {
    /// Somebody else wrote first.
    Conflict,
    /// It did not succeed, for this reason.
    Failed(String),
}

/// What a candidate knows of the Lease.
pub(super) struct Knowledge {
    lease: Option<Lease>,
    pub(super) observed: Observed,
}

impl Knowledge {
    /// The first look.
    pub(super) fn first(lease: Option<Lease>, now: Instant) -> Self {
        let record = lease.as_ref().and_then(|lease| lease.spec.clone());
        let observed = Observed::first(record, now);
        Self { lease, observed }
    }

    /// Another look.
    pub(super) fn again(&mut self, lease: Option<Lease>, now: Instant) {
        let record = lease.as_ref().and_then(|lease| lease.spec.clone());
        self.observed.again(record, now);
        self.lease = lease;
    }

    /// Who holds the Lease since when, as it was last read or written.
    pub(super) fn record(&self) -> Option<&LeaseSpec> {
        self.lease.as_ref()?.spec.as_ref()
    }
}

#[derive(Debug)]
pub(super) struct LeaseStore {
    api: Api<Lease>,
    name: String,
}

impl LeaseStore {
    pub(super) fn new(client: kube::Client, lease: &LeaseName) -> Self {
        let api = Api::namespaced(client, &lease.namespace);
        let name = lease.name.clone();
        Self { api, name }
    }

    /// The Lease now and whenever it changes.
    pub(super) fn changes(
        &self,
    ) -> impl Stream<Item = watcher::Result<Option<Lease>>> + Send + use<> {
        watch_object(self.api.clone(), &self.name).default_backoff()
    }

    pub(super) async fn read(&self) -> kube::Result<Option<Lease>> {
        self.api.get_opt(&self.name).await
    }

    /// Writes a record over exactly the Lease that is known, or creates it if none is known.
    pub(super) async fn write(
        &self,
        known: &Knowledge,
        record: LeaseSpec,
    ) -> Result<Lease, WriteFailure> {
        let parameters = PostParams::default();
        let spec = Some(record);
        let written = if let Some(known) = &known.lease {
            let metadata = known.metadata.clone();
            let lease = Lease { metadata, spec };
            self.api.replace(&self.name, &parameters, &lease).await
        } else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(self.name.clone());
            lease.spec = spec;
            self.api.create(&parameters, &lease).await
        };
        written.map_err(|error| match error {
            kube::Error::Api(status)
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                WriteFailure::Conflict
            }
            error => WriteFailure::Failed(error.to_string()),
        })
    }
}
