//! `servanda approvals verify`: checks a warrant offline. It needs the warrant and the gateway's public key, and nothing else.
//! With the public keys of people's passkeys it also shows that these people decided, whatever the gateway says.

use std::io::Read as _;

use servanda_approval::{KnownPasskey, Warrant, WarrantClaims};
use servanda_authority::attestation::AttestationPublicKey;
use servanda_contract::{Timestamp, legibility};

use crate::{failure::CommandFailure, screen::Screen};

/// Bytes of a warrant.
const WARRANT_BYTES_MAX: u64 = 1 << 20;

pub(super) fn verify(file: &str, key: &str, passkeys: &[String], screen: Screen) -> Result<(), CommandFailure> {
    let key = AttestationPublicKey::try_from(key.trim().to_owned()).map_err(|error| {
        CommandFailure::bad_input(format!("--key: {error}")).hint("servanda approvals key prints it at the gateway")
    })?;
    let known: Result<Vec<KnownPasskey>, _> = passkeys.iter().map(|text| KnownPasskey::read(text)).collect();
    let known = known.map_err(|fault| {
        CommandFailure::bad_input(format!("--passkey: {fault}"))
            .hint("its owner finds it on the page `/passkeys` of the console; `servanda passkeys show` prints it too")
    })?;
    let warrant = Warrant::from(read(file)?.trim().to_owned());
    let claims = warrant.check(&[key]).map_err(|fault| {
        CommandFailure::refused(format!("the warrant does not hold: {fault}"))
            .hint("it was changed, is of another gateway, or the key is not that gateway's")
    })?;
    if !known.is_empty() {
        claims.check_passkeys(&known).map_err(|fault| {
            CommandFailure::refused(format!("the warrant does not hold: {fault}"))
                .hint("ask the person for the public key of their passkey; the gateway's word is not enough")
        })?;
    }
    if screen.json {
        return screen.json(&claims);
    }
    screen.data(page(&claims))?;
    screen.say("the warrant holds: every signature in it was checked");
    let is_signed_by_passkeys = claims.approvers.iter().any(|signed| signed.passkey.is_some());
    if !known.is_empty() {
        screen.say("its passkeys are the given ones, so these people decided, whatever the gateway says");
    } else if is_signed_by_passkeys {
        screen.say("whose passkeys these are is the gateway's word");
        screen.hint("check them with --passkey PERSON=PUBLIC_KEY, with the key that the person gave you");
    }
    Ok(())
}

/// The text of a warrant or another signed statement, from a file or stdin.
pub(crate) fn read(file: &str) -> Result<String, CommandFailure> {
    let mut text = String::new();
    if file == "-" {
        std::io::stdin().take(WARRANT_BYTES_MAX).read_to_string(&mut text)?;
        return Ok(text);
    }
    let opened = std::fs::File::open(file);
    let opened = opened.map_err(|error| CommandFailure::bad_input(format!("`{file}` cannot be read: {error}")))?;
    opened.take(WARRANT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn page(claims: &WarrantClaims) -> String {
    let time = |ms: u64| Timestamp::from_unix_ms(ms).to_string();
    let mut text = vec![
        format!("{}  {} {}", claims.approval_id, legibility::reveal(&claims.tool_name), claims.tool_version),
        format!("  requested by  {}/{}", legibility::reveal(&claims.tenant), legibility::reveal(&claims.principal)),
        format!("  payload       {}", claims.payload_hash),
        format!("  contract      {}", claims.contract_digest),
        format!(
            "  approved at   {}, for one execution until {}",
            time(claims.approved_at_ms),
            time(claims.expires_at_ms)
        ),
        format!("  trace         {}", legibility::reveal(&claims.trace_id)),
    ];
    for signed in &claims.approvers {
        let decision = &signed.decision;
        let passkey = if signed.passkey.is_some() { ", signed by their passkey" } else { "" };
        text.push(format!(
            "  approved by   {} at {} ({}{passkey})",
            legibility::reveal(&decision.approver),
            time(decision.at_ms),
            decision.presence.word()
        ));
        if let Some(record) = &signed.passkey {
            text.push(format!("    passkey     {}", legibility::reveal(&record.public_key)));
        }
    }
    text.join("\n")
}
