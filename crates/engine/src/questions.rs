//! Puts a server's question to a caller: in the server's own name, without hidden characters, and only if it may be asked at all. Other
//! modules decide who is asked, when and by which message; the only state here is which elicitations a client was given.
//!
//! The caller knows the gateway and not the server behind it. Without the server's name, the caller would take the question for the
//! gateway's.

mod elicitations;
mod errors;
mod input_requests;
mod wording;

use std::sync::Arc;

use serde_json::{Map, Value, value::RawValue};
use servanda_contract::{
    Digest,
    digest::DigestDomain,
    legibility,
    record::QuestionRecord,
    tool::{QuestionKind, ToolContract},
};
use servanda_mcp::{
    RpcError,
    envelope::code,
    fields::{member, meta, method},
};
use url::{Host, Url};

use self::wording::{make_legible, mark, require_legible};
pub(crate) use self::{
    elicitations::Elicitations,
    errors::ClientFailure,
    input_requests::{MissingInput, QUESTIONS_MAX, ServerQuestion, input_requests, read_input_requests},
    wording::{legible, legible_in_brief},
};

/// How long a URL that a person is to visit may be.
const URL_BYTES_MAX: usize = 8_192;

/// The member that makes an elicitation a form.
const REQUESTED_SCHEMA: &str = "requestedSchema";

/// What one server may ask during one request, or outside of any.
#[derive(Debug, Clone)]
pub(crate) struct QuestionRules {
    upstream: Arc<str>,
    /// Whether this is the only server behind the gateway, so that the client's context of the gateway is its context of this server.
    is_alone: bool,
    /// Kinds that the contract or a policy does not permit.
    refused: Vec<QuestionKind>,
    /// Whether the question belongs to no single call.
    is_outside_calls: bool,
    /// The affinity of the client that is asked, and the store of the elicitations that clients were given.
    client: Option<(Arc<str>, Arc<Elicitations>)>,
}

/// A question as a client may get it. Only the rules of questions make one.
#[derive(Debug)]
pub struct ClientQuestion {
    method: String,
    params: Option<Box<RawValue>>,
}

/// A question that is not asked.
#[derive(Debug)]
pub(crate) struct RefusedQuestion {
    pub(crate) method: String,
    pub(crate) why: String,
}

/// The questions of an `inputRequests` object.
#[derive(Debug)]
pub(crate) struct ClientInputRequests {
    /// The questions as the caller gets them, as JSON.
    pub(crate) input_requests: String,
    /// Why the other questions are left out.
    pub(crate) refused: Vec<String>,
}

impl ClientQuestion {
    /// A question of a server without a contract or policy about questions. None if it may not be asked.
    pub fn unrestricted(upstream: &str, method: &str, params: Option<Box<RawValue>>) -> Option<Self> {
        let asking = ServerQuestion { method: method.to_owned(), params };
        QuestionRules::new(&Arc::from(upstream), false).check(asking, &mut Vec::new()).ok()
    }

    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The raw `params`.
    pub fn params(&self) -> Option<&RawValue> {
        self.params.as_deref()
    }

    /// A question that no rules have seen.
    #[cfg(test)]
    pub(super) fn unseen(method: &str, params: Box<RawValue>) -> Self {
        Self { method: method.to_owned(), params: Some(params) }
    }
}

impl QuestionRules {
    /// The rules without a contract or policy about questions: the server may ask every kind.
    pub(crate) fn new(upstream: &Arc<str>, is_alone: bool) -> Self {
        let upstream = Arc::clone(upstream);
        Self { upstream, is_alone, refused: Vec::new(), is_outside_calls: false, client: None }
    }

    /// The same rules without these kinds.
    #[must_use]
    pub(crate) fn refusing(mut self, kinds: &[QuestionKind]) -> Self {
        self.refused.extend(kinds);
        self
    }

