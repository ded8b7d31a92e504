//! Reads a history back: what clients were told, and what the trial did to gateways meanwhile.

use std::collections::BTreeMap;

use serde_json::Value;

/// How long an owner may be silent, if the history does not say.
const SILENCE_MS: u64 = 15_000;

/// The answer to one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The name of the attempt, which the upstream's file also has if the gateway passed it on.
    pub attempt: String,
    pub gateway: String,
    pub key: String,
    pub business: String,
    pub class: String,
    pub payload: i64,
    pub began_ms: u64,
    pub ended_ms: u64,
    /// How long the gateway waits for the upstream.
    pub limit_ms: u64,
    /// The answer's class: `done`, `refused`, `strange` or `nothing`.
    pub answer: String,
    /// The refusal's code and the gate that refused.
    pub code: String,
    pub gate: String,
    /// The effect word of a refusal: `none`, `happened`, `unknown`, `unknown_before`.
    pub effect: String,
    /// The digest of the result.
    pub digest: String,
    /// Whether the result says that it is a stored one.
    pub replayed: bool,
    /// Whether the refusal names an effect, or a ticket, that can be asked about.
    pub has_handle: bool,
    pub message: String,
}

/// A time in which a gateway could not report that it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    pub gateway: String,
    pub from_ms: u64,
    pub until_ms: u64,
    /// Whether the process ended.
    pub died: bool,
}

/// What a person allowed from now on, as the trial asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub ticket: String,
    /// What the business ids of its calls begin with.
    pub folder: String,
    /// The business id of the call that people approved; that call is none of the grant's.
    pub first: String,
    /// The most that a call may pay.
    pub payload_max: i64,
    pub uses: usize,
    /// When a person had taken it back, and was told so.
    pub revoked_ms: Option<u64>,
}

/// What happened, as the clients and the trial recorded it.
#[derive(Debug, Default)]
pub struct History {
    pub told: Vec<Told>,
    pub grants: Vec<Grant>,
    pub silences: Vec<Silence>,
    pub silence_ms_max: u64,
}

impl History {
    /// Reads JSON lines; an incomplete last line is ignored.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut history = Self { silence_ms_max: SILENCE_MS, ..Self::default() };
        for (number, line) in text.split_inclusive('\n').enumerate().filter(|(_, line)| line.ends_with('\n')) {
            let event: Value =
                serde_json::from_str(line).map_err(|error| format!("line {} of the history: {error}", number + 1))?;
            match event["kind"].as_str() {
                Some("answer") => history.told.push(told(&event)),
                Some("gateway") => history.note(&event),
                Some("grant") => history.grants.push(grant(&event)),
                Some("revoked") => history.note_revoked(&event),
                Some("about") => {
                    history.silence_ms_max = event["silence_ms"].as_u64().unwrap_or(history.silence_ms_max);
                }
                // Events of the store explain answers to people; no rule excuses an answer by them.
                Some("store") => {}
                _ => return Err(format!("line {} of the history is of no known kind", number + 1)),
            }
        }
        Ok(history)
    }

    /// The answers about everything that changes something, by key, in the order in which they ended.
    pub fn by_key(&self) -> BTreeMap<&str, Vec<&Told>> {
        let mut keys = BTreeMap::<&str, Vec<&Told>>::new();
        for told in self.told.iter().filter(|told| told.class != "r") {
            keys.entry(&told.key).or_default().push(told);
        }
        for answers in keys.values_mut() {
            answers.sort_by_key(|told| (told.ended_ms, told.began_ms));
        }
        keys
    }

    /// Whether the gateway was dead, or silent for longer than it may be, at some time in between.
    pub fn was_silent(&self, gateway: &str, from_ms: u64, until_ms: u64) -> bool {
        self.silences.iter().any(|silence| {
            let overlaps = silence.from_ms <= until_ms && silence.until_ms >= from_ms;
            let is_long = self.is_long(silence.until_ms.saturating_sub(silence.from_ms));
            silence.gateway == gateway && overlaps && (silence.died || is_long)
        })
    }

    /// Whether a pause of this length can exceed the silence that an owner may keep: its last beat may have been a third of
    /// that time before the pause.
    fn is_long(&self, pause_ms: u64) -> bool {
        pause_ms.saturating_add(self.silence_ms_max * 2 / 5) >= self.silence_ms_max
    }

    fn note(&mut self, event: &Value) {
        let gateway = event["gateway"].as_str().unwrap_or_default();
        let at_ms = event["at_ms"].as_u64().unwrap_or(0);
        match event["what"].as_str().unwrap_or_default() {
            // A process that may stall this long at its failpoints may be silent at any time of its life.
            "started" if self.is_long(event["stall_ms"].as_u64().unwrap_or(0)) => self.begin(gateway, at_ms),
            "paused" => self.begin(gateway, at_ms),
            "resumed" => {
                if let Some(open) = self.open(gateway).last() {
                    open.until_ms = at_ms;
                }
            }
            // The signal was sent at `since_ms` at the earliest. The next process of that name is a different one.
            "killed" | "ended" => {
                self.open(gateway).for_each(|open| open.until_ms = at_ms);
                let from_ms = event["since_ms"].as_u64().unwrap_or(at_ms);
                let gateway = gateway.to_owned();
                self.silences.push(Silence { gateway, from_ms, until_ms: at_ms, died: true });
            }
            _ => {}
        }
    }

    fn note_revoked(&mut self, event: &Value) {
        let ticket = event["ticket"].as_str().unwrap_or_default();
        for grant in self.grants.iter_mut().filter(|grant| grant.ticket == ticket) {
            grant.revoked_ms = event["at_ms"].as_u64();
        }
    }

    fn begin(&mut self, gateway: &str, from_ms: u64) {
        let gateway = gateway.to_owned();
        self.silences.push(Silence { gateway, from_ms, until_ms: u64::MAX, died: false });
    }

    fn open(&mut self, gateway: &str) -> impl Iterator<Item = &mut Silence> {
        self.silences.iter_mut().filter(move |one| one.gateway == gateway && one.until_ms == u64::MAX)
    }
}

