//! What fails under the clients, and when: replicas die, stall, lose their disk or their clock, and run with failpoints; the
//! database and the upstream crash. At the end everything is healed.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use serde_json::json;

use super::Scene;
use crate::{
    clock::now_ms,
    gateway::{Gateway, Launch, faketime},
    postgres::Postgres,
    rng::Rng,
    world::{OWNER_SILENCE_MS, Store, gateway_name},
};

const START_ATTEMPTS_MAX: u32 = 5;

/// One replica, alive or not.
#[derive(Debug)]
pub struct Replica {
    folder: PathBuf,
    gateway: Option<Gateway>,
    /// When a pause or a full disk ends.
    until: Option<Instant>,
    /// Whether it is a pause.
    paused: bool,
    /// When it was last seen running.
    seen_ms: u64,
}

/// Everything that may fail.
pub struct Disasters<'a> {
    scene: Arc<Scene>,
    replicas: Vec<Replica>,
    rng: Rng,
    postgres: Option<&'a Postgres>,
    calm: bool,
    next: Instant,
    database_up_at: Option<Instant>,
    /// Whether the database is only stopped, not ended.
    database_frozen: bool,
    counts: BTreeMap<&'static str, u64>,
}

impl Replica {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, gateway: None, until: None, paused: false, seen_ms: 0 }
    }
}

impl<'a> Disasters<'a> {
    pub fn new(
        scene: Arc<Scene>,
        replicas: Vec<Replica>,
        rng: Rng,
        postgres: Option<&'a Postgres>,
        calm: bool,
    ) -> Self {
        let (next, counts) = (Instant::now() + Duration::from_secs(1), BTreeMap::new());
        Self { scene, replicas, rng, postgres, calm, next, database_up_at: None, database_frozen: false, counts }
    }

    /// How often each disaster happened.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }

    pub async fn start_all(&mut self) -> Result<(), String> {
        for number in 0..self.replicas.len() {
            self.start(number, &Launch::default()).await?;
        }
        Ok(())
    }

    /// Ends disasters that are over, restarts what died, and starts the next disaster when it is due.
    pub async fn tick(&mut self) {
        let now = Instant::now();
        if self.database_up_at.is_some_and(|up_at| now >= up_at) {
            // It is tried again if it does not start.
            let _ = self.bring_back().await;
        }
        for number in 0..self.replicas.len() {
            let replica = &mut self.replicas[number];
            if replica.until.is_some_and(|until| now >= until)
                && let Some(gateway) = &replica.gateway
            {
                gateway.resume();
                // It fails for a gateway that has died meanwhile.
                let _ = gateway.limit_files(None).await;
                let name = gateway_name(&replica.folder);
                if std::mem::take(&mut replica.paused) {
                    self.scene.history.gateway(&name, "resumed", &json!({}));
                } else {
                    self.scene.history.store("has room", &json!({ "gateway": name }));
                }
                replica.until = None;
            }
            let runs = replica.gateway.as_mut().is_some_and(Gateway::is_running);
            if runs {
                replica.seen_ms = now_ms();
            } else if replica.gateway.take().is_some() {
                let name = gateway_name(&replica.folder);
                self.scene.history.gateway(&name, "killed", &json!({ "since_ms": replica.seen_ms }));
            }
            if !runs && self.database_up_at.is_none() {
                *self.counts.entry("starts").or_default() += 1;
                let launch = self.draw_launch();
                // A gateway that dies of its own failpoints at the start is started again with others.
                let _ = self.start(number, &launch).await;
            }
        }
        if !self.calm && now >= self.next {
            self.next = now + Duration::from_millis(self.rng.between(300, 2_500));
            self.strike().await;
        }
    }

