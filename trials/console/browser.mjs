// Chromium, with a fresh profile for every context, and what every page must keep: no message in its console, no request to
// another place, and nothing serious that axe finds, in light and in dark.
import { createRequire } from 'node:module';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(join(process.env.NODE_PATH, 'x.js'));
const { chromium } = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');

const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

export class Person {
  static async open(gateway, options = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'console-'));
    const context = await chromium.launchPersistentContext(folder, {
      executablePath: '/usr/bin/chromium', headless: true, args: ARGUMENTS, bypassCSP: false,
      viewport: { width: 1280, height: 900 }, timezoneId: 'UTC', ...options,
    });
    context.setDefaultTimeout(10_000);
    const page = context.pages()[0] ?? await context.newPage();
    const person = new Person();
    Object.assign(person, { gateway, context, page, folder, faults: [] });
    page.on('console', (message) => person.faults.push(`console: ${message.text()} at ${page.url()}`));
    page.on('pageerror', (error) => person.faults.push(`error: ${error}`));
    page.on('request', (request) => {
      if (!request.url().startsWith(gateway.base)) person.faults.push(`a request to ${request.url()}`);
    });
    return person;
  }

  async goto(path) {
    return this.page.goto(this.gateway.base + path);
  }

  async useLink() {
    await this.goto(this.gateway.links.shift());
    await this.page.getByRole('button', { name: 'Sign in' }).click();
    await this.page.waitForURL('**/approvals');
  }

  async useKey(name) {
    await this.goto('/sign-in');
    await this.page.getByLabel('Key').fill(this.gateway.keys[name]);
    await this.page.getByRole('button', { name: 'Sign in' }).click();
    await this.page.waitForURL('**/approvals');
  }

  /** What axe finds on the page as it is, in both colour schemes: only what is serious or critical. */
  async accessibility() {
    const found = [];
    for (const colorScheme of ['light', 'dark']) {
      await this.page.emulateMedia({ colorScheme });
      // Through the debugger, which the page's content policy does not concern.
      await this.page.evaluate(require('node:fs').readFileSync(axe, 'utf8') + '; undefined');
      const result = await this.page.evaluate(() => window.axe.run(document, {
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
      }));
      for (const violation of result.violations) {
        if (['serious', 'critical'].includes(violation.impact)) {
          found.push(`${colorScheme}: ${violation.id}: ${violation.nodes.map((node) => node.html).join(' | ')}`);
        }
      }
    }
    await this.page.emulateMedia({ colorScheme: 'light' });
    return found;
  }

  /** Whether the page is wider than the window. */
  async overflows() {
    return this.page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  }

  async close() {
    await this.context.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
