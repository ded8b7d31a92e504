//! Callbacks from outside: a receiver on this machine that checks signatures with its own code, a gateway that is killed before it learns
//! that the receiver has the event, and the command line.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    contract::{get_invoice, slow_change},
    received::Received,
    snapshot::Page,
    world::{PATIENCE, World, until},
};

/// The gateway's signing secret, as it is in the environment.
const SECRET: &str = "whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0";
const KEY: &[u8] = b"123456789012345678901234";

/// A request that a receiver got.
#[derive(Debug, Clone, PartialEq)]
struct Got {
    path: String,
    id: String,
    body: Value,
}

/// A receiver. It answers each request with the next of the answers, and not at all if there is none.
struct Receiver {
    address: SocketAddr,
    got: mpsc::Receiver<Got>,
    answers: mpsc::Sender<Option<&'static str>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, got) = mpsc::channel();
        let (answers, next) = mpsc::channel();
        thread::spawn(move || {
            // An unanswered connection stays open until the gateway is gone.
            let mut open = Vec::new();
            for mut stream in listener.incoming().map_while(Result::ok) {
                let Some(got) = read(&mut stream) else { continue };
                let Ok(answer) = next.recv() else { return };
                if let Some(answer) = answer {
                    let head = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                    stream.write_all(head.as_bytes()).unwrap();
                } else {
                    open.push(stream);
                }
                if sender.send(got).is_err() {
                    return;
                }
            }
        });
        Self { address, got, answers }
    }

    /// The next request that it gets, with this answer.
    fn answer(&self, answer: Option<&'static str>) -> Got {
        self.answers.send(answer).unwrap();
        self.got.recv_timeout(PATIENCE).unwrap()
    }
}

/// Reads a request, if there is one; its signature must be valid.
fn read(stream: &mut TcpStream) -> Option<Got> {
    let received = Received::read(stream)?;
    let (id, body) = (received.header("webhook-id").unwrap(), &received.body);
    let mut code = Hmac::<Sha256>::new_from_slice(KEY).unwrap();
    code.update(format!("{id}.{}.{body}", received.header("webhook-timestamp").unwrap()).as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()));
    assert_eq!(received.header("webhook-signature").unwrap(), signature);
    let path = received.line()?.split(' ').nth(1)?.to_owned();
    Some(Got { path, id, body: serde_json::from_str(body).unwrap() })
}

/// The company with a long tool and a receiver.
fn company(receiver: &Receiver) -> World {
    let world = World::company([slow_change()]).unpinned();
    let url = format!("http://{}/hook/t0p", receiver.address);
    world.change_config(|config| {
        config["callbacks"] = json!([{ "name": "books", "url": url, "secret": format!("${{HOOK:-{SECRET}}}") }]);
    });
    world
}

fn deliveries(world: &World) -> Vec<Value> {
    let listed = world.run(&["callbacks", "--json"]).ended(0);
    assert_hidden(&format!("{}{}", listed.stdout, listed.stderr));
    listed.json()["deliveries"].as_array().unwrap().clone()
}

