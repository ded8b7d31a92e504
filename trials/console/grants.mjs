// What people allow from now on: made from a ticket, used by a call, seen, and taken back.
import { deepStrictEqual as same, ok } from 'node:assert';

/** The checks of one person without authentication. `tools` are those of main.mjs. */
export async function grants(person, gateway, tools) {
  const { check, text, shoot } = tools;
  const { page } = person;
  let ticket;

  await check('without a grant the list says how one is made', person, async () => {
    await person.goto('/approvals');
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Grants' }).click();
    ok((await text(person)).includes('Nothing is allowed from now on'));
    same(await person.accessibility(), []);
  });

  await check('a person allows calls like one that was approved, and reads the policy first', person, async () => {
    ({ ticket } = await gateway.openRefund());
    await person.goto(`/approvals/${ticket}`);
    same(await page.getByRole('link', { name: 'Allow calls like this from now on' }).count(), 0);
    await page.getByRole('button', { name: 'Approve this call' }).click();
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
    await page.getByRole('link', { name: 'Allow calls like this from now on' }).click();
    await page.getByRole('heading', { name: 'Allow calls of bank.refund from now on' }).waitFor();
    const shown = await text(person);
    ok(shown.includes('permit ('), shown);
    ok(shown.includes('a path below /srv/bills/2026/'), shown);
    ok(shown.includes('1 call of this tool was held. 1 of them would have passed'), shown);
    same(await person.accessibility(), []);
    await shoot(person, 'grant-form');
    await page.getByLabel('Not beyond').fill('25');
    await page.getByRole('button', { name: 'Allow these calls from now on' }).click();
    await page.getByRole('heading', { name: 'Read what you would allow now' }).waitFor();
    ok((await text(person)).includes('decimal("25.0")'));
    ok((await text(person)).includes('0 of them would have passed'));
    same(await person.accessibility(), []);
    await page.getByRole('button', { name: 'Allow these calls from now on' }).click();
    await page.getByRole('heading', { name: '0 of 20 used, in force' }).waitFor();
    same(await person.accessibility(), []);
  });

  await check('a call uses the grant, and the pages say so', person, async () => {
    const { call } = await gateway.draw();
    ok(call);
    await page.reload();
    await page.getByRole('heading', { name: '1 of 20 used, in force' }).waitFor();
    same(await person.accessibility(), []);
    await shoot(person, 'grant');
    await page.getByRole('link', { name: call }).click();
    ok((await text(person)).includes('use 1 of 20, allowed by local'));
    same(await person.accessibility(), []);
    await person.goto('/grants');
    same(await page.locator('[data-row]').count(), 1);
    same(await person.accessibility(), []);
    await shoot(person, 'grants');
  });

  await check('a person takes a grant back with the keyboard, and no call uses it any more', person, async () => {
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/grants/${ticket}`);
    await page.getByLabel('Reason').focus();
    await page.keyboard.type('the month is over');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: '1 of 20 used, taken back' }).waitFor();
    ok((await text(person)).includes('the month is over'));
    same(await page.getByRole('button', { name: 'Take this grant back' }).count(), 0);
    same((await gateway.draw()).call, null);
    same(await person.accessibility(), []);
  });

  await check('the form of a grant on a telephone', person, async () => {
    const { ticket: other } = await gateway.openRefund();
    await person.goto(`/approvals/${other}`);
    await page.getByRole('button', { name: 'Approve this call' }).click();
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
    await page.setViewportSize({ width: 375, height: 800 });
    await person.goto(`/grants/${other}`);
    same(await person.overflows(), false);
    same(await person.accessibility(), []);
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  await check('a plan from two tickets: chosen, read, made and taken back as one', person, async () => {
    const tickets = [];
    for (let number = 0; number < 2; number += 1) {
      const opened = await gateway.openRefund();
      await person.goto(`/approvals/${opened.ticket}`);
      await page.getByRole('button', { name: 'Approve this call' }).click();
      await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
      tickets.push(opened.ticket);
    }
    const [first, second] = tickets;
    await page.setViewportSize({ width: 375, height: 800 });
    await person.goto(`/grants/${first}`);
    await page.getByText('Allow other approved calls of this agent with it').click();
    same(await person.overflows(), false);
    same(await person.accessibility(), []);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.locator(`input[name="further"][value^="${second} "]`).check();
    await page.getByRole('button', { name: 'Allow these calls from now on' }).click();
    await page.getByRole('heading', { name: 'Read what you would allow now' }).waitFor();
    same(await page.locator(`input[name="further"][value^="${second} "]`).isChecked(), true);
    same((await text(person)).split('permit (').length - 1, 2);
    same(await person.accessibility(), []);
    await shoot(person, 'plan-form');
    await page.getByRole('button', { name: 'Allow these calls from now on' }).click();
    await page.getByRole('heading', { name: 'Allowed from now on: bank.refund and 1 more call' }).waitFor();
    same(await person.accessibility(), []);
    await page.getByLabel('Reason').fill('the month is over');
    await page.getByRole('button', { name: 'Take this grant back' }).click();
    await page.getByRole('heading', { name: '0 of 40 used, taken back' }).waitFor();
  });

  await check('a plan of an agent: every call read, approved once, used by its first call until its count ends', person, async () => {
    const { ticket: proposed } = await gateway.openPlan();
    await page.setViewportSize({ width: 375, height: 800 });
    await person.goto(`/approvals/${proposed}`);
    same(await person.overflows(), false);
    same(await person.accessibility(), []);
    await page.setViewportSize({ width: 1280, height: 900 });
    const shown = await text(person);
    for (const words of ['What would be allowed', 'bank.refund 1.0.0, at most 2 times', 'bank.close 1.0.0, once', '12.50 EUR']) {
      ok(shown.includes(words), words);
    }
    await shoot(person, 'plan');
    await page.getByRole('button', { name: 'Approve this plan' }).click();
    await page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
    same(await person.accessibility(), []);
    ok((await gateway.draw()).call);
    ok((await gateway.draw()).call);
    same((await gateway.draw()).call, null);
    await page.getByRole('link', { name: 'What is allowed from now on' }).click();
    await page.getByRole('heading', { name: '2 of 3 used, in force' }).waitFor();
    ok((await text(person)).includes('2 of 2 used'));
    same(await person.accessibility(), []);
    await page.getByLabel('Reason').fill('the outage is over');
    await page.getByRole('button', { name: 'Take this grant back' }).click();
    await page.getByRole('heading', { name: '2 of 3 used, taken back' }).waitFor();
  });
}
