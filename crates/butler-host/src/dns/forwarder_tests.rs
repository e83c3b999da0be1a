use std::sync::atomic::{AtomicUsize, Ordering};

use super::{message::tests::query, *};

const ADDRESS: u16 = 1;
const ANYWHERE: &str = "127.0.0.1:0";

/// Limits of tests: what is not answered is given up soon.
const SHORT: Limits = Limits {
    attempt: Duration::from_millis(300),
    answer: Duration::from_secs(2),
    ..LIMITS
};

/// What a server of the tests does.
#[derive(Clone, Copy)]
enum Behaviour {
    /// Forges two answers to other questions, then answers with these bytes behind the question.
    Answer(&'static [u8]),
    Refuse,
    Silence,
}

struct FakeServer {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

fn reply(behaviour: Behaviour, query: &[u8]) -> Vec<Vec<u8>> {
    let mut other = query.to_vec();
    other[1] ^= 1;
    match behaviour {
        Behaviour::Silence => Vec::new(),
        Behaviour::Refuse => vec![message::refuse(query, Refusal::Refused)],
        Behaviour::Answer(words) => {
            let mut answer = message::refuse(query, Refusal::ServerFailure);
            answer[3] = 0;
            answer.extend(words);
            vec![
                message::refuse(&other, Refusal::Refused),
                b"?".to_vec(),
                answer,
            ]
        }
    }
}

async fn server(behaviour: Behaviour) -> FakeServer {
    let udp = UdpSocket::bind(ANYWHERE).await.unwrap();
    let address = udp.local_addr().unwrap();
    let tcp = TcpListener::bind(address).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let count = Arc::clone(&asked);
    tasks.spawn(async move {
        let mut buffer = [0; 512];
        loop {
            let (length, client) = udp.recv_from(&mut buffer).await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            for message in reply(behaviour, &buffer[..length]) {
                udp.send_to(&message, client).await.unwrap();
            }
        }
    });
    tasks.spawn(async move {
        loop {
            let (mut connection, _) = tcp.accept().await.unwrap();
            let query = read_message(&mut connection).await.unwrap();
            if let Some(answer) = reply(behaviour, &query).last() {
                write_message(&mut connection, answer).await.unwrap();
            }
        }
    });
    FakeServer {
        address,
        asked,
        _tasks: tasks,
    }
}

/// A forwarder that runs until it is dropped.
struct Running {
    address: SocketAddr,
    _task: JoinSet<()>,
}

async fn forwarder(servers: &[&FakeServer], limits: Limits) -> Running {
    let servers = servers.iter().map(|server| server.address).collect();
    let forwarder = Forwarder::bind_with(ANYWHERE.parse().unwrap(), servers, limits)
        .await
        .unwrap();
    let address = forwarder.address();
    let mut task = JoinSet::new();
    task.spawn(async move { forwarder.serve(CancellationToken::new()).await.unwrap() });
    Running {
        address,
        _task: task,
    }
}

async fn ask(forwarder: &Running, query: &[u8], transport: Transport) -> Vec<u8> {
    let asked = async {
        match transport {
            Transport::Datagram => ask_by_datagram(forwarder.address, query).await,
            Transport::Stream => ask_by_stream(forwarder.address, query).await,
        }
    };
    timeout(Duration::from_secs(10), asked)
        .await
        .expect("an answer in time")
        .unwrap()
}

const BOTH: [Transport; 2] = [Transport::Datagram, Transport::Stream];

#[tokio::test]
async fn a_machine_gets_the_answer_of_the_hosts_server() {
    let server = server(Behaviour::Answer(b"198.51.100.7")).await;
    let forwarder = forwarder(&[&server], SHORT).await;
    for transport in BOTH {
        let answer = ask(&forwarder, &query(7, "butler", ADDRESS), transport).await;
        assert!(answer.ends_with(b"198.51.100.7"), "{transport:?}");
    }
}

#[tokio::test]
async fn the_next_server_is_asked_when_one_refuses_or_is_silent() {
    let refusing = server(Behaviour::Refuse).await;
    let silent = server(Behaviour::Silence).await;
    let good = server(Behaviour::Answer(b"yes")).await;
    let forwarder = forwarder(&[&refusing, &silent, &good], SHORT).await;
    for transport in BOTH {
        let answer = ask(&forwarder, &query(7, "butler", ADDRESS), transport).await;
        assert!(answer.ends_with(b"yes"), "{transport:?}");
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_fails_soon() {
    let silent = server(Behaviour::Silence).await;
    for servers in [vec![], vec![&silent]] {
        let forwarder = forwarder(&servers, SHORT).await;
        for transport in BOTH {
            let query = query(7, "butler", ADDRESS);
            assert_eq!(
                ask(&forwarder, &query, transport).await,
                message::refuse(&query, Refusal::ServerFailure)
            );
        }
    }
}

#[tokio::test]
async fn no_machine_changes_names_or_copies_a_zone() {
    let server = server(Behaviour::Answer(b"yes")).await;
    let forwarder = forwarder(&[&server], SHORT).await;
    let zone = query(7, "butler", 252);
    let mut update = query(7, "butler", ADDRESS);
    update[2] = 5 << 3;
    for (query, refusal) in [(zone, Refusal::Refused), (update, Refusal::NotImplemented)] {
        assert_eq!(
            ask(&forwarder, &query, Transport::Datagram).await,
            message::refuse(&query, refusal)
        );
    }
    assert_eq!(server.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn more_questions_than_can_be_held_fail_at_once() {
    let silent = server(Behaviour::Silence).await;
    let patient = Limits {
        questions: 1,
        attempt: Duration::from_mins(1),
        answer: Duration::from_mins(1),
        ..LIMITS
    };
    let forwarder = forwarder(&[&silent], patient).await;
    let socket = UdpSocket::bind(ANYWHERE).await.unwrap();
    socket.connect(forwarder.address).await.unwrap();
    let (first, second) = (query(1, "a", ADDRESS), query(2, "b", ADDRESS));
    socket.send(&first).await.unwrap();
    socket.send(&second).await.unwrap();
    let mut buffer = [0; 512];
    let length = timeout(Duration::from_secs(10), socket.recv(&mut buffer))
        .await
        .expect("an answer in time")
        .unwrap();
    assert_eq!(
        buffer[..length],
        message::refuse(&second, Refusal::ServerFailure)
    );
}

#[tokio::test]
async fn it_ends_when_it_is_told_and_says_where_it_cannot_listen() {
    let forwarder = Forwarder::bind(ANYWHERE.parse().unwrap(), Vec::new())
        .await
        .unwrap();
    let address = forwarder.address();
    let taken = Forwarder::bind(address, Vec::new()).await.unwrap_err();
    assert!(taken.to_string().contains(&address.to_string()), "{taken}");
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    forwarder.serve(cancelled).await.unwrap();
    Forwarder::bind(address, vec![address]).await.unwrap();
}
