//! One connection to PostgreSQL: how it is made, what is checked before it is used, and its prepared
//! statements.

use std::{sync::Arc, time::Duration};

use tokio::task::spawn_blocking;
use tokio_postgres::{
    Client, Config, NoTls, Socket,
    config::{Host, TargetSessionAttrs},
    tls::MakeTlsConnect,
};

use super::{
    address::PostgresAddress,
    tls::{CertificateChecks, TlsRequirements},
};
use crate::{LedgerError, error::server_message, tls_failure::TlsFailure};

/// How long a connection may take to be made.
const CONNECT_MS_MAX: u64 = 5_000;
/// How long a whole transaction or query may take before the connection is given up.
pub(super) const ANSWER_MS_MAX: u64 = 20_000;
/// Limits that the server enforces on us. A process that was stopped in the middle must not keep its locks for
/// long. All our statements touch a few rows by an index; a plan that was made while a table was small must not
/// read the whole table, by any kind of scan or join, when it has grown.
const SETTINGS: &str = "set statement_timeout = '10s'; set lock_timeout = '5s'; \
    set idle_in_transaction_session_timeout = '10s'; set default_transaction_isolation = 'read committed'; \
    set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off; \
    set plan_cache_mode = force_generic_plan";

/// Makes connections to one database.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    config: Arc<Config>,
    tls: Option<Arc<TlsRequirements>>,
    server: String,
}

/// A connection that has passed the checks.
#[derive(Debug)]
pub(super) struct PostgresSession {
    pub(super) client: Client,
}

impl Connector {
    /// Reads a URL. Nothing is connected yet.
    pub(super) fn new(url: &str) -> Result<Self, LedgerError> {
        let PostgresAddress { mut config, tls } = PostgresAddress::read(url)?;
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.connect_timeout(Duration::from_millis(CONNECT_MS_MAX));
        config.tcp_user_timeout(Duration::from_millis(ANSWER_MS_MAX));
        config.keepalives_idle(Duration::from_secs(30));
        if config.get_application_name().is_none() {
            config.application_name("servanda");
        }
        let server = name(&config);
        if tls.as_ref().is_some_and(|terms| terms.checks == CertificateChecks::Nothing) {
            tracing::warn!(%server, "the certificate of the ledger's database is not checked, because the URL says `sslmode=no-verify`");
        }
        Ok(Self { config: Arc::new(config), tls: tls.map(Arc::new), server })
    }

    /// Which database, without the password.
    pub(super) fn server(&self) -> &str {
        self.server.trim_matches('`')
    }

    /// A connection to a primary that keeps what it acknowledges.
    pub(super) async fn connect(&self) -> Result<PostgresSession, LedgerError> {
        let failed = |reason: String| LedgerError::Connect { server: self.server.clone(), reason };
        let limit = Duration::from_millis(CONNECT_MS_MAX + ANSWER_MS_MAX);
        match tokio::time::timeout(limit, self.connect_now()).await {
            Ok(connected) => connected,
            Err(_) => Err(failed("it does not answer".to_owned())),
        }
    }

    async fn connect_now(&self) -> Result<PostgresSession, LedgerError> {
        let failed = |reason: String| LedgerError::Connect { server: self.server.clone(), reason };
        // Boxed: the state of connecting is large, and every future that opens a ledger would carry it.
        let client = match &self.tls {
            None => Box::pin(open(&self.config, NoTls)).await.map_err(|error| failed(server_message(&error)))?,
            Some(terms) => Box::pin(self.open_with_tls(terms)).await?,
        };
        let facts = client
            .query_one(
                "select pg_is_in_recovery(), current_setting('server_encoding'), current_setting('synchronous_commit')",
                &[],
            )
            .await?;
        // I8: decisions depend on what is read here, so it has to be a primary.
        if facts.try_get(0)? {
            return Err(failed("it is a standby; name the primary".to_owned()));
        }
        let encoding: String = facts.try_get(1)?;
        if encoding != "UTF8" {
            return Err(failed(format!("its encoding is {encoding}; make the database with UTF8")));
        }
        client.batch_execute(SETTINGS).await?;
        let synchronous: String = facts.try_get(2)?;
        if !["on", "remote_apply"].contains(&synchronous.as_str()) {
            client.batch_execute("set synchronous_commit = on").await?;
        }
        Ok(PostgresSession { client })
    }

    async fn open_with_tls(&self, terms: &Arc<TlsRequirements>) -> Result<Client, LedgerError> {
        let without_tls = |failure: TlsFailure| LedgerError::Tls { server: self.server.clone(), failure };
        let failed = |reason: String| LedgerError::Connect { server: self.server.clone(), reason };
        let read = Arc::clone(terms);
        let tls = spawn_blocking(move || read.connector()).await.map_err(|error| failed(error.to_string()))?;
        let opened = open(&self.config, tls.map_err(without_tls)?).await;
        opened.map_err(|error| match TlsFailure::from_connect_error(&error, terms) {
            Some(failure) => without_tls(failure),
            None => failed(server_message(&error)),
        })
    }
}

/// Connects, and drives the connection for as long as it lasts.
async fn open<T>(config: &Config, tls: T) -> Result<Client, tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::info!(error = %server_message(&error), "a connection to the ledger's database ended");
        }
    });
    Ok(client)
}

/// Host, port and database, for messages.
fn name(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("?");
    format!("`{}/{database}`", hosts.join(","))
}