    /// The same rules for a question that belongs to no single call: every kind that one of the server's contracts refuses is refused, and
    /// every kind at all if a policy decides about questions, because a policy needs a call to decide about.
    #[must_use]
    pub(crate) fn outside_calls<'c>(
        mut self,
        contracts: impl Iterator<Item = &'c ToolContract>,
        policies_decide: bool,
    ) -> Self {
        self.is_outside_calls = true;
        let by_policy: &[QuestionKind] = if policies_decide { &QuestionKind::ALL } else { &[] };
        self.refused.extend(contracts.flat_map(ToolContract::refused_questions));
        self.refused.extend(by_policy);
        self
    }

    /// The same rules for a client of that affinity.
    #[must_use]
    pub(crate) fn asking(mut self, affinity: &Arc<str>, elicitations: &Arc<Elicitations>) -> Self {
        self.client = Some((Arc::clone(affinity), Arc::clone(elicitations)));
        self
    }

    /// The question as the caller gets it. It is recorded, whether it is asked or refused.
    pub(crate) fn check(
        &self,
        asking: ServerQuestion,
        record: &mut Vec<QuestionRecord>,
    ) -> Result<ClientQuestion, RefusedQuestion> {
        let written = asking.params.as_ref().map_or("", |params| params.get());
        let digest = Digest::compute(DigestDomain::Question, &[asking.method.as_bytes(), written.as_bytes()]);
        let read = read(&asking);
        let kind = read.as_ref().ok().and_then(|params| kind(&asking.method, params));
        let put = read.and_then(|params| self.params(kind, params));
        let refused = put.as_ref().err().cloned();
        let upstream = &self.upstream;
        if let Some(why) = &refused {
            tracing::warn!(%upstream, method = asking.method, %why, "a question of an upstream is refused");
        } else {
            tracing::debug!(%upstream, method = asking.method, "an upstream asks its caller something");
        }
        if record.len() < QUESTIONS_MAX {
            record.push(QuestionRecord { kind, digest, refused });
        }
        match put {
            Ok(params) => {
                self.remember(&params);
                let params = serde_json::value::to_raw_value(&params).ok();
                Ok(ClientQuestion { method: asking.method, params })
            }
            Err(why) => Err(RefusedQuestion { method: asking.method, why }),
        }
    }

    /// The questions of an `inputRequests` object as the caller gets them.
    pub(crate) fn check_all(&self, raw: &RawValue, record: &mut Vec<QuestionRecord>) -> ClientInputRequests {
        let Some(requests) = read_input_requests(raw) else {
            return ClientInputRequests {
                input_requests: "{}".to_owned(),
                refused: vec!["they cannot be read".to_owned()],
            };
        };
        let (mut put, mut refused) = (Vec::new(), Vec::new());
        for (key, asking) in requests.into_iter().take(QUESTIONS_MAX) {
            match self.check_keyed(&key, asking, record) {
                Ok(question) => put.push((key, question)),
                Err(not_put) => refused.push(not_put.why),
            }
        }
        ClientInputRequests { input_requests: input_requests(&put), refused }
    }

    /// Checks a question that the server wants answered under its own key.
    pub(crate) fn check_keyed(
        &self,
        key: &str,
        asking: ServerQuestion,
        record: &mut Vec<QuestionRecord>,
    ) -> Result<ClientQuestion, RefusedQuestion> {
        let method = asking.method.clone();
        let put = self.check(asking, record)?;
        require_legible(key).map(|()| put).map_err(|why| RefusedQuestion { method, why })
    }

    /// Remembers an elicitation by URL, whose end the server may announce.
    fn remember(&self, params: &Map<String, Value>) {
        if let (Some((affinity, elicitations)), Some(Value::String(id))) = (&self.client, params.get("elicitationId")) {
            elicitations.insert(&self.upstream, affinity, id);
        }
    }

    fn params(&self, kind: Option<QuestionKind>, mut params: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let kind = kind.ok_or_else(|| "it is an unknown kind of question".to_owned())?;
        self.permit(kind)?;
        let url = params.get("url").and_then(Value::as_str).and_then(safe_url);
        for (name, value) in &mut params {
            require_legible(name)?;
            make_legible(value)?;
        }
        match kind {
            QuestionKind::Form if params.contains_key("url") => return Err("it is a form and has a `url`".to_owned()),
            QuestionKind::Form => self.name_in(&mut params, "message")?,
            // A client may show a schema as a form, whatever the mode says.
            QuestionKind::Url if params.contains_key(REQUESTED_SCHEMA) => {
                return Err(format!("it sends the user to a URL and has a `{REQUESTED_SCHEMA}`"));
            }
            QuestionKind::Url => {
                let url = url.ok_or("it sends the user to a URL that is not plain `https`")?;
                params.insert("url".to_owned(), Value::String(url));
                self.name_in(&mut params, "message")?;
            }
            QuestionKind::Sampling => {
                self.limit_context(&mut params)?;
                self.name_in(&mut params, "systemPrompt")?;
            }
            QuestionKind::Roots => {}
        }
        self.name_in_meta(&mut params)?;
        Ok(params)
    }

    fn permit(&self, kind: QuestionKind) -> Result<(), String> {
        if !self.refused.contains(&kind) {
            return Ok(());
        }
        let kind = kind.word();
        if self.is_outside_calls {
            return Err(format!(
                "it belongs to no single call, and a contract of the server (`questions`) or a policy does not permit questions of \
                 the kind `{kind}`"
            ));
        }
        Err(format!("the tool's contract (`questions`) or a policy does not permit questions of the kind `{kind}`"))
    }

    /// Names the server in a text that people or models read.
    fn name_in(&self, params: &mut Map<String, Value>, name: &str) -> Result<(), String> {
        let text = match params.get(name) {
            None => "",
            Some(Value::String(text)) => text.as_str(),
            Some(_) => return Err(format!("its `{name}` is not a text")),
        };
        let named = format!("{} {}", mark(&self.upstream), text.trim_start()).trim_end().to_owned();
        params.insert(name.to_owned(), Value::String(named));
        Ok(())
    }

    /// Names the server in `_meta`, which programs read.
    fn name_in_meta(&self, params: &mut Map<String, Value>) -> Result<(), String> {
        let notes = params.entry(member::META).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(notes) = notes else { return Err("its `_meta` is not an object".to_owned()) };
        notes.retain(|name, _| !name.starts_with(meta::OWN));
        notes.insert(meta::ASKED_BY.to_owned(), Value::String(self.upstream.as_ref().to_owned()));
        Ok(())
    }

    /// Refuses a wider context: to the client "this server" is the gateway, so it would give the context of every server behind it.
    fn limit_context(&self, params: &mut Map<String, Value>) -> Result<(), String> {
        match params.get("includeContext").map(Value::as_str) {
            None | Some(Some("none")) => Ok(()),
            Some(Some("thisServer")) if self.is_alone => Ok(()),
            Some(Some("thisServer")) => {
                params.insert("includeContext".to_owned(), Value::String("none".to_owned()));
                Ok(())
            }
            Some(_) => Err("it asks for context (`includeContext`) that is not its own".to_owned()),
        }
    }
}

