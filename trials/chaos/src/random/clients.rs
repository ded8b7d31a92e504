//! Impatient agents: each makes up a key, calls, and calls again if the answer is not final, on any replica, sometimes twice at
//! once, sometimes with another payload. Every answer is kept for the oracle.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::time::sleep;

use super::Scene;
use crate::{
    agent::{Answer, Order},
    history::{Asking, digest},
    http::Wire,
    rng::Rng,
    upstream::script::HONEST,
    world::Class,
};

/// How many calls in a thousand change an account that other calls change too, and how many accounts there are.
const SHARED_PERMILLE: u64 = 150;
const ACCOUNTS: u64 = 6;
/// What a hostile upstream may do with a call.
const SCRIPTS: [&str; 16] = [
    "close",
    "reset",
    "effect,reset",
    "effect,close",
    "effect,never",
    "never",
    "delay:400,effect,answer",
    "effect,delay:2500,answer",
    "delay:2500,effect,answer",
    "effect,twice",
    "effect,rpc_error",
    "effect,status:500",
    "effect,status:503",
    "effect,bad_schema",
    "rpc_error",
    "status:502",
];
const ATTEMPTS_MAX: u64 = 7;

/// The answer to one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// The result, by its digest.
    Success(u64),
    /// Refused; nothing was sent.
    NotExecuted,
    /// Refused; it happened.
    Happened,
    /// Refused; the outcome is unknown.
    Unknown,
    /// Refused because of another call with the key.
    Conflict,
    /// Refused because the key means another payload.
    Mismatch,
    /// No answer, or none that means anything.
    Nothing,
}

/// All answers about one key.
#[derive(Debug, Clone)]
pub struct KeyLog {
    pub order: Order,
    pub class: Class,
    /// Whether it was the other payload, and the answer.
    pub attempts: Vec<(bool, Said)>,
}

/// One agent.
pub struct Client {
    scene: Arc<Scene>,
    rng: Rng,
    number: usize,
    classes: String,
    wires: HashMap<SocketAddr, Wire>,
}

impl Client {
    pub fn new(scene: Arc<Scene>, rng: Rng, number: usize, classes: String) -> Self {
        Self { scene, rng, number, classes, wires: HashMap::new() }
    }

    pub async fn run(mut self) {
        let mut made = 0_u64;
        while !self.scene.is_over() {
            self.scene.begun.fetch_add(1, Ordering::Relaxed);
            made += 1;
            let log = self.live_through(made).await;
            self.scene.keep(log);
        }
    }

    async fn live_through(&mut self, made: u64) -> KeyLog {
        let letter = *self.rng.pick(self.classes.as_bytes());
        let class = Class::ALL.into_iter().find(|class| class.letter().as_bytes() == [letter]).unwrap_or(Class::N);
        let business = format!("{}-{}-{}-{made}", self.scene.store.name(), class.letter(), self.number);
        let shared = class.mutates() && self.rng.permille(SHARED_PERMILLE);
        let account = shared.then(|| format!("account-{}", self.rng.between(0, ACCOUNTS)));
        let order = Order::new(&class.tool(if shared { "turn" } else { "pay" }), &business);
        let limit_ms = self.scene.setup.limit_ms(&order.tool);
        let order = Order { script: self.script(), account, limit_ms, ..order };
        let mut log = KeyLog { order, class, attempts: Vec::new() };
        for attempt in 0..self.rng.between(1, ATTEMPTS_MAX) {
            let other = !log.attempts.is_empty() && self.rng.permille(60);
            let order = if other { log.order.other_payload() } else { log.order.clone() };
            let twice = self.rng.permille(40);
            let name = format!("{}-{made}-{attempt}", self.number);
            let second = twice.then(|| self.beside(&order, format!("{name}b")));
            let (said, wait_ms) = self.attempt(&order, name).await;
            log.attempts.push((other, said));
            if let Some(second) = second {
                log.attempts.push((other, second.await.map_or(Said::Nothing, |answer| said_by(&answer).0)));
            }
            let content = matches!(said, Said::Success(_) | Said::Unknown | Said::Happened);
            if content && !other && !self.rng.permille(100) {
                break;
            }
            sleep(Duration::from_millis(wait_ms)).await;
        }
        log
    }

    fn script(&mut self) -> String {
        let mut scripts = Vec::new();
        while scripts.len() < 3 && self.rng.permille(self.scene.hostile_permille) {
            let cut = self.rng.between(0, 1000);
            let script = if self.rng.permille(200) {
                format!("effect,cut:{cut}")
            } else {
                (*self.rng.pick(&SCRIPTS)).to_owned()
            };
            scripts.push(script);
        }
        if scripts.is_empty() { HONEST.to_owned() } else { scripts.join("|") }
    }

    fn beside(&mut self, order: &Order, attempt: String) -> tokio::task::JoinHandle<Answer> {
        let (order, place, scene) = (order.clone(), self.somewhere(), self.scene.clone());
        let (patience, who) = (self.patience(), format!("client-{}", self.number));
        tokio::spawn(async move {
            match place {
                Some((gateway, address)) => {
                    let asking = Asking { who, gateway, attempt };
                    scene.history.ask(&asking, &order, &mut Wire::new(address), patience).await
                }
                None => Answer::Nothing("no replica listens".to_owned()),
            }
        })
    }

    async fn attempt(&mut self, order: &Order, attempt: String) -> (Said, u64) {
        let Some((gateway, address)) = self.somewhere() else { return (Said::Nothing, 50) };
        let patience = self.patience();
        if self.wires.len() > 16 {
            self.wires.clear();
        }
        let asking = Asking { who: format!("client-{}", self.number), gateway, attempt };
        let wire = self.wires.entry(address).or_insert_with(|| Wire::new(address));
        said_by(&self.scene.history.ask(&asking, order, wire, patience).await)
    }

    fn patience(&mut self) -> Duration {
        Duration::from_millis(self.rng.between(300, 4_000))
    }

    /// A replica that listens, with the name by which its upstream knows it.
    fn somewhere(&mut self) -> Option<(String, SocketAddr)> {
        let addresses = self.scene.addresses.read().unwrap_or_else(PoisonError::into_inner);
        let listening = |(number, address): (usize, &Option<SocketAddr>)| Some((replica_name(number), (*address)?));
        let known: Vec<(String, SocketAddr)> = addresses.iter().enumerate().filter_map(listening).collect();
        (!known.is_empty()).then(|| self.rng.pick(&known).clone())
    }
}

/// The name that a replica gives itself.
pub fn replica_name(number: usize) -> String {
    format!("replica-{number}")
}

/// What an answer says, and how long to wait before the next attempt.
pub fn said_by(answer: &Answer) -> (Said, u64) {
    match answer {
        Answer::Success { content, .. } => (Said::Success(digest(content)), 0),
        Answer::Refused(refusal) if refusal.code == "IDEMPOTENCY_CONFLICT" => {
            (Said::Conflict, refusal.retry_after_ms.unwrap_or(200).min(500))
        }
        Answer::Refused(refusal) if refusal.code == "SIGNATURE_MISMATCH" => (Said::Mismatch, 0),
        Answer::Refused(refusal) if refusal.effect == "unknown" => (Said::Unknown, 0),
        Answer::Refused(refusal) if refusal.effect == "happened" => (Said::Happened, 0),
        Answer::Refused(refusal) if refusal.effect == "none" && !refusal.is_about_the_key() => (Said::NotExecuted, 100),
        Answer::Refused(_) | Answer::Strange(_) | Answer::Nothing(_) => (Said::Nothing, 50),
    }
}
