// Passkeys with Chromium's virtual authenticator: registering, signing in, deciding, and what an outsider can check with nothing but Node.js.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deepStrictEqual as same, ok } from 'node:assert';

/** An authenticator that verifies its person, or says that it did not. */
export async function addAuthenticator(page, isUserVerified = true) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified,
      automaticPresenceSimulation: true,
    },
  });
  return {
    verifiesUser: (isVerified) => devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: isVerified }),
    credentials: async () => (await devtools.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
    remove: async () => {
      await devtools.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId });
      await devtools.detach();
    },
  };
}

const bytes = (text) => Buffer.from(text, 'base64url');
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();

/** The digest of parts in a domain, each with its length before it (docs/approvals.md). */
function digest(domain, ...parts) {
  const length = (part) => { const text = Buffer.alloc(8); text.writeBigUInt64BE(BigInt(part.length)); return text; };
  return sha256(...[domain, ...parts].flatMap((part) => [length(Buffer.from(part)), Buffer.from(part)]));
}

/** The public key in a COSE key of P-256: its two coordinates are its last two members. */
function p256(cose) {
  const [x, y] = [cose.subarray(-67, -35), cose.subarray(-32)];
  same([...cose.subarray(0, 10)], [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
  return createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x: x.toString('base64url'), y: y.toString('base64url') } });
}

/** Checks, without the gateway and without our code, that the owner of `publicKey` approved what a warrant says. */
export function checkWarrant(warrant, publicKey, change = (decision) => decision) {
  const claims = JSON.parse(bytes(warrant.split('.')[1]));
  const [{ decision: said, passkey }] = claims.approvers;
  const decision = change({ ...said });
  same(passkey.public_key, publicKey, 'the key that the person gave');
  const challenge = digest('servanda/passkey-decision/v1', decision.ticket, Buffer.from(decision.payload_hash.slice(7), 'hex'),
    decision.verdict, decision.tenant, decision.approver);
  const browser = JSON.parse(bytes(passkey.client_data_json));
  same([browser.type, browser.origin], ['webauthn.get', passkey.origin]);
  same(browser.challenge, challenge.toString('base64url'), 'what the passkey signed');
  const authenticator = bytes(passkey.authenticator_data);
  same(authenticator.subarray(0, 32), sha256(passkey.rp_id));
  same(authenticator[32] & 5, 5, 'a person was present and verified');
  const signed = Buffer.concat([authenticator, sha256(bytes(passkey.client_data_json))]);
  ok(verify('sha256', signed, p256(bytes(passkey.public_key)), bytes(passkey.signature)), 'the signature');
  return claims;
}

