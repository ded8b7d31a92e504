//! The client against servers made of raw sockets. A server does what its script says with each request; how many connections it
//! accepted and which requests it saw is what the tests look at.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::{Method, header::HeaderMap, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
};
use url::Url;

use super::*;
use crate::request::parcel::Parcel;

const ANSWER_WAIT_MAX: Duration = Duration::from_mins(1);

/// What a server does with a request.
#[derive(Debug, Clone)]
enum Act {
    /// Writes this and goes on.
    Write(Vec<u8>),
    /// Writes this and closes the connection.
    WriteAndClose(Vec<u8>),
    /// Closes the connection without a word.
    Close,
    /// Writes this and then nothing more.
    WriteAndHang(Vec<u8>),
    /// Writes the second part when it may.
    WriteInTwo(Vec<u8>, Vec<u8>, Arc<Notify>),
}

struct Server {
    client: HttpClient,
    target: RequestTarget,
    accepted: Arc<AtomicUsize>,
    closed: Arc<Notify>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(limits: ClientLimits, script: impl Fn(usize) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
        let (accepted, closed, seen) = (Arc::default(), Arc::<Notify>::default(), Arc::default());
        let client = HttpClient::new(Origin::from_url(&url).unwrap(), limits).unwrap();
        let server = Self { client, target: RequestTarget::from_url(&url).unwrap(), accepted, closed, seen };
        let (accepted, closed, seen) = (server.accepted.clone(), server.closed.clone(), server.seen.clone());
        let script = Arc::new(script);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (script, closed, seen) = (Arc::clone(&script), Arc::clone(&closed), Arc::clone(&seen));
                tokio::spawn(async move {
                    serve(socket, script.as_ref(), &seen).await;
                    closed.notify_one();
                });
            }
        });
        server
    }

    async fn post(&self, body: HttpRequestBody) -> Result<UpstreamResponse, HttpError> {
        let sending = self.client.send(Method::POST, &self.target, HeaderMap::new(), body);
        tokio::time::timeout(ANSWER_WAIT_MAX, sending).await.expect("an end in time")
    }

    async fn ask(&self, text: &'static str) -> Result<Bytes, HttpError> {
        read(self.post(HttpRequestBody::bytes(text)).await?).await
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until the server has seen a connection end.
    async fn until_closed(&self) {
        tokio::time::timeout(ANSWER_WAIT_MAX, self.closed.notified()).await.expect("a closed connection in time");
    }
}

async fn serve(mut socket: TcpStream, script: &(impl Fn(usize) -> Act + Sync), seen: &Mutex<Vec<String>>) {
    let mut buffer = Vec::new();
    loop {
        let Some(body) = next_body(&mut socket, &mut buffer).await else { return };
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(body);
            seen.len()
        };
        let (bytes, goes_on) = match script(number) {
            Act::Write(bytes) => (bytes, true),
            Act::WriteAndClose(bytes) => (bytes, false),
            Act::Close => return,
            Act::WriteInTwo(first, second, may) => {
                let _ = socket.write_all(&first).await;
                may.notified().await;
                let _ = socket.write_all(&second).await;
                (Vec::new(), true)
            }
            Act::WriteAndHang(bytes) => {
                let _ = socket.write_all(&bytes).await;
                // Until the client closes.
                let _ = socket.read(&mut [0; 64]).await;
                return;
            }
        };
        if socket.write_all(&bytes).await.is_err() || !goes_on {
            return;
        }
    }
}

