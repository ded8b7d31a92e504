//! Resolves the hosts of URLs among a call's arguments before the call is sent, because a public name may have an internal address (T20).
//! The server resolves the name again, so this refuses a name that points inside now, not one that points inside a moment later.

use std::{net::SocketAddr, ops::Deref, time::Duration};

use servanda_contract::{FieldError, GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge};
use servanda_gates::{JudgedCall, UrlDestination};

/// How long resolving one name may take.
const LOOKUP_MS_MAX: u64 = 3_000;
/// How many URLs of one call are looked up; a call with more is refused.
const HOSTS_MAX: usize = 16;

/// Refuses a judged call if a host of its URLs has an address that the tool may not be sent to.
pub(crate) async fn look_up<T: Deref<Target = JudgedCall>>(judged: T) -> Result<T, Box<Refusal>> {
    let destinations = judged.destinations();
    if destinations.len() > HOSTS_MAX {
        return Err(refuse(&judged, "", &format!("a call may hold at most {HOSTS_MAX} URLs")));
    }
    for (pointer, destination) in &destinations {
        if let Err(why) = check(destination).await {
            return Err(refuse(&judged, pointer, &why));
        }
    }
    Ok(judged)
}

async fn check(destination: &UrlDestination) -> Result<(), String> {
    let lookup = tokio::net::lookup_host((destination.host.as_str(), destination.port));
    let found = tokio::time::timeout(Duration::from_millis(LOOKUP_MS_MAX), lookup).await;
    let found: Vec<SocketAddr> = match found {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(_)) | Err(_) => return Err("its host cannot be resolved".to_owned()),
    };
    if found.iter().all(|address| destination.network_allowed(address.ip())) {
        return Ok(());
    }
    Err("its host has an internal address, which is allowed only for hosts that the contract names in `hosts`"
        .to_owned())
}

fn refuse(judged: &JudgedCall, pointer: &str, why: &str) -> Box<Refusal> {
    let field = pointer.trim_start_matches('/').replace('/', ".");
    let error = FieldError {
        message: format!("`{field}`: {why}"),
        field,
        pointer: pointer.to_owned(),
        expected: "a URL that the contract allows for this tool".to_owned(),
        actual: "another URL".to_owned(),
        did_you_mean: None,
    };
    let hint = "use a URL of a public host, or ask the operator to name the host in the contract".to_owned();
    let class = TaxonomyClass::SemanticInvalidity;
    let mut refusal = Refusal::new(judged.call_id().clone(), GateName::Behaviour, class, error.message.clone(), hint);
    refusal.field_errors = vec![error];
    Box::new(refusal.with_effect(EffectKnowledge::None))
}
