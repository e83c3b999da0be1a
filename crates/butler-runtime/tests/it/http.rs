//! A toy HTTP client and the settings that tests share.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What takes longer than this has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Any free port of this machine.
pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Asks for a path and returns the whole answer, status line and headers included.
pub(crate) async fn get(address: SocketAddr, path: &str) -> String {
    ask(address, path, "").await
}

/// The same, with what is written into the header `Authorization`.
pub(crate) async fn get_as(address: SocketAddr, path: &str, authorization: &str) -> String {
    ask(
        address,
        path,
        &format!("authorization: {authorization}\r\n"),
    )
    .await
}

async fn ask(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("reads");
    answer
}
