//! The binaries that tests run, made before the tests so that their making is seen.

pub(crate) fn run() -> anyhow::Result<String> {
    Ok(String::new())
}
