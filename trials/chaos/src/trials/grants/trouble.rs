//! What happens to gateways and to the grant while calls draw on it.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::{task::JoinHandle, time::sleep};

use super::{PATIENCE, Round, draws, draws_of};
use crate::{
    agent::Answer,
    clock::now_ms,
    console::PersonAtConsole,
    gateway::Launch,
    matrix::Stop,
    people::{self, Keys},
    rng::Rng,
    trials::Deployment,
    upstream::script::HONEST,
};

/// What the upstream does with a part of the calls; what comes again is answered honestly.
const SLOW: [&str; 3] = [HONEST, "delay:200,effect,answer", "effect,delay:300,answer"];
const HOSTILE: [&str; 6] =
    [HONEST, "delay:200,effect,answer", "effect,delay:300,answer", "effect,reset", "reset", "delay:900,effect,answer"];
/// Around the transaction that draws, and around the bytes that it lets leave. A pause is longer than an owner may be silent.
const CRASH_POINTS: [&str; 6] = [
    "ledger.before_commit=kill@0.1",
    "ledger.after_commit=kill@0.1",
    "upstream.before_write=kill@0.15",
    "upstream.after_write=kill@0.15",
    "upstream.before_write=pause:2600@0.1",
    "ledger.before_commit=pause:2600@0.05",
];
/// How long the upstream refuses connections at the most. A call that never left is drawn, and is sent when it comes again.
const UPSTREAM_DOWN_MAX: Duration = Duration::from_secs(3);
/// How long failpoints are armed.
const ARMED: Duration = Duration::from_millis(1_500);

/// A trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// The upstream is down, and people allowed more calls than come: every call draws, once, however often it is repeated.
    Spare,
    /// A gateway is killed.
    Kill,
    /// A gateway is paused for longer than its silence allows, and wakes up late.
    Late,
    /// A gateway dies, or stalls for too long, before or after it drew or sent.
    CrashPoint,
    /// A person takes the grant back.
    Revoked,
    /// The same, and a gateway is killed.
    RevokedAndKilled,
    /// The same while a gateway is paused for too long.
    RevokedWhileLate,
}

/// How a person takes a grant back.
#[derive(Debug, Clone, Copy)]
enum Way {
    Command,
    ConsoleOf(usize),
}

