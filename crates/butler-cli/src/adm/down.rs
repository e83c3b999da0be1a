//! `butleradm down`: as if nothing had been here.

use std::{fs, io};

use anyhow::Context as _;
use butler_host::host::Host;
use clap::Args;

use super::{Global, error::Error, host_process, installation::Places};
use crate::output::progress::{Outcome, Progress};

/// Flags of `butleradm down`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Keep prepared images, so that the next "up" is quicker
    #[arg(long)]
    keep_cache: bool,
}

/// Removes the installation in whatever state it is. Gives what to tell at the end.
pub(crate) async fn down(arguments: &Arguments, global: &Global) -> anyhow::Result<String> {
    let name = global.installation();
    let places = global.places()?;
    let Some(installation) = places.read()? else {
        let words = if places.root().exists() && !arguments.keep_cache {
            remove_directory(places.root())?;
            places.unlock();
            "its prepared images were removed"
        } else {
            "nothing was changed"
        };
        return Ok(format!("there is no installation {name}; {words}.\n"));
    };
    super::as_root()?;
    let _lock = places.lock()?;
    let progress = Progress::on_stderr(global.verbose);
    let step = progress.begin("Host process");
    host_process::stop(&installation, &places).await?;
    step.end(Outcome::Done);
    let step = progress.begin("Machines and network");
    let host =
        Host::open(installation.host_config(&places)?).context("could not open this host")?;
    host.down().await?;
    step.end(Outcome::Done);
    let step = progress.begin("Files");
    clean(&places, arguments.keep_cache)?;
    step.end(Outcome::Done);
    let left = if arguments.keep_cache {
        "nothing but its prepared images"
    } else {
        "nothing of it"
    };
    Ok(format!("{name} is down; {left} is left on this host.\n"))
}

/// Removes what is left; the record goes last.
fn clean(places: &Places, keep_cache: bool) -> Result<(), Error> {
    match fs::remove_file(places.kubeconfig()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let path = places.kubeconfig().to_owned();
            return Err(Error::File {
                doing: "remove",
                path,
                source: error,
            });
        }
        _ => {}
    }
    let mut kept = vec![places.record()];
    if keep_cache {
        kept.extend([places.images(), places.image_stores()]);
    }
    let entries = fs::read_dir(places.root()).map_err(|source| Error::File {
        doing: "read",
        path: places.root().to_owned(),
        source,
    })?;
    for entry in entries
        .flatten()
        .filter(|entry| !kept.contains(&entry.path()))
    {
        let path = entry.path();
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.map_err(|source| Error::File {
            doing: "remove",
            path,
            source,
        })?;
    }
    let record = places.record();
    fs::remove_file(&record).map_err(|source| Error::File {
        doing: "remove",
        path: record,
        source,
    })?;
    if !keep_cache {
        remove_directory(places.root())?;
    }
    places.unlock();
    Ok(())
}

fn remove_directory(path: &std::path::Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::File {
            doing: "remove",
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}