impl RefusedQuestion {
    /// The error that a legacy server gets.
    pub(crate) fn to_error(&self) -> RpcError {
        RpcError::new(code::INVALID_PARAMS, format!("the gateway did not ask: {}", self.why))
    }
}

fn read(asking: &ServerQuestion) -> Result<Map<String, Value>, String> {
    let Some(params) = &asking.params else { return Ok(Map::new()) };
    serde_json::from_str(params.get()).map_err(|_| "its parameters cannot be read".to_owned())
}

fn kind(asked: &str, params: &Map<String, Value>) -> Option<QuestionKind> {
    match asked {
        method::ROOTS_LIST => Some(QuestionKind::Roots),
        method::SAMPLING_CREATE => Some(QuestionKind::Sampling),
        method::ELICITATION_CREATE => match params.get("mode").map(Value::as_str) {
            None | Some(Some("form")) => Some(QuestionKind::Form),
            Some(Some("url")) => Some(QuestionKind::Url),
            Some(_) => None,
        },
        _ => None,
    }
}

/// A URL that a person may be sent to, spelled so that its real host shows: `https`, or `http` on this machine.
fn safe_url(text: &str) -> Option<String> {
    let is_plain = |character: char| !character.is_whitespace() && character != '\\';
    if text.len() > URL_BYTES_MAX || !text.chars().all(is_plain) || !legibility::hidden_characters(text).is_empty() {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let is_loopback = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback);
    (is_safe && url.username().is_empty() && url.password().is_none()).then(|| url.to_string())
}

#[cfg(test)]
mod tests;
