//! What fails under the clients, and when: replicas die, stall, lose their disk or their clock, and carry failpoints; the
//! database and the upstream crash. At the end everything is healed.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use super::Scene;
use crate::{
    gateway::{Gateway, Launch, faketime},
    postgres::Postgres,
    rng::Rng,
    world::{OWNER_SILENCE_MS, Store},
};

const START_ATTEMPTS_MAX: u32 = 5;

/// One replica, alive or not.
#[derive(Debug)]
pub struct Replica {
    folder: PathBuf,
    gateway: Option<Gateway>,
    /// When a pause or a full disk ends.
    until: Option<Instant>,
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
    counts: BTreeMap<&'static str, u64>,
}

impl Replica {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, gateway: None, until: None }
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
        Self { scene, replicas, rng, postgres, calm, next, database_up_at: None, counts }
    }

    /// How often what happened.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }

    pub async fn start_all(&mut self) -> Result<(), String> {
        for number in 0..self.replicas.len() {
            self.start(number, &Launch::default()).await?;
        }
        Ok(())
    }

    /// Ends what is over, starts again what died, and lets the next thing fail when its time has come.
    pub async fn tick(&mut self) {
        let now = Instant::now();
        if self.database_up_at.is_some_and(|up_at| now >= up_at)
            && let Some(postgres) = self.postgres
            && postgres.up(None).await.is_ok()
        {
            self.database_up_at = None;
        }
        for number in 0..self.replicas.len() {
            let replica = &mut self.replicas[number];
            if replica.until.is_some_and(|until| now >= until)
                && let Some(gateway) = &replica.gateway
            {
                gateway.resume();
                // It fails for one that has died meanwhile.
                let _ = gateway.limit_files(None).await;
                replica.until = None;
            }
            let runs = replica.gateway.as_mut().is_some_and(Gateway::is_running);
            if !runs && self.database_up_at.is_none() {
                *self.counts.entry("starts").or_default() += 1;
                let launch = self.draw_launch();
                // One that dies of its own failpoints at the start is started again with others.
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
        if self.database_up_at.take().is_some()
            && let Some(postgres) = self.postgres
        {
            postgres.up(None).await?;
        }
        for number in 0..self.replicas.len() {
            if let Some(mut gateway) = self.replicas[number].gateway.take() {
                gateway.resume();
                gateway.kill().await;
            }
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

    async fn start(&mut self, number: usize, launch: &Launch) -> Result<(), String> {
        self.tell(number, None);
        let replica = &mut self.replicas[number];
        replica.gateway = None;
        let gateway = Gateway::start(&self.scene.setup, &replica.folder, launch).await?;
        let address = gateway.address;
        replica.gateway = Some(gateway);
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
        let acts = ["kill", "kill", "error", "pause:200", "pause:3500"];
        let rules: Vec<String> = (0..self.rng.between(0, 4))
            .map(|_| {
                let (point, act) = (*self.rng.pick(&points), *self.rng.pick(&acts));
                format!("{point}={act}@0.{:04}", self.rng.between(5, 80))
            })
            .collect();
        let skewed = self.rng.permille(150) && faketime().is_some();
        // PostgreSQL's clock is the store's, whatever a replica's shows. SQLite's is the gateway's own, and after an hour back
        // nothing would be overdue for an hour: row 23 is about that, not this.
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
            0..40 => "kills",
            40..65 => "pauses",
            65..80 => "upstream crashes",
            80..90 if self.scene.store == Store::Sqlite => "full disks",
            _ if self.postgres.is_some() => "database crashes",
            _ => "kills",
        };
        let replica = &mut self.replicas[number];
        match (what, &mut replica.gateway) {
            ("kills", Some(gateway)) => gateway.kill().await,
            ("pauses", Some(gateway)) => {
                gateway.pause();
                replica.until = Some(Instant::now() + stopped);
            }
            ("full disks", Some(gateway)) => {
                let _ = gateway.limit_files(Some(1)).await;
                replica.until = Some(Instant::now() + stopped);
            }
            ("upstream crashes", _) => {
                let _ = self.scene.hostile.restart().await;
            }
            ("database crashes", _) if self.database_up_at.is_none() => {
                if let Some(postgres) = self.postgres {
                    let _ = postgres.crash().await;
                    self.database_up_at = Some(Instant::now() + stopped / 3);
                }
            }
            _ => return,
        }
        *self.counts.entry(what).or_default() += 1;
    }
}