    /// Ends all disasters: every replica starts anew without faults.
    pub async fn heal(&mut self) -> Result<(), String> {
        if self.database_up_at.is_some() {
            self.bring_back().await?;
        }
        for number in 0..self.replicas.len() {
            if let Some(gateway) = &self.replicas[number].gateway {
                gateway.resume();
            }
            self.kill(number).await;
            self.replicas[number].until = None;
            let mut attempts = 0;
            while let Err(why) = self.start(number, &Launch::default()).await {
                attempts += 1;
                if attempts >= START_ATTEMPTS_MAX {
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    pub async fn end(mut self) {
        for replica in &mut self.replicas {
            if let Some(gateway) = &mut replica.gateway {
                gateway.kill().await;
            }
        }
    }

    /// Brings the database back.
    async fn bring_back(&mut self) -> Result<(), String> {
        if let Some(postgres) = self.postgres {
            if self.database_frozen {
                postgres.thaw()?;
            } else {
                postgres.up(None).await?;
            }
            self.scene.history.store("back", &json!({}));
        }
        (self.database_up_at, self.database_frozen) = (None, false);
        Ok(())
    }

    async fn kill(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        let since_ms = now_ms();
        if let Some(mut gateway) = replica.gateway.take() {
            gateway.kill().await;
            self.scene.history.gateway(&gateway_name(&replica.folder), "killed", &json!({ "since_ms": since_ms }));
        }
    }

    async fn start(&mut self, number: usize, launch: &Launch) -> Result<(), String> {
        self.tell(number, None);
        self.kill(number).await;
        let replica = &mut self.replicas[number];
        let stall_ms = launch.stall_ms();
        self.scene.history.gateway(&gateway_name(&replica.folder), "started", &json!({ "stall_ms": stall_ms }));
        let gateway = Gateway::start(&self.scene.setup, &replica.folder, launch).await?;
        let address = gateway.address;
        (replica.gateway, replica.seen_ms) = (Some(gateway), now_ms());
        self.tell(number, Some(address));
        Ok(())
    }

    fn tell(&self, number: usize, address: Option<std::net::SocketAddr>) {
        let mut addresses = self.scene.addresses.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = addresses.get_mut(number) {
            *place = address;
        }
    }

    fn draw_launch(&mut self) -> Launch {
        if self.calm {
            return Launch::default();
        }
        let points = ["ledger.before_commit", "ledger.after_commit", "upstream.before_write", "upstream.after_write"];
        // A short pause makes beats late; a long one makes other replicas believe that the process is gone.
        let acts = ["kill", "kill", "error", "pause:200", "pause:900", "pause:3500"];
        let rules: Vec<String> = (0..self.rng.between(0, 4))
            .map(|_| {
                let (point, act) = (*self.rng.pick(&points), *self.rng.pick(&acts));
                format!("{point}={act}@0.{:04}", self.rng.between(5, 80))
            })
            .collect();
        let skewed = self.rng.permille(150) && faketime().is_some();
        // PostgreSQL's clock is the store's, whatever a replica's clock shows. With SQLite the store uses the gateway's clock,
        // and after an hour back nothing would be overdue for an hour: row 23 tests that.
        let clocks = if self.postgres.is_some() { ["+1h", "-1h"] } else { ["+7s", "-7s"] };
        let clock = skewed.then(|| (*self.rng.pick(&clocks)).to_owned());
        if clock.is_some() {
            *self.counts.entry("clocks").or_default() += 1;
        }
        let faults = (!rules.is_empty()).then(|| rules.join(","));
        Launch { faults, waits_for_arm: false, seed: self.rng.next(), clock }
    }

    async fn strike(&mut self) {
        let number = self.rng.index(self.replicas.len());
        let stopped = Duration::from_millis(self.rng.between(OWNER_SILENCE_MS / 2, 4 * OWNER_SILENCE_MS));
        let what = match self.rng.between(0, 100) {
            0..35 => "kills",
            35..60 => "pauses",
            60..75 => "upstream crashes",
            75..90 if self.scene.store == Store::Sqlite => "full disks",
            75..85 => "database freezes",
            _ if self.postgres.is_some() => "database crashes",
            _ => "kills",
        };
        let name = gateway_name(&self.replicas[number].folder);
        let away = self.database_up_at.is_some();
        let (history, replica) = (&self.scene.history, &mut self.replicas[number]);
        match (what, &mut replica.gateway, self.postgres) {
            ("kills", Some(_), _) => self.kill(number).await,
            ("pauses", Some(gateway), _) => {
                history.gateway(&name, "paused", &json!({}));
                gateway.pause();
                (replica.until, replica.paused) = (Some(Instant::now() + stopped), true);
            }
            ("full disks", Some(gateway), _) => {
                history.store("full", &json!({ "gateway": name }));
                let _ = gateway.limit_files(Some(1)).await;
                (replica.until, replica.paused) = (Some(Instant::now() + stopped), false);
            }
            ("upstream crashes", _, _) => {
                let _ = self.scene.hostile.restart().await;
            }
            // Often longer than an owner may be silent, although the owners live.
            ("database crashes" | "database freezes", _, Some(postgres)) if !away => {
                history.store("away", &json!({ "how": what }));
                self.database_frozen = what == "database freezes";
                let _ = if self.database_frozen { postgres.freeze() } else { postgres.crash().await };
                self.database_up_at = Some(Instant::now() + stopped);
            }
            _ => return,
        }
        *self.counts.entry(what).or_default() += 1;
    }
}