/** The checks. `tools` are those of main.mjs; `servanda`, if given, is the binary whose `approvals verify` is tried too. */
export async function passkeys(person, gateway, tools, servanda) {
  const { check, text, shoot } = tools;
  const { page } = person;
  let authenticator;
  let publicKey;

  await check('a ticket that demands a passkey says so, and where to register one', person, async () => {
    await person.useLink();
    await person.goto(gateway.path('passkey'));
    ok((await text(person)).includes('This ticket needs a passkey'));
    same(await page.getByRole('button', { name: /Approve|Deny/ }).count(), 0);
    await page.getByRole('link', { name: 'Your passkeys' }).click();
    ok((await text(person)).includes('You have none yet'));
    same(await person.accessibility(), []);
  });

  await check('a person registers a passkey', person, async () => {
    authenticator = await addAuthenticator(page, false);
    await page.getByLabel('Name').fill('laptop');
    await page.getByRole('button', { name: 'Register a passkey' }).click();
    await page.getByText('Nothing was sent').waitFor();
    same(await authenticator.credentials(), [], 'an authenticator that does not verify its person makes none');
    await authenticator.verifiesUser(true);
    await page.getByRole('button', { name: 'Register a passkey' }).click();
    await page.getByRole('heading', { name: 'laptop' }).waitFor();
    same((await authenticator.credentials()).map(({ rpId, isResidentCredential }) => [rpId, isResidentCredential]), [['servanda.localhost', true]]);
    await page.getByText('Public key', { exact: true }).click();
    publicKey = (await page.locator('.passkey pre').innerText()).trim();
    same(await person.accessibility(), []);
    await shoot(person, 'passkeys');
  });

  await check('the same authenticator makes no second one', person, async () => {
    await page.getByLabel('Name').fill('laptop again');
    await page.getByRole('button', { name: 'Register a passkey' }).click();
    await page.getByText('has a passkey for this console already').waitFor();
    same((await authenticator.credentials()).length, 1);
  });

  await check('a passkey signs in', person, async () => {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL('**/sign-in');
    same(await person.accessibility(), []);
    await shoot(person, 'sign-in-passkey');
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL('**/approvals');
    same((await person.context.cookies()).length, 1);
  });

  await check('an authenticator that does not verify its person decides nothing', person, async () => {
    await authenticator.verifiesUser(false);
    await person.goto(gateway.path('passkey'));
    await page.getByRole('button', { name: 'Approve this call with your passkey' }).click();
    await page.getByText('Nothing was sent').waitFor();
    await person.goto(gateway.path('passkey'));
    ok((await text(person)).includes('None.'), 'no decision');
    await authenticator.verifiesUser(true);
  });

  await check('a signature for another decision is refused', person, async () => {
    await person.goto(gateway.path('passkey_denied'));
    const other = await page.locator('form:has(input[value=deny]) input[data-get]').getAttribute('data-get');
    await page.locator('form:has(input[value=approve]) input[data-get]').evaluate((field, options) => { field.dataset.get = options; }, other);
    await page.getByRole('button', { name: 'Approve this call with your passkey' }).click();
    await page.getByText('Your passkey was not accepted').waitFor();
    ok((await text(person)).includes('another challenge'));
    same(await person.accessibility(), []);
    person.faults.length = 0; // Chromium reports the 403.
  });

  await check('a passkey approves one ticket and denies another', person, async () => {
    await person.goto(gateway.path('passkey'));
    same(await person.accessibility(), []);
    await shoot(person, 'ticket-passkey');
    await page.getByRole('button', { name: 'Approve this call with your passkey' }).click();
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
    await person.goto(gateway.path('passkey_denied'));
    await page.getByLabel('Reason for denying').fill('not today');
    await page.getByRole('button', { name: 'Deny with your passkey' }).click();
    await page.getByRole('heading', { name: 'Denied', exact: true }).waitFor();
  });

  await check('the warrant shows an outsider that this passkey approved exactly this', person, async () => {
    const { warrants, keys } = await gateway.warrants();
    const warrant = warrants[gateway.tickets.passkey];
    const claims = checkWarrant(warrant, publicKey);
    same([claims.approvers[0].decision.approver, claims.approvers[0].decision.presence], ['local', 'passkey']);
    for (const [name, value] of [['ticket', 'apr_0'], ['payload_hash', `sha256:${'0'.repeat(64)}`], ['verdict', 'deny'], ['approver', 'eve'], ['tenant', 'x']]) {
      let fault;
      try { checkWarrant(warrant, publicKey, (decision) => ({ ...decision, [name]: value })); } catch (error) { fault = error.message; }
      ok(fault?.includes('what the passkey signed'), `${name}: ${fault}`);
    }
    if (servanda) verifyWithServanda(servanda, warrant, keys[0], publicKey);
  });

  await check('a passkey is removed with a passkey, and then signs in no more', person, async () => {
    await person.goto('/passkeys');
    await page.getByRole('button', { name: 'Remove “laptop”' }).click();
    // The session was the passkey's own.
    await page.waitForURL('**/sign-in**');
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.getByText('This passkey was not accepted').waitFor();
    person.faults.length = 0; // Chromium reports the 403.
    await authenticator.remove();
  });
}

function verifyWithServanda(binary, warrant, key, publicKey) {
  const folder = mkdtempSync(join(tmpdir(), 'warrant-'));
  const file = join(folder, 'warrant.txt');
  writeFileSync(file, warrant);
  const run = (...passkeys) => {
    try {
      const given = passkeys.flatMap((passkey) => ['--passkey', passkey]);
      return execFileSync(binary, ['approvals', 'verify', file, '--key', key, ...given], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    } catch (error) {
      return `failed: ${error.stderr}`;
    }
  };
  ok(run(`local/local=${publicKey}`).includes('signed by their passkey'), run(publicKey));
  ok(run(`eve=${publicKey}`).includes('was signed by the passkey of `eve`'), run(`eve=${publicKey}`));
  // Another key: another point of the curve is still a key, so the last coordinate is that of an EdDSA key of nobody.
  const other = `pAEBAycgBiFYI${'A'.repeat(43)}`;
  ok(run(other).startsWith('failed:'));
  rmSync(folder, { recursive: true, force: true });
}
