//! What a machine does to its request, and for its user data.

use butler_api::{
    butler::machine_request::MachineRequest, cluster_api::butler_machine::ButlerMachine,
    conditions::reasons,
};
use butler_runtime::{
    api_server::{Cause, Preconditions},
    failure::{Class, Failure},
    object::{Kind, Manifest, ObjectKey},
    reconciler::Context,
};
use serde_json::json;

use super::{Effect, user_data::secret};

pub(super) async fn perform(
    machine: &ButlerMachine,
    effect: &Effect,
    context: &Context,
) -> Result<(), Failure> {
    let kind = Kind::of::<MachineRequest>();
    let key = ObjectKey::of(machine);
    let api = context.api();
    match effect {
        Effect::Request(request) => {
            let body = Manifest::of(request.as_ref()).body;
            let created = api.create(&kind, &key, body).await;
            created.map_err(|error| match error.cause {
                // Ours of a moment ago, or somebody else's: the watch will tell.
                Cause::AlreadyExists => Failure {
                    class: Class::Stale,
                    reason: reasons::NAME_TAKEN,
                    message: error.to_string(),
                },
                _ => error.into(),
            })?;
        }
        Effect::WriteUserData {
            bootstrap_data,
            cluster,
        } => {
            let source = secret::Source {
                bootstrap_data,
                cluster,
            };
            secret::write(machine, source, context).await?;
        }
        Effect::Relabel { uid, labels } => {
            let patch = json!({ "metadata": { "uid": uid }, "spec": { "labels": labels } });
            api.merge(&kind, &key, patch).await?;
        }
        Effect::Remove { uid } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            };
            api.delete(&kind, &key, preconditions).await?;
        }
    }
    Ok(())
}