/// Reads one request with a length and gives its body.
async fn next_body(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(buffer).into_owned();
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            assert!(head.starts_with("POST /mcp HTTP/1.1\r\n") && head.contains("host: 127.0.0.1:"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            let length: usize = length.parse().unwrap();
            if rest.len() >= length {
                buffer.drain(..head.len() + 4 + length);
                return rest.get(..length).map(ToOwned::to_owned);
            }
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn limits() -> ClientLimits {
    ClientLimits { connect_ms_max: 60_000, idle_ms_max: 60_000, unended_ms_max: 60_000, idle_connections: 8 }
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn read(mut response: UpstreamResponse) -> Result<Bytes, HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await {
        body.extend_from_slice(&chunk?);
    }
    Ok(body.into())
}

#[tokio::test]
async fn requests_one_after_the_other_use_one_connection() {
    let server = Server::start(limits(), |number| Act::Write(ok(&number.to_string()))).await;
    for number in 1..=100 {
        assert_eq!(server.ask("x").await.unwrap(), number.to_string());
    }
    assert_eq!((server.accepted(), server.seen().len()), (1, 100));
}

/// A connection is used on the runtime it was made on: another one's thread would have to be woken for every read.
#[tokio::test(flavor = "multi_thread")]
async fn each_runtime_has_connections_of_its_own() {
    let server = Arc::new(Server::start(limits(), |_| Act::Write(ok("a"))).await);
    let runtimes =
        [(); 2].map(|()| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());
    for _ in 0..3 {
        for runtime in &runtimes {
            let asking = Arc::clone(&server);
            assert_eq!(runtime.spawn(async move { asking.ask("x").await.unwrap() }).await.unwrap(), "a");
        }
    }
    assert_eq!(server.accepted(), 2);
    runtimes.into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_replaced() {
    let server = Server::start(limits(), |_| Act::WriteAndClose(ok("a"))).await;
    for _ in 0..5 {
        assert_eq!(server.ask("x").await.unwrap(), "a");
        server.until_closed().await;
    }
    assert_eq!((server.accepted(), server.seen().len()), (5, 5));
}

#[tokio::test]
async fn a_request_whose_body_left_is_not_sent_again() {
    let server = Server::start(limits(), |number| if number == 2 { Act::Close } else { Act::Write(ok("a")) }).await;
    assert_eq!(server.ask("first").await.unwrap(), "a");
    let parcel = Parcel::new("second");
    let lost = server.post(HttpRequestBody::parcel(parcel.clone(), 6)).await.unwrap_err();
    assert!(matches!(lost, HttpError::Lost(_)), "{lost}");
    assert!(!parcel.withdraw(), "it left");
    assert_eq!(server.seen(), ["first", "second"], "once each");
    assert_eq!(server.accepted(), 1);
    assert_eq!(server.ask("third").await.unwrap(), "a");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_withdrawn_body_does_not_leave() {
    let server = Server::start(limits(), |_| Act::Write(ok("a"))).await;
    for _ in 0..2 {
        let parcel = Parcel::new("x");
        assert!(parcel.withdraw());
        let refused = server.post(HttpRequestBody::parcel(parcel, 1)).await.unwrap_err();
        assert!(refused.to_string().contains("withdrawn"), "{refused}");
        assert_eq!(server.ask("y").await.unwrap(), "a", "the next request works");
    }
    assert_eq!(server.seen(), ["y", "y"]);
}

#[tokio::test]
async fn the_connection_of_a_request_that_was_given_up_is_closed() {
    let hang = |number| if number == 1 { Act::WriteAndHang(Vec::new()) } else { Act::Write(ok("a")) };
    let server = Server::start(limits(), hang).await;
    {
        let mut sending = std::pin::pin!(server.post(HttpRequestBody::bytes("given up")));
        let seen = async {
            while server.seen().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = &mut sending => panic!("nobody answers"),
            () = seen => {}
        }
    }
    server.until_closed().await;
    assert_eq!(server.ask("next").await.unwrap(), "a");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn an_answer_that_is_not_read_costs_its_connection_only_if_more_is_to_come() {
    // what the server writes, whether the connection is used again
    let table: [(&str, bool); 4] = [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n0\r\n\r\n", true),
        ("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", false),
    ];
    for (written, is_used_again) in table {
        let server = Server::start(limits(), move |number| match (number, is_used_again) {
            (1, true) => Act::Write(written.into()),
            (1, false) => Act::WriteAndHang(written.into()),
            _ => Act::Write(ok("a")),
        })
        .await;
        let mut response = server.post(HttpRequestBody::bytes("x")).await.unwrap();
        let _ = response.content_length().is_none_or(|length| length > 0) && response.chunk().await.is_some();
        drop(response);
        if !is_used_again {
            server.until_closed().await;
        }
        assert_eq!(server.ask("y").await.unwrap(), "a", "{written:?}");
        assert_eq!(server.accepted(), if is_used_again { 1 } else { 2 }, "{written:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_read_keeps_its_connection_if_the_server_ends_it_soon() {
    const EVENT: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n";
    let end = Arc::new(Notify::new());
    let may_end = Arc::clone(&end);
    let server = Server::start(limits(), move |number| match number {
        1 => Act::WriteInTwo(EVENT.to_vec(), b"0\r\n\r\n".to_vec(), Arc::clone(&may_end)),
        _ => Act::Write(ok("a")),
    })
    .await;
    let mut response = server.post(HttpRequestBody::bytes("x")).await.unwrap();
    assert!(response.chunk().await.is_some());
    response.let_end();
    assert!(!server.client.0.pool.has_ended());
    end.notify_one();
    let ended = async {
        while !server.client.0.pool.has_ended() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(ANSWER_WAIT_MAX, ended).await.expect("the end in time");
    assert_eq!(server.ask("y").await.unwrap(), "a");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn an_answer_that_the_server_does_not_end_costs_its_connection() {
    const EVENT: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n";
    for (unended_ms_max, is_asked_meanwhile) in [(20, false), (60_000, true)] {
        let hang = |number| if number == 1 { Act::WriteAndHang(EVENT.to_vec()) } else { Act::Write(ok("a")) };
        let server = Server::start(ClientLimits { unended_ms_max, ..limits() }, hang).await;
        let mut response = server.post(HttpRequestBody::bytes("x")).await.unwrap();
        assert!(response.chunk().await.is_some());
        response.let_end();
        if is_asked_meanwhile {
            assert_eq!(server.ask("y").await.unwrap(), "a", "on another connection");
        }
        server.until_closed().await;
        assert_eq!(server.ask("y").await.unwrap(), "a");
        assert_eq!(server.accepted(), 2, "{unended_ms_max}");
    }
}

#[tokio::test]
async fn large_answers_come_whole_and_keep_their_connection() {
    let large = "x".repeat(3_000_000);
    let mut chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for part in large.as_bytes().chunks(50_000) {
        chunked.extend(format!("{:x}\r\n", part.len()).bytes());
        chunked.extend(part);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let answers = [ok(&large), chunked];
    let server = Server::start(limits(), move |number| Act::Write(answers[number % 2].clone())).await;
    for _ in 0..4 {
        assert_eq!(server.ask("x").await.unwrap().len(), 3_000_000);
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn unused_connections_are_few_and_closed_after_a_while() {
    let few = ClientLimits { idle_connections: 2, ..limits() };
    let server = Server::start(few, |_| Act::Write(ok("a"))).await;
    let mut responses = Vec::new();
    for _ in 0..5 {
        responses.push(server.post(HttpRequestBody::bytes("x")).await.unwrap());
    }
    drop(responses);
    assert_eq!((server.accepted(), server.client.0.pool.idle_count()), (5, 2));

    let brief = ClientLimits { idle_ms_max: 20, ..limits() };
    let server = Server::start(brief, |_| Act::Write(ok("a"))).await;
    assert_eq!(server.ask("x").await.unwrap(), "a");
    server.until_closed().await;
    assert_eq!(server.client.0.pool.idle_count(), 0);
    let never = ClientLimits { idle_ms_max: 0, ..limits() };
    let server = Server::start(never, |_| Act::Write(ok("a"))).await;
    assert_eq!((server.ask("x").await.unwrap(), server.ask("x").await.unwrap()), ("a".into(), "a".into()));
    assert_eq!(server.accepted(), 2, "one whose time is over is not used, whether it is closed yet or not");
}

#[tokio::test]
async fn a_server_in_this_process_is_reached_without_a_socket() {
    let (listener, mut connections) = mpsc::channel(1);
    let url = Url::parse("http://nowhere.test/mcp").unwrap();
    let (origin, target) = (Origin::from_url(&url).unwrap(), RequestTarget::from_url(&url).unwrap());
    let client = HttpClient::reaching(origin, limits(), Some(listener)).unwrap();
    let served = tokio::spawn(async move {
        let mut pipe = connections.recv().await.unwrap();
        for answer in ["a", "b"] {
            let mut request = vec![0; 1024];
            let length = pipe.read(&mut request).await.unwrap();
            assert!(String::from_utf8_lossy(&request[..length]).ends_with("\r\n\r\nx"));
            pipe.write_all(&ok(answer)).await.unwrap();
        }
        connections
    });
    let ask = || async {
        let sending = client.send(Method::POST, &target, HeaderMap::new(), HttpRequestBody::bytes("x"));
        read(tokio::time::timeout(ANSWER_WAIT_MAX, sending).await.expect("an end in time")?).await
    };
    assert_eq!((ask().await.unwrap(), ask().await.unwrap()), ("a".into(), "b".into()), "on one connection");
    drop(served.await.unwrap());
    let error = ask().await.unwrap_err();
    assert!(error.is_connect(), "{error}");
}

#[tokio::test]
async fn without_a_server_nothing_is_sent() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = Url::parse(&format!("http://{address}/?token=t0p")).unwrap();
    let client = HttpClient::new(Origin::from_url(&url).unwrap(), limits()).unwrap();
    let parcel = Parcel::new("x");
    let body = HttpRequestBody::parcel(parcel.clone(), 1);
    let error =
        client.send(Method::POST, &RequestTarget::from_url(&url).unwrap(), HeaderMap::new(), body).await.unwrap_err();
    assert!(
        error.is_connect() && error.to_string().contains("refused") && !error.to_string().contains("t0p"),
        "{error}"
    );
    assert!(parcel.withdraw(), "it never left");
}

#[tokio::test]
async fn requests_share_an_http2_connection_and_one_that_ended_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
            let seen = format!("{} {:?}", request.uri(), request.headers().get(HOST));
            Ok::<_, Infallible>(hyper::Response::new(seen))
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let serving = serving.serve_connection(TokioIo::new(socket), service);
        tokio::select! {
            _ = serving => {}
            () = stopped.notified() => {}
        }
        // From now on the same address speaks HTTP/1.1.
        let (socket, _) = listener.accept().await.unwrap();
        serve(socket, &|_| Act::Write(ok("anew")), &Mutex::default()).await;
    });
    let client = HttpClient::new(Origin::from_url(&url).unwrap(), limits()).unwrap();
    let target = RequestTarget::from_url(&url).unwrap();
    let socket = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).await.unwrap();
    let (sender, connection) = hyper::client::conn::http2::handshake(
        TokioExecutor::new(),
        TokioIo::new(transport::OriginStream::Plain(socket)),
    )
    .await
    .unwrap();
    let connection = tokio::spawn(connection);
    client.0.pool.share(&sender);
    drop(sender);
    let ask = || async {
        let sent = client.send(Method::POST, &target, HeaderMap::new(), HttpRequestBody::bytes("x")).await;
        String::from_utf8(read(sent.unwrap()).await.unwrap().to_vec()).unwrap()
    };
    let answers = tokio::time::timeout(ANSWER_WAIT_MAX, async { tokio::join!(ask(), ask()) }).await.unwrap();
    assert_eq!(answers, (format!("{url} None"), format!("{url} None")));
    stop.notify_one();
    let _ = connection.await;
    assert_eq!(tokio::time::timeout(ANSWER_WAIT_MAX, ask()).await.unwrap(), "anew");
}
