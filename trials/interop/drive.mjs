// Drives one MCP server with an official TypeScript client: lists every tool, makes the calls of a script, and prints
// the same JSON document as drive.py. From `@modelcontextprotocol/client` (2.x) or `@modelcontextprotocol/sdk` (1.x).
//
//   node drive.mjs --package client|sdk --calls FILE --era auto|legacy|modern
//       (--url URL | [--env K=V]... --command COMMAND ARG...)

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const MODERN = '2026-07-28';
// A cold Python server on a busy machine has been seen to take 30 s to its first answer.
const timing = { timeout: 60_000 };

function parseOptions(argv) {
    const options = { era: 'auto', env: {} };
    while (argv.length > 0) {
        const flag = argv.shift();
        if (flag === '--command') {
            options.command = argv.splice(0); // everything after it belongs to the server
        } else if (flag === '--env') {
            const [, key, value] = argv.shift().match(/^([^=]+)=(.*)$/s);
            options.env[key] = value;
        } else {
            options[flag.slice(2)] = argv.shift();
        }
    }
    return options;
}

// The packages live in .tools/node, not beside this file, so they are resolved from there.
const packages = new URL('../../.tools/node/node_modules/@modelcontextprotocol/', import.meta.url);
const load = createRequire(packages);

function open(options) {
    const info = { name: 'interop-trial', version: '1.0.0' };
    if (options.package === 'client') {
        const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
        const stdio = load('@modelcontextprotocol/client/stdio');
        const mode = options.era === 'modern' ? { pin: MODERN } : options.era;
        const client = new Client(info, { versionNegotiation: { mode } });
        return { client, stdio, StreamableHTTPClientTransport, call: params => client.callTool(params, timing) };
    }
    if (options.era === 'modern') throw new Error('@modelcontextprotocol/sdk 1.x speaks only the legacy era');
    const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
    const stdio = load('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info);
    return { client, stdio, StreamableHTTPClientTransport, call: params => client.callTool(params, undefined, timing) };
}

function transportFor(options, { stdio, StreamableHTTPClientTransport }) {
    if (options.url) return new StreamableHTTPClientTransport(new URL(options.url));
    const [command, ...args] = options.command;
    // Given `env`, this transport (both packages) still adds the safe part of our own environment: PATH, HOME and such.
    return new stdio.StdioClientTransport({ command, args, env: options.env });
}

// 1.x has no method for it: its transports are told the version instead, stdio excepted.
function recordVersion(transport) {
    let version;
    const original = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = value => { version = value; original?.(value); };
    return () => version;
}

async function listAll(client) {
    const tools = [];
    let cursor;
    do { // 2.x gathers the pages itself, 1.x returns one; undefined, not falsy: the empty string is a valid cursor
        const page = await client.listTools(cursor === undefined ? undefined : { cursor }, timing);
        tools.push(...page.tools);
        cursor = page.nextCursor;
    } while (cursor !== undefined);
    return tools;
}

function errorOf(error) {
    const { code, message, data } = error;
    if (typeof code === 'number') return { kind: 'jsonrpc', code, message, data };
    return { kind: error.constructor.name, message };
}

const options = parseOptions(process.argv.slice(2));
const calls = JSON.parse(readFileSync(options.calls, 'utf8'));
const opened = open(options);
const transport = transportFor(options, opened);
const versionTold = recordVersion(transport);
await opened.client.connect(transport, timing);
const tools = await listAll(opened.client);
const answers = [];
for (const { tool, arguments: args } of calls) {
    try {
        answers.push({ result: await opened.call({ name: tool, arguments: args }) });
    } catch (error) {
        answers.push({ error: errorOf(error) });
    }
}
const { version } = JSON.parse(readFileSync(new URL(`${options.package}/package.json`, packages)));
process.stdout.write(JSON.stringify({
    client: `@modelcontextprotocol/${options.package} ${version}`,
    protocolVersion: opened.client.getNegotiatedProtocolVersion?.() ?? versionTold(),
    tools,
    answers,
}));
// A legacy session ends with DELETE; 2.x sends nothing on a modern connection, which has no session.
await transport.terminateSession?.();
await opened.client.close();
