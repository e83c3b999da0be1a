//! How the API server is told to use the tunnel.

/// How the API server reaches the tunnel's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressTransport {
    /// By a socket that both containers mount.
    Socket {
        /// Its path, in the API server's container.
        path: String,
    },
    /// Over the network, by TLS with certificates on both sides.
    Network {
        /// Such as `https://127.0.0.1:8131`.
        url: String,
        /// File with the authority of the tunnel's server.
        authority: String,
        /// File with the API server's client certificate.
        client_certificate: String,
        /// File with its key.
        client_key: String,
    },
}

/// The file for `--egress-selector-config-file`: what goes to nodes, pods and Services goes through the tunnel; etcd and the
/// control plane itself are reached directly.
pub fn egress_selector_configuration(transport: &EgressTransport) -> String {
    let lines = match transport {
        EgressTransport::Socket { path } => vec![
            "      uds:".to_owned(),
            format!("        udsName: {}", quoted(path)),
        ],
        EgressTransport::Network {
            url,
            authority,
            client_certificate,
            client_key,
        } => vec![
            "      tcp:".to_owned(),
            format!("        url: {}", quoted(url)),
            "        tlsConfig:".to_owned(),
            format!("          caBundle: {}", quoted(authority)),
            format!("          clientCert: {}", quoted(client_certificate)),
            format!("          clientKey: {}", quoted(client_key)),
        ],
    };
    format!(
        "apiVersion: apiserver.k8s.io/v1beta1\n\
         kind: EgressSelectorConfiguration\n\
         egressSelections:\n\
         - name: cluster\n  \
           connection:\n    \
             proxyProtocol: HTTPConnect\n    \
             transport:\n{}\n",
        lines.join("\n")
    )
}

/// Text as YAML holds it, whatever is in it.
fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_services_are_reached_through_the_socket() {
        let socket = EgressTransport::Socket {
            path: super::super::names::SOCKET.to_owned(),
        };
        insta::assert_snapshot!(egress_selector_configuration(&socket), @r#"
        apiVersion: apiserver.k8s.io/v1beta1
        kind: EgressSelectorConfiguration
        egressSelections:
        - name: cluster
          connection:
            proxyProtocol: HTTPConnect
            transport:
              uds:
                udsName: "/run/butler-tunnel/tunnel.sock"
        "#);
    }

    #[test]
    fn over_the_network_both_sides_show_certificates() {
        let network = EgressTransport::Network {
            url: "https://127.0.0.1:8131".to_owned(),
            authority: "/pki/ca.crt".to_owned(),
            client_certificate: "/pki/client.crt".to_owned(),
            client_key: "/pki/client.key".to_owned(),
        };
        insta::assert_snapshot!(egress_selector_configuration(&network), @r#"
        apiVersion: apiserver.k8s.io/v1beta1
        kind: EgressSelectorConfiguration
        egressSelections:
        - name: cluster
          connection:
            proxyProtocol: HTTPConnect
            transport:
              tcp:
                url: "https://127.0.0.1:8131"
                tlsConfig:
                  caBundle: "/pki/ca.crt"
                  clientCert: "/pki/client.crt"
                  clientKey: "/pki/client.key"
        "#);
    }
}
