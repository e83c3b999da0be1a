//! Where the programs of a test server come from: the assets of Butler itself.

use std::path::PathBuf;

use butler_assets::{Asset, Component, Resolver, Settings};

use crate::Error;

/// The path of a program; `kubernetes` asks for a version other than the default one.
pub(crate) async fn find(program: Component, kubernetes: Option<&str>) -> Result<PathBuf, Error> {
    let missing = |program: String| {
        move |source| Error::ProgramMissing {
            program,
            source: Box::new(source),
        }
    };
    let asset = match kubernetes {
        Some(version) => {
            Asset::kubernetes(program, version).map_err(missing(format!("{program} {version}")))?
        }
        None => Asset::default_of(program),
    };
    let settings = Settings::from_env().map_err(missing(asset.to_string()))?;
    Resolver::new(settings)
        .resolve(&asset)
        .await
        .map_err(missing(asset.to_string()))
}
