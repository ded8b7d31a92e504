//! Canary secrets, for threats T7 and T25: an upstream that repeats everything it gets, in every place and form, and a search through
//! everything that a person could read afterwards.
//!
//! Out of scope, as for the scrubber: a secret that is split over several texts, hashed or encrypted.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::{
    agent::Agent,
    collector::Collector,
    contract::{Contract, reads},
    gateway::Gateway,
    issuer::Issuer,
    world::{World, until},
};

const SERVER: &str = include_str!("echo.py");
/// Contains characters that every encoding writes differently.
const HEADER: &str = "canary-hdr/+\"7f3a%9~x";
const ARGUMENT: &str = "canary-arg/+\"81c2%4~\u{fc}";
const VARIABLE: &str = "canary-env/+\"c55d%2~z";
/// The credential that an agent sends to the gateway.
const INBOUND: &str = "canary-inbound-token-5d1e";

/// All ways in which the server repeats what it got.
const WAYS: [&str; 13] = [
    "text",
    "tool_error",
    "rpc_error",
    "log",
    "progress",
    "ask",
    "not_mcp",
    "malformed",
    "stderr",
    "500",
    "401",
    "403",
    "400",
];

/// The server over HTTP; it ends with the test.
struct Echo {
    child: Child,
    port: String,
}

