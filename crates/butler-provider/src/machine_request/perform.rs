//! Carries out what was decided about a machine. Here, and nowhere else, user data is read.

use butler_api::{
    butler::machine_request::MachineRequest,
    conditions::reasons,
    normalize::machine_request::{NormalizedMachineRequest, UserData as Written, normalize},
};
use butler_runtime::{
    failure::{Class, Failure},
    object::ObjectKey,
    reconciler::Context,
};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{Effect, MachineRequestReconciler, configuration_key, identity, user_data_key};
use crate::{
    access::{Granted, Petition, read_secret},
    allocation,
    attempts::Basis,
    error::ProviderError,
    order::{MachineIdentity, MachineOrder},
    provider::{Deletion, Provider},
    secrets::UserData,
};

pub(super) async fn perform<P: Provider>(
    reconciler: &MachineRequestReconciler<P>,
    request: &MachineRequest,
    effect: &Effect,
    context: &Context,
) -> Result<(), Failure> {
    if let Effect::Release(release) = effect {
        return allocation::release(release, context).await;
    }
    let configuration = configuration_key(request).unwrap_or_else(|| ObjectKey::cluster(""));
    let petition = Petition {
        request: ObjectKey::of(request),
        configuration: &configuration,
        deleting: request.metadata.deletion_timestamp.is_some(),
    };
    let opened = reconciler.doors.open::<P>(&petition, context).await?;
    let granted = opened.map_err(|error| stale(&error.message))?;
    let task = Task {
        reconciler,
        request,
        granted: &granted,
        identity: identity(request),
        context,
    };
    match effect {
        Effect::Create { address, at, basis } => task.create(*address, *at, basis).await,
        Effect::DeliverUserData { at, basis } => task.deliver(*at, basis).await,
        Effect::Delete { at, basis, last } => task.delete(*at, basis, *last).await,
        Effect::Release(_) => Ok(()),
    }
}

struct Task<'a, P> {
    reconciler: &'a MachineRequestReconciler<P>,
    request: &'a MachineRequest,
    granted: &'a Granted,
    identity: MachineIdentity,
    context: &'a Context,
}

impl<P: Provider> Task<'_, P> {
    async fn create(
        &self,
        address: Option<std::net::IpAddr>,
        at: Timestamp,
        basis: &Basis,
    ) -> Result<(), Failure> {
        let normalized = normalize(&self.request.name_any(), &self.request.spec)
            .map_err(|_| stale("the request breaks a rule"))?;
        let order = self.order(normalized, address).await?;
        let Self {
            reconciler,
            granted,
            ..
        } = self;
        let provider = reconciler.provider.as_ref();
        let made = async {
            reconciler.doors.validate(provider, granted).await?;
            provider.create_machine(&granted.access, &order).await
        };
        self.note(at, basis, made.await);
        Ok(())
    }

    async fn deliver(&self, at: Timestamp, basis: &Basis) -> Result<(), Failure> {
        let Some(user_data) = self.user_data().await? else {
            return Err(stale("the user data is not there any more"));
        };
        let provider = &self.reconciler.provider;
        let access = &self.granted.access;
        let delivered = provider
            .deliver_user_data(access, &self.identity, &user_data)
            .await;
        self.note(at, basis, delivered);
        Ok(())
    }

    async fn delete(&self, at: Timestamp, basis: &Basis, last: bool) -> Result<(), Failure> {
        let provider = &self.reconciler.provider;
        let deleted = provider
            .delete_machine(&self.granted.access, &self.identity)
            .await;
        if !last {
            self.note(at, basis, deleted.map(|_| ()));
            return Ok(());
        }
        match deleted {
            Ok(Deletion::Gone) => {
                self.reconciler.attempts.forget(&self.identity.uid);
                Ok(())
            }
            Ok(Deletion::UnderWay) => Err(stale("the machine is not gone yet")),
            Err(error) => Err(Failure::retry(error.reason, error.message)),
        }
    }

    fn note(&self, at: Timestamp, basis: &Basis, result: Result<(), ProviderError>) {
        let error = result.err();
        if let Some(error) = &error {
            let machine = &self.identity.machine_name;
            tracing::warn!(machine, deed = basis.deed, reason = error.reason, %error, "the provider refused");
        }
        let attempts = &self.reconciler.attempts;
        attempts.note(&self.identity.uid, basis, at, error);
    }

    async fn order(
        &self,
        normalized: NormalizedMachineRequest,
        address: Option<std::net::IpAddr>,
    ) -> Result<MachineOrder, Failure> {
        let later = self.reconciler.provider.capabilities().user_data_later;
        let user_data = match &normalized.user_data {
            None => None,
            Some(Written::Inline(text)) => Some(UserData::new(text.0.as_bytes())),
            Some(Written::Secret(_)) => {
                let found = self.user_data().await?;
                if found.is_none() && !later {
                    return Err(stale("the user data is not there any more"));
                }
                found
            }
        };
        Ok(MachineOrder {
            identity: self.identity.clone(),
            role: normalized.role,
            size: normalized.size,
            extra_disks: normalized.extra_disks,
            image: normalized.image,
            labels: normalized.labels,
            address,
            user_data,
            network_data: normalized.network_data,
        })
    }

    async fn user_data(&self) -> Result<Option<UserData>, Failure> {
        if let Some(text) = &self.request.spec.user_data {
            return Ok(Some(UserData::new(text.0.as_bytes())));
        }
        let Some((key, entry)) = user_data_key(self.request) else {
            return Ok(None);
        };
        let Some((values, _)) = read_secret(&key, self.context.api()).await? else {
            return Ok(None);
        };
        let value = values.get(entry).map(UserData::new);
        value.map(Some).ok_or_else(|| {
            let message = format!(
                "spec.userDataSecretRef: the Secret {key} has no key {entry}; add it, or name another"
            );
            Failure::terminal(reasons::WAITING_FOR_USER_DATA, message)
        })
    }
}

/// What was decided does not fit what is there any more: look again.
fn stale(message: &str) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::OBSERVE_FAILED,
        message: message.to_owned(),
    }
}
