//! What the two ends say to each other, over one TLS connection that the agent dials.
//!
//! It is HTTP/2 with the roles turned around: the end that accepted the connection asks, the end that dialled it answers.
//! First the server says who it is (`hello`); the agent answers who it is and with its token, unless it already has a
//! connection to that server. Then `welcome` or `refused`, from time to time `credentials`, and a CONNECT for each stream.

use h2::{client, server};
use http::{HeaderMap, HeaderValue, Request, Uri};

use crate::failure::{Failure, TunnelError};

/// What both ends must speak; another number is another protocol.
pub(crate) const APPLICATION_PROTOCOL: &[u8] = b"butler-tunnel/1";
/// What a proxy in the tenant speaks to a server: from the first byte on, the bytes of a connection to the API server.
pub(crate) const PASSAGE_PROTOCOL: &[u8] = b"butler-passage/1";

/// How many bytes of a stream an end takes before its reader has taken any of them.
pub const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all streams of a connection together: what stalled readers may hold of our memory.
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;
/// How many bytes of a stream wait to be sent.
pub const SEND_BUFFER: usize = 64 * 1024;
/// How many bytes are read at a time.
pub const CHUNK: usize = 16 * 1024;
/// Room for requests that are not streams, beyond the number of streams.
pub(crate) const CONTROL_STREAMS: usize = 4;
/// A token is a few kilobytes; nobody has a use for more.
pub(crate) const LONGEST_TOKEN: usize = 64 * 1024;
const LONGEST_HEADERS: u32 = 16 * 1024;
const LONGEST_WORDS: usize = 512;

/// What is asked of an agent besides connections.
pub(crate) mod paths {
    /// "I am this server of so many; who are you?"
    pub(crate) const HELLO: &str = "/hello";
    /// "You are let in."
    pub(crate) const WELCOME: &str = "/welcome";
    /// "You are not let in, for this reason."
    pub(crate) const REFUSED: &str = "/refused";
    /// "Show your token again."
    pub(crate) const CREDENTIALS: &str = "/credentials";
}

/// Names of headers.
pub(crate) mod headers {
    /// Which server it is; every start of a server is another.
    pub(crate) const SERVER: &str = "butler-tunnel-server";
    /// How many servers there are.
    pub(crate) const SERVER_COUNT: &str = "butler-tunnel-server-count";
    /// The agent's name, for people.
    pub(crate) const AGENT: &str = "butler-tunnel-agent";
    /// Which run of the agent it is: a second connection of one run replaces the first.
    pub(crate) const INSTANCE: &str = "butler-tunnel-instance";
    /// Words for people.
    pub(crate) const MESSAGE: &str = "butler-tunnel-message";
    /// Which failure it was.
    pub(crate) const FAILURE: &str = "butler-tunnel-failure";
}

/// How the end that asks speaks HTTP/2.
pub(crate) fn asking() -> client::Builder {
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(LONGEST_HEADERS);
    builder
}

/// How the end that answers speaks HTTP/2, with at most so many streams.
pub(crate) fn answering(max_streams: usize) -> server::Builder {
    let streams = max_streams.saturating_add(CONTROL_STREAMS);
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(u32::try_from(streams).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(LONGEST_HEADERS);
    builder
}

/// A request that is no stream.
pub(crate) fn control(path: &'static str) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = http::Method::POST;
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(http::uri::Scheme::HTTPS);
    parts.authority = Some(http::uri::Authority::from_static("agent"));
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static(path));
    // The three parts make an address, so this is never the default.
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    request
}

/// Words as a header carries them: what is not visible ASCII is replaced, and long ones are cut.
pub(crate) fn words(text: &str) -> HeaderValue {
    let visible: String = text
        .chars()
        .map(|letter| {
            if letter == ' ' || letter.is_ascii_graphic() {
                letter
            } else {
                '?'
            }
        })
        .take(LONGEST_WORDS)
        .collect();
    HeaderValue::from_str(&visible).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The text of a header, if it is there and is text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Writes a failure into an answer.
pub(crate) fn write_failure(error: &TunnelError, headers: &mut HeaderMap) {
    headers.insert(
        headers::FAILURE,
        HeaderValue::from_static(error.failure.word()),
    );
    headers.insert(headers::MESSAGE, words(&error.message));
}

/// Reads a failure out of an answer. An agent of another version may know failures that we do not.
pub(crate) fn read_failure(headers: &HeaderMap) -> TunnelError {
    let failure = text(headers, headers::FAILURE).and_then(Failure::from_word);
    TunnelError::new(
        failure.unwrap_or(Failure::Unreachable),
        text(headers, headers::MESSAGE).unwrap_or("the agent gave no reason"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_break_a_header() {
        assert_eq!(words("a\r\nb: é"), "a??b: ?");
        assert_eq!(words(&"x".repeat(10_000)).len(), LONGEST_WORDS);
    }

    #[test]
    fn a_failure_is_read_as_it_was_written() {
        let error = TunnelError::new(Failure::Refused, "10.0.0.1:443 refused the connection");
        let mut headers = HeaderMap::new();
        write_failure(&error, &mut headers);
        assert_eq!(read_failure(&headers), error);
    }

    #[test]
    fn a_control_request_has_its_path() {
        assert_eq!(control(paths::HELLO).uri(), "https://agent/hello");
    }
}
