//! What becomes of the bytes of a connection.

use std::time::Duration;

use butler_testkit::process::until;
use butler_tunnel::{CHUNK, Direction, Failure, SEND_BUFFER, STREAM_WINDOW};
use futures::future::join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UnixStream},
};

use crate::kit::{self, Office, PATIENCE, any_port, connect, echo, echoes, tunnel};

/// Bytes by which streams can be told apart.
fn pattern(number: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|position| u8::try_from((position * 31 + number * 7) % 251).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_at_once_each_get_their_own_bytes_back() {
    let office = Office::new();
    let (server, agent) = tunnel(&office).await;
    let echo = echo().await;
    let open = (0..1000).map(|_| connect(&server.socket, echo));
    let streams: Vec<UnixStream> = join_all(open)
        .await
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("all are made");
    server.process.has_streams(1000).await;
    agent.has_streams(1000).await;
    let talks = streams
        .into_iter()
        .enumerate()
        .map(async |(number, stream)| {
            let sent = pattern(number, 40_000);
            let (mut reader, mut writer) = stream.into_split();
            let writing = async {
                writer.write_all(&sent).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut received = Vec::new();
            let reading = reader.read_to_end(&mut received);
            let ((), read) = tokio::join!(writing, reading);
            read.unwrap();
            assert!(received == sent, "stream {number} got other bytes back");
        });
    join_all(talks).await;
    server.process.has_streams(0).await;
    agent.has_streams(0).await;
    let carried = server.process.metrics.bytes(Direction::OutOfTunnel);
    assert_eq!(carried, 40_000 * 1000);
}

#[tokio::test]
async fn who_has_said_everything_can_still_listen() {
    let office = Office::new();
    let (server, agent) = tunnel(&office).await;
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let destination = listener.local_addr().unwrap();
    let mut near = connect(&server.socket, destination).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();

    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let mut question = String::new();
    far.read_to_string(&mut question).await.unwrap();
    assert_eq!(question, "question", "the end of one direction arrives");
    far.write_all(b"answer").await.unwrap();
    far.shutdown().await.unwrap();
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "answer", "the other direction was open");
    server.process.has_streams(0).await;
    agent.has_streams(0).await;
}

#[tokio::test]
async fn a_destination_that_has_said_everything_still_hears() {
    let office = Office::new();
    let (server, _agent) = tunnel(&office).await;
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let destination = listener.local_addr().unwrap();
    let mut near = connect(&server.socket, destination).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();

    far.write_all(b"news").await.unwrap();
    far.shutdown().await.unwrap();
    let mut news = String::new();
    near.read_to_string(&mut news).await.unwrap();
    assert_eq!(news, "news");
    near.write_all(b"thanks").await.unwrap();
    near.shutdown().await.unwrap();
    let mut thanks = String::new();
    far.read_to_string(&mut thanks).await.unwrap();
    assert_eq!(thanks, "thanks");
    server.process.has_streams(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_who_does_not_read_holds_up_the_writer_and_nobody_else() {
    const LENGTH: usize = 32 * 1024 * 1024;
    let office = Office::new();
    let (server, agent) = tunnel(&office).await;
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let destination = listener.local_addr().unwrap();
    let mut near = connect(&server.socket, destination).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let writing = butler_runtime::task::spawn("writer", async move {
        near.write_all(&pattern(1, LENGTH)).await.unwrap();
        near.shutdown().await.unwrap();
        near
    });

    // Whatever enters the tunnel and has not left it is in its memory.
    let inside = || {
        let entered = server.process.metrics.bytes(Direction::IntoTunnel);
        entered.saturating_sub(agent.metrics.bytes(Direction::OutOfTunnel))
    };
    let most = u64::from(STREAM_WINDOW) + u64::try_from(SEND_BUFFER + 4 * CHUNK).unwrap();
    // HTTP/2 tells a writer of new room in steps of half a window, so it may stand still with that much less in it.
    let least = u64::from(STREAM_WINDOW / 2);
    let full = until(PATIENCE, async || {
        assert!(inside() <= most, "{} bytes pile up", inside());
        (inside() >= least).then_some(())
    });
    assert!(full.await.is_some(), "only {} bytes went in", inside());
    // Another stream of the same connection goes on, however long that one stands still.
    let mut other = connect(&server.socket, echo().await).await.unwrap();
    for round in 0..100 {
        assert!(echoes(&mut other, &pattern(round, 10_000)).await);
    }
    drop(other);
    assert!(inside() <= most, "{} bytes pile up", inside());
    assert!(!writing.is_finished(), "the writer waits");

    let mut received = Vec::new();
    far.read_to_end(&mut received).await.unwrap();
    assert!(
        received == pattern(1, LENGTH),
        "all bytes arrive, once and in order"
    );
    writing.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_does_not_look_finished() {
    let office = Office::new();
    let (server, agent) = tunnel(&office).await;
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let destination = listener.local_addr().unwrap();

    let mut near = connect(&server.socket, destination).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    near.write_all(b"half of").await.unwrap();
    let mut seen = [0; 7];
    far.peek(&mut seen).await.unwrap();
    // Closed with bytes that nobody has read: the kernel sends a reset.
    drop(far);
    let mut rest = Vec::new();
    // A socket in the file system has no reset: it ends, and with it the stream.
    let _ = near.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    server.process.has_streams(0).await;
    agent.has_streams(0).await;

    let mut near = connect(&server.socket, destination).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    near.write_all(b"x").await.unwrap();
    far.read_u8().await.unwrap();
    let mut server = server;
    server.process.kill();
    let error = far.read_u8().await.expect_err("the tunnel is gone");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_in_the_status_line() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    let mut settings = office.agent_settings(server.agent_address);
    settings.policy.allowed = vec!["127.0.0.1/32".parse().unwrap()];
    settings.name = "node-1".to_owned();
    let agent = kit::join(settings);
    server.process.is_connected_to(1).await;

    let closed = TcpListener::bind(any_port()).await.unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let refused = connect(&server.socket, nobody).await.unwrap_err();
    assert_eq!(
        refused,
        format!(
            "HTTP/1.1 502 cannot connect to {nobody}: Connection refused (os error 111) (agent node-1)"
        )
    );
    let forbidden = connect(&server.socket, "169.254.169.254:80")
        .await
        .unwrap_err();
    assert_eq!(
        forbidden,
        "HTTP/1.1 403 169.254.169.254:80: agents do not connect to 169.254.169.254; \
         --allow-destination opens it (agent node-1)"
    );
    let own = connect(&server.socket, "127.0.0.2:1").await.unwrap_err();
    assert!(own.starts_with("HTTP/1.1 403 "), "{own}");

    for (failure, count) in [(Failure::Refused, 1), (Failure::Forbidden, 2)] {
        assert_eq!(
            server.process.metrics.failures(failure),
            count,
            "{failure:?}"
        );
        assert_eq!(agent.metrics.failures(failure), count, "{failure:?}");
    }
}

#[tokio::test]
async fn what_is_no_request_for_a_connection_is_refused() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    let mut stream = UnixStream::connect(&server.socket).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: tunnel\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let head = kit::read_head(&mut stream).await;
    assert!(
        head.starts_with("HTTP/1.1 400 this is a tunnel: send CONNECT host:port"),
        "{head}"
    );
    let without_port = connect(&server.socket, "10.0.0.1").await.unwrap_err();
    assert!(without_port.starts_with("HTTP/1.1 400 "), "{without_port}");
    assert_eq!(server.process.metrics.failures(Failure::BadRequest), 2);
}

#[tokio::test]
async fn streams_have_a_limit_at_both_ends() {
    let office = Office::new();
    let mut settings = office.server_settings();
    settings.max_streams = 3;
    let server = kit::serve(settings).await;
    let mut settings = office.agent_settings(server.agent_address);
    settings.max_streams = 2;
    let _agent = kit::join(settings);
    server.process.is_connected_to(1).await;
    let echo = echo().await;

    let mut first = connect(&server.socket, echo).await.unwrap();
    let _second = connect(&server.socket, echo).await.unwrap();
    let third = connect(&server.socket, echo).await.unwrap_err();
    assert!(third.starts_with("HTTP/1.1 503 every agent"), "{third}");
    assert!(echoes(&mut first, b"still works").await);

    let _other_agent = kit::join(office.agent_settings(server.agent_address));
    server.process.is_connected_to(2).await;
    let _third = connect(&server.socket, echo).await.unwrap();
    let fourth = connect(&server.socket, echo).await.unwrap_err();
    assert!(fourth.contains("--max-streams"), "{fourth}");
    drop(first);
    server.process.has_streams(2).await;
    let freed = until(Duration::from_secs(10), async || {
        connect(&server.socket, echo).await.ok()
    });
    assert!(freed.await.is_some(), "there is room again");
}
