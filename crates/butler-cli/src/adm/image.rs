//! `butleradm image`: what machines can pull from this host.

use std::{
    fs,
    path::{Path, PathBuf},
};

use butler_host::images::Library;
use clap::Subcommand;

use super::{Global, error::Error, installation::Places};
use crate::output::table::table;

/// Verbs of `butleradm image`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// List the images that machines can pull
    List,
    /// Let machines pull the images of an archive, as "docker save" or "ctr images export" write it
    #[command(after_help = "Examples:\n  butleradm image add ./shop.tar")]
    Add {
        /// The archive
        file: PathBuf,
    },
}

/// Carries out a verb. Gives what to print.
pub(crate) fn run(command: &Command, global: &Global) -> anyhow::Result<String> {
    let places = global.places()?;
    if places.read()?.is_none() {
        return Err(Error::NotInstalled {
            name: global.installation(),
        }
        .into());
    }
    match command {
        Command::List => list(&places),
        Command::Add { file } => add(&places, file),
    }
}

fn list(places: &Places) -> anyhow::Result<String> {
    let images = Library::open(places.images())?.images()?;
    let rows = images
        .into_iter()
        .map(|image| [image.reference, image.digest]);
    Ok(table(["IMAGE", "DIGEST"], rows))
}

fn add(places: &Places, file: &Path) -> anyhow::Result<String> {
    let library = Library::open(places.images())?;
    let names = library.check(file)?;
    let target = places.images().join(file.file_name().unwrap_or_default());
    // Not among those that are served before it is whole.
    let beside = places.root().join("image.part");
    fs::copy(file, &beside)
        .and_then(|_| fs::rename(&beside, &target))
        .inspect_err(|_| drop(fs::remove_file(&beside)))
        .map_err(|source| Error::File {
            doing: "copy the images to",
            path: target,
            source,
        })?;
    let lines: Vec<String> = names
        .into_iter()
        .map(|name| format!("{name} can be pulled now.\n"))
        .collect();
    Ok(lines.concat())
}
