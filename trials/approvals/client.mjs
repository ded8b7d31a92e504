// The official TypeScript clients, `@modelcontextprotocol/client` (2.x) and `@modelcontextprotocol/sdk` (1.x); the same lines as client.py,
// which says what they are.
//
//   node client.mjs --package client|sdk --url URL --key KEY --mode plain|page|task --plan JSON

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const MODERN = '2026-07-28';
const POLL_MS = 300;
const timing = { timeout: 60_000 };
console.log = console.info = console.debug = console.error; // stdout is for the lines

const text = { type: 'string' };
const { values: options } = parseArgs({ options: { package: text, url: text, key: text, mode: text, plan: text } });
const isVersion1 = options.package === 'sdk';
const packages = new URL('../../.tools/node/node_modules/@modelcontextprotocol/', import.meta.url);
const load = createRequire(packages);
const { version } = JSON.parse(readFileSync(new URL(`${options.package}/package.json`, packages)));

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = line => process.stdout.write(`${JSON.stringify(line)}\n`);
const words = result => result.content.map(block => block.text ?? '').join('\n');

async function toldToGoOn() {
    if ((await lines.next()).done) process.exit(1);
}

function ended(result, more) {
    const has_structured = result.structuredContent !== undefined;
    say({ event: 'ended', is_error: Boolean(result.isError), text: words(result), has_structured, ...more });
}

function open() {
    const info = { name: 'approvals-trial', version: '1.0.0' };
    const capabilities = options.mode === 'page' ? { elicitation: { url: {} } } : {};
    const requestInit = { headers: { authorization: `Bearer ${options.key}` } };
    if (!isVersion1) {
        const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
        const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: MODERN } } });
        if (options.mode === 'page') client.setRequestHandler('elicitation/create', elicit);
        const transport = new StreamableHTTPClientTransport(new URL(options.url), { requestInit });
        return { client, transport, call: params => client.callTool(params, timing) };
    }
    const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info, { capabilities });
    const transport = new StreamableHTTPClientTransport(new URL(options.url), { requestInit });
    return { client, transport, call: params => client.callTool(params, undefined, timing) };
}

// The person is shown the page, and the client answers that they looked.
async function elicit({ params }) {
    say({ event: 'waits', text: params.message, url: params.url });
    await toldToGoOn();
    return { action: 'accept' };
}

async function asTask(client, params) {
    const { CallToolResultSchema } = load('@modelcontextprotocol/sdk/types.js');
    const tasks = client.experimental.tasks;
    let task;
    let result;
    for await (const message of tasks.callToolStream(params, CallToolResultSchema, { ...timing, task: { ttl: 60_000 } })) {
        const isFirst = task === undefined;
        task = message.task ?? task;
        if (isFirst) {
            say({ event: 'waits', text: task?.statusMessage ?? '', status: task?.status });
            await toldToGoOn();
        }
        // The stream ends with an error that has no words of ours if the task failed; any other error is the client's own.
        if (message.type === 'error' && task?.status !== 'failed') throw message.error;
        if (message.type === 'result') result = message.result;
    }
    result ??= await tasks.getTaskResult(task.taskId, CallToolResultSchema, timing);
    ended(result, { status: (await tasks.getTask(task.taskId, timing)).status, message: task.statusMessage ?? '' });
}

async function step(client, call, { tool: name, arguments: args, dry_run: isDryRun }) {
    const params = { name, arguments: args };
    if (isDryRun) {
        ended(await call({ ...params, _meta: { 'servanda/dry-run': true } }));
    } else if (options.mode === 'task') {
        await asTask(client, params);
    } else if (options.mode === 'page') {
        ended(await call(params));
    } else {
        say({ event: 'waits', text: words(await call(params)) });
        await toldToGoOn();
        ended(await call(params));
    }
}

const { client, transport, call } = open();
await client.connect(transport, timing);
const protocol = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? transport._protocolVersion;
const { tools } = await client.listTools(undefined, timing);
const with_schema = tools.filter(tool => tool.outputSchema).map(tool => tool.name);
say({ event: 'listed', client: `@modelcontextprotocol/${options.package} ${version}`, protocol, with_schema });
for (const one of JSON.parse(options.plan)) {
    try {
        await step(client, call, one);
    } catch (error) {
        say({ event: 'ended', rejected: `${error.constructor.name}: ${error.message}` });
    }
}
await setTimeout(POLL_MS);
await client.close();
process.exit(0);
