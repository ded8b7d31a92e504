//! The hostile upstream: an MCP server (2025-11-25, Streamable HTTP) that counts its effects in its own books and does with
//! every call what a script says. It is a separate process, so that it can be killed.

mod books;
pub mod script;
pub mod tools;

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

use crate::http::{Message, read_message};
use script::Step;

pub use books::{Account, Arrival, Books, Ledger};

const NEVER: Duration = Duration::from_mins(2);

/// Everything connections share.
struct Office {
    ledger: Mutex<Ledger>,
    /// Scripts set from outside, by name; they override the call's own.
    plans: Mutex<HashMap<String, String>>,
    /// How often each name was released, and the calls that wait.
    releases: Mutex<HashMap<String, watch::Sender<u64>>>,
    /// How many wait now, by name.
    held: Mutex<HashMap<String, u64>>,
    /// Counts arrivals and questions.
    moments: AtomicU64,
    /// When the status tool answered that a key was not executed, by key.
    denials: Mutex<HashMap<String, u64>>,
}

/// A call, limited to what answering needs.
struct Call {
    id: Value,
    tool: String,
    business: String,
    amount: i64,
    key: Option<String>,
    steps: Vec<Step>,
    /// When it came.
    moment: u64,
    /// The name for holds and releases.
    name: String,
    /// Which call of that name it is, counted from zero.
    number: u64,
    /// Whether its end is in the books.
    ended: AtomicBool,
}

/// Serves until it is killed.
pub async fn serve(listener: TcpListener, books: &Path, syncs: bool) -> io::Result<()> {
    let office = Arc::new(Office {
        ledger: Mutex::new(Ledger::open(books, syncs)?),
        plans: Mutex::default(),
        releases: Mutex::default(),
        held: Mutex::default(),
        moments: AtomicU64::new(0),
        denials: Mutex::default(),
    });
    loop {
        let (stream, _) = listener.accept().await?;
        let office = office.clone();
        tokio::spawn(async move {
            // A peer that closes its connection is expected in trials.
            let _ = converse(stream, &office).await;
        });
    }
}

async fn converse(stream: TcpStream, office: &Office) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_message(&mut stream, false).await? {
        let (method, path) = request.start.split_once(' ').unwrap_or_default();
        let path = path.split(' ').next().unwrap_or_default();
        if let Some(what) = path.strip_prefix("/admin/") {
            let said = office.administer(what, &serde_json::from_slice(&request.body).unwrap_or_default());
            stream.write_all(&response(200, "application/json", &said.to_string())).await?;
        } else if method != "POST" {
            stream.write_all(&response(405, "text/plain", "")).await?;
        } else if !answer(&mut stream, office, &request).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Answers one message; false if the connection is over.
async fn answer(stream: &mut BufReader<TcpStream>, office: &Office, request: &Message) -> io::Result<bool> {
    let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let id = message["id"].clone();
    if id.is_null() {
        stream.write_all(&response(202, "text/plain", "")).await?;
        return Ok(true);
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "hostile", "version": "1" },
        }),
        "ping" => json!({}),
        "tools/list" => tools::list(),
        "tools/call" => return call(stream, office, &message, request).await,
        _ => {
            let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no such method" } });
            stream.write_all(&response(200, "application/json", &body.to_string())).await?;
            return Ok(true);
        }
    };
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    stream.write_all(&response(200, "application/json", &body)).await?;
    Ok(true)
}

async fn call(
    stream: &mut BufReader<TcpStream>,
    office: &Office,
    message: &Value,
    request: &Message,
) -> io::Result<bool> {
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let arguments = &message["params"]["arguments"];
    if tool == "status_q" {
        let body = office.status(&message["id"], arguments["key"].as_str().unwrap_or_default());
        stream.write_all(&response(200, "application/json", &body)).await?;
        return Ok(true);
    }
    let call = match office.accept(message, tool, request) {
        Ok(call) => call,
        Err(wrong) => {
            let error = json!({ "code": -32602, "message": wrong });
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }).to_string();
            stream.write_all(&response(200, "application/json", &body)).await?;
            return Ok(true);
        }
    };
    let kept = follow(stream, office, &call).await;
    office.note_end(&call)?;
    kept
}

/// Does what the call's script says; false if the connection is over.
async fn follow(stream: &mut BufReader<TcpStream>, office: &Office, call: &Call) -> io::Result<bool> {
    let mut receipt = String::new();
    for step in &call.steps {
        match step {
            Step::Effect => match office.perform(call)? {
                Some(done) => receipt = done,
                None => return Ok(false),
            },
            Step::Hold => office.hold(&call.name).await,
            Step::Delay(ms) => sleep(Duration::from_millis(*ms)).await,
            Step::Never => sleep(NEVER).await,
            Step::Close => return Ok(false),
            Step::Reset => {
                stream.get_ref().set_zero_linger()?;
                return Ok(false);
            }
            Step::Cut(permille) => {
                let whole = response(200, "application/json", &call.answer(&receipt, false));
                let cut = whole.len() * usize::try_from(*permille).unwrap_or(0) / 1000;
                office.note_end(call)?;
                stream.write_all(&whole[..cut]).await?;
                return Ok(false);
            }
            step => {
                office.note_end(call)?;
                stream.write_all(&call.reply(step, &receipt)).await?;
            }
        }
    }
    Ok(true)
}

