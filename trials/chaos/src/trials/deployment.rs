//! The deployment of a named trial: gateways on one store, a hostile upstream, and a history of every answer to a client and of
//! everything that the trial does to gateways and store.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    agent::{Answer, Order},
    checker,
    clock::now_ms,
    effects,
    gateway::{Gateway, Launch, NotStarted},
    history::{Asking, History},
    hostile::Hostile,
    http::Wire,
    matrix::Stop,
    options::Options,
    people::Keys,
    postgres::Postgres,
    rng::Rng,
    world::{ApprovalTimes, Setup, Store, USUAL_SILENCE_MS},
};

/// How long a client waits beyond the tool's own time limit.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long recovery may take when nothing fails any more, in multiples of the owner's silence.
const RECOVERY_SILENCES: u32 = 10;
const LISTED_MAX: usize = 20_000;
/// Smaller than any file of the ledger, so that none can be written.
const FULL_DISK_BYTES: u64 = 1;

/// How PostgreSQL becomes unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// It is stopped with `-m immediate`: its port is closed.
    Crash,
    /// Its processes are stopped: connections stay open, and nothing answers.
    Freeze,
}

/// One gateway of a deployment.
#[derive(Debug)]
pub struct Member {
    pub name: String,
    pub folder: PathBuf,
    pub gateway: Option<Gateway>,
}

/// The deployment of a trial.
#[derive(Debug)]
pub struct Deployment {
    pub store: Store,
    pub long: bool,
    pub setup: Setup,
    pub hostile: Arc<Hostile>,
    /// Further upstreams, whose files are judged too.
    pub others: Vec<Arc<Hostile>>,
    pub postgres: Option<Arc<Postgres>>,
    database: Option<String>,
    pub members: Vec<Member>,
    pub rng: Rng,
    history: OnceLock<Arc<History>>,
    trial: &'static str,
    seed: u64,
    counter: Arc<AtomicU64>,
    pub figures: Vec<String>,
    pub wrong: Vec<String>,
    /// The agent's API key, where gateways ask for credentials.
    pub credential: Option<String>,
    /// Whether the gateways' listing is judged at the end; not if there is no single ledger of all keys.
    pub is_listed: bool,
    /// The file with the uses of grants, if people made some.
    pub grants: Option<PathBuf>,
}

