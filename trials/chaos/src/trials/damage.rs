//! A3: damage to the ledger's file while its gateway does not run. Eight kinds of damage, each after a kill and after a clean
//! end. Either the gateway refuses to start and says what to do, or every acknowledged key is still answered from the ledger.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use super::Deployment;
use crate::{
    agent::{Answer, Order},
    gateway::Launch,
    matrix::Stop,
    world::Store,
};

const KEYS: usize = 8;
const END_PATIENCE: Duration = Duration::from_secs(15);
/// Fewer bytes than a frame of the WAL.
const FEW_BYTES: u64 = 7;

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Removed,
    TruncatedToZero,
    WithoutWal,
    WalCutInTheMiddle,
    WalCutAtItsEnd,
    WalByteFlipped,
    OldBackup,
    Foreign,
}

const KINDS: [Damage; 8] = [
    Damage::Removed,
    Damage::TruncatedToZero,
    Damage::WithoutWal,
    Damage::WalCutInTheMiddle,
    Damage::WalCutAtItsEnd,
    Damage::WalByteFlipped,
    Damage::OldBackup,
    Damage::Foreign,
];

/// The result of a case.
enum Came {
    Refused,
    Answered,
    /// There was nothing to damage, such as no WAL after a clean end, and every key was answered.
    Unharmed,
}

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    if deployment.store == Store::Postgres {
        return Err(Stop::NotHere("the files are the database's".to_owned()));
    }
    deployment.is_listed = false;
    let donor = donor(deployment).await?;
    let (mut refused, mut answered, mut unharmed, mut wrong) = (0, 0, 0, 0);
    let rounds = if deployment.long { 3 } else { 1 };
    for _ in 0..rounds {
        for damage in KINDS {
            for is_killed in [true, false] {
                match one_case(deployment, damage, is_killed, &donor).await? {
                    Ok(Came::Refused) => refused += 1,
                    Ok(Came::Answered) => answered += 1,
                    Ok(Came::Unharmed) => unharmed += 1,
                    Err(why) => {
                        wrong += 1;
                        let after = if is_killed { "a kill" } else { "a clean end" };
                        deployment.wrong.push(format!("{damage:?} after {after}: {why}"));
                    }
                }
            }
        }
    }
    let cases = refused + answered + unharmed + wrong;
    deployment.figures.push(format!(
        "{cases} cases: {refused} refused to start, {answered} answered every key, {unharmed} had nothing to damage, {wrong} wrong"
    ));
    Ok(())
}

/// The ledger of another gateway that ended cleanly.
async fn donor(deployment: &mut Deployment) -> Result<PathBuf, Stop> {
    let number = deployment.add_gateway()?;
    deployment.start(number, &Launch::default()).await?;
    acknowledge(deployment, number).await?;
    end(deployment, number, false).await?;
    Ok(ledger(deployment, number))
}

async fn one_case(
    deployment: &mut Deployment,
    damage: Damage,
    is_killed: bool,
    donor: &Path,
) -> Result<Result<Came, String>, Stop> {
    let number = deployment.add_gateway()?;
    deployment.start(number, &Launch::default()).await?;
    let mut acknowledged = acknowledge(deployment, number).await?;
    let file = ledger(deployment, number);
    let backup = deployment.members[number].folder.join("backup.db");
    copy_ledger(&file, &backup).map_err(|error| error.to_string())?;
    acknowledged.extend(acknowledge(deployment, number).await?);
    end(deployment, number, is_killed).await?;
    let was_harmed = inflict(damage, &file, &backup, donor).map_err(|error| format!("{damage:?}: {error}"))?;
    let came = if let Err(refused) = deployment.try_start(number, &Launch::default()).await {
        match refused.status {
            Some(status) if !status.success() && refused.words.contains("hint:") => Ok(Came::Refused),
            Some(status) => Err(format!("it ended with {status} and without a hint: {}", refused.words)),
            None => Err(format!("it neither starts nor refuses to: {}", refused.words)),
        }
    } else {
        deployment.greet(number).await?;
        let lost = lost(deployment, number, &acknowledged).await;
        match lost {
            None if was_harmed => Ok(Came::Answered),
            None => Ok(Came::Unharmed),
            Some(why) => Err(why),
        }
    };
    deployment.kill(number).await;
    Ok(came)
}

