//! What counts the calls of a gateway, and its page at `/metrics`: the figures of calls, and around them what the ledger, the catalog and the
//! upstreams know.
//!
//! A store that does not answer takes a second from the page and its own figures, nothing else. Deliberately not here: what is counted, and
//! how it is written.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderValue;
use servanda_approval::{Ticket, TicketNoticeKind, TicketState};
use servanda_authn::CredentialAuthenticator;
use servanda_config::MetricsConfig;
use servanda_contract::{Timestamp, record::ContractReference, time::Clock as _};
use servanda_doors::http::{AuthRejection, MetricsFormat, MetricsSource};
use servanda_effects::{
    PortFuture, TicketStore as _,
    effect::{EffectFilter, EffectQuery, EffectState, EffectStore},
    ticket_store::TicketQuery,
};
use servanda_engine::{
    Engine, SystemClock, UpstreamReachability,
    approvals::{ApprovalNotice, ApprovalNotifier},
};
use servanda_ledger::Ledger;
use servanda_telemetry::metrics::{
    ContractFactSource, ContractFacts, Metrics, PageFormat, PendingApprovals, Surroundings,
};
use tokio::time::Instant;

use super::{AssembledGateway, checkpoints::LogProgress, telemetry::CallTelemetry};

/// How long the page waits for the store.
const STORE_WAIT: Duration = Duration::from_secs(1);
/// How old the figures of the store may be: monitors that come more often do not ask it more often.
const STORE_FIGURES_AGE: Duration = Duration::from_secs(5);
/// Unknown effects that are counted.
const UNKNOWN_EFFECTS_MAX: u32 = 1_000;

/// What counts the calls of a gateway.
#[derive(Debug)]
pub(crate) struct GatewayMetrics {
    /// The figures.
    pub(crate) counted: Arc<Metrics>,
    contracts: Arc<CatalogFacts>,
    started_at: Timestamp,
}

/// Looks contracts up in the present catalog.
#[derive(Debug, Default)]
struct CatalogFacts(OnceLock<Weak<Engine>>);

/// The page at `/metrics`.
#[derive(Debug)]
pub(crate) struct MetricsPage {
    metrics: Arc<GatewayMetrics>,
    engine: Arc<Engine>,
    ledger: Arc<Ledger>,
    authenticator: Arc<CredentialAuthenticator>,
    log: Arc<LogProgress>,
    telemetry: Weak<CallTelemetry>,
    store: Mutex<Option<(Instant, StoreFigures)>>,
}

/// What only the store knows.
#[derive(Debug, Clone, Default)]
struct StoreFigures {
    pending: Option<Vec<PendingApprovals>>,
    unknown_effects: Option<u64>,
}

/// Measures how long tickets wait, and passes their notices on.
#[derive(Debug)]
struct MeasuringNotifier {
    metrics: Arc<GatewayMetrics>,
    next: Arc<dyn ApprovalNotifier>,
}

impl GatewayMetrics {
    /// Begins to count, if the configuration wants that.
    pub(crate) fn begin(config: &MetricsConfig) -> Option<Arc<Self>> {
        let contracts = Arc::<CatalogFacts>::default();
        let series_max = usize::try_from(config.series_max).unwrap_or(usize::MAX);
        config.enabled.then(|| {
            let counted = Arc::new(Metrics::new(series_max, contracts.clone()));
            Arc::new(Self { counted, contracts, started_at: SystemClock.now() })
        })
    }

    /// From now on the contracts of that engine are known.
    pub(crate) fn know(&self, engine: &Arc<Engine>) {
        // Set only once, because a gateway has one engine.
        let _ = self.contracts.0.set(Arc::downgrade(engine));
    }
}

impl AssembledGateway {
    /// The page with the figures, if calls are counted.
    pub(crate) fn metrics_page(&self) -> Option<Arc<MetricsPage>> {
        let metrics = self.metrics.clone()?;
        Some(Arc::new(MetricsPage {
            metrics,
            engine: Arc::clone(&self.engine),
            ledger: Arc::clone(&self.ledger),
            authenticator: Arc::clone(&self.authenticator),
            log: Arc::clone(&self.log_progress),
            telemetry: Weak::clone(&self.telemetry),
            store: Mutex::default(),
        }))
    }

    /// A notifier that also measures tickets, if anything is measured.
    pub(crate) fn measuring(&self, next: Arc<dyn ApprovalNotifier>) -> Arc<dyn ApprovalNotifier> {
        match self.metrics.clone() {
            Some(metrics) => Arc::new(MeasuringNotifier { metrics, next }),
            None => next,
        }
    }
}

impl ContractFactSource for CatalogFacts {
    fn facts(&self, contract: &ContractReference) -> Option<ContractFacts> {
        let catalog = self.0.get()?.upgrade()?.catalog();
        let found = catalog
            .entries()
            .map(|(_, entry)| entry.contract.contract())
            .find(|found| found.identity.name == contract.name && found.identity.version == contract.version)?;
        Some(ContractFacts::of_contract(found))
    }
}

