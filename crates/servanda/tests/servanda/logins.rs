//! Logins from outside: an MCP server that requires tokens and the authorization server that issues them, both on this machine; a user who
//! agrees and one who does not. No token is ever visible.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

use crate::{
    contract::changes,
    world::{World, read_aside, wait_for},
};

/// The issued token: if it is found anywhere, it has leaked.
const TOKEN: &str = "canary-access-token-7f3a";
const REFRESH: &str = "canary-refresh-token-91bc";

/// Both servers in one, with the requests they got: method, path, and whether the token was sent.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = serving.clone();
                thread::spawn(move || serving.serve(stream));
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The requests since the last look.
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            if line.trim_end().is_empty() {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let header = |name: &str| {
            let found = head.iter().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")));
            found.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned())
        };
        let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).ok()?;
        let mut words = head.first()?.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let token = header("authorization").is_some_and(|value| value == format!("Bearer {TOKEN}"));
        let (status, more, answer) = self.answer(method, target, token, &String::from_utf8(body).ok()?);
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n"
        );
        stream.write_all((head + &answer).as_bytes()).ok()
    }

    fn answer(&self, method: &str, target: &str, token: bool, body: &str) -> (&'static str, String, String) {
        let origin = format!("http://{}", self.address);
        let path = target.split('?').next().unwrap_or_default();
        let ok = |value: &Value| ("200 OK", String::new(), value.to_string());
        match (method, path) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                ok(&json!({"resource": self.url(), "authorization_servers": [origin], "scopes_supported": ["pay"]}))
            }
            ("GET", "/.well-known/oauth-authorization-server") => ok(&json!({
                "issuer": origin,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            })),
            ("POST", "/register") => ("201 Created", String::new(), json!({"client_id": "us"}).to_string()),
            ("POST", "/token") => ok(
                &json!({"access_token": TOKEN, "token_type": "Bearer", "refresh_token": REFRESH, "expires_in": 3600}),
            ),
            ("POST", "/mcp") => self.mcp(token, &serde_json::from_str(body).unwrap()),
            _ => ("404 Not Found", String::new(), String::new()),
        }
    }

    fn mcp(&self, token: bool, message: &Value) -> (&'static str, String, String) {
        let method = message["method"].as_str().unwrap_or_default();
        self.seen.lock().unwrap().push(format!("{method}{}", if token { " with the token" } else { "" }));
        if !token {
            let challenge = "www-authenticate: Bearer scope=\"pay\"\r\n".to_owned();
            return ("401 Unauthorized", challenge, String::new());
        }
        let result = match method {
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
            }
            "tools/list" => json!({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}),
            // A server that repeats the token it got.
            "tools/call" => json!({"content": [{"type": "text", "text": format!("paid with {TOKEN}")}]}),
            _ if message.get("id").is_none() => return ("202 Accepted", String::new(), String::new()),
            _ => {
                let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}});
                return ("200 OK", String::new(), error.to_string());
            }
        };
        ("200 OK", String::new(), json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
    }
}

fn world(server: &Server) -> World {
    let world = World::empty();
    world.configure(&json!({ "crm": { "url": server.url(), "credential": { "oauth": {} } } }));
    world.add(&changes("pay").of("crm"));
    world.unpinned()
}

/// A request to the port that waits for the browser.
fn visit(redirect: &str, query: &str) -> String {
    let (address, path) = redirect.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path}?{query} HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

/// A query parameter of a URL.
fn parameter(address: &str, name: &str) -> String {
    let query = address.split_once('?').unwrap().1;
    let found = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    found.unwrap_or_else(|| panic!("no `{name}` in {address}")).replace("%3A", ":").replace("%2F", "/")
}