impl Echo {
    #[expect(clippy::disallowed_methods, reason = "a black-box test starts the upstream as its users do")]
    fn start(world: &World) -> Self {
        world.write("upstream/echo.py", SERVER);
        let seen = world.path("upstream/web");
        let mut command = Command::new("python3");
        command.arg(world.path("upstream/echo.py")).arg("http").arg(&seen);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let port = until("the server to listen", || fs::read_to_string(world.path("upstream/web.port")).ok());
        Self { child, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(world: &World) -> Value {
    json!({ "command": "python3", "args": [world.path("upstream/echo.py"), "stdio", world.path("upstream/pipe")] })
}

fn contracts(world: &World, with_key: bool) {
    let names: &[&str] = if with_key { &["how", "api_key"] } else { &["how"] };
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    for upstream in ["web", "pipe"] {
        let closed = |tool: &str| -> Contract {
            let mut contract = reads(tool).input(names, &Value::Object(properties.clone())).of(upstream);
            contract.0["affordance"]["input_schema"]["additionalProperties"] = json!(false);
            contract.0["runtime"]["timeout_ms"] = json!(5_000);
            contract
        };
        world.add(&closed("echo"));
        world.add(&closed("strict").output(&json!({ "fine": { "type": "boolean" } })));
    }
}

/// Everything that the product wrote: to agents, to people, into files.
#[derive(Default)]
struct Heard(String);

impl Heard {
    fn hear(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// Every file of the world except the upstream's own, as bytes.
    fn hear_files(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            self.hear(&path.display().to_string());
            match path.file_name().and_then(|name| name.to_str()) {
                // The operator wrote these in plain text, as files and variables are.
                Some("upstream" | "argument.txt") => {}
                _ if path.is_dir() => self.hear_files(&path),
                _ => self.hear(&String::from_utf8_lossy(&fs::read(path).unwrap())),
            }
        }
    }

    /// Which of these secrets appear, in any form.
    fn hits(&self, secrets: &BTreeSet<String>) -> Vec<String> {
        let forms = secrets.iter().flat_map(|secret| forms(secret).into_iter().map(move |form| (secret, form)));
        forms
            .filter(|(_, form)| self.0.contains(form.as_str()))
            .map(|(secret, form)| format!("{secret} as {form}"))
            .collect()
    }
}

/// The forms of a secret in texts, without the text around it.
fn forms(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let json = serde_json::to_string(secret).unwrap();
    let json = json.trim_matches('"').to_owned();
    let percent = |keep: &str| -> String {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || keep.as_bytes().contains(byte);
        bytes
            .iter()
            .map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
            .collect()
    };
    let hex = servanda_contract::digest::hex(bytes);
    let mut forms =
        vec![secret.to_owned(), json.clone(), json.replace('\\', "\\\\"), percent("-_.~"), hex.to_uppercase(), hex];
    for before in ["", "x", "xy"] {
        let encoded = STANDARD.encode(format!("{before}{secret}")).replace('=', "");
        // Also without the characters that depend on the text beside it.
        forms.push(encoded[2 * before.len()..encoded.len() - 2].to_owned());
        forms.push(forms.last().unwrap().replace('+', "-").replace('/', "_"));
    }
    forms
}

/// Calls both servers in every way, as agents of both eras do, with a credential that the gateway does not require.
fn provoke(gateway: &Gateway, heard: &mut Heard, key: Option<&str>) {
    let agents = [gateway.modern(), gateway.able(&json!({ "elicitation": {} }))];
    provoke_as(&agents, Some(INBOUND), heard, key);
}

/// The same with these agents, some of which have their own credential.
fn provoke_as(agents: &[Agent], inbound: Option<&str>, heard: &mut Heard, key: Option<&str>) {
    for agent in agents {
        for upstream in ["web", "pipe"] {
            for tool in ["echo", "strict"] {
                for how in WAYS {
                    let mut arguments = json!({ "how": how });
                    if let Some(key) = key {
                        arguments["api_key"] = json!(key);
                    }
                    let params = json!({
                        "name": format!("{upstream}__{tool}"),
                        "arguments": arguments,
                        "_meta": { "progressToken": 7, "io.modelcontextprotocol/logLevel": "debug", "x/mine": "kept" },
                    });
                    let mut question = agent.question("question", "tools/call", params);
                    if let Some(inbound) = inbound {
                        question = question.with("authorization", &format!("Bearer {inbound}"));
                    }
                    heard.hear(&agent.exchange(&question).text());
                }
            }
        }
        for (method, params) in [
            ("tools/list", json!({})),
            ("resources/list", json!({})),
            ("prompts/list", json!({})),
            ("resources/read", json!({ "uri": "web+echo://one" })),
            ("prompts/get", json!({ "name": "web__one" })),
            ("prompts/get", json!({ "name": "pipe__one" })),
        ] {
            heard.hear(&agent.begin("question", method, params).text());
        }
    }
}

/// Makes a server die during a call.
fn crash(gateway: &Gateway, heard: &mut Heard, key: Option<&str>) {
    for tool in ["web__echo", "pipe__echo"] {
        let mut arguments = json!({ "how": "crash" });
        if let Some(key) = key {
            arguments["api_key"] = json!(key);
        }
        heard.hear(&gateway.modern().call(tool, arguments).raw);
    }
}

/// What the servers got.
fn seen(world: &World) -> BTreeSet<String> {
    let files =
        ["web", "pipe"].map(|name| fs::read_to_string(world.path(&format!("upstream/{name}"))).unwrap_or_default());
    files.iter().flat_map(|file| file.lines()).map(|line| serde_json::from_str::<String>(line).unwrap()).collect()
}

/// The output of commands that people use afterwards.
fn look_afterwards(world: &World, heard: &mut Heard) {
    for args in [
        &["-vv", "explain", "--json"][..],
        &["-vv", "explain", "--last", "--json"],
        &["-vv", "explain", "--last", "--quarantined"],
        &["-vv", "tools", "--json"],
        &["-vv", "doctor"],
        &["-vv", "check", "--json"],
        &["-vv", "pin", "--all", "--yes"],
        &["-vv", "pins", "--json"],
        &["-vv", "diff"],
        &["secret", "list"],
        &["secret", "list", "--json"],
        &["secret", "jwks"],
        &["-vv", "call", "web__echo", r#"{"how":"crash"}"#],
        &["-vv", "call", "pipe__echo", r#"{"how":"crash"}"#],
        &["schema", "config"],
    ] {
        let ran = world.run_with_env(args, &[("VARIABLE_OF_PIPE", VARIABLE)]);
        heard.hear(&ran.everything());
    }
    let records: Vec<String> = {
        let ledger = rusqlite::Connection::open(world.ledger()).unwrap();
        let mut ids = ledger.prepare("select call_id from calls").unwrap();
        ids.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert!(!records.is_empty());
    for call_id in records {
        heard.hear(&world.run(&["explain", &call_id, "--json", "--quarantined"]).everything());
        heard.hear(&world.run(&["-vv", "audit", "prove", &call_id, "--json"]).everything());
    }
    for args in [
        &["-vv", "calls", "--json", "--limit", "1000"][..],
        &["-vv", "calls", "--csv", "--limit", "1000"],
        &["-vv", "audit", "export"],
        &["-vv", "audit", "search", "--since", "1d", "--limit", "1000"],
        &["-vv", "audit", "copy", "copied-log"],
    ] {
        heard.hear(&world.run(args).everything());
    }
}

/// Lets processes of this test write core files, if the machine allows it.
fn allow_core_files() {
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: maximum, maximum }).unwrap();
}

#[test]
fn t25_secrets_in_logs_traces_errors() {
    allow_core_files();
    let world = World::empty();
    let echo = Echo::start(&world);
    let mut pipe = program(&world);
    pipe["credential"] = json!([
        { "secret": "env:VARIABLE_OF_PIPE", "env": "API_KEY" },
        { "secret": "file:argument.txt", "argument": "/api_key" },
    ]);
    let web = json!({ "url": echo.url(), "credential": [
        { "secret": "store:web-token", "header": "Authorization", "format": "Bearer {}" },
        { "secret": "file:argument.txt", "argument": "/api_key" },
        { "statement": { "header": "X-Servanda-Call" } },
    ]});
    world.configure(&json!({ "web": web, "pipe": pipe }));
    let collector = Collector::start();
    // The collector is shown a secret of its own; its spans have none of them.
    let traces =
        json!({ "endpoint": collector.endpoint(), "credential": { "secret": "file:argument.txt", "header": "x-key" } });
    world.change_config(|config| config["telemetry"] = json!({ "traces": traces }));
    contracts(&world, false);
    world.write_private("argument.txt", &format!("{ARGUMENT}\n"));
    let mut heard = Heard::default();
    heard.hear(
        &world.run_with_input(&["-vv", "secret", "set", "web-token"], &format!("{HEADER}\n")).ended(0).everything(),
    );

    let gateway = world.serve_with(&["-vv"], &[("VARIABLE_OF_PIPE", VARIABLE)]);
    provoke(&gateway, &mut heard, None);
    crash(&gateway, &mut heard, None);
    // A value that an agent sends for a hidden argument is refused before anything is sent.
    let brought = gateway.modern().call("web__echo", json!({ "how": "text", "api_key": "mine" })).refusal();
    assert_eq!(brought["error_code"], "STRUCTURAL_VIOLATION", "{brought}");
    let listed = gateway.modern().ask("tools/list", json!({})).raw;
    assert!(listed.contains("\"how\"") && !listed.contains("api_key"), "{listed}");
    // A process that crashes, whose memory would be in a core file.
    assert_eq!(gateway.core_file_bytes_max(), "0");
    until("spans of both servers to arrive", || {
        let spans = collector.received();
        ["tools/call web__echo", "tools/call pipe__strict"].iter().all(|span| spans.contains(span)).then_some(())
    });
    gateway.signal(Signal::ABORT);
    heard.hear(&gateway.into_said());
    look_afterwards(&world, &mut heard);
    heard.hear_files(&world.path("."));
    heard.hear(&collector.received());

    // Everything arrived: canaries of every kind, and a separate statement with each call.
    let seen = seen(&world);
    let statements: Vec<&String> = seen.iter().filter(|one| one.matches('.').count() == 2).collect();
    assert!(statements.len() > 20, "{} statements", statements.len());
    let canaries = [format!("Bearer {HEADER}"), ARGUMENT.to_owned(), VARIABLE.to_owned()];
    assert!(canaries.iter().all(|canary| seen.contains(canary)), "{seen:?}");
    assert!(heard.0.contains("[redacted]"));

    let mut wanted: BTreeSet<String> = [HEADER, ARGUMENT, VARIABLE].map(str::to_owned).into();
    // Only a statement's signature is secret, not its content.
    wanted.extend(statements.iter().map(|one| one.rsplit('.').next().unwrap().to_owned()));
    assert_eq!(heard.hits(&wanted), Vec::<String>::new());

    // T7: nothing of the inbound credential was passed on or stored.
    let requests = fs::read_to_string(world.path("upstream/web.requests")).unwrap();
    assert!(requests.contains("x/mine") && requests.contains("canary-hdr"));
    heard.hear(&requests);
    assert_eq!(heard.hits(&[INBOUND.to_owned()].into()), Vec::<String>::new());
}

/// The same server and the same search with values that are not credentials, so that nothing is scrubbed from answers: this proves that the
/// search finds them.
#[test]
fn t25_the_search_finds_what_is_not_scrubbed() {
    let world = World::empty();
    let echo = Echo::start(&world);
    let mut pipe = program(&world);
    pipe["env"] = json!({ "API_KEY": VARIABLE });
    let web = json!({ "url": echo.url(), "headers": { "X-Plain": HEADER } });
    world.configure(&json!({ "web": web, "pipe": pipe }));
    contracts(&world, true);
    let mut heard = Heard::default();
    let gateway = world.serve_with(&["-vv"], &[]);
    provoke(&gateway, &mut heard, Some(ARGUMENT));
    crash(&gateway, &mut heard, Some(ARGUMENT));
    drop(gateway);
    heard.hear_files(&world.path("."));
    for secret in [HEADER, ARGUMENT, VARIABLE] {
        let hits = heard.hits(&[secret.to_owned()].into());
        assert!(hits.len() > 5, "{secret}: {hits:?}");
    }
}

#[test]
fn t7_token_passthrough() {
    let world = World::empty();
    let echo = Echo::start(&world);
    world.configure(&json!({ "web": { "url": echo.url() }, "pipe": program(&world) }));
    contracts(&world, true);
    let gateway = world.serve_with(&["-vv"], &[]);
    let mut heard = Heard::default();
    provoke(&gateway, &mut heard, Some("some-argument"));
    drop(gateway);
    let requests = fs::read_to_string(world.path("upstream/web.requests")).unwrap();
    assert!(requests.contains("x/mine"), "the rest of `_meta` is passed on");
    assert!(!requests.to_lowercase().contains("\"authorization\""), "no header of the agent's is passed on");
    heard.hear(&requests);
    heard.hear_files(&world.path("."));
    assert_eq!(heard.hits(&[INBOUND.to_owned()].into()), Vec::<String>::new());
}

/// The credentials that are not passed on must be real: the gateway requires them and accepts these.
#[test]
fn t7_credentials_that_are_accepted_are_not_passed_on() {
    let world = World::empty();
    let echo = Echo::start(&world);
    let issuer = Issuer::start();
    world.configure(&json!({ "web": { "url": echo.url() }, "pipe": program(&world) }));
    contracts(&world, true);
    world.change_config(|config| config["auth"] = json!({ "mode": "required", "issuers": [issuer.config()] }));
    let gateway = world.serve_with(&["-vv"], &[]);
    let (key, _) = world.key("acme", "ada", &["company:read"], &[]);
    let token = issuer.token(&gateway.resource(), &json!({}));
    let delegated = world.delegated(&key, &["--agent", "helper"]);
    let delegated = delegated["credential"].as_str().unwrap().to_owned();
    let mut heard = Heard::default();
    let requests = || fs::read_to_string(world.path("upstream/web.requests")).unwrap_or_default();
    let agents = [gateway.bearing(&key), Agent::legacy_bearing(gateway.address, &token), gateway.bearing(&delegated)];
    for agent in agents {
        let before = requests().matches("tools/call").count();
        provoke_as(&[agent], None, &mut heard, Some("some-argument"));
        let arrived = requests().matches("tools/call").count() - before;
        assert!(arrived >= WAYS.len(), "{arrived} calls arrived");
    }
    assert_eq!(gateway.knock(INBOUND).0, 401, "another one is not let in");
    gateway.terminate();
    heard.hear(&gateway.into_said());
    look_afterwards(&world, &mut heard);
    let requests = requests();
    assert!(!requests.to_lowercase().contains("\"authorization\""), "no header of the agent's is passed on");
    heard.hear(&requests);
    heard.hear(&fs::read_to_string(world.path("upstream/pipe")).unwrap_or_default());
    heard.hear_files(&world.path("."));
    // Of a signed token, only the signature is secret.
    let signature = token.rsplit('.').next().unwrap().to_owned();
    assert_eq!(heard.hits(&[key, token, signature, delegated].into()), Vec::<String>::new());
}

const CLIENT_SECRET: &str = "canary-client/+7f3a~secret";

/// An authorization server whose every token is another canary; with what it issued and received.
#[derive(Clone, Default)]
struct TokenServer {
    url: String,
    issued: Arc<Mutex<BTreeSet<String>>>,
    sent: Arc<Mutex<String>>,
}

impl TokenServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { url: format!("http://{}", listener.local_addr().unwrap()), ..Self::default() };
        let serving = server.clone();
        thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(|stream| serving.serve(stream)));
        server
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
        let length =
            head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        let _ = reader.read_exact(&mut body);
        let (status, answer) = match head.split(' ').nth(1) {
            Some("/.well-known/oauth-authorization-server") => {
                (200, json!({ "issuer": self.url, "token_endpoint": format!("{}/token", self.url) }))
            }
            Some("/token") => {
                self.sent.lock().unwrap().push_str(&head);
                let mut issued = self.issued.lock().unwrap();
                let token = format!("canary-oauth/+%9~\"{:04}x", issued.len());
                issued.insert(token.clone());
                (200, json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600 }))
            }
            _ => (404, json!({})),
        };
        let answer = answer.to_string();
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        let _ = stream.write_all((head + &answer).as_bytes());
    }
}

