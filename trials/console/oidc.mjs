// Signing in through an identity provider: the browser goes to another site and comes back, as itself.
import { deepStrictEqual as same, ok } from 'node:assert';
import { Person } from './browser.mjs';
import { startGateway } from './gateway.mjs';

export async function identityProvider({ check, text, shoot, binary }) {
  const gateway = await startGateway(binary, '--many', '--provider');

  /** Requests to the provider are what is tried here; nothing else may go elsewhere. */
  const forget = (person) => { person.faults = person.faults.filter((fault) => !fault.startsWith(`a request to ${gateway.provider}/`)); };
  const agree = async (person, name) => {
    await person.page.waitForURL(`${gateway.provider}/authorize?*`);
    const address = new URL(person.page.url());
    await person.page.getByRole('link', { name, exact: true }).click();
    return address;
  };
  const signIn = async (person, name, path) => {
    await person.goto(path);
    await person.page.getByRole('button', { name: 'Sign in with Acme' }).click();
    const address = await agree(person, name);
    await person.page.waitForURL(`**${path}`);
    forget(person);
    return address;
  };

  const [ben, vera] = [await Person.open(gateway), await Person.open(gateway)];

  await check('a person signs in through the identity provider, in the browser that began, and approves', ben, async () => {
    const path = gateway.path('plain');
    await ben.goto(path);
    ok(ben.page.url().includes('/sign-in?next='));
    same(await ben.accessibility(), []);
    await shoot(ben, 'sign-in-provider');
    const address = await signIn(ben, 'ben', path);
    same(address.searchParams.get('code_challenge_method'), 'S256');
    same(address.searchParams.get('redirect_uri'), `${gateway.base}/sign-in/oidc/answer`);
    ok(!address.searchParams.has('prompt'));
    const cookies = (await ben.context.cookies()).map(({ name, secure, httpOnly, sameSite, path: at }) => ({ name, secure, httpOnly, sameSite, at }));
    same(cookies, [{ name: '__Host-servanda', secure: true, httpOnly: true, sameSite: 'Strict', at: '/' }]);
    ok(!ben.page.url().includes('code='), 'the code is not in the address any more');
    await ben.page.getByRole('button', { name: 'Approve this call' }).click();
    await ben.page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
  });

  await check('a viewer through the identity provider looks and does not decide', vera, async () => {
    await signIn(vera, 'vera', gateway.path('first'));
    ok((await text(vera)).includes('You may look and not decide'));
    same(await vera.page.getByRole('button', { name: /Approve|Deny/ }).count(), 0);
  });

  await check('a ticket that needs a fresh sign-in has the provider ask again', ben, async () => {
    const path = gateway.path('fresh');
    await ben.goto(path);
    ok((await text(ben)).includes('Sign in again to decide'));
    await ben.page.getByRole('link', { name: 'Sign in again' }).click();
    same(await ben.accessibility(), []);
    await ben.page.getByRole('button', { name: 'Sign in with Acme' }).click();
    const address = await agree(ben, 'ben');
    same([address.searchParams.get('prompt'), address.searchParams.get('max_age')], ['login', '0']);
    await ben.page.waitForURL(`**${path}`);
    forget(ben);
    await ben.page.getByRole('button', { name: 'Approve this call' }).click();
    await ben.page.getByRole('heading', { name: 'Approved', exact: true }).waitFor();
  });

  const mallory = await Person.open(gateway);
  await check("another person's answer signs nobody in", mallory, async () => {
    // The attacker goes as far as the provider and keeps the answer to themselves.
    await mallory.goto('/sign-in');
    await mallory.page.getByRole('button', { name: 'Sign in with Acme' }).click();
    await mallory.page.waitForURL(`${gateway.provider}/authorize?*`);
    const href = await mallory.page.getByRole('link', { name: 'otto', exact: true }).getAttribute('href');
    const kept = (await fetch(gateway.provider + href, { redirect: 'manual' })).headers.get('location');
    ok(kept.startsWith(`${gateway.base}/sign-in/oidc/answer?`) && kept.includes('code='), kept);
    forget(mallory);
    const victim = await Person.open(gateway);
    await victim.page.goto(kept);
    await victim.page.getByRole('heading', { name: 'You are not signed in' }).waitFor();
    ok((await text(victim)).includes('other_browser'));
    // Neither in a browser that has begun itself.
    await victim.goto('/sign-in');
    await victim.page.getByRole('button', { name: 'Sign in with Acme' }).click();
    await victim.page.waitForURL(`${gateway.provider}/authorize?*`);
    await victim.page.goto(kept);
    await victim.page.getByText('wrong_state').waitFor();
    same((await victim.context.cookies()).map(({ name }) => name), ['__Host-servanda-sign-in']);
    same(await victim.accessibility(), []);
    await shoot(victim, 'sign-in-refused');
    await victim.close();
  });

  const plain = await Person.open(gateway, { javaScriptEnabled: false });
  await check('without JavaScript a person signs in through the identity provider', plain, async () => {
    await signIn(plain, 'ben', gateway.path('second'));
    await plain.page.getByRole('button', { name: 'Approve this call' }).click();
    ok((await text(plain)).includes('with exactly these arguments'));
  });

  for (const person of [ben, vera, mallory, plain]) await person.close();
  gateway.stop();
}
