//! `butlerctl cluster kubeconfig`: the administrator's, or a short-lived one for somebody.

mod file;
mod user;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use butler_api::{
    butler::tenant_cluster::TenantCluster,
    keys::{names, secret_keys},
    name::ClusterName,
};
use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use crate::{
    adm::installation::write_private,
    ctl::{error::Error, platform::Platform},
    flags::duration,
};

/// Kubernetes signs nothing that is shorter.
const SHORTEST: Duration = Duration::from_mins(10);

/// Flags of `butlerctl cluster kubeconfig`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the cluster
    name: ClusterName,
    /// Write it to this file; "-" is standard output
    #[arg(long, short, value_name = "FILE", conflicts_with = "merge")]
    output: Option<PathBuf>,
    /// Put it into the first file of KUBECONFIG, or into ~/.kube/config, and use it from now on
    #[arg(long)]
    merge: bool,
    /// With --merge: leave the current context as it is
    #[arg(long, requires = "merge")]
    keep_context: bool,
    /// Make a short-lived one for this user instead of the administrator's
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Group that the user is in; may be given several times
    #[arg(long, value_name = "GROUP", requires = "user")]
    group: Vec<String>,
    /// How long the user's can be used, at least 10m
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "user", value_parser = lifetime)]
    ttl: Duration,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration(text)?;
    if lifetime < SHORTEST {
        return Err("Kubernetes signs nothing shorter than 10m".to_owned());
    }
    Ok(lifetime)
}

/// Fetches or makes a kubeconfig. Gives what to print.
pub(super) async fn kubeconfig(
    arguments: &Arguments,
    platform: &Platform,
) -> anyhow::Result<String> {
    let name = arguments.name.as_str();
    let cluster = platform.cluster(name).await?;
    let administrator = administrator(&cluster, platform).await?;
    let unusable = |problem: String| Error::Kubeconfig {
        name: name.to_owned(),
        problem,
    };
    let (user, credentials) = match &arguments.user {
        None => ("admin", None),
        Some(user) => {
            let wish = user::Wish {
                user,
                groups: &arguments.group,
                lifetime: arguments.ttl,
            };
            let credentials = user::credentials(&administrator, &wish).await?;
            (user.as_str(), Some(credentials))
        }
    };
    let made = file::named(&administrator, name, user, credentials).map_err(unusable)?;
    if arguments.merge {
        return merge(&made, name, arguments.keep_context);
    }
    let text = serde_saphyr::to_string(&made)?;
    match arguments.output.as_deref() {
        Some(path) if path != Path::new("-") => {
            write_private(path, text.as_bytes())?;
            Ok(format!("export KUBECONFIG={}\n", path.display()))
        }
        _ => Ok(text),
    }
}

/// The administrator's kubeconfig.
async fn administrator(cluster: &TenantCluster, platform: &Platform) -> Result<Value, Error> {
    let name = cluster.name_any();
    let missing = || Error::NoKubeconfig {
        name: name.clone(),
        call: platform.call(&name),
    };
    let status = cluster.status.clone().unwrap_or_default();
    let namespace = status.tenant_namespace.ok_or_else(missing)?;
    let secret = status.kubeconfig_secret_ref.map_or_else(
        || format!("{name}{}", names::KUBECONFIG_SUFFIX),
        |secret| secret.name,
    );
    let secrets = Api::<Secret>::namespaced(platform.client.clone(), &namespace);
    let found = secrets.get_opt(&secret).await;
    let found = found.map_err(Error::api(format!("read the kubeconfig of {name}")))?;
    let mut data = found.and_then(|found| found.data).unwrap_or_default();
    let bytes = data
        .remove(secret_keys::VALUE)
        .or_else(|| data.remove(secret_keys::ADMIN_CONF))
        .ok_or_else(missing)?;
    // The parser's words are left out: they may quote credentials.
    let parsed = std::str::from_utf8(&bytes.0).ok();
    let parsed = parsed.and_then(|text| serde_saphyr::from_str(text).ok());
    parsed.ok_or_else(|| Error::Kubeconfig {
        name,
        problem: "it is not a kubeconfig in YAML".to_owned(),
    })
}

fn merge(made: &Value, name: &str, keep_context: bool) -> anyhow::Result<String> {
    let path = target().context("there is no home directory to put a kubeconfig into; set HOME")?;
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => serde_saphyr::from_str(&text).map_err(|error| Error::Document {
            what: path.display().to_string(),
            problem: error.to_string(),
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(source) => {
            let doing = "read";
            return Err(Error::File {
                doing,
                path,
                source,
            }
            .into());
        }
    };
    let (merged, replaced) =
        file::merged(before, made, !keep_context).map_err(|problem| Error::Document {
            what: path.display().to_string(),
            problem,
        })?;
    write_private(&path, serde_saphyr::to_string(&merged)?.as_bytes())?;
    if replaced {
        // Nobody is left to be told that standard error is gone.
        drop(writeln!(
            std::io::stderr(),
            "The entries of {name} that were there are replaced."
        ));
    }
    let words = if keep_context {
        format!("It is used by: kubectl --context {name}")
    } else {
        format!("The current context is {name}.")
    };
    Ok(format!("{name} is in {}. {words}\n", path.display()))
}

/// Where kubectl looks first.
fn target() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let first = named.and_then(|paths| std::env::split_paths(&paths).next());
    first.or_else(|| Some(std::env::home_dir()?.join(".kube").join("config")))
}