#[test]
fn t25_tokens_of_authorization_servers_are_never_repeated() {
    let world = World::empty();
    let (echo, tokens) = (Echo::start(&world), TokenServer::start());
    let oauth = json!({
        "flow": "client_credentials", "issuer": tokens.url, "client_id": "us", "client_secret": "store:client-secret",
    });
    let web = json!({ "url": echo.url(), "credential": { "oauth": oauth } });
    world.configure(&json!({ "web": web, "pipe": program(&world) }));
    contracts(&world, true);
    let mut heard = Heard::default();
    let kept = world.run_with_input(&["-vv", "secret", "set", "client-secret"], CLIENT_SECRET).ended(0);
    heard.hear(&kept.everything());
    let gateway = world.serve_with(&["-vv"], &[]);
    provoke(&gateway, &mut heard, Some("some-argument"));
    crash(&gateway, &mut heard, Some("some-argument"));
    gateway.terminate();
    heard.hear(&gateway.into_said());
    look_afterwards(&world, &mut heard);
    heard.hear_files(&world.path("."));
    let issued = tokens.issued.lock().unwrap().clone();
    let seen = seen(&world);
    let arrived = issued.iter().filter(|token| seen.contains(&format!("Bearer {token}"))).count();
    assert!(arrived > 2, "{arrived} of {} tokens arrived", issued.len());
    assert!(heard.0.contains("[redacted]"));
    let encoded =
        STANDARD.encode(format!("us:{}", CLIENT_SECRET.replace('/', "%2F").replace('+', "%2B").replace('~', "%7E")));
    let sent = tokens.sent.lock().unwrap().clone();
    assert!(sent.contains(&encoded), "the authorization server was shown the secret: {sent}");
    let mut wanted = issued;
    wanted.insert(CLIENT_SECRET.to_owned());
    assert_eq!(heard.hits(&wanted), Vec::<String>::new());
}