impl Deployment {
    pub async fn new(
        options: &Options,
        trial: &'static str,
        store: Store,
        folder: &Path,
        seed: u64,
    ) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let hostile = Arc::new(Hostile::start(folder, true).await?);
        let setup = Setup::probe(&options.servanda, folder, hostile.address).await?;
        Ok(Self {
            store,
            long: options.long,
            setup,
            hostile,
            others: Vec::new(),
            postgres: None,
            database: None,
            members: Vec::new(),
            rng: Rng::new(seed),
            history: OnceLock::new(),
            trial,
            seed,
            counter: Arc::default(),
            figures: Vec::new(),
            wrong: Vec::new(),
            credential: None,
            is_listed: true,
            grants: None,
        })
    }

    /// Starts gateways like in real deployments: one on SQLite, several on one PostgreSQL. Called when the setup is complete.
    pub async fn start_gateways(&mut self, replicas: usize) -> Result<(), Stop> {
        self.start_store().await?;
        for _ in 0..self.replicas(replicas) {
            let number = self.add_gateway()?;
            self.start(number, &Launch::default()).await?;
        }
        Ok(())
    }

    /// The same where calls that change something wait for people, who get keys first: without one the agent cannot greet a gateway.
    pub async fn start_with_people(&mut self, replicas: usize, times: ApprovalTimes) -> Result<Keys, Stop> {
        self.setup.approvals = Some(times);
        self.start_store().await?;
        for _ in 0..self.replicas(replicas) {
            self.add_gateway()?;
        }
        let keys = Keys::make(&self.setup, &self.members[0].folder).await?;
        self.credential = Some(keys.agent.clone());
        for number in 0..self.members.len() {
            self.start(number, &Launch::default()).await?;
        }
        Ok(keys)
    }

    /// Starts the store, if it is a server.
    pub async fn start_store(&mut self) -> Result<(), Stop> {
        if self.store == Store::Postgres {
            let postgres = Arc::new(Postgres::start(&self.setup.folder.join("postgres")).await?);
            self.database = Some(postgres.database("trial").await?);
            self.postgres = Some(postgres);
        }
        Ok(())
    }

    /// How many gateways can share the store: one a file.
    pub fn replicas(&self, wanted: usize) -> usize {
        if self.store == Store::Postgres { wanted } else { 1 }
    }

    /// Writes every configuration again, after the setup changed.
    pub fn write_again(&self) -> Result<(), Stop> {
        for member in &self.members {
            self.setup.write(&member.folder, self.database.as_deref()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Writes the configuration of one more gateway, without starting it.
    pub fn add_gateway(&mut self) -> Result<usize, String> {
        let name = format!("g{}", self.members.len());
        let folder = self.setup.folder.join(&name);
        self.setup.write(&folder, self.database.as_deref()).map_err(|error| error.to_string())?;
        self.members.push(Member { name, folder, gateway: None });
        Ok(self.members.len() - 1)
    }

    pub async fn start(&mut self, number: usize, launch: &Launch) -> Result<(), Stop> {
        self.try_start(number, launch).await.map_err(|why| Stop::Broken(why.into()))?;
        self.greet(number).await
    }

    /// Starts a gateway that may be right to refuse to start.
    pub async fn try_start(&mut self, number: usize, launch: &Launch) -> Result<(), NotStarted> {
        let history = self.history()?;
        let member = &mut self.members[number];
        history.gateway(&member.name, "started", &json!({ "stall_ms": launch.stall_ms() }));
        member.gateway = Some(Gateway::try_start(&self.setup, &member.folder, launch).await?);
        Ok(())
    }

    /// Lets a gateway connect to its upstream.
    pub async fn greet(&self, number: usize) -> Result<(), Stop> {
        let started = Instant::now();
        loop {
            let answer = self.ask(number, &self.order("read_r", None)).await;
            if answer.is_success() {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(Stop::Broken(format!("a gateway does not reach its upstream: {}", answer.short())));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn kill(&mut self, number: usize) {
        self.kill_since(number, now_ms()).await;
    }

    /// The same for a gateway that may have died by itself, since this time at the earliest.
    pub async fn kill_since(&mut self, number: usize, since_ms: u64) {
        let member = &mut self.members[number];
        if let Some(mut gateway) = member.gateway.take() {
            gateway.resume();
            gateway.kill().await;
            if let Some(history) = self.history.get() {
                history.gateway(&member.name, "killed", &json!({ "since_ms": since_ms }));
            }
        }
    }

    pub fn pause(&self, number: usize) {
        if let (Some(history), Some(gateway)) = (self.history.get(), &self.members[number].gateway) {
            history.gateway(&self.members[number].name, "paused", &json!({}));
            gateway.pause();
        }
    }

    pub fn resume(&self, number: usize) {
        if let (Some(history), Some(gateway)) = (self.history.get(), &self.members[number].gateway) {
            gateway.resume();
            history.gateway(&self.members[number].name, "resumed", &json!({}));
        }
    }

    pub fn gateway(&self, number: usize) -> Result<&Gateway, Stop> {
        let gateway = self.members.get(number).and_then(|member| member.gateway.as_ref());
        gateway.ok_or_else(|| Stop::Broken(format!("gateway {number} does not run")))
    }

    /// Another gateway, if there is one.
    pub fn other(&self, number: usize) -> usize {
        (number + 1) % self.members.len().max(1)
    }

    pub fn somewhere(&mut self) -> usize {
        self.rng.index(self.members.len())
    }

    /// How long an owner may be silent.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(self.setup.silence_ms)
    }

    /// Uses the owner's silence of real deployments; for the long form of a trial.
    pub fn take_usual_silence(&mut self) {
        self.setup.silence_ms = USUAL_SILENCE_MS;
    }
}

impl Deployment {
    /// A call with a new key.
    pub fn order(&self, tool: &str, account: Option<&str>) -> Order {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let class = tool.rsplit_once('_').map_or("", |(_, class)| class);
        let order = Order::new(tool, &format!("{}-{}-{class}-{number}", self.trial, self.store.name()));
        // Every tool with an account has one: its own if none is given.
        let bare = tool.rsplit_once('.').map_or(tool, |(_, bare)| bare);
        let needs_account = bare.starts_with("turn") || bare.starts_with("long");
        let account = account.map(str::to_owned).or_else(|| needs_account.then(|| format!("of-{}", order.business)));
        Order { account, limit_ms: self.setup.limit_ms(tool), credential: self.credential.clone(), ..order }
    }

    /// Makes a call and waits for the answer.
    pub async fn ask(&self, number: usize, order: &Order) -> Answer {
        match self.begin(number, order).await {
            Ok(answer) => answer,
            Err(error) => Answer::Nothing(error.to_string()),
        }
    }

    /// Makes a call and does not wait.
    pub fn begin(&self, number: usize, order: &Order) -> JoinHandle<Answer> {
        self.begin_after(number, order, Duration::ZERO)
    }

    /// The same, a little later.
    pub fn begin_after(&self, number: usize, order: &Order, wait: Duration) -> JoinHandle<Answer> {
        let order = order.clone();
        let place = self.place(number);
        let attempt = format!("{}-{}", self.trial, self.counter.fetch_add(1, Ordering::Relaxed));
        tokio::spawn(async move {
            let Some((history, gateway, address)) = place else {
                return Answer::Nothing("the gateway is gone".to_owned());
            };
            sleep(wait).await;
            let asking = Asking { who: attempt.clone(), gateway, attempt };
            let patience = PATIENCE + Duration::from_millis(order.limit_ms);
            history.ask(&asking, &order, &mut Wire::new(address), patience).await
        })
    }

    fn place(&self, number: usize) -> Option<(Arc<History>, String, SocketAddr)> {
        let member = self.members.get(number)?;
        Some((self.history.get()?.clone(), member.name.clone(), member.gateway.as_ref()?.address))
    }

    /// Asks with the same key until the answer is final, or time is over.
    pub async fn persist(&self, number: usize, order: &Order, patience: Duration) -> Answer {
        let started = Instant::now();
        loop {
            let answer = self.ask(number, order).await;
            let ended = answer.is_success() || answer.is_unknown_for_good() || answer.says_it_happened();
            if ended || started.elapsed() > patience {
                return answer;
            }
            let wait_ms = match &answer {
                Answer::Refused(refusal) => refusal.retry_after_ms.unwrap_or(200).clamp(50, 500),
                _ => 200,
            };
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Makes the store unavailable: PostgreSQL by an outage, SQLite by a full disk.
    pub async fn take_store_away(&self, outage: Outage) -> Result<(), Stop> {
        self.take_store_away_of(0, outage).await
    }

    /// The same, for a gateway with its own SQLite.
    pub async fn take_store_away_of(&self, number: usize, outage: Outage) -> Result<(), Stop> {
        let history = self.history()?;
        if let Some(postgres) = &self.postgres {
            history.store("away", &json!({ "how": format!("{outage:?}") }));
            match outage {
                Outage::Crash => postgres.crash().await?,
                Outage::Freeze => postgres.freeze()?,
            }
        } else {
            history.store("full", &json!({}));
            self.gateway(number)?.limit_files(Some(FULL_DISK_BYTES)).await?;
        }
        Ok(())
    }

    pub async fn bring_store_back(&self, outage: Outage) -> Result<(), Stop> {
        match (&self.postgres, outage) {
            (Some(postgres), Outage::Crash) => postgres.up(None).await?,
            (Some(postgres), Outage::Freeze) => postgres.thaw()?,
            (None, _) => self.gateway(0)?.limit_files(None).await?,
        }
        self.history()?.store("back", &json!({}));
        Ok(())
    }

    pub fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(otherwise());
        }
    }

    /// The history, which begins with the first gateway, because only then the owner's silence is known.
    pub fn history(&self) -> Result<Arc<History>, String> {
        if let Some(history) = self.history.get() {
            return Ok(history.clone());
        }
        let history = History::begin(&self.setup.folder, self.trial, self.seed, self.store, self.setup.silence_ms);
        let history = Arc::new(history.map_err(|error| error.to_string())?);
        Ok(self.history.get_or_init(|| history).clone())
    }
}

impl Deployment {
    /// Waits until nothing is running any more, and lets the checker judge every answer.
    pub async fn judge(&mut self) -> Result<checker::Verdict, String> {
        let Some(history) = self.history.get().cloned() else { return Ok(checker::Verdict::default()) };
        let listing = if self.is_listed { self.listing().await? } else { None };
        let read = |file: &Path| std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
        let upstreams = std::iter::once(&self.hostile).chain(&self.others);
        let books = upstreams.map(|upstream| read(&upstream.books_file)).collect::<Result<Vec<_>, _>>()?;
        let books: Vec<&str> = books.iter().map(String::as_str).collect();
        let grants = self.grants.as_deref().map(read).transpose()?;
        let listings = checker::Listings { effects: listing.as_deref(), grants: grants.as_deref() };
        checker::check(&read(&history.file)?, &books, listings)
    }

    /// The effects, when nothing is running any more.
    async fn listing(&mut self) -> Result<Option<String>, String> {
        let Some(member) = self.members.first() else { return Ok(None) };
        let (folder, started) = (member.folder.clone(), Instant::now());
        let patience = self.silence() * RECOVERY_SILENCES;
        loop {
            let left = effects::list(&self.setup, &folder, &["claimed", "dispatching"], LISTED_MAX).await?;
            if left.is_empty() {
                break;
            }
            if started.elapsed() > patience {
                let example = left.keys().next().cloned().unwrap_or_default();
                self.wrong.push(format!("{} effects are still under way, e.g. {example}", left.len()));
                return Ok(None);
            }
            sleep(Duration::from_millis(300)).await;
        }
        let rows = effects::rows(&self.setup, &folder, &[], LISTED_MAX).await?;
        let listing = json!(rows).to_string();
        std::fs::write(self.setup.folder.join("listing.json"), &listing).map_err(|error| error.to_string())?;
        Ok(Some(listing))
    }

    pub async fn end(&mut self) {
        for number in 0..self.members.len() {
            self.kill(number).await;
        }
    }
}
