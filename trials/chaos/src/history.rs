//! What clients were told, recorded as it happens: one JSON line per event, each with times of the one clock. What the trial
//! did to gateways and to the store is in the same file, because some of it excuses an answer. `checker` judges the file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    agent::{Answer, Order},
    clock::now_ms,
    http::Wire,
    world::{Class, Store},
};

/// A history that is being written.
#[derive(Debug)]
pub struct History {
    pub file: PathBuf,
    out: Mutex<File>,
}

/// The client, the gateway, and the attempt.
#[derive(Debug, Clone)]
pub struct Asking {
    pub who: String,
    pub gateway: String,
    /// Unique in the run, and passed on to the upstream.
    pub attempt: String,
}

/// What a person allowed: how many calls below a folder, and which call people approved before.
#[derive(Debug)]
pub struct Allowed<'a> {
    pub ticket: &'a str,
    pub folder: &'a str,
    pub first: &'a str,
    pub payload_max: i64,
    pub uses: u64,
}

impl History {
    /// Begins a history in a folder.
    pub fn begin(folder: &Path, trial: &str, seed: u64, store: Store, silence_ms: u64) -> io::Result<Self> {
        let file = folder.join("history.jsonl");
        let out = Mutex::new(OpenOptions::new().create(true).append(true).open(&file)?);
        let history = Self { file, out };
        history.write(&json!({
            "kind": "about", "trial": trial, "seed": seed, "store": store.name(), "silence_ms": silence_ms, "at_ms": now_ms(),
        }));
        Ok(history)
    }

    /// Makes a call and records the answer.
    pub async fn ask(&self, asking: &Asking, order: &Order, wire: &mut Wire, patience: Duration) -> Answer {
        let began_ms = now_ms();
        let order = Order { attempt: Some(asking.attempt.clone()), ..order.clone() };
        let answer = order.call_over(wire, patience).await;
        self.told(asking, &order, began_ms, &answer);
        answer
    }

    /// Records the answer to an attempt.
    pub fn told(&self, asking: &Asking, order: &Order, began_ms: u64, answer: &Answer) {
        let Asking { who, gateway, attempt } = asking;
        let mut event = json!({
            "kind": "answer", "who": who, "gateway": gateway, "attempt": attempt, "key": order.key, "business": order.business,
            "tool": order.tool, "class": Class::of_tool(&order.tool).letter(), "payload": order.amount,
            "account": order.account, "limit_ms": order.limit_ms, "began_ms": began_ms, "ended_ms": now_ms(),
        });
        describe(&mut event, answer);
        self.write(&event);
    }

    /// Records what the trial did to a gateway: `started`, `paused`, `resumed`, `killed`, `ended`.
    pub fn gateway(&self, gateway: &str, what: &str, more: &Value) {
        let mut event = json!({ "kind": "gateway", "gateway": gateway, "what": what, "at_ms": now_ms() });
        merge(&mut event, more);
        self.write(&event);
    }

    /// Records what a person allowed from now on.
    pub fn grant(&self, allowed: &Allowed<'_>) {
        let Allowed { ticket, folder, first, payload_max, uses } = allowed;
        self.write(&json!({
            "kind": "grant", "ticket": ticket, "folder": folder, "first": first, "payload_max": payload_max, "uses": uses,
            "at_ms": now_ms(),
        }));
    }

    /// Records that a person was told that the grant is taken back.
    pub fn revoked(&self, ticket: &str) {
        self.write(&json!({ "kind": "revoked", "ticket": ticket, "at_ms": now_ms() }));
    }

    /// Records what the trial did to the store: `away`, `back`, `full`, `has room`.
    pub fn store(&self, what: &str, more: &Value) {
        let mut event = json!({ "kind": "store", "what": what, "at_ms": now_ms() });
        merge(&mut event, more);
        self.write(&event);
    }

    fn write(&self, event: &Value) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = out.write_all(format!("{event}\n").as_bytes()) {
            eprintln!("the history cannot be written: {error}");
        }
    }
}

/// A short digest that stays the same from run to run (FNV-1a).
pub fn digest(content: &str) -> u64 {
    let mix = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    content.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn describe(event: &mut Value, answer: &Answer) {
    let more = match answer {
        Answer::Success { content, replayed } => {
            json!({ "answer": "done", "digest": format!("{:016x}", digest(content)), "replayed": replayed })
        }
        Answer::Refused(refusal) => json!({
            "answer": "refused", "code": refusal.code, "gate": refusal.gate, "effect": refusal.effect,
            "message": refusal.message, "retryable": refusal.retryable, "retry_after_ms": refusal.retry_after_ms,
            "handle": refusal.handle,
        }),
        Answer::Strange(text) => json!({ "answer": "strange", "message": text.chars().take(300).collect::<String>() }),
        Answer::Nothing(why) => json!({ "answer": "nothing", "message": why }),
    };
    merge(event, &more);
}

fn merge(event: &mut Value, more: &Value) {
    for (member, value) in more.as_object().into_iter().flatten() {
        event[member] = value.clone();
    }
}
