// The gateway under test: the example of crates/console, which prints its port and opens tickets when told to.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export async function startGateway(binary, ...options) {
  const child = spawn(binary, options, { stdio: ['pipe', 'pipe', 'inherit'] });
  const first = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    child.once('exit', (code) => reject(new Error(`the fixture ended with ${code}`)));
  });
  const facts = JSON.parse(first);
  return {
    ...facts,
    base: `http://127.0.0.1:${facts.port}`,
    path: (name) => `/approvals/${facts.tickets[name]}`,
    call: (name) => `/calls/${facts.calls[name]}`,
    openTicket: () => child.stdin.write('n'),
    recordCall: () => child.stdin.write('c'),
    passSixMinutes: () => child.stdin.write('t'),
    stop: () => child.stdin.end(),
  };
}
