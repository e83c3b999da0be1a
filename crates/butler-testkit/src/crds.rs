//! Butler's custom resources on a test server.

use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition as _;
use kube::{Api, Client, ResourceExt};

use crate::{Error, try_eventually_all};

/// How long the API server may take to serve what it accepted.
const ESTABLISHED_WITHIN: Duration = Duration::from_mins(2);

/// The definitions every test server has.
pub(crate) fn of_butler() -> Vec<CustomResourceDefinition> {
    butler_api::crds::all()
}

/// Installs the definitions and returns when all of them are served.
pub(crate) async fn install(
    client: Client,
    definitions: &[CustomResourceDefinition],
) -> Result<(), Error> {
    if definitions.is_empty() {
        return Ok(());
    }
    let api = Api::<CustomResourceDefinition>::all(client);
    try_join_all(definitions.iter().map(|definition| apply(&api, definition))).await?;
    let wanted: Vec<String> = definitions.iter().map(ResourceExt::name_any).collect();
    try_eventually_all(
        &api,
        "",
        "all definitions are established",
        ESTABLISHED_WITHIN,
        |found| {
            wanted.iter().all(|name| {
                let definition = found
                    .iter()
                    .find(|definition| definition.name_any() == *name);
                is_crd_established().matches_object(definition)
            })
        },
    )
    .await
    .map_err(|unmet| Error::NotEstablished {
        unmet: Box::new(unmet),
    })?;
    Ok(())
}

async fn apply(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<(), Error> {
    let name = definition.name_any();
    let parameters = PatchParams::apply("butler-testkit").force();
    match api
        .patch(&name, &parameters, &Patch::Apply(definition))
        .await
    {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::InstallDefinition {
            name,
            source: Box::new(source),
        }),
    }
}
