use butler_runtime::task;
use http::{Method, Request, Response, Uri};
use tokio::io::{DuplexStream, duplex};

use super::*;
use crate::protocol;

type Stream = (SendStream<Bytes>, RecvStream);

/// Both ends of one stream of a tunnel.
async fn stream() -> (Stream, Stream) {
    let (near, far) = duplex(64 * 1024);
    let (asking, answering) = tokio::join!(
        protocol::asking().handshake::<_, Bytes>(near),
        protocol::answering(8).handshake::<_, Bytes>(far),
    );
    let (sender, connection) = asking.unwrap();
    let mut answering = answering.unwrap();
    task::spawn("near", connection);
    let accepted = task::spawn("far", async move {
        let (request, mut respond) = answering.accept().await.unwrap().unwrap();
        let send = respond.send_response(Response::new(()), false).unwrap();
        task::spawn("answers", async move {
            while answering.accept().await.is_some() {}
        });
        (send, request.into_body())
    });
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = Uri::from_static("10.0.0.1:443");
    let mut sender = sender.ready().await.unwrap();
    let (response, send) = sender.send_request(request, false).unwrap();
    let receive = response.await.unwrap().into_body();
    // The connection lives as long as somebody could open a stream.
    task::spawn("keep", async move {
        let _sender = sender;
        std::future::pending::<()>().await;
    });
    ((send, receive), accepted.await.unwrap())
}

async fn carry(mut local: DuplexStream, (send, receive): Stream) -> Result<(), PumpError> {
    let never = CancellationToken::new();
    pump(&mut local, send, receive, &never, &TunnelMetrics::default()).await
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_one_side_has_ended_is_given_up_when_the_other_is_silent() {
    let (near, _far) = stream().await;
    let (local, mut user) = duplex(1024);
    let began = tokio::time::Instant::now();
    user.shutdown().await.unwrap();
    let error = carry(local, near).await.expect_err("given up");
    assert!(matches!(error, PumpError::Silent), "{error}");
    assert!(began.elapsed() >= HALF_CLOSED_SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_one_side_has_ended_lasts_as_long_as_the_other_speaks() {
    let (near, (mut send, _receive)) = stream().await;
    let (local, mut user) = duplex(1024);
    user.shutdown().await.unwrap();
    let speaking = async {
        for _ in 0..10 {
            tokio::time::sleep(HALF_CLOSED_SILENCE / 2).await;
            send.send_data(Bytes::from_static(b"still here"), false)
                .unwrap();
        }
        send.send_data(Bytes::new(), true).unwrap();
    };
    let (outcome, ()) = tokio::join!(carry(local, near), speaking);
    outcome.expect("ended by both");
    let mut heard = String::new();
    user.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "still here".repeat(10));
}

#[tokio::test]
async fn an_open_stream_may_be_silent_and_ends_with_the_tunnel() {
    let (near, _far) = stream().await;
    let (mut local, _user) = duplex(1024);
    let ended = CancellationToken::new();
    ended.cancel();
    let (send, receive) = near;
    let outcome = pump(&mut local, send, receive, &ended, &TunnelMetrics::default()).await;
    assert!(matches!(outcome, Err(PumpError::Ended)), "{outcome:?}");
}

#[tokio::test]
async fn a_reset_ends_a_stream_whose_reader_stands_still() {
    let (near, (mut send, receive)) = stream().await;
    // Nobody reads on this side, so what arrives is stuck after the first byte.
    let (local, mut user) = duplex(1);
    user.shutdown().await.unwrap();
    send.send_data(Bytes::from_static(b"more than fits"), false)
        .unwrap();
    let carried = task::spawn("carried", carry(local, near));
    send.send_reset(Reason::CANCEL);
    drop(receive);
    let outcome = carried.await.unwrap();
    assert!(outcome.is_err(), "{outcome:?}");
}