impl Trouble {
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Spare,
        Self::Kill,
        Self::Late,
        Self::CrashPoint,
        Self::Revoked,
        Self::RevokedAndKilled,
        Self::RevokedWhileLate,
    ];

    /// The number of calls that people allow and that ask, with those that the grant does not cover.
    pub fn numbers(self, rng: &mut Rng) -> (u64, u64) {
        let (least, most) = match self {
            Self::Spare => (20, 41),
            // More than come, so that only the person ends it.
            _ if self.revokes() => (80, 101),
            _ => (3, 26),
        };
        let uses = rng.between(least, most);
        (uses, if self == Self::Spare { uses } else { rng.between(48, 72) })
    }

    /// Whether the grant is taken back.
    pub const fn revokes(self) -> bool {
        matches!(self, Self::Revoked | Self::RevokedAndKilled | Self::RevokedWhileLate)
    }

    /// How long the calls of a wave take to begin: at once, or so long that a person takes the grant back in the middle of them.
    pub const fn begin_ms(self) -> u64 {
        if self.revokes() { 600 } else { 60 }
    }

    /// What the upstream may do with a call. Without trouble, every call that is sent is done.
    pub const fn scripts(self) -> &'static [&'static str] {
        if matches!(self, Self::None) { &SLOW } else { &HOSTILE }
    }

    /// Gives a gateway its failpoints, which are not armed yet.
    pub async fn prepare(self, deployment: &mut Deployment) -> Result<(), Stop> {
        if self == Self::CrashPoint {
            let faults = Some((*deployment.rng.pick(&CRASH_POINTS)).to_owned());
            let launch = Launch { faults, waits_for_arm: true, seed: deployment.rng.next(), clock: None };
            deployment.kill(0).await;
            deployment.start(0, &launch).await?;
        }
        Ok(())
    }

    /// Happens while the calls of a wave begin. When it is over, every gateway runs again.
    pub async fn befall(
        self,
        deployment: &mut Deployment,
        keys: &Keys,
        round: &mut Round,
        wave: &mut Vec<JoinHandle<Answer>>,
    ) -> Result<(), Stop> {
        let (at_ms, victim) = (deployment.rng.between(0, self.begin_ms() / 2), deployment.somewhere());
        let way = way(deployment, victim);
        if self == Self::CrashPoint {
            return crash(deployment).await;
        }
        sleep(Duration::from_millis(at_ms)).await;
        match self {
            Self::None | Self::CrashPoint => {}
            Self::Spare => {
                deployment.hostile.kill().await;
                let down = Instant::now();
                while wave.iter().any(|call| !call.is_finished()) && down.elapsed() < UPSTREAM_DOWN_MAX {
                    sleep(Duration::from_millis(20)).await;
                }
                deployment.hostile.restart().await?;
            }
            Self::Kill => {
                deployment.kill(victim).await;
                deployment.start(victim, &Launch::default()).await?;
            }
            Self::Late => {
                deployment.pause(victim);
                sleep(deployment.silence() * 11 / 10).await;
                for call in &round.calls {
                    wave.push(deployment.begin(deployment.other(victim), call));
                }
                sleep(deployment.silence() * 3 / 10).await;
                deployment.resume(victim);
            }
            Self::Revoked => round.draws_at_revocation = Some(take_back(deployment, keys, &round.ticket, way).await?),
            Self::RevokedAndKilled => {
                round.draws_at_revocation = Some(take_back(deployment, keys, &round.ticket, way).await?);
                deployment.kill(victim).await;
                deployment.start(victim, &Launch::default()).await?;
            }
            Self::RevokedWhileLate => {
                deployment.pause(victim);
                let late = async {
                    sleep(deployment.silence() * 13 / 10).await;
                    deployment.resume(victim);
                };
                // The paused gateway may hold the ticket, so that the person waits for it.
                let (taken, ()) = tokio::join!(take_back(deployment, keys, &round.ticket, way), late);
                round.draws_at_revocation = Some(taken?);
            }
        }
        Ok(())
    }
}

/// On the command line, or in the console of a gateway that is not the victim.
fn way(deployment: &mut Deployment, victim: usize) -> Way {
    let other = deployment.other(victim);
    if other == victim || deployment.rng.permille(600) { Way::Command } else { Way::ConsoleOf(other) }
}

/// The failpoints of the first gateway are armed for a while. It is replaced then, alive or not.
async fn crash(deployment: &mut Deployment) -> Result<(), Stop> {
    let armed_ms = now_ms();
    deployment.gateway(0)?.arm()?;
    sleep(ARMED).await;
    deployment.kill_since(0, armed_ms).await;
    deployment.start(0, &Launch::default()).await
}

/// A person takes the grant back, again if the store did not confirm it, and the history says when that was certain. Returns the uses that
/// were listed then.
async fn take_back(deployment: &Deployment, keys: &Keys, ticket: &str, mut way: Way) -> Result<Value, Stop> {
    let started = Instant::now();
    loop {
        let taken = match way {
            Way::Command => {
                let folder = &deployment.members[0].folder;
                people::revoke(&deployment.setup, folder, ticket, &keys.approver).await.map(Some)
            }
            Way::ConsoleOf(number) => {
                match PersonAtConsole::sign_in(deployment.gateway(number)?.address, &keys.approver).await {
                    Ok(person) => person.revoke_grant(ticket, "the trial is over").await.map(|()| None),
                    Err(why) => Err(why),
                }
            }
        };
        let shown = match taken {
            Ok(shown) => shown,
            Err(why) if why.contains("took it back") || why.contains("taken back") => None,
            Err(why) if started.elapsed() > PATIENCE => {
                return Err(Stop::Broken(format!("taking a grant back: {why}")));
            }
            Err(_) => {
                // The console has no form for a grant that is used up.
                way = Way::Command;
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        deployment.history()?.revoked(ticket);
        return match shown {
            Some(shown) => draws_of(&shown),
            None => draws(deployment, ticket).await,
        };
    }
}