/// Logs in while another user of the machine interferes. Returns everything that was printed.
fn log_in(world: &World, server: &Server, args: &[&str]) -> String {
    let mut command = world.command(&[&["login", "crm", "--json"], args].concat());
    let mut login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = read_aside(login.stderr.take().unwrap());
    let mut stdout = BufReader::new(login.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let opened: Value = serde_json::from_str(&line).unwrap();
    let address = opened["open"].as_str().unwrap();
    assert_eq!(parameter(address, "code_challenge_method"), "S256");
    assert_eq!(parameter(address, "resource"), server.url());
    assert_eq!(parameter(address, "scope"), "pay");
    let (redirect, state) = (parameter(address, "redirect_uri"), parameter(address, "state"));
    assert_eq!(visit(&redirect, "code=stolen&state=guessed"), "HTTP/1.1 400 Bad Request");
    assert_eq!(visit(&redirect.replace("callback", "favicon.ico"), ""), "HTTP/1.1 404 Not Found");
    let good = format!("code=c&state={state}&iss=http%3A%2F%2F{}", server.address);
    assert_eq!(visit(&redirect, &good), "HTTP/1.1 200 OK");
    stdout.read_to_string(&mut line).unwrap();
    assert_eq!(wait_for(&mut login), Some(0), "{line}");
    line + &stderr.join().unwrap()
}

/// The files below a folder that contain a canary.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(leaks(&path));
        } else if fs::read(&path).is_ok_and(|bytes| {
            let holds = |canary: &str| bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            holds(TOKEN) || holds(REFRESH)
        }) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn t13_a_user_agrees_and_takes_it_back_and_no_token_is_to_be_seen() {
    let server = Server::start();
    let world = world(&server);
    let mut printed = String::new();
    let refused = world.call("crm__pay", "{}").ended(3);
    assert!(refused.stderr.contains("servanda login crm"), "{}", refused.stderr);
    assert_eq!(server.seen(), Vec::<String>::new(), "nothing was sent");
    printed += &log_in(&world, &server, &[]);
    assert!(!server.seen().iter().any(|seen| seen.contains("token")));
    let paid = world.call("crm__pay", "{}").ended(0);
    assert!(server.seen().iter().any(|seen| seen == "tools/call with the token"));
    let call_id = paid.call_id();
    printed += &paid.everything();
    printed += &world.run(&["explain", &call_id, "--json"]).ended(0).everything();
    let logins = world.run(&["logins", "--json"]).ended(0);
    let listed = logins.json();
    assert_eq!((listed[0]["upstream"].as_str(), listed[0]["renews"].as_bool()), (Some("crm"), Some(true)));
    assert_eq!(listed[0]["scopes"], json!(["pay"]));
    printed += &logins.everything();
    printed += &world.run(&["logins"]).ended(0).everything();
    assert!(!printed.contains(TOKEN) && !printed.contains(REFRESH), "{printed}");
    assert_eq!(leaks(&world.path("")), Vec::<String>::new());
    world.run(&["logout", "crm"]).ended(0);
    server.seen();
    world.call("crm__pay", "{}").ended(3);
    assert_eq!(server.seen(), Vec::<String>::new());
    assert_eq!(world.run(&["logins", "--json"]).ended(0).json(), json!([]));
}

#[test]
fn t13_what_one_user_agreed_to_is_not_anothers() {
    let server = Server::start();
    let world = world(&server);
    log_in(&world, &server, &["--user", "acme/ada"]);
    let refused = world.call("crm__pay", "{}").ended(3);
    assert!(refused.stderr.contains("servanda login crm"), "{}", refused.stderr);
    world.run(&["logout", "crm"]).ended(0);
    let listed = world.run(&["logins", "--json"]).ended(0).json();
    assert_eq!((listed[0]["tenant"].as_str(), listed[0]["principal"].as_str()), (Some("acme"), Some("ada")));
}

#[test]
fn a_login_that_cannot_be_is_said_before_anything_is_opened() {
    let server = Server::start();
    let world = world(&server);
    let unknown = world.run(&["login", "nobody"]).ended(2);
    assert!(unknown.stderr.contains("there is no upstream `nobody`"), "{}", unknown.stderr);
    world.run(&["login", "crm", "--user", "ada"]).ended(2);
    world.configure(&json!({ "crm": { "url": server.url() } }));
    let plain = world.run(&["login", "crm"]).ended(2);
    assert!(plain.stderr.contains("credential: { oauth: {} }"), "{}", plain.stderr);
    assert_eq!(server.seen(), Vec::<String>::new());
}