fn grant(event: &Value) -> Grant {
    let text = |member: &str| event[member].as_str().unwrap_or_default().to_owned();
    Grant {
        ticket: text("ticket"),
        folder: text("folder"),
        first: text("first"),
        payload_max: event["payload_max"].as_i64().unwrap_or(0),
        uses: event["uses"].as_u64().and_then(|uses| usize::try_from(uses).ok()).unwrap_or(0),
        revoked_ms: None,
    }
}

fn told(event: &Value) -> Told {
    let text = |member: &str| event[member].as_str().unwrap_or_default().to_owned();
    let number = |member: &str| event[member].as_u64().unwrap_or(0);
    Told {
        attempt: text("attempt"),
        gateway: text("gateway"),
        key: text("key"),
        business: text("business"),
        class: text("class"),
        payload: event["payload"].as_i64().unwrap_or(0),
        began_ms: number("began_ms"),
        ended_ms: number("ended_ms"),
        limit_ms: number("limit_ms"),
        answer: text("answer"),
        code: text("code"),
        gate: text("gate"),
        effect: text("effect"),
        digest: text("digest"),
        replayed: event["replayed"] == true,
        has_handle: event["handle"].is_string(),
        message: text("message"),
    }
}

impl Told {
    pub fn is_done(&self) -> bool {
        self.answer == "done"
    }

    pub fn is_refused(&self) -> bool {
        self.answer == "refused"
    }

    /// Says that another call of the key is running, and nothing about how that call will end.
    pub fn is_under_way(&self) -> bool {
        self.is_refused() && self.code == "IDEMPOTENCY_CONFLICT" && self.has_handle && self.effect != "unknown"
    }

    /// Says that the key stands for other arguments, so that these were never sent.
    pub fn is_mismatch(&self) -> bool {
        self.is_refused() && self.code == "SIGNATURE_MISMATCH"
    }

    /// Says that the key was used, and that its answer has expired.
    pub fn is_expired(&self) -> bool {
        self.is_refused() && self.code == "IDEMPOTENCY_CONFLICT" && self.message.contains("expired")
    }

    /// Says that the call waits for people, with their ticket.
    pub fn is_held(&self) -> bool {
        self.is_refused() && self.code == "CONFIRMATION_MISSING" && self.effect == "none" && self.has_handle
    }

    /// Says that nothing was done.
    pub fn says_none(&self) -> bool {
        let about_the_key = self.is_under_way() || self.is_mismatch() || self.is_expired();
        self.is_refused() && self.effect == "none" && !about_the_key
    }

    /// Says that the outcome is unknown.
    pub fn says_unknown(&self) -> bool {
        self.is_refused() && self.effect == "unknown"
    }

    /// Says neither that something was done nor that it was not.
    pub fn claims_nothing(&self) -> bool {
        !self.is_done() && (!self.is_refused() || self.effect == "unknown_before")
    }

    /// In a few words, for a person.
    pub fn short(&self) -> String {
        let said = if self.is_done() {
            format!("done {}", self.digest)
        } else if self.is_refused() {
            format!("{} at {}, effect `{}`: {}", self.code, self.gate, self.effect, self.message)
        } else {
            format!("{} {}", self.answer, self.message)
        };
        let said: String = said.chars().take(140).collect();
        format!("[{} by {} in {}..{} ms: {said}]", self.attempt, self.gateway, self.began_ms, self.ended_ms)
    }
}
