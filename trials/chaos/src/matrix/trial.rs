//! One case of the matrix: a row, a class and a store, with what it needs to set up its crash point and to inspect the result.
//! Mistakes are collected, not thrown: a case reports everything it saw.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    agent::{Answer, Order},
    effects::{self, Seen},
    gateway::{Gateway, Launch},
    hostile::Hostile,
    postgres::Postgres,
    upstream::{Account, script::HONEST},
    world::{Class, Setup, Store},
};

/// How long a client waits for one call.
pub const CALL_PATIENCE: Duration = Duration::from_secs(12);
/// How long a client asks again until it gets a final answer.
const RETRY_PATIENCE: Duration = Duration::from_secs(25);
const RETRY_WAIT_MS_MAX: u64 = 400;
/// How long a crash point may take to be reached.
const CRASH_PATIENCE: Duration = Duration::from_secs(5);
const READ_CRASH_PATIENCE: Duration = Duration::from_millis(500);
/// The most effects that are searched for the case's own.
const LISTED_MAX: usize = 10_000;

/// Why a case ended early.
#[derive(Debug)]
pub enum Stop {
    /// The feature that it tests does not exist yet.
    NotYet(String),
    /// It tests something that this store does not have.
    NotHere(String),
    /// It could not be set up or inspected.
    Broken(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

/// What all cases on one store share.
#[derive(Debug)]
pub struct Stage {
    pub setup: Setup,
    pub hostile: Arc<Hostile>,
    pub store: Store,
    pub postgres: Option<Arc<Postgres>>,
}

/// One case.
#[derive(Debug)]
pub struct Trial {
    pub stage: Arc<Stage>,
    pub class: Class,
    pub name: String,
    pub folder: PathBuf,
    /// Its database, if it is on PostgreSQL.
    database: Option<String>,
    pub order: Order,
    /// The replica that is crashed or paused.
    pub victim: Option<Gateway>,
    /// On PostgreSQL, another replica on the same database, started when it is first needed: until then no replica recovers
    /// what the victim left.
    pub other: Option<Gateway>,
    /// What differs from the specification.
    pub wrong: Vec<String>,
}

impl Trial {
    /// A case with a folder and, on PostgreSQL, a database of its own.
    pub async fn new(stage: &Arc<Stage>, class: Class, name: &str) -> Result<Self, String> {
        let folder = stage.setup.folder.join(format!("{}-{name}", stage.store.name()));
        let database = match &stage.postgres {
            Some(postgres) => Some(postgres.database(name).await?),
            None => None,
        };
        stage.setup.write(&folder, database.as_deref()).map_err(|error| error.to_string())?;
        let business = format!("{}-{name}", stage.store.name());
        let order = Order::new(&class.tool("pay"), &business);
        let (stage, name) = (stage.clone(), name.to_owned());
        Ok(Self { stage, class, name, folder, database, order, victim: None, other: None, wrong: Vec::new() })
    }

    /// Writes the case's configuration again, by another setup.
    pub fn write(&self, setup: &Setup) -> Result<(), Stop> {
        Ok(setup.write(&self.folder, self.database.as_deref()).map_err(|error| error.to_string())?)
    }

    /// Starts the victim with these faults, not yet armed, and lets it connect to its upstream.
    pub async fn start(&mut self, faults: Option<&str>) -> Result<SocketAddr, Stop> {
        let launch = Launch { faults: faults.map(str::to_owned), waits_for_arm: true, seed: 1, clock: None };
        self.start_with(&launch).await
    }

    pub async fn start_with(&mut self, launch: &Launch) -> Result<SocketAddr, Stop> {
        let gateway = Gateway::start(&self.stage.setup, &self.folder, launch).await?;
        let address = gateway.address;
        self.victim = Some(gateway);
        let greeting = Order {
            tool: "read_r".to_owned(),
            key: format!("greeting-{}-{}", self.order.key, address.port()),
            business: format!("greeting-{}-{}", self.order.business, address.port()),
            ..self.order.clone()
        };
        let greeted = Order { script: HONEST.to_owned(), ..greeting }.call(address, CALL_PATIENCE).await;
        if !greeted.is_success() {
            return Err(Stop::Broken(format!("the gateway does not reach its upstream: {}", greeted.short())));
        }
        // A read's record is committed a moment after its answer; a fault must not hit that commit.
        sleep(Duration::from_millis(100)).await;
        Ok(address)
    }

    pub fn victim(&mut self) -> Result<&mut Gateway, Stop> {
        self.victim.as_mut().ok_or_else(|| Stop::Broken("there is no victim".to_owned()))
    }

    pub fn arm(&mut self) -> Result<(), Stop> {
        Ok(self.victim()?.arm()?)
    }

    pub async fn kill(&mut self) -> Result<(), Stop> {
        self.victim()?.kill().await;
        Ok(())
    }

    /// Calls, and waits for the answer.
    pub async fn call(&self, address: SocketAddr) -> Answer {
        self.order.call(address, CALL_PATIENCE).await
    }

    /// Calls, and does not wait.
    pub fn begin(&self, address: SocketAddr) -> JoinHandle<Answer> {
        let order = self.order.clone();
        tokio::spawn(async move { order.call(address, CALL_PATIENCE).await })
    }

    /// Fails unless the victim died of its fault. A read may reach no commit; its victim is killed anyway.
    pub async fn died(&mut self) -> Result<(), Stop> {
        if !self.class.mutates() {
            self.victim()?.ended(READ_CRASH_PATIENCE).await;
            return self.kill().await;
        }
        if self.victim()?.ended(CRASH_PATIENCE).await {
            return Ok(());
        }
        Err(Stop::Broken("the crash point was not reached: the fault did not fire".to_owned()))
    }

    /// Fails unless a call holds at the upstream.
    pub async fn held(&self, name: &str) -> Result<(), Stop> {
        if self.stage.hostile.holds(name, CRASH_PATIENCE).await? {
            return Ok(());
        }
        Err(Stop::Broken(format!("no call of `{name}` reached the upstream")))
    }

    pub async fn release(&self, name: &str) -> Result<(), Stop> {
        Ok(self.stage.hostile.release(name).await?)
    }

    /// A replica that can be asked: another one, or on SQLite the victim, restarted if it died.
    pub async fn home(&mut self) -> Result<SocketAddr, Stop> {
        if self.stage.store == Store::Postgres {
            if let Some(other) = &self.other {
                return Ok(other.address);
            }
            let folder = self.folder.join("other");
            self.stage.setup.write(&folder, self.database.as_deref()).map_err(|error| error.to_string())?;
            let other = Gateway::start(&self.stage.setup, &folder, &Launch::default()).await?;
            let address = other.address;
            self.other = Some(other);
            return Ok(address);
        }
        if let Some(victim) = &mut self.victim
            && victim.is_running()
        {
            return Ok(victim.address);
        }
        self.start(None).await
    }

    /// Asks again with the same key, like an impatient agent, until the answer is final. Returns also how often the answer was
    /// that the call is running.
    pub async fn persist(&mut self) -> Result<(Answer, u32), Stop> {
        let home = self.home().await?;
        self.persist_at(home).await
    }

    pub async fn persist_at(&mut self, address: SocketAddr) -> Result<(Answer, u32), Stop> {
        let (started, mut conflicts) = (Instant::now(), 0);
        loop {
            let answer = self.call(address).await;
            let wait_ms = match &answer {
                Answer::Refused(refusal) if refusal.code == "IDEMPOTENCY_CONFLICT" => {
                    conflicts += 1;
                    refusal.retry_after_ms.unwrap_or(RETRY_WAIT_MS_MAX)
                }
                Answer::Refused(refusal) if refusal.can_be_asked_again() => 200,
                Answer::Nothing(_) => 100,
                Answer::Success { .. } | Answer::Strange(_) | Answer::Refused(_) => return Ok((answer, conflicts)),
            };
            if started.elapsed() > RETRY_PATIENCE {
                return Ok((answer, conflicts));
            }
            sleep(Duration::from_millis(wait_ms.min(RETRY_WAIT_MS_MAX))).await;
        }
    }

    /// What the upstream's books say.
    pub async fn account(&self) -> Result<Account, Stop> {
        Ok(self.stage.hostile.account(&self.order.business).await?)
    }

    /// What the gateway says about the key.
    pub async fn seen(&self) -> Result<Option<Seen>, Stop> {
        let mut listing = effects::list(&self.stage.setup, &self.folder, &[], LISTED_MAX).await?;
        Ok(listing.remove(&self.order.key))
    }

    /// Waits until the key is in this state.
    pub async fn reaches(&self, state: &str) -> Result<(), Stop> {
        let started = Instant::now();
        while started.elapsed() < CRASH_PATIENCE {
            if self.seen().await?.is_some_and(|seen| seen.state == state) {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(Stop::Broken(format!("the state does not become `{state}`")))
    }

    /// Records a mistake unless the condition holds.
    pub fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(otherwise());
        }
    }

    /// The state is one of these; the empty word means no effect at all. Reads need not leave one.
    pub async fn expect_state(&mut self, when: &str, states: &[&str]) {
        if !self.class.mutates() {
            return;
        }
        match self.seen().await {
            Ok(seen) => {
                let state = seen.map(|seen| seen.state).unwrap_or_default();
                self.expect(states.contains(&state.as_str()), || {
                    format!("{when}: the state is `{state}`, not one of {states:?}")
                });
            }
            Err(Stop::Broken(why) | Stop::NotYet(why) | Stop::NotHere(why)) => {
                self.wrong.push(format!("{when}: the state is not known: {why}"));
            }
        }
    }

    /// The upstream's books have this many effects.
    pub async fn expect_effects(&mut self, when: &str, count: usize) -> Result<(), Stop> {
        let effects = self.account().await?.receipts.len();
        let count = if self.class.mutates() { count } else { 0 };
        self.expect(effects == count, || format!("{when}: {effects} effects, not {count}"));
        Ok(())
    }

    pub fn expect_success(&mut self, when: &str, answer: &Answer) {
        self.expect(answer.is_success(), || format!("{when}: {}", answer.short()));
    }

    /// An answer is repeated byte for byte, without asking the upstream.
    pub async fn expect_replay(&mut self, when: &str, first: &Answer, address: SocketAddr) -> Result<(), Stop> {
        let Answer::Success { content, .. } = first else { return Ok(()) };
        if !self.class.mutates() {
            return Ok(());
        }
        let before = self.account().await?.calls;
        let again = self.call(address).await;
        let same = matches!(&again, Answer::Success { content: again, replayed: true } if again == content);
        self.expect(same, || format!("{when}: it was answered with {content}, and then with {}", again.short()));
        let calls = self.account().await?.calls;
        self.expect(calls == before, || format!("{when}: the replay made {} calls to the upstream", calls - before));
        Ok(())
    }
}

impl Trial {
    /// What follows by class if no client was told how a dispatch ended; `done` is whether it had happened. Called when only a
    /// retry or recovery can still change something.
    pub async fn expect_settled_by_class(&mut self, done: bool) -> Result<(), Stop> {
        let before = self.account().await?;
        let (answer, _) = self.persist().await?;
        match self.class {
            Class::R => self.expect_success("the retry of a read", &answer),
            Class::K => self.expect_success("the retry with a key the upstream knows", &answer),
            Class::Q => {
                let told = answer.is_success() || (done && answer.says_it_happened());
                self.expect(told, || format!("the retry after a query: {}", answer.short()));
                self.expect_state("after the query", &["completed"]).await;
            }
            Class::N => {
                self.expect(answer.is_unknown(), || format!("the retry of an unknown effect: {}", answer.short()));
                self.expect_state("after the retry", &["outcome_unknown"]).await;
                let calls = self.account().await?.calls;
                self.expect(calls == before.calls, || "class N was sent again".to_owned());
            }
        }
        self.expect_effects("in the end", usize::from(done || self.class != Class::N)).await?;
        let home = self.home().await?;
        self.expect_replay("in the end", &answer, home).await
    }

    /// Uses the tool that asks for something before bytes may leave, so that a claim is not yet a dispatch.
    pub fn checks_first(&mut self) -> Result<(), Stop> {
        self.order.tool = self.class.tool("checked");
        if !self.class.mutates() {
            return Err(Stop::NotHere("reads are not claimed".to_owned()));
        }
        if !self.stage.setup.has_preconditions {
            let why = "this binary checks no preconditions, so that nothing is claimed and not dispatched";
            return Err(Stop::NotYet(why.to_owned()));
        }
        Ok(())
    }

    pub fn only_with_replicas(&self) -> Result<(), Stop> {
        match self.stage.store {
            Store::Postgres => Ok(()),
            Store::Sqlite => Err(Stop::NotHere("a file has one gateway".to_owned())),
        }
    }

    pub fn only_on_sqlite(&self, elsewhere: &str) -> Result<(), Stop> {
        match self.stage.store {
            Store::Sqlite => Ok(()),
            Store::Postgres => Err(Stop::NotHere(elsewhere.to_owned())),
        }
    }
}
