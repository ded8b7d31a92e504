//! Deliveries to a real receiver on this machine, which checks every signature with its own code.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use servanda_approval::TicketNoticeKind;
use servanda_contract::{ToolContract, time::Clock as _, tool::TimeoutClass};
use servanda_effects::effect::EffectEnding;
use servanda_mcp::Era;
use servanda_upstream::{WebhookAddress, WebhookClient};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::super::{
    ApprovalWebhook, Callback, CallbackRetryPolicy, CallbackSubscription, Callbacks, SigningSecret, WebhookFormat,
    WebhookReceiver, deliveries,
};
use crate::{
    Engine, Gateway as _, RequestTerms, Requester, SystemClock,
    deferred::deliver,
    testing::{EngineHarness, ScriptedServer, call, draft, said, snapshot_of},
};

const KEY: &[u8] = b"123456789012345678901234";
const QUICK: CallbackRetryPolicy =
    CallbackRetryPolicy { attempts_max: 4, whole_ms_max: 60_000, first_wait_ms: 1, wait_ms_max: 5 };

/// A request that the receiver got.
#[derive(Debug, Clone, PartialEq)]
struct Got {
    path: String,
    id: String,
    body: Value,
}

/// A receiver that gives these answers one after the other and then 200. It refuses requests that are not signed.
async fn receiver(answers: &[&'static str]) -> (std::net::SocketAddr, mpsc::Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, got) = mpsc::channel(64);
    let answers: Arc<Mutex<Vec<&'static str>>> = Arc::new(Mutex::new(answers.iter().rev().copied().collect()));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (head, body) = request(&mut stream).await;
            let header = |name: &str| {
                let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
                line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned()).unwrap_or_default()
            };
            let id = header("webhook-id");
            let mut code = Hmac::<Sha256>::new_from_slice(KEY).unwrap();
            code.update(format!("{id}.{}.{body}", header("webhook-timestamp")).as_bytes());
            let expected = format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()));
            assert_eq!(header("webhook-signature"), expected);
            assert_eq!(header("content-type"), "application/json");
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let answer = answers.lock().unwrap().pop().unwrap_or("200 OK");
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            sender.send(Got { path, id, body: serde_json::from_str(&body).unwrap() }).await.unwrap();
        }
    });
    (address, got)
}

async fn request(stream: &mut tokio::net::TcpStream) -> (String, String) {
    let mut read = Vec::new();
    loop {
        let mut chunk = [0; 4_096];
        let count = stream.read(&mut chunk).await.unwrap();
        read.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8(read.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if Some(body.len()) == length {
                return (head.to_owned(), body.to_owned());
            }
        }
    }
}

fn receiver_at(address: std::net::SocketAddr) -> WebhookReceiver {
    WebhookReceiver {
        address: WebhookAddress::parse(&format!("http://{address}/hook")).unwrap(),
        secret: Some(SigningSecret::parse(std::str::from_utf8(KEY).unwrap()).unwrap()),
    }
}

fn callback(address: std::net::SocketAddr) -> Callback {
    Callback {
        subscription: CallbackSubscription {
            name: "books".to_owned(),
            on: BTreeSet::from([EffectEnding::Completed, EffectEnding::Failed, EffectEnding::Unknown]),
            tools: Vec::new(),
        },
        receiver: receiver_at(address),
    }
}

fn long(tool: &str, writes: bool) -> ToolContract {
    let mut contract = draft("up", tool, writes);
    contract.execution.as_mut().unwrap().timeout_class = TimeoutClass::LongRunning;
    contract
}

/// A gateway with a long tool that writes, a long tool that reads, and a short one.
fn harness(callback: Callback) -> EngineHarness {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async {
        Ok(said(Era::Modern, &json!({"content": [{"type": "text", "text": "the answer"}]})))
    });
    let mut short = draft("up", "short", true);
    short.execution.as_mut().unwrap().timeout_class = TimeoutClass::Standard;
    let mut snapshot = snapshot_of(&server, vec![long("write", true), long("echo", false), short]);
    snapshot.callbacks = Arc::new(Callbacks::new(vec![callback], Vec::new()));
    EngineHarness::in_snapshot(snapshot, Arc::default(), Arc::new(SystemClock))
}

/// Delivers until the returned token is cancelled.
fn delivering(engine: &Engine) -> (JoinHandle<()>, CancellationToken) {
    let (core, stop) = (Arc::clone(engine.core()), CancellationToken::new());
    let (transport, until) = (Arc::new(WebhookClient::new(5_000).unwrap()), stop.clone());
    (tokio::spawn(async move { deliver(&core, transport, QUICK, until).await }), stop)
}