/// Neither the secret nor the address, which may contain a secret.
#[track_caller]
fn assert_hidden(text: &str) {
    for secret in [SECRET, &SECRET[6..], "123456789012345678901234", "t0p"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn what_was_not_delivered_when_the_gateway_was_killed_is_delivered_after_a_restart() {
    let receiver = Receiver::start();
    let world = company(&receiver);
    let gateway = world.serve();
    let called = gateway.modern().call("company__misbehave_slow", json!({ "milliseconds": 1 }));
    called.success();
    let first = receiver.answer(None);
    assert_eq!(deliveries(&world).len(), 1);
    assert_hidden(&gateway.said());
    gateway.kill();

    let gateway = world.serve();
    let second = receiver.answer(Some("200 OK"));
    assert_eq!(second, first, "the same event under the same id");
    assert_eq!((first.path.as_str(), &first.body["type"]), ("/hook/t0p", &json!("call.completed")));
    assert_eq!(first.id, format!("msg_{}_completed", called.call_id()));
    let record = world.record(&called.call_id());
    for member in ["call_id", "effect_id", "tool", "outcome", "answer_digest"] {
        assert_eq!(first.body["data"][member], record[member], "{member}");
    }
    until("the delivery to be over", || deliveries(&world).is_empty().then_some(()));
    assert_hidden(&gateway.said());
}

#[test]
fn an_unknown_end_and_the_person_who_settles_it_are_told() {
    let receiver = Receiver::start();
    let world = company(&receiver);
    let slow = r#"{"milliseconds": 5000}"#;
    let ran = world.run(&["call", "company__misbehave_slow", slow, "--timeout-ms", "2000"]).ended(4);
    assert_hidden(&format!("{}{}", ran.stdout, ran.stderr));
    let kinds = |world: &World| {
        let mut kinds: Vec<Value> = deliveries(world).iter().map(|delivery| delivery["event_type"].clone()).collect();
        kinds.sort_by_key(ToString::to_string);
        kinds
    };
    assert_eq!(kinds(&world), [json!("call.outcome_unknown")], "written down before the answer was given");
    let effects = world.run(&["effects", "--json"]).ended(0).json();
    let handle = effects[0]["id"].as_str().unwrap().to_owned();
    world.run(&["effects", "settle", &handle, "--as", "completed", "--evidence", "the books"]).ended(0);
    assert_eq!(kinds(&world), [json!("call.completed"), json!("call.outcome_unknown")]);
    let page = world.run(&["callbacks"]).ended(0);
    assert!(page.stdout.contains("pending") && page.stderr.contains("hint: "), "{page:?}");

    let gateway = world.serve();
    let mut told: Vec<Value> =
        [Some("204 No Content"); 2].map(|answer| receiver.answer(answer).body["type"].clone()).into();
    told.sort_by_key(ToString::to_string);
    assert_eq!(told, [json!("call.completed"), json!("call.outcome_unknown")]);
    until("the deliveries to be over", || deliveries(&world).is_empty().then_some(()));
    assert_hidden(&gateway.said());
}

#[test]
fn a_test_event_says_what_came_back_and_follows_no_redirect() {
    let receiver = Receiver::start();
    let world = company(&receiver);
    let table = [
        ("200 OK", 0, "status 200", ""),
        ("302 Found\r\nlocation: /elsewhere", 1, "status 302", "redirects are not followed"),
        ("401 Unauthorized", 1, "status 401", "another secret"),
        ("410 Gone", 1, "status 410", "take the callback out"),
        ("503 Busy", 1, "status 503", "tried again later"),
    ];
    for (answer, code, said, hint) in table {
        receiver.answers.send(Some(answer)).unwrap();
        let ran = world.run(&["callbacks", "test", "books"]).ended(code);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains(said) && text.contains(hint), "{text}");
        assert_hidden(&text);
        let got = receiver.got.recv_timeout(PATIENCE).unwrap();
        assert_eq!((got.path.as_str(), &got.body["type"]), ("/hook/t0p", &json!("servanda.test")));
    }
    assert!(receiver.got.try_recv().is_err(), "nothing else was sent");
    let ran = world.run(&["callbacks", "test", "nobody"]).ended(2);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
}

#[test]
fn bad_callbacks() {
    let good = json!({ "name": "books", "url": "https://example.com/t0p", "secret": "${HOOK}" });
    let with = |member: &str, value: Value| {
        let mut changed = good.clone();
        changed[member] = value;
        json!([changed])
    };
    let mut without = good.clone();
    without.as_object_mut().unwrap().remove("secret");
    let world = World::empty();
    let mut page = Page::new(&world);
    for (heading, callbacks) in [
        ("not https", with("url", json!("http://example.com/t0p"))),
        ("no url", with("url", json!("example.com"))),
        ("another scheme", with("url", json!("ftp://127.0.0.1/t0p"))),
        ("a password in it", with("url", json!("https://ada:t0p@example.com/"))),
        ("no secret", json!([without])),
        ("an empty secret", with("secret", json!(""))),
        ("the secret itself", with("secret", json!(SECRET))),
        ("a variable that is not set", with("secret", json!("${NO_SUCH_SECRET}"))),
        ("a short secret", with("secret", json!("${SHORT:-12345678901234567890123}"))),
        ("no base64", with("secret", json!("${BROKEN:-whsec_123456789012345678901234!}"))),
        ("two of one name", json!([good, good])),
        ("no name", with("name", json!("a b"))),
        ("an unknown end", with("on", json!(["done"]))),
        ("no end", with("on", json!([]))),
        ("an unknown field", with("secrets", json!(SECRET))),
        ("a number for a secret", with("secret", json!(123_456_789_012_345_678_u64))),
    ] {
        let upstreams = json!({ "company": { "command": "touch", "args": ["it-was-started"] } });
        world.configure_with(&json!({ "servanda": 1, "upstreams": upstreams, "callbacks": callbacks }));
        world.add(&get_invoice());
        page.head(heading);
        let ran = world.run_with_env(&["check"], &[("HOOK", SECRET)]).ended(2);
        page.show("check", &ran);
        assert!(ran.stderr.contains("servanda.yaml") && ran.stderr.contains("hint: "), "{}", ran.stderr);
        assert_hidden(&format!("{}{}", ran.stdout, ran.stderr));
        let served = world.run_with_env(&["serve", "--listen", "127.0.0.1:0"], &[("HOOK", SECRET)]).ended(2);
        assert_hidden(&served.stderr);
        assert!(!world.has("it-was-started") && !world.has(".servanda"), "{heading}");
    }
    page.compare("bad_callbacks");
    let upstreams = json!({ "company": { "command": "touch", "args": ["it-was-started"] } });
    world.configure_with(&json!({ "servanda": 1, "upstreams": upstreams, "callbacks": [good] }));
    world.run_with_env(&["check"], &[("HOOK", SECRET)]).ended(0);
}

/// The gateway is killed before the receiver answers; the next one tells the same, and what people decide while no gateway runs.
#[test]
fn people_are_told_that_a_call_waits_and_what_became_of_it() {
    let receiver = Receiver::start();
    let world = World::company([slow_change().confirmed()]).unpinned();
    let url = format!("http://{}/hook/t0p", receiver.address);
    world.change_config(|config| {
        let people = json!([{ "name": "people", "url": url, "secret": format!("${{HOOK:-{SECRET}}}") }]);
        config["approvals"] = json!({ "notify": people, "wait_ms_max": 0, "console_url": "https://gateway.example/" });
    });
    let gateway = world.serve();
    let refusal = gateway.modern().call("company__misbehave_slow", json!({ "milliseconds": 1 })).refusal();
    assert_eq!(refusal["gate"], "confirmation", "{refusal}");
    let first = receiver.answer(None);
    assert_hidden(&gateway.said());
    gateway.kill();
    let ticket = first.body["data"]["ticket"].as_str().unwrap().to_owned();
    assert_eq!(first.body["type"], json!("approval.opened"));
    assert_eq!(first.body["data"]["url"], json!(format!("https://gateway.example/approvals/{ticket}")));
    let listed = world.run(&["callbacks"]).ended(0);
    assert!(listed.stdout.contains("every ticket") && listed.stdout.contains("approval opened"), "{listed:?}");

    let gateway = world.serve();
    assert_eq!(receiver.answer(Some("200 OK")), first, "the same message under the same id");
    until("the delivery to be over", || deliveries(&world).is_empty().then_some(()));
    assert_hidden(&gateway.said());
}

#[test]
fn bad_receivers_of_notices() {
    let good = json!({ "name": "people", "url": "https://example.com/t0p", "secret": "${HOOK}" });
    let with = |member: &str, value: Value| {
        let mut changed = good.clone();
        changed[member] = value;
        json!([changed])
    };
    let mut unsigned = good.clone();
    unsigned.as_object_mut().unwrap().remove("secret");
    let world = World::empty();
    let mut page = Page::new(&world);
    for (heading, notify) in [
        ("not https", with("url", json!("http://example.com/t0p"))),
        ("standard without a secret", json!([unsigned])),
        ("the secret itself", with("secret", json!(SECRET))),
        ("two of one name", json!([good, good])),
        ("the name of a callback", with("name", json!("books"))),
        ("no name", with("name", json!("a b"))),
        ("an unknown notice", with("on", json!(["approved"]))),
        ("no notice", with("on", json!([]))),
        ("an unknown format", with("format", json!("irc"))),
    ] {
        let upstreams = json!({ "company": { "command": "touch", "args": ["it-was-started"] } });
        let callbacks = json!([{ "name": "books", "url": "https://example.com/", "secret": "${HOOK}" }]);
        let approvals = json!({ "notify": notify });
        world.configure_with(
            &json!({ "servanda": 1, "upstreams": upstreams, "callbacks": callbacks, "approvals": approvals }),
        );
        world.add(&get_invoice());
        page.head(heading);
        let ran = world.run_with_env(&["check"], &[("HOOK", SECRET)]).ended(2);
        page.show("check", &ran);
        assert!(ran.stderr.contains("servanda.yaml") && ran.stderr.contains("hint: "), "{}", ran.stderr);
        assert_hidden(&format!("{}{}", ran.stdout, ran.stderr));
        assert!(!world.has("it-was-started") && !world.has(".servanda"), "{heading}");
    }
    page.compare("bad_notices");
    unsigned["format"] = json!("slack");
    let upstreams = json!({ "company": { "command": "touch", "args": ["it-was-started"] } });
    world.configure_with(&json!({ "servanda": 1, "upstreams": upstreams, "approvals": { "notify": [unsigned] } }));
    world.run(&["check"]).ended(0);
}
