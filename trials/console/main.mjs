// The console in a real browser: each check is one thing that a person does, and prints one line.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { deepStrictEqual as same, ok } from 'node:assert';
import { Person } from './browser.mjs';
import { createServer } from 'node:http';
import { grants } from './grants.mjs';
import { startGateway } from './gateway.mjs';
import { identityProvider } from './oidc.mjs';
import { operatorPages, operatorsAndViewers } from './operating.mjs';
import { passkeys } from './passkeys.mjs';

const option = (name) => { const at = process.argv.indexOf(name); return at < 0 ? undefined : process.argv[at + 1]; };
const binary = option('--fixture');
const shots = option('--screenshots');
if (!binary) { console.error('error: --fixture names the example console_fixture'); process.exit(2); }
if (shots) mkdirSync(shots, { recursive: true });

const results = { passed: 0, failed: 0 };
const text = (person) => person.page.locator('main').innerText();
const shoot = async (person, name, options = {}) => {
  if (shots) await person.page.screenshot({ path: join(shots, `${name}.png`), fullPage: true, ...options });
};

async function check(name, person, act) {
  try {
    await act();
    same(person.faults, [], 'messages in the browser');
    results.passed += 1;
    console.log(`passed  ${name}`);
  } catch (error) {
    results.failed += 1;
    console.log(`FAILED  ${name}\n        ${String(error.message).split('\n').slice(0, 12).join('\n        ')}\n        at ${person.page.url()}`);
    await shoot(person, `failed-${name.replaceAll(/\W+/g, '-')}`).catch(() => {});
    person.faults.length = 0;
  }
}

