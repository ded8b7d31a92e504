//! A stdio server that refuses to end: it ignores signals (its shell has them ignored), keeps running when its input ends, and
//! has a child that does the same. After some minutes both end by themselves, so that a failed trial leaves nothing behind for
//! ever.

use std::{
    io::{BufRead as _, Write as _},
    process::Command,
    thread::sleep,
    time::Duration,
};

use serde_json::{Value, json};

use crate::upstream::tools;

const LIFE: Duration = Duration::from_mins(5);

/// `chaos stubborn MARKER`: serves, and then stays.
pub fn serve(args: &[String]) -> Result<(), String> {
    let [marker, ..] = args else { return Err("chaos stubborn MARKER".to_owned()) };
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let child = Command::new(own).args(["sleeper", marker]).stdin(std::process::Stdio::null()).spawn();
    let _child = child.map_err(|error| error.to_string())?;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(answer) = answer(&message) {
            let mut out = std::io::stdout().lock();
            // The client may already be gone.
            let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
        }
    }
    stay();
    Ok(())
}

/// `chaos sleeper MARKER`: only stays.
pub fn stay() {
    sleep(LIFE);
}

fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id").filter(|id| !id.is_null())?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "stubborn", "version": "1" },
        }),
        "ping" => json!({}),
        "tools/list" => tools::list(),
        "tools/call" => json!({ "content": [], "structuredContent": { "receipt": "none", "amount": 0 } }),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