async fn make(harness: &EngineHarness, tool: &str) {
    let request = call(&Requester::local(), tool, RequestTerms::default());
    let arguments = bytes::Bytes::from_static(br#"{"text":"the argument"}"#);
    harness.engine.call(crate::CallRequest { arguments, ..request }).await;
}

async fn pending(harness: &EngineHarness) -> Vec<super::CallbackDelivery> {
    deliveries(harness.notebook.as_ref(), SystemClock.now()).await.unwrap()
}

#[tokio::test]
async fn it_is_tried_until_the_receiver_takes_it_and_always_under_one_id() {
    let (address, mut got) = receiver(&["500 No", "302 Found\r\nlocation: /elsewhere", "503 Busy"]).await;
    let harness = harness(callback(address));
    let (task, stop) = delivering(&harness.engine);
    make(&harness, "write").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(got.recv().await.unwrap());
    }
    let record = harness.last_record();
    assert!(seen.iter().all(|one| *one == seen[0] && one.path == "/hook"), "{seen:?}");
    assert_eq!(seen[0].id, format!("msg_{}_completed", record.call_id));
    assert_eq!(seen[0].body["type"], "call.completed");
    assert_eq!(seen[0].body["data"]["effect_id"], json!(record.effect_id));
    assert_eq!(seen[0].body["data"]["answer_digest"], json!(record.answer_digest.unwrap().to_string()));
    let told = seen[0].body.to_string();
    assert!(!told.contains("the answer") && !told.contains("the argument"), "{told}");
    stop.cancel();
    task.await.unwrap();
    assert_eq!(pending(&harness).await, [], "what was taken is not kept");
}

#[tokio::test]
async fn long_calls_are_told_of_whatever_they_are_and_short_ones_are_not() {
    let (address, mut got) = receiver(&[]).await;
    let harness = harness(callback(address));
    make(&harness, "short").await;
    assert_eq!(pending(&harness).await, []);
    make(&harness, "echo").await;
    make(&harness, "write").await;
    let kept = pending(&harness).await;
    assert_eq!(kept.len(), 2, "it is on record before the answer is given: {kept:?}");
    assert!(kept.iter().all(|delivery| delivery.owner.is_none()), "this process does not deliver yet");
    let (task, stop) = delivering(&harness.engine);
    for _ in 0..2 {
        assert_eq!(got.recv().await.unwrap().body["type"], "call.completed");
    }
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_is_gone_or_never_takes_it_is_given_up_audibly() {
    for (answers, attempts) in [(vec!["410 Gone"], 1), (vec!["500 No"; 4], 4)] {
        let (address, mut got) = receiver(&answers).await;
        let harness = harness(callback(address));
        let (task, stop) = delivering(&harness.engine);
        make(&harness, "write").await;
        for _ in 0..attempts {
            got.recv().await.unwrap();
        }
        // The outcome of the last attempt is stored after the receiver answered it.
        let given_up = async {
            loop {
                match pending(&harness).await.pop() {
                    Some(delivery) if delivery.given_up_at.is_some() => return delivery,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        let given_up = tokio::time::timeout(std::time::Duration::from_secs(30), given_up).await.unwrap();
        assert_eq!(given_up.attempts, attempts);
        stop.cancel();
        task.await.unwrap();
        assert!(got.try_recv().is_err(), "nothing more was sent");
    }
}

/// A chat has no secret: its address is one. Whatever format, the same outbox delivers.
#[tokio::test]
async fn a_notice_about_a_ticket_is_delivered_with_or_without_a_signature() {
    let (address, mut got) = receiver(&["503 Service Unavailable"]).await;
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(said(Era::Modern, &json!({}))) });
    let mut write = draft("up", "write", true);
    write.transactional.confirmation_required = true;
    let mut snapshot = snapshot_of(&server, vec![write]);
    let webhook = |name: &str, format| ApprovalWebhook {
        name: name.to_owned(),
        tenant: None,
        groups: BTreeSet::new(),
        on: TicketNoticeKind::ALL.into(),
        format,
        receiver: receiver_at(address),
    };
    let webhooks = vec![webhook("standard", WebhookFormat::Standard), webhook("chat", WebhookFormat::Slack)];
    snapshot.callbacks = Arc::new(Callbacks::new(Vec::new(), webhooks));
    let harness = EngineHarness::in_snapshot(snapshot, Arc::default(), Arc::new(SystemClock));
    let (running, stop) = delivering(&harness.engine);
    let terms = RequestTerms { caller_wait_ms: Some(1), ..RequestTerms::default() };
    harness.engine.call(call(&Requester::local(), "write", terms)).await;
    let (first, second, third) = (got.recv().await.unwrap(), got.recv().await.unwrap(), got.recv().await.unwrap());
    let got = [first, second, third];
    assert!(got.iter().all(|got| got.id.starts_with("msg_apr_") && got.id.ends_with("_opened_1")), "{got:?}");
    let standard: Vec<&Got> = got.iter().filter(|got| got.body["type"] == "approval.opened").collect();
    let slack: Vec<&Got> = got.iter().filter(|got| got.body["blocks"].is_array()).collect();
    assert_eq!(standard.len() + slack.len(), 3, "one of them was refused once, and came again");
    assert!(!standard.is_empty() && !slack.is_empty());
    stop.cancel();
    running.await.unwrap();
}
