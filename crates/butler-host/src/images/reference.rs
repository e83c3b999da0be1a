//! Names of images, spelled out: `busybox` is `docker.io/library/busybox:latest`.

use std::fmt;

const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_NAMESPACE: &str = "library";
const DEFAULT_TAG: &str = "latest";

/// A name of an image, spelled out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    /// With the registry.
    pub(super) repository: String,
    pub(super) tag: String,
}

impl Reference {
    /// Nothing if the text names nothing. A digest behind the name is not part of the name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let name = text.split('@').next()?;
        let (name, tag) = match name.rsplit_once(':') {
            // A colon before a slash is a port.
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (name, DEFAULT_TAG),
        };
        if name.is_empty() || tag.is_empty() {
            return None;
        }
        Some(Self {
            repository: repository(name),
            tag: tag.to_owned(),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.repository, self.tag)
    }
}

/// A repository with its registry.
pub(super) fn repository(name: &str) -> String {
    match name.split_once('/') {
        Some((first, _)) if is_registry(first) => name.to_owned(),
        Some(_) => format!("{DEFAULT_REGISTRY}/{name}"),
        None => format!("{DEFAULT_REGISTRY}/{DEFAULT_NAMESPACE}/{name}"),
    }
}

fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_name_is_spelled_out() {
        for (text, expected) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("user/app:1", "docker.io/user/app:1"),
            (
                "registry.k8s.io/pause:3.10.2",
                "registry.k8s.io/pause:3.10.2",
            ),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("quay.io/a/b:v1@sha256:00", "quay.io/a/b:v1"),
        ] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), expected);
        }
        assert_eq!(Reference::parse(""), None);
        assert_eq!(Reference::parse(":tag"), None);
    }
}
