//! What a request to a registry asks for: its path, its query and its range, as data.

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Whether this is a registry at all.
    Base,
    Manifest {
        name: String,
        reference: String,
    },
    Blob {
        digest: String,
    },
    /// Nothing that a mirror has.
    Unknown,
}

/// Reads a path.
pub(super) fn route(path: &str) -> Route {
    if path == "/v2" || path == "/v2/" {
        return Route::Base;
    }
    let Some(rest) = path.strip_prefix("/v2/") else {
        return Route::Unknown;
    };
    let split = |word: &str| {
        rest.rsplit_once(word)
            .filter(|(name, last)| !name.is_empty() && !last.is_empty() && !last.contains('/'))
    };
    if let Some((name, reference)) = split("/manifests/") {
        return Route::Manifest {
            name: name.to_owned(),
            reference: decoded(reference),
        };
    }
    match split("/blobs/") {
        Some((_, digest)) => Route::Blob {
            digest: decoded(digest),
        },
        None => Route::Unknown,
    }
}

/// The registry that a mirror stands for, as containerd says it.
pub(super) fn registry(query: &str) -> Option<String> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix("ns="))
        .filter(|value| !value.is_empty())
        .map(decoded)
}

/// Which bytes of a thing of this size are asked for: from, and how many. An error cannot be given.
pub(super) fn range(header: Option<&str>, size: u64) -> Result<Option<(u64, u64)>, ()> {
    let Some(bounds) = header.and_then(|header| header.strip_prefix("bytes=")) else {
        return Ok(None);
    };
    let (from, to) = bounds.split_once('-').ok_or(())?;
    if from.is_empty() || bounds.contains(',') {
        // The whole is a right answer to what is not understood.
        return Ok(None);
    }
    let from: u64 = from.parse().map_err(drop)?;
    let last = size.checked_sub(1).ok_or(())?;
    let to = if to.is_empty() {
        last
    } else {
        to.parse::<u64>().map_err(drop)?.min(last)
    };
    if from > to {
        return Err(());
    }
    Ok(Some((from, to - from + 1)))
}

/// With `%3A` and its like put back.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = hex {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn paths_of_a_registry_are_understood() {
        assert_eq!(route("/v2/"), Route::Base);
        assert_eq!(
            route("/v2/coredns/coredns/manifests/v1.14.2"),
            Route::Manifest {
                name: "coredns/coredns".to_owned(),
                reference: "v1.14.2".to_owned()
            }
        );
        assert_eq!(
            route("/v2/pause/blobs/sha256%3Aab"),
            Route::Blob {
                digest: "sha256:ab".to_owned()
            }
        );
        for path in [
            "/",
            "/v1/x",
            "/v2/pause",
            "/v2//manifests/",
            "/v2/manifests/x",
        ] {
            assert_eq!(route(path), Route::Unknown, "{path}");
        }
    }

    #[test]
    fn the_registry_that_is_stood_for_is_read() {
        assert_eq!(
            registry("ns=registry.k8s.io").as_deref(),
            Some("registry.k8s.io")
        );
        assert_eq!(
            registry("a=b&ns=localhost%3A5000").as_deref(),
            Some("localhost:5000")
        );
        assert_eq!(registry(""), None);
        assert_eq!(registry("ns="), None);
    }

    #[test]
    fn ranges_within_are_given_and_ranges_beyond_are_not() {
        assert_eq!(range(None, 10), Ok(None));
        assert_eq!(range(Some("bytes=3-"), 10), Ok(Some((3, 7))));
        assert_eq!(range(Some("bytes=3-4"), 10), Ok(Some((3, 2))));
        assert_eq!(range(Some("bytes=0-99"), 10), Ok(Some((0, 10))));
        assert_eq!(range(Some("bytes=-5"), 10), Ok(None));
        assert_eq!(range(Some("bytes=10-"), 10), Err(()));
        assert_eq!(range(Some("bytes=5-4"), 10), Err(()));
        assert_eq!(range(Some("bytes=x-"), 10), Err(()));
        assert_eq!(range(Some("bytes=0-"), 0), Err(()));
    }
}