async function singleUser() {
  const gateway = await startGateway(binary);
  const person = await Person.open(gateway);
  const { page } = person;

  await check('without a session there is only the page of ways to sign in', person, async () => {
    await person.goto(gateway.path('plain'));
    ok(page.url().includes('/sign-in?next='));
    ok(!(await text(person)).includes('inv_1007'));
    same(await person.accessibility(), []);
    await shoot(person, 'sign-in');
  });

  await check('a one-time link opens the console once', person, async () => {
    const link = gateway.links[0];
    await person.goto(link);
    await shoot(person, 'link');
    same(await person.accessibility(), []);
    await page.reload();
    await person.useLink();
    const cookies = (await person.context.cookies()).map(({ name, secure, httpOnly, sameSite, path }) => ({ name, secure, httpOnly, sameSite, path }));
    same(cookies, [{ name: '__Host-servanda', secure: true, httpOnly: true, sameSite: 'Strict', path: '/' }]);
    const response = await person.goto(link);
    same(response.status(), 404);
    ok((await text(person)).includes('to get another link'));
    person.faults.length = 0; // Chromium reports the 404.
  });

  await check('the inbox is accessible in light and dark', person, async () => {
    await person.goto('/approvals');
    same(await page.locator('[data-row]').count(), 11);
    same(await person.accessibility(), []);
    await shoot(person, 'inbox');
    await page.emulateMedia({ colorScheme: 'dark' });
    await shoot(person, 'inbox-dark');
    await page.emulateMedia({ colorScheme: 'light' });
  });

  await check('a person reads a ticket and approves it', person, async () => {
    await page.getByRole('link', { name: 'Invoice inv_1007 becomes void' }).click();
    await page.getByText('Canonical bytes').click();
    ok((await text(person)).includes('{"invoice_id":"inv_1007","reason":"duplicate"}'));
    same(await person.accessibility(), []);
    await shoot(person, 'ticket');
    await page.emulateMedia({ colorScheme: 'dark' });
    await shoot(person, 'ticket-dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await page.getByRole('button', { name: 'Approve this call' }).click();
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
    same(await page.getByRole('button', { name: 'Deny' }).count(), 0);
    same(await person.accessibility(), []);
    await shoot(person, 'approved');
  });

  await check('a person denies with a reason', person, async () => {
    await person.goto(gateway.path('deny'));
    await page.getByLabel('Reason for denying').fill('not to everybody, please');
    await page.getByRole('button', { name: 'Deny' }).click();
    await page.getByRole('heading', { name: 'Denied', exact: true }).waitFor();
    ok((await text(person)).includes('not to everybody, please'));
    same(await person.accessibility(), []);
    await shoot(person, 'denied');
  });

  await check('a payload that reverses text is spelled out and warned of', person, async () => {
    await person.goto(gateway.path('bidi'));
    const shown = await text(person);
    ok(shown.includes('invoice_<U+202E>fdp.exe'), shown);
    ok(!shown.includes('\u202e'));
    ok(shown.includes('Look twice'));
    ok(shown.includes('please approve <b>quickly</b>'), 'markup is text');
    same(await page.locator('main b').count(), 0);
    same(await person.accessibility(), []);
    await shoot(person, 'bidirectional');
  });

  await check('news come by themselves and the list does not move', person, async () => {
    await person.goto('/approvals');
    const before = await page.locator('[data-row]').first().innerText();
    await page.waitForTimeout(300);
    gateway.openTicket();
    await page.getByRole('link', { name: '1 new' }).waitFor();
    same(await page.locator('[data-row]').first().innerText(), before);
    gateway.openTicket();
    await page.getByRole('link', { name: '2 new' }).waitFor();
    same(await person.accessibility(), []);
    await shoot(person, 'inbox-news');
    await page.getByRole('link', { name: '2 new' }).click();
    ok((await page.locator('[data-row]').first().innerText()).includes('inv_2002'));
  });

  await check('several are reviewed with their arguments and denied together', person, async () => {
    await person.goto('/approvals');
    for (const number of ['inv_1101', 'inv_1102']) {
      await page.getByRole('checkbox', { name: number }).check();
    }
    await page.getByRole('button', { name: 'Review chosen' }).click();
    ok((await text(person)).includes('Approve 2 calls'));
    same(await person.accessibility(), []);
    await shoot(person, 'review');
    await page.getByRole('button', { name: 'Approve 2 calls' }).click();
    ok((await text(person)).includes('2 of 2 decisions recorded'));
    same(await person.accessibility(), []);
    await shoot(person, 'results');
  });

  await check('keyboard only: to the list, into a ticket, and decide', person, async () => {
    await person.goto('/approvals');
    await page.keyboard.press('Tab');
    same(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    same(outline, 'solid', 'the focus is visible');
    await page.keyboard.press('Enter');
    for (let pressed = 0; pressed < 20; pressed += 1) {
      await page.keyboard.press('j');
      if ((await page.evaluate(() => document.activeElement.textContent)).includes('Pull request 4711')) break;
    }
    await page.keyboard.press('x');
    same(await page.locator('[data-row]:focus-within input').isChecked(), true);
    await page.keyboard.press('x');
    await page.keyboard.press('k');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**${gateway.path('keyboard')}`);
    for (let pressed = 0; pressed < 30; pressed += 1) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(() => document.activeElement.textContent === 'Approve this call')) break;
    }
    await shoot(person, 'focus');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
  });

  await check('an old sign-in is renewed with another link and decides then', person, async () => {
    gateway.passSixMinutes();
    await page.waitForTimeout(200);
    await person.goto(gateway.path('fresh'));
    ok((await text(person)).includes('Sign in again to decide'));
    same(await person.accessibility(), []);
    await page.getByRole('link', { name: 'Sign in again' }).click();
    await person.useLink();
    await person.goto(gateway.path('fresh'));
    await page.getByRole('button', { name: 'Approve this call' }).click();
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
  });

  await operatorPages({ check, text, shoot, gateway, person });

  await grants(person, gateway, { check, text, shoot });

  await check('pages of errors say what to do', person, async () => {
    same((await person.goto('/nothing')).status(), 404);
    same(await person.accessibility(), []);
    await shoot(person, 'not-found');
    await person.goto('/approvals?state=over&before=apr_0');
    ok((await text(person)).includes('no older tickets'));
    same(await person.accessibility(), []);
    person.faults.length = 0; // Chromium reports the 404.
  });

  await check('calls are listed, filtered by what a line says, and paged', person, async () => {
    await person.goto('/calls');
    const rows = page.locator('[data-row]');
    same(await rows.count(), 50);
    same(await person.accessibility(), []);
    await shoot(person, 'calls');
    await page.emulateMedia({ colorScheme: 'dark' });
    await shoot(person, 'calls-dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await page.getByRole('link', { name: 'bank__transfer' }).first().click();
    await page.waitForURL('**/calls?tool=bank__transfer');
    await page.getByLabel('Outcome').selectOption('refused');
    await page.getByRole('button', { name: 'Filter' }).click();
    ok(page.url().includes('tool=bank__transfer') && page.url().includes('outcome=refused'), page.url());
    for (const row of await rows.all()) ok((await row.innerText()).includes('refused'));
    same(await person.accessibility(), []);
    await shoot(person, 'calls-filtered');
    await page.getByRole('link', { name: 'tool: bank__transfer' }).click();
    ok(!page.url().includes('tool='), page.url());
    await person.goto('/calls?outcome=completed');
    const first = await rows.allInnerTexts();
    await page.getByRole('link', { name: 'Older' }).click();
    ok((await rows.allInnerTexts()).every((row) => !first.includes(row)));
    await page.getByRole('link', { name: 'Newest' }).click();
    same((await rows.allInnerTexts()).length, first.length);
    await person.goto('/calls?tool=nothing');
    ok((await text(person)).includes('No call matches'));
    same(await person.accessibility(), []);
  });

  await check('new calls are a link, the list does not move, and the news pause', person, async () => {
    await person.goto('/calls');
    const before = await page.locator('[data-row]').first().innerText();
    await page.waitForTimeout(300);
    gateway.recordCall();
    await page.getByRole('link', { name: '1 new' }).waitFor();
    same(await page.locator('[data-row]').first().innerText(), before);
    same(await person.accessibility(), []);
    await shoot(person, 'calls-news');
    await page.getByRole('link', { name: '1 new' }).click();
    ok((await page.locator('[data-row]').first().innerText()).includes('company__new_one'));
    await page.getByRole('link', { name: 'Pause' }).click();
    gateway.recordCall();
    await page.waitForTimeout(3_000);
    same(await page.locator('.news').count(), 0);
    await page.getByRole('link', { name: 'Show news again' }).click();
  });

  await check('a call opens gate by gate, and what others wrote in it is data', person, async () => {
    await person.goto(gateway.call('plain'));
    same(await page.locator('.stage').count(), 15);
    ok((await text(person)).includes('servanda call company__get_invoice ARGUMENTS'));
    same(await person.accessibility(), []);
    await shoot(person, 'call');
    await page.emulateMedia({ colorScheme: 'dark' });
    await shoot(person, 'call-dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await person.goto(gateway.call('hostile'));
    const shown = await text(person);
    ok(shown.includes('pay<U+202E>ecioevni <b>now</b>') && !shown.includes('\u202e'), shown);
    ok(shown.includes('<script>alert(1)</script>'));
    ok(shown.includes('nothing here to copy'));
    same(await page.locator('main b, main script').count(), 0);
    same(await person.accessibility(), []);
    await shoot(person, 'call-refused');
  });

  await check('keyboard only: to a call and back', person, async () => {
    await person.goto('/calls');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/calls/call_*');
    await page.goBack();
  });

  await check('the overview has its plots with tables beside them', person, async () => {
    await person.goto('/');
    same(await page.getByRole('img').count(), 3);
    same(await person.accessibility(), []);
    await shoot(person, 'overview');
    await page.emulateMedia({ colorScheme: 'dark' });
    await shoot(person, 'overview-dark');
    await page.emulateMedia({ colorScheme: 'light' });
    for (const summary of await page.getByText('As numbers').all()) await summary.click();
    same(await person.accessibility(), []);
    await page.getByRole('link', { name: '7 days' }).click();
    await page.waitForURL('**/?within=7d');
    await page.getByRole('link', { name: 'refused', exact: true }).click();
    await page.waitForURL('**/calls?outcome=refused&within=7d');
    ok(await page.locator('[data-row]').count() > 0);
  });

  await check('375 px wide: no page is wider than the window', person, async () => {
    await page.setViewportSize({ width: 375, height: 740 });
    for (const [name, path] of Object.entries({ inbox: '/approvals?state=all', ticket: gateway.path('transfer'), bidirectional: gateway.path('bidi'), missing: '/sign-in', calls: '/calls', call: gateway.call('plain'), refused: gateway.call('hostile'), overview: '/' })) {
      await person.goto(path);
      same(await person.overflows(), false, name);
      same(await person.accessibility(), [], name);
      await shoot(person, `narrow-${name}`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  await check('signing out ends the session', person, async () => {
    await person.goto('/approvals');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL('**/sign-in');
    await person.goto('/approvals');
    ok(page.url().endsWith('/sign-in'));
    same(await person.context.cookies(), []);
  });

  const plain = await Person.open(gateway, { javaScriptEnabled: false });
  await check('without JavaScript a person signs in, reviews and decides', plain, async () => {
    await plain.useLink();
    await plain.page.getByRole('checkbox', { name: 'inv_1103' }).check();
    await plain.page.getByRole('button', { name: 'Review chosen' }).click();
    ok((await text(plain)).includes('fraud_review'));
    await plain.goto(gateway.path('third'));
    await plain.page.getByRole('button', { name: 'Approve this call' }).click();
    ok((await text(plain)).includes('with exactly these arguments'));
    await plain.goto(gateway.path('transfer'));
    await plain.page.getByLabel('Reason for denying').fill('no');
    await plain.page.getByRole('button', { name: 'Deny' }).click();
    ok((await text(plain)).includes('Nothing was sent'));
  });
  await plain.close();

  await check('a link on another site arrives with the session', person, async () => {
    await person.useLink();
    const other = await startGateway(binary);
    const target = gateway.base + gateway.path('plain');
    await page.goto(other.base + '/sign-in');
    // A link of another site; `localhost` is another site than 127.0.0.1.
    await page.goto(`http://localhost:${other.port}/sign-in`);
    await page.evaluate((href) => { const link = document.createElement('a'); link.href = href; link.textContent = 'there'; document.body.append(link); }, target);
    await page.getByText('there').click();
    await page.getByRole('heading', { name: 'company.void_invoice 1.0.0' }).waitFor();
    person.faults.length = 0; // Requests to the other site are what is tried here.
    other.stop();
  });
  await check('under its own host name the console keeps its cookie from other servers of this machine', person, async () => {
    const seen = [];
    const other = createServer((request, response) => { seen.push(request.headers.cookie ?? ''); response.end('<title>other</title>'); });
    await new Promise((resolve) => { other.listen(0, '127.0.0.1', resolve); });
    await person.context.clearCookies();
    await page.goto(`http://servanda.localhost:${gateway.port}${gateway.links.shift()}`);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL('http://servanda.localhost:*/approvals');
    same((await person.context.cookies()).length, 1);
    for (const name of ['localhost', '127.0.0.1']) await page.goto(`http://${name}:${other.address().port}/`);
    ok(seen.length >= 2 && seen.every((cookie) => cookie === ''), seen.join(' | '));
    // The same name is what must not be used for anything else: there the browser sends the cookie, whatever the port.
    seen.length = 0;
    await page.goto(`http://servanda.localhost:${other.address().port}/`);
    // A late request for an icon of the pages before may come first.
    ok(seen.some((cookie) => cookie.startsWith('__Host-servanda=')), 'browsers keep cookies of different ports apart by now: docs/console.md can say so');
    await page.goto(`http://servanda.localhost:${gateway.port}/approvals`);
    same(await page.getByRole('heading', { name: 'Inbox' }).count(), 1);
    person.faults.length = 0; // Requests to other places are what is tried here.
    other.close();
  });
  await person.close();
  gateway.stop();
}

async function manyPeople() {
  const gateway = await startGateway(binary, '--many');
  const [ben, cleo, vera] = [await Person.open(gateway), await Person.open(gateway), await Person.open(gateway)];

  await check('a key of people signs in', ben, async () => {
    await ben.goto('/sign-in');
    same(await ben.accessibility(), []);
    await shoot(ben, 'sign-in-key');
    await ben.page.getByLabel('Key').fill('svk_wrong');
    await ben.page.getByRole('button', { name: 'Sign in' }).click();
    ok((await text(ben)).includes('This key was not accepted'));
    same(await ben.accessibility(), []);
    ben.faults.length = 0; // Chromium reports the 403.
    await ben.useKey('ben');
    await cleo.useKey('cleo');
    await vera.useKey('vera');
  });

  await check('two people approve one transfer', ben, async () => {
    const path = gateway.path('transfer');
    await ben.goto(path);
    ok((await text(ben)).includes('masked for you'));
    ok(!(await text(ben)).includes('DE8937'));
    same(await ben.accessibility(), []);
    await shoot(ben, 'transfer-masked');
    await ben.page.getByRole('button', { name: 'Approve this call' }).click();
    await ben.page.getByText('You have decided about this').waitFor();
    await shoot(ben, 'transfer-in-part');
    await cleo.goto(path);
    ok((await text(cleo)).includes('DE8937'));
    ok((await text(cleo)).includes('ben approved'));
    same(await cleo.accessibility(), []);
    await shoot(cleo, 'transfer');
    await cleo.page.getByRole('button', { name: 'Approve this call' }).click();
    await cleo.page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
  });

  await check('a viewer looks and is told why that is all', vera, async () => {
    await vera.goto(gateway.path('plain'));
    ok((await text(vera)).includes('You may look and not decide'));
    same(await vera.page.getByRole('button', { name: /Approve|Deny/ }).count(), 0);
    same(await vera.accessibility(), []);
    await shoot(vera, 'viewer');
  });

  await operatorsAndViewers({ check, text, shoot, gateway, vera });

  for (const person of [ben, cleo, vera]) await person.close();
  gateway.stop();
}

/** Passkeys, under the console's own name: browsers offer none at 127.0.0.1. */
async function withPasskeys() {
  const started = await startGateway(binary);
  const gateway = { ...started, base: `http://servanda.localhost:${started.port}` };
  const person = await Person.open(gateway);
  await passkeys(person, gateway, { check, text, shoot }, option('--servanda'));
  await person.close();
  const plain = await Person.open(gateway, { javaScriptEnabled: false });
  await check('without JavaScript the page says that a passkey needs it', plain, async () => {
    await plain.goto(gateway.links.shift());
    await plain.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await plain.page.waitForURL('**/approvals');
    await plain.goto('/passkeys');
    ok((await text(plain)).includes('A passkey needs JavaScript'));
    same(await plain.page.getByRole('button', { name: 'Register a passkey' }).count(), 0);
  });
  await plain.close();
  started.stop();
}

await singleUser();
await withPasskeys();
await manyPeople();
await identityProvider({ check, text, shoot, binary });
console.log(`${results.passed} passed, ${results.failed} failed`);
process.exit(results.failed === 0 ? 0 : 1);