impl MetricsSource for MetricsPage {
    fn count_rejection(&self, reason: &'static str) {
        self.metrics.counted.door_rejected(reason);
    }

    fn is_open(&self) -> bool {
        self.authenticator.is_local()
    }

    fn admit<'a>(&'a self, authorization: Option<&'a HeaderValue>) -> PortFuture<'a, Result<(), AuthRejection>> {
        Box::pin(self.authenticator.admit_monitor(authorization))
    }

    fn page(&self, format: MetricsFormat) -> PortFuture<'_, Bytes> {
        Box::pin(async move {
            let surroundings = self.surroundings(self.store_figures().await);
            let format = match format {
                MetricsFormat::Text => PageFormat::Text,
                MetricsFormat::OpenMetrics => PageFormat::OpenMetrics,
            };
            self.metrics.counted.page(&surroundings, format).into()
        })
    }
}

impl MetricsPage {
    fn surroundings(&self, store: StoreFigures) -> Surroundings {
        let log = self.log.figures();
        let (_, unsafe_retries, blind_retries) = self.engine.retry_counts();
        let answering = self.engine.discovery().reachability();
        Surroundings {
            pending_approvals: store.pending,
            unknown_effects: store.unknown_effects,
            log_leaves: log.leaves,
            log_leaves_unsigned: log.leaves.map(|leaves| leaves.saturating_sub(log.signed)),
            log_signing_failures: log.failures,
            store_takes_writes: self.ledger.write_health().refused_ms_ago.is_none(),
            records_lost: self.ledger.lost_count(),
            upstreams: answering.into_iter().map(|(id, known)| (id, known == UpstreamReachability::Yes)).collect(),
            retries_refused: [unsafe_retries, blind_retries],
            spans_dropped: self.telemetry.upgrade().and_then(|telemetry| telemetry.dropped_spans()),
            version: env!("CARGO_PKG_VERSION"),
            started_at: Some(self.metrics.started_at),
        }
    }

    /// The store's figures, asked now unless they are fresh. What it does not answer in time is not known.
    async fn store_figures(&self) -> StoreFigures {
        let kept = self.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, figures)) = kept.filter(|(asked_at, _)| asked_at.elapsed() < STORE_FIGURES_AGE) {
            return figures;
        }
        let unknown = EffectQuery {
            states: vec![EffectState::OutcomeUnknown],
            filter: EffectFilter::default(),
            after: None,
            limit: UNKNOWN_EFFECTS_MAX,
        };
        let asked = async {
            tokio::join!(
                self.ledger.list_tickets(TicketQuery::pending(None)),
                EffectStore::list(&*self.ledger, unknown)
            )
        };
        let figures = match tokio::time::timeout(STORE_WAIT, asked).await {
            Ok((tickets, effects)) => StoreFigures {
                pending: tickets.ok().map(|tickets| pending(&tickets)),
                unknown_effects: effects.ok().map(|effects| u64::try_from(effects.len()).unwrap_or(u64::MAX)),
            },
            Err(_) => StoreFigures::default(),
        };
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), figures.clone()));
        figures
    }
}

impl ApprovalNotifier for MeasuringNotifier {
    fn notify(&self, notice: ApprovalNotice) -> PortFuture<'_, ()> {
        let tool = notice.ticket.subject.contract.as_str();
        match notice.kind {
            TicketNoticeKind::Opened => self.metrics.counted.approval_requested(tool),
            TicketNoticeKind::Outcome => {
                let decided_ms = notice.ticket.decided_ms.unwrap_or(notice.ticket.changed_ms);
                let waited_ms = decided_ms.saturating_sub(notice.ticket.created_ms);
                self.metrics.counted.approval_resolved(tool, resolution(notice.ticket.state), waited_ms);
            }
            TicketNoticeKind::Escalated | TicketNoticeKind::Reminder => {}
        }
        self.next.notify(notice)
    }
}

/// What a ticket came to, in a word.
const fn resolution(state: TicketState) -> &'static str {
    match state {
        TicketState::Pending => "pending",
        TicketState::Approved | TicketState::Consumed | TicketState::Lapsed => "approved",
        TicketState::Denied => "denied",
        TicketState::AutoDenied => "timed_out",
        TicketState::Superseded => "superseded",
    }
}

/// How many tickets wait for each group.
fn pending(tickets: &[Ticket]) -> Vec<PendingApprovals> {
    let mut counts = BTreeMap::<(String, String), u64>::new();
    for ticket in tickets {
        let groups: Vec<&str> = match ticket.demand.groups.len() {
            0 => vec![""],
            _ => ticket.demand.groups.iter().map(String::as_str).collect(),
        };
        for group in groups {
            *counts.entry((ticket.subject.contract.clone(), group.to_owned())).or_default() += 1;
        }
    }
    counts.into_iter().map(|((tool, group), count)| PendingApprovals { tool, group, count }).collect()
}
