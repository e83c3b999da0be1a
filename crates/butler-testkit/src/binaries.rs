//! Where the programs of a test server come from: the assets of Butler itself.

use std::path::PathBuf;

use butler_assets::{Asset, Component, Resolver, Settings};

use crate::Error;

/// The path of a program; `kubernetes` asks for a version other than the default one.
pub(crate) async fn find(program: Component, kubernetes: Option<&str>) -> Result<PathBuf, Error> {
    let find = async {
        let asset = match kubernetes {
            Some(version) => Asset::kubernetes(program, version)?,
            None => Asset::default_of(program),
        };
        Resolver::new(Settings::from_env()?).resolve(&asset).await
    };
    find.await.map_err(|source| Error::ProgramMissing {
        program: program.to_string(),
        source: Box::new(source),
    })
}