/// Makes calls that are acknowledged, and returns them with their answers.
async fn acknowledge(deployment: &Deployment, number: usize) -> Result<Vec<(Order, String)>, Stop> {
    let mut acknowledged = Vec::new();
    for count in 0..KEYS {
        let order = deployment.order(if count % 2 == 0 { "pay_n" } else { "pay_k" }, None);
        match deployment.ask(number, &order).await {
            Answer::Success { content, .. } => acknowledged.push((order, content)),
            answer => return Err(Stop::Broken(format!("before any damage: {}", answer.short()))),
        }
    }
    Ok(acknowledged)
}

/// What is wrong with the answers of acknowledged keys, if anything.
async fn lost(deployment: &Deployment, number: usize, acknowledged: &[(Order, String)]) -> Option<String> {
    let (mut lost, mut example) = (0, String::new());
    for (order, content) in acknowledged {
        let answer = deployment.ask(number, order).await;
        let same = matches!(&answer, Answer::Success { content: again, replayed: true } if again == content);
        if !same {
            lost += 1;
            example = format!("{}: {}", order.key, answer.short());
        }
    }
    (lost > 0).then(|| {
        let all = acknowledged.len();
        format!("it started, and {lost} of {all} acknowledged keys were not answered from the ledger, e.g. {example}")
    })
}

async fn end(deployment: &mut Deployment, number: usize, is_killed: bool) -> Result<(), Stop> {
    if !is_killed {
        let member = &mut deployment.members[number];
        let gateway = member.gateway.as_mut().ok_or_else(|| "there is no gateway to end".to_owned())?;
        gateway.terminate();
        if !gateway.ended(END_PATIENCE).await {
            return Err(Stop::Broken("a gateway without calls does not end".to_owned()));
        }
    }
    deployment.kill(number).await;
    Ok(())
}

fn ledger(deployment: &Deployment, number: usize) -> PathBuf {
    deployment.members[number].folder.join(".servanda/ledger.db")
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Copies the database as it is, with its WAL.
fn copy_ledger(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    if beside(from, "-wal").exists() {
        fs::copy(beside(from, "-wal"), beside(to, "-wal"))?;
    }
    Ok(())
}

fn remove_ledger(file: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        match fs::remove_file(beside(file, suffix)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Applies the damage, and returns whether there was anything to damage.
fn inflict(damage: Damage, file: &Path, backup: &Path, donor: &Path) -> io::Result<bool> {
    let wal = beside(file, "-wal");
    let wal_bytes = fs::metadata(&wal).map_or(0, |wal| wal.len());
    let needs_wal = !matches!(damage, Damage::Removed | Damage::TruncatedToZero | Damage::OldBackup | Damage::Foreign);
    if needs_wal && wal_bytes == 0 {
        return Ok(false);
    }
    match damage {
        Damage::Removed => remove_ledger(file)?,
        Damage::TruncatedToZero => fs::File::options().write(true).open(file)?.set_len(0)?,
        Damage::WithoutWal => {
            fs::remove_file(&wal)?;
            let _ = fs::remove_file(beside(file, "-shm"));
        }
        Damage::WalCutInTheMiddle => fs::File::options().write(true).open(&wal)?.set_len(wal_bytes / 2)?,
        Damage::WalCutAtItsEnd => fs::File::options().write(true).open(&wal)?.set_len(wal_bytes - FEW_BYTES)?,
        Damage::WalByteFlipped => flip(&wal, wal_bytes / 2)?,
        Damage::OldBackup => {
            remove_ledger(file)?;
            copy_ledger(backup, file)?;
        }
        Damage::Foreign => {
            remove_ledger(file)?;
            copy_ledger(donor, file)?;
        }
    }
    Ok(true)
}

fn flip(file: &Path, at: u64) -> io::Result<()> {
    let mut file = fs::File::options().read(true).write(true).open(file)?;
    let mut byte = [0];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut byte)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(&[byte[0] ^ 0xFF])
}
