// The gateway under test: the example of crates/console, which prints its port and opens tickets when told to.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export async function startGateway(binary, ...options) {
  const child = spawn(binary, options, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  const first = await new Promise((resolve, reject) => {
    lines.once('line', resolve);
    child.once('exit', (code) => reject(new Error(`the fixture ended with ${code}`)));
  });
  const facts = JSON.parse(first);
  const asked = async (letter) => {
    const answer = new Promise((resolve) => { lines.once('line', resolve); });
    child.stdin.write(letter);
    return JSON.parse(await answer);
  };
  return {
    ...facts,
    base: `http://127.0.0.1:${facts.port}`,
    path: (name) => `/approvals/${facts.tickets[name]}`,
    effect: (name) => `/effects/${facts.effects[name]}`,
    call: (name) => `/calls/${facts.calls[name]}`,
    openTicket: () => child.stdin.write('n'),
    recordCall: () => child.stdin.write('c'),
    passSixMinutes: () => child.stdin.write('t'),
    /** The warrants of approved tickets, and the gateway's public keys. */
    warrants: () => asked('w'),
    /** Opens a ticket about a refund, and says its id. */
    openRefund: () => asked('r'),
    /** Opens a ticket about an agent's plan, and says its id. */
    openPlan: () => asked('p'),
    /** A call that the newest grant covers: its id, or null. */
    draw: () => asked('d'),
    stop: () => child.stdin.end(),
  };
}
