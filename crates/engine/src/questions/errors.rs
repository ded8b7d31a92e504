//! A server's error as a caller may be told of it. An error can ask too: with the code for "elicitation by URL required" it sends a person
//! to addresses.

use std::{borrow::Cow, fmt, ops::Deref};

use serde_json::{Map, Value, value::RawValue};
use servanda_contract::record::QuestionRecord;
use servanda_mcp::{
    RawObject, RpcError,
    envelope::{code, to_json},
    fields::{member, meta, method},
    shape,
};
use servanda_upstream::PerformFailure;

use super::{QUESTIONS_MAX, QuestionRules, RefusedQuestion, ServerQuestion, wording::legible_in_brief};

/// The member of an error's data that has the elicitations.
const ELICITATIONS: &str = "elicitations";

/// A failure as a caller may be told it. Only [`QuestionRules::failure_for_client`] makes one.
#[derive(Debug, Clone)]
pub(crate) struct ClientFailure(PerformFailure);

impl Deref for ClientFailure {
    type Target = PerformFailure;

    fn deref(&self) -> &PerformFailure {
        &self.0
    }
}

impl fmt::Display for ClientFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl QuestionRules {
    /// A failure as the caller may be told of it. What it asks goes on record.
    pub(crate) fn failure_for_client(
        &self,
        failure: PerformFailure,
        record: &mut Vec<QuestionRecord>,
    ) -> ClientFailure {
        let PerformFailure::Rejected { code, message, data, era } = failure else { return ClientFailure(failure) };
        let RpcError { code, message, data } = self.error_for_client(RpcError { code, message, data }, record);
        ClientFailure(PerformFailure::Rejected { code, message, data, era })
    }

    /// The same for an error that is not the answer itself, but stands inside one.
    pub(crate) fn error_for_client(&self, error: RpcError, record: &mut Vec<QuestionRecord>) -> RpcError {
        let RpcError { code, message, data } = error;
        let others = data.as_deref().and_then(plain);
        let asked = data.as_deref().filter(|_| code == code::URL_ELICITATION_REQUIRED).and_then(elicitations);
        let Some(asked) = asked else {
            return RpcError { code, message: legible_in_brief(&message).into_owned(), data: others };
        };
        match self.elicitations_for_client(asked, record) {
            Ok(elicitations) => {
                let others = others.as_deref().and_then(|raw| serde_json::from_str(raw.get()).ok());
                let mut json = String::from("{");
                others.unwrap_or_else(RawObject::default).write_members(&mut json);
                json.extend([&to_json(ELICITATIONS), ":[", &elicitations.join(","), "]}"]);
                let message = legible_in_brief(&message).into_owned();
                RpcError { code, message, data: RawValue::from_string(json).ok() }
            }
            Err(why) => {
                let upstream = &self.upstream;
                let message = format!("`{upstream}` wants the user to visit a URL, and the gateway did not ask: {why}");
                RpcError { code, message, data: None }
            }
        }
    }

    /// The elicitations of an error as the caller gets them. If one may not be asked, the caller gets none of them, because the request
    /// fails without it.
    fn elicitations_for_client(
        &self,
        asked: &RawValue,
        record: &mut Vec<QuestionRecord>,
    ) -> Result<Vec<String>, String> {
        let asked: Vec<Map<String, Value>> =
            serde_json::from_str(asked.get()).map_err(|_| "its elicitations cannot be read".to_owned())?;
        if asked.is_empty() || asked.len() > QUESTIONS_MAX {
            return Err(format!("it has {} elicitations", asked.len()));
        }
        let put = |mut params: Map<String, Value>| {
            params.entry("mode").or_insert_with(|| Value::String("url".to_owned()));
            if params.get("mode").and_then(Value::as_str) != Some("url") {
                return Err("one of its elicitations is none by URL".to_owned());
            }
            let params = serde_json::value::to_raw_value(&params).ok();
            let asking = ServerQuestion { method: method::ELICITATION_CREATE.to_owned(), params };
            let put = self.check(asking, record).map_err(|RefusedQuestion { why, .. }| why)?;
            Ok(put.params().map_or_else(|| "{}".to_owned(), |params| params.get().to_owned()))
        };
        asked.into_iter().map(put).collect()
    }
}

/// The elicitations in an error's data, if it has any.
fn elicitations(data: &RawValue) -> Option<&RawValue> {
    serde_json::from_str::<RawObject<'_>>(data.get()).ok()?.get(ELICITATIONS)
}

/// Data without questions, without members that only the gateway may write, and with hidden characters spelled out. None if it cannot
/// be read, or if two names in it would become equal.
fn plain(data: &RawValue) -> Option<Box<RawValue>> {
    let is_unwanted =
        |name: &str| name.starts_with(meta::OWN) || [ELICITATIONS, member::INPUT_REQUESTS].contains(&name);
    let kept = shape::without_members(data, is_unwanted).map_or(Cow::Borrowed(data.get()), Cow::Owned);
    let shown = shape::with_texts(&kept, legible_in_brief)?;
    RawValue::from_string(shown.into_owned()).ok()
}