impl Office {
    fn accept(&self, message: &Value, tool: &str, request: &Message) -> Result<Call, String> {
        let params = &message["params"];
        let arguments = &params["arguments"];
        let named = tools::business_argument(tool);
        let business = arguments[named].as_str().ok_or_else(|| format!("{named} is missing"))?.to_owned();
        let name = if tool == "balance" { format!("balance/{business}") } else { business.clone() };
        let amount = arguments["amount"].as_i64().unwrap_or(0);
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let arrival = Arrival {
            name: name.clone(),
            tool: tool.to_owned(),
            account: owned(arguments["account"].as_str()),
            payload: amount,
            gateway: owned(request.header(tools::GATEWAY_HEADER)),
            attempt: owned(params["_meta"][tools::ATTEMPT_META].as_str()),
        };
        let number = lock(&self.ledger).note_call(&arrival).map_err(|error| error.to_string())?;
        let plan = lock(&self.plans).get(&name).cloned();
        let script = plan.as_deref().or(arguments["script"].as_str()).unwrap_or(script::HONEST);
        let key =
            params["_meta"][tools::KEY_META].as_str().or(request.header("x-chaos-key")).or(arguments["key"].as_str());
        Ok(Call {
            id: message["id"].clone(),
            tool: tool.to_owned(),
            business,
            amount,
            key: key.map(str::to_owned),
            steps: script::steps(script, number)?,
            moment: self.moments.fetch_add(1, Ordering::SeqCst),
            name,
            number,
            ended: AtomicBool::new(false),
        })
    }

    /// Records the end of a call before its answer leaves, so that a call that waits for the answer does not seem to overlap.
    fn note_end(&self, call: &Call) -> io::Result<()> {
        if call.ended.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        lock(&self.ledger).note_end(&call.name, call.number)
    }

    /// Performs the effect and returns the receipt; `None` if the status tool already answered that the call was not executed.
    fn perform(&self, call: &Call) -> io::Result<Option<String>> {
        let class = call.tool.rsplit_once('_').map_or("", |(_, class)| class);
        if !tools::MUTATING.contains(&class) {
            return Ok(Some(format!("{}#0", call.business)));
        }
        let mut ledger = lock(&self.ledger);
        let key = call.key.as_deref();
        let denied = key.and_then(|key| lock(&self.denials).get(key).copied());
        if class == "q" && denied.is_some_and(|denied| denied > call.moment) {
            return Ok(None);
        }
        ledger.perform((&call.business, call.number), call.amount, key, class == "k").map(Some)
    }

    /// Whether a key was executed. The contract says that "no" is authoritative, so after a "no" no earlier call of the key is
    /// executed any more; otherwise the answer would be a lie that no gateway could correct.
    fn status(&self, id: &Value, key: &str) -> String {
        let ledger = lock(&self.ledger);
        let receipt = ledger.receipt(key);
        if receipt.is_none() {
            lock(&self.denials).insert(key.to_owned(), self.moments.fetch_add(1, Ordering::SeqCst));
        }
        drop(ledger);
        let said = json!({ "found": receipt.is_some(), "receipt": receipt });
        let content = json!([{ "type": "text", "text": said.to_string() }]);
        json!({ "jsonrpc": "2.0", "id": id, "result": { "content": content, "structuredContent": said } }).to_string()
    }

    async fn hold(&self, name: &str) {
        let mut released = lock(&self.releases).entry(name.to_owned()).or_default().subscribe();
        // A release counts for calls that wait now, not for later ones.
        released.mark_unchanged();
        *lock(&self.held).entry(name.to_owned()).or_default() += 1;
        let _ = tokio::time::timeout(NEVER, released.changed()).await;
        *lock(&self.held).entry(name.to_owned()).or_default() -= 1;
    }

    fn administer(&self, what: &str, order: &Value) -> Value {
        let name = order["name"].as_str().unwrap_or_default().to_owned();
        match what {
            "plan" => {
                lock(&self.plans).insert(name, order["script"].as_str().unwrap_or_default().to_owned());
                json!({})
            }
            "release" => {
                lock(&self.releases).entry(name).or_default().send_modify(|count| *count += 1);
                json!({})
            }
            "look" => {
                let account = lock(&self.ledger).books().account(&name);
                let held = lock(&self.held).get(&name).copied().unwrap_or(0);
                json!({ "calls": account.calls, "receipts": account.receipts, "held": held })
            }
            _ => json!({ "error": "no such order" }),
        }
    }
}

impl Call {
    /// The bytes of an answering step.
    fn reply(&self, step: &Step, receipt: &str) -> Vec<u8> {
        let json = "application/json";
        match step {
            Step::BadSchema => response(200, json, &self.answer(receipt, true)),
            Step::RpcError => {
                let error = json!({ "code": -32603, "message": "something went wrong, and nobody knows when" });
                let body = json!({ "jsonrpc": "2.0", "id": self.id, "error": error }).to_string();
                response(200, json, &body)
            }
            Step::Status(status) => response(*status, "text/plain", "something went wrong"),
            Step::Twice => {
                let first = self.answer(receipt, false);
                let second = self.answer("second answer", false);
                response(200, "text/event-stream", &format!("data: {first}\n\ndata: {second}\n\n"))
            }
            _ => response(200, json, &self.answer(receipt, false)),
        }
    }

    /// The answer, with white space and numbers that no serialiser would choose, so that a gateway must store the bytes.
    fn answer(&self, receipt: &str, broken: bool) -> String {
        let (id, amount) = (&self.id, self.amount);
        if self.tool == "balance" {
            return format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"enough":true}}}}}}"#
            );
        }
        let receipt_json = if broken { "17".to_owned() } else { json!(receipt).to_string() };
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{ "content" : [ {{"type":"text",  "text":"paid {receipt}"}} ],"structuredContent":{{"amount":{amount}.50e0 , "receipt": {receipt_json}}}}}}}"#
        )
    }
}

fn response(status: u16, content_type: &str, body: &str) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n", body.len());
    format!("{head}\r\n{body}").into_bytes()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
