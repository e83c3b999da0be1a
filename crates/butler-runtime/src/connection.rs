//! The HTTP stack under every client: kube's own, on connections that send at once.
//!
//! kube leaves Nagle's algorithm on. A request that does not fit into one segment then waits for the server's delayed
//! acknowledgement, some 40 ms on Linux. kube cannot be told otherwise, so its layers are put together here, in its order.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config, Error,
    client::{Body, ClientBuilder, ConfigExt, retry::RetryPolicy},
};
use tower::{BoxError, ServiceBuilder, retry::RetryLayer};
use tower_http::trace::{DefaultOnFailure, TraceLayer};
use tracing::Level;

/// A client for a configuration that closes connections which nobody has used for so long. What to do with a proxy is left to kube,
/// which says so if it was built without.
pub(crate) fn client(config: Config, idle: Duration) -> Result<Client, Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let https = config.rustls_https_connector_with_connector(connector())?;
    let mut timed = TimeoutConnector::new(https);
    timed.set_connect_timeout(config.connect_timeout);
    timed.set_read_timeout(config.read_timeout);
    timed.set_write_timeout(config.write_timeout);
    timed.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .pool_idle_timeout(idle)
        // Without a timer, they would be closed only when another one is asked for.
        .pool_timer(TokioTimer::new())
        .build(timed);
    let retry = config
        .default_retry
        .then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        // Whoever made the request says what its failure means.
        .layer(TraceLayer::new_for_http().on_failure(DefaultOnFailure::new().level(Level::DEBUG)))
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// What opens connections. TLS comes on top, so any scheme will do here.
fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_connection_sends_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // The scheme of every API server, which a mere HTTP connector would refuse.
        let server = format!("https://{address}").parse().unwrap();
        let connection = connector().oneshot(server).await.unwrap();
        assert!(connection.inner().nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_proxy_we_cannot_use_is_an_error() {
        let mut config = Config::new("https://127.0.0.1:6443".parse().unwrap());
        config.proxy_url = Some("http://127.0.0.1:3128".parse().unwrap());
        crate::client::install_crypto();
        let error = client(config, Duration::from_secs(1))
            .err()
            .expect("proxies are not built in");
        assert!(
            matches!(error, Error::ProxyProtocolDisabled { .. }),
            "{error}"
        );
    }
}
