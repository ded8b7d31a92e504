//! `servanda audit verify`: everything of a copy recomputed, offline.

use std::{collections::BTreeMap, path::Path};

use serde_json::json;
use servanda_audit::{
    AuditLeaf, LeafCheck, LogFault, LogPolicy, StatePaths, TrustedCheckpoint, VerifierKey, leaf::AuditEvent,
    policy::LOG_POLICY_BYTES_MAX, verify::LeafCheckFault, verify_log,
};

use super::{counted, places::LogFolder};
use crate::{
    cli::VerifyLogArgs,
    failure::CommandFailure,
    screen::{Screen, count},
};

/// Bytes of a checkpoint that is read.
const CHECKPOINT_BYTES_MAX: u64 = 1 << 20;

pub(super) fn run(args: &VerifyLogArgs, screen: Screen) -> Result<(), CommandFailure> {
    let policy = policy(args)?;
    let earlier = args.since.iter().map(|file| trusted_before(file, &policy)).collect::<Result<Vec<_>, _>>()?;
    let mut check = CountedLeaves::default();
    let verified = verify_log(&LogFolder(args.folder.clone()), &policy, &earlier, &mut check);
    let verified = verified.map_err(|fault| match fault {
        LogFault::NoCheckpoint => {
            CommandFailure::bad_input(format!("`{}` has no log: there is no `checkpoint` in it", args.folder.display()))
                .hint("`servanda audit copy DIR` copies the log at its gateway")
        }
        fault => CommandFailure::refused(format!("the log in `{}` does not hold: {fault}", args.folder.display()))
            .hint("keep this copy: what is wrong with it is evidence"),
    })?;
    let (checkpoint, signers) = (verified.checkpoint(), signers(&verified));
    if screen.json {
        return screen.json(&json!({
            "leaves": checkpoint.size(),
            "root": checkpoint.root().to_string(),
            "origin": checkpoint.origin(),
            "signed_by": signers,
            "kinds": check.kinds,
        }));
    }
    let verb = if checkpoint.size() == 1 { "holds" } else { "hold" };
    let kinds: Vec<String> = check.kinds.iter().map(|(kind, number)| format!("  {kind}: {number}")).collect();
    screen.page(format_args!(
        "{} {verb}, signed by {}\n{}\nroot {}",
        counted(checkpoint.size()),
        signers.join(", "),
        kinds.join("\n"),
        checkpoint.root()
    ))?;
    if !earlier.is_empty() {
        screen.say(format_args!("{}: part of it", count(earlier.len(), "earlier checkpoint")));
    }
    screen
        .hint("keep its `checkpoint` file: with --since FILE the next check proves that nothing before it was changed");
    Ok(())
}

fn policy(args: &VerifyLogArgs) -> Result<LogPolicy, CommandFailure> {
    if let Some(key) = &args.key {
        let key: VerifierKey = key.trim().parse().map_err(|error| {
            CommandFailure::bad_input(format!("that is not the key of a log: {error}"))
                .hint("`servanda audit key` prints it at the gateway")
        })?;
        return Ok(LogPolicy::of_log(key));
    }
    let file = args.policy.as_deref().unwrap_or(Path::new(""));
    let bytes_max = u64::try_from(LOG_POLICY_BYTES_MAX).unwrap_or(u64::MAX);
    let text = read(file, bytes_max)?;
    LogPolicy::from_bytes(&text)
        .map_err(|error| CommandFailure::bad_input(format!("`{}` is no policy: {error}", file.display())))
}

fn trusted_before(file: &Path, policy: &LogPolicy) -> Result<TrustedCheckpoint, CommandFailure> {
    let note = read(file, CHECKPOINT_BYTES_MAX)?;
    policy.trust(&note).map_err(|error| {
        CommandFailure::refused(format!("the checkpoint `{}` is not trusted: {error}", file.display()))
    })
}

fn read(file: &Path, bytes_max: u64) -> Result<Vec<u8>, CommandFailure> {
    servanda_files::read(file, bytes_max)
        .map_err(|error| CommandFailure::bad_input(format!("cannot read `{}`: {error}", file.display())))
}

fn signers(trusted: &TrustedCheckpoint) -> Vec<String> {
    trusted.endorsements().iter().map(|endorsement| endorsement.key.name().to_string()).collect()
}

/// Follows the paths of calls, effects and tickets, and counts leaves.
#[derive(Debug, Default)]
struct CountedLeaves {
    paths: StatePaths,
    kinds: BTreeMap<&'static str, u64>,
}

impl LeafCheck for CountedLeaves {
    fn check(&mut self, _index: u64, leaf: &[u8]) -> Result<(), LeafCheckFault> {
        let leaf = AuditLeaf::from_bytes(leaf)?;
        let kind = match &leaf.event {
            AuditEvent::Decision(_) => "decisions before a dispatch",
            AuditEvent::Outcome(_) => "ends after a dispatch",
            AuditEvent::Call(_) => "whole calls",
            AuditEvent::Effect(_) => "states of effects",
            AuditEvent::Ticket(_) => "states of tickets",
            AuditEvent::Approval(_) => "decisions of people",
            AuditEvent::Change(_) => "other changes",
        };
        *self.kinds.entry(kind).or_default() += 1;
        Ok(self.paths.follow(&leaf)?)
    }
}
