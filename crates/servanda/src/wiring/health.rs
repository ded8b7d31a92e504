//! What `/livez`, `/healthz` and `/readyz` report, from the ledger's last results and from whether upstreams answered. A health check sends
//! no request itself.

use std::sync::Arc;

use servanda_authn::CredentialAuthenticator;
use servanda_doors::http::{Health, HealthProblem, UpstreamsReport};
use servanda_effects::{
    Journal as _, RecordsRefused,
    effect::{EffectStore as _, owner_silence_ms_max},
};
use servanda_engine::{Engine, UpstreamReachability};
use servanda_ledger::{Ledger, WriteHealth};
use tokio_util::sync::CancellationToken;

/// How long ago the last heartbeat may have begun. A store that hangs delays a heartbeat by two minutes at most, and a restart would not
/// help; a loop that has begun none for longer is stuck.
const BEAT_BEGAN_MS_MAX: u64 = 300_000;

/// Running calls are still settled, and used keys are still answered.
const OUT_OF_ROOM: HealthProblem = HealthProblem {
    code: "out_of_room",
    message: "the ledger is running out of room, so new calls that change something are refused until there is room; \
           `servanda ledger status` says how much it uses",
};

/// Records of answered calls wait for the store. Reads may still be answered, for a while.
const RECORDS_WAIT: HealthProblem = HealthProblem {
    code: "records_wait",
    message: "records of calls wait for the ledger's store, so calls are refused until it takes them; \
           the log has the reason, and `servanda doctor` looks at the ledger",
};

/// Calls of the classes `HIGH_RISK_EXTERNAL` and `CRITICAL_MUTATION` do not begin.
const LOG_BEHIND: HealthProblem = HealthProblem {
    code: "log_behind",
    message: "the verifiable log cannot keep up, so high-risk calls are refused until it is signed again; \
           the log has the reason, and `servanda audit` shows how far it is",
};

/// The catalog knows nothing yet about some upstreams' tools.
const UPSTREAMS_STARTING: HealthProblem = HealthProblem {
    code: "starting",
    message: "not every upstream has answered yet; each is waited for, for ten seconds at most",
};

/// A gateway's health, by its ledger and its upstreams.
#[derive(Debug)]
pub(crate) struct LedgerHealth {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) authenticator: Arc<CredentialAuthenticator>,
    /// Cancelled when every upstream has answered once, or the wait for them is over.
    pub(crate) asked: CancellationToken,
    /// A digest that identifies its configuration.
    pub(crate) configuration: Option<String>,
}

impl Health for LedgerHealth {
    fn alive(&self) -> Result<(), HealthProblem> {
        alive(self.ledger.write_health())
    }

    fn store(&self) -> Result<(), HealthProblem> {
        ready(self.ledger.write_health())
    }

    fn ready(&self) -> Result<(), HealthProblem> {
        if self.ledger.out_of_room().is_some() {
            return Err(OUT_OF_ROOM);
        }
        ready(self.ledger.write_health())?;
        if matches!(self.ledger.refuses_records(), Some(RecordsRefused::Waiting(_))) {
            return Err(RECORDS_WAIT);
        }
        if self.ledger.log_is_behind().is_some() {
            return Err(LOG_BEHIND);
        }
        if self.asked.is_cancelled() { Ok(()) } else { Err(UPSTREAMS_STARTING) }
    }

    fn upstreams(&self) -> Option<UpstreamsReport> {
        let known = self.engine.discovery().reachability();
        let silent: Vec<&String> =
            known.iter().filter(|(_, answering)| **answering != UpstreamReachability::Yes).map(|(id, _)| id).collect();
        let not_answering = silent.len();
        // Any client may ask. If callers need credentials, ids are only in the log.
        let named = self.authenticator.is_local() && not_answering > 0;
        let not_answering_ids = named.then(|| silent.into_iter().cloned().collect());
        Some(UpstreamsReport { answering: known.len() - not_answering, not_answering, not_answering_ids })
    }

    fn configuration(&self) -> Option<&str> {
        self.configuration.as_deref()
    }

    fn store_wrote_ms_ago(&self) -> Option<u64> {
        self.ledger.write_health().accepted_ms_ago
    }
}

fn alive(standing: WriteHealth) -> Result<(), HealthProblem> {
    // Before the first heartbeat, the gateway is starting.
    match standing.beat_began_ms_ago {
        Some(ago_ms) if ago_ms > BEAT_BEGAN_MS_MAX => Err(HealthProblem {
            code: "loop_stands_still",
            message: "the loop that tells other gateways that this one is alive is stuck; restart the gateway",
        }),
        _ => Ok(()),
    }
}

/// A store that recently accepted a write, and has rejected none since, is expected to accept the next. "Recently" is the time after which
/// other gateways consider this one dead.
fn ready(standing: WriteHealth) -> Result<(), HealthProblem> {
    let (code, told) = match standing {
        WriteHealth { refused_ms_ago: Some(_), .. } => (
            "store_refuses_writes",
            "the ledger rejected the last write, so calls that change something are refused; \
             the log has the reason, and `servanda doctor` looks at the ledger",
        ),
        WriteHealth { accepted_ms_ago: None, .. } => ("starting", "the ledger has not accepted a write yet"),
        WriteHealth { accepted_ms_ago: Some(ago_ms), .. } if ago_ms > owner_silence_ms_max() => (
            "store_silent",
            "the ledger has not answered to a write for too long; `servanda doctor` looks at the ledger",
        ),
        WriteHealth { .. } => return Ok(()),
    };
    Err(HealthProblem { code, message: told })
}

#[cfg(test)]
mod tests {
    use servanda_ledger::WriteHealth;

    use super::{BEAT_BEGAN_MS_MAX, alive, ready};

    #[test]
    fn the_last_write_decides() {
        let standing =
            |accepted_ms_ago, refused_ms_ago| WriteHealth { accepted_ms_ago, refused_ms_ago, beat_began_ms_ago: None };
        let table = [
            (standing(None, None), Some("starting")),
            (standing(None, Some(1)), Some("store_refuses_writes")),
            (standing(Some(5_000), None), None),
            (standing(Some(15_000), None), None),
            (standing(Some(15_001), None), Some("store_silent")),
            (standing(Some(10), Some(10)), Some("store_refuses_writes")),
        ];
        for (standing, code) in table {
            assert_eq!(ready(standing).err().map(|ailment| ailment.code), code, "{standing:?}");
        }
    }

    #[test]
    fn a_store_that_is_away_is_no_reason_to_restart() {
        let began = |beat_began_ms_ago| WriteHealth { refused_ms_ago: Some(1), beat_began_ms_ago, ..<_>::default() };
        assert!(alive(began(None)).is_ok());
        assert!(alive(began(Some(BEAT_BEGAN_MS_MAX))).is_ok());
        assert_eq!(alive(began(Some(BEAT_BEGAN_MS_MAX + 1))).unwrap_err().code, "loop_stands_still");
    }
}
