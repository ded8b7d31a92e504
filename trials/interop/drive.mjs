// Drives MCP servers with an official TypeScript client: makes the steps of a script, and prints the same JSON document
// as drive.py, which says what both look like. From `@modelcontextprotocol/client` (2.x) or `@modelcontextprotocol/sdk`
// (1.x).
//
//   node drive.mjs --package client|sdk --script FILE

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as startTimer } from 'node:timers';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const MODERN = '2026-07-28';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
// A cold Python server on a busy machine has been seen to take 30 s to its first answer.
const timing = { timeout: 60_000 };
// A notification may come on another stream than the answer, and so after it.
const TOLD_MS_MAX = 5_000;

// The document is all that may be on stdout, and 2.x writes to its console.
console.log = console.info = console.debug = console.error;

const { values: options } = parseArgs({ options: { package: { type: 'string' }, script: { type: 'string' } } });
const isVersion1 = options.package === 'sdk';

// The packages live in .tools/node, not beside this file, so they are resolved from there.
const packages = new URL('../../.tools/node/node_modules/@modelcontextprotocol/', import.meta.url);
const load = createRequire(packages);

// ---- the other direction: what the server asked the client and told it, since the step began ----------------------

class Exchange {
    constructor({ declares, roots }) {
        Object.assign(this, { declares, roots: roots ?? [], changed: () => {} });
        this.begin({});
    }

    begin(answers) {
        Object.assign(this, { asked: [], told: [], answers });
    }

    ask(method, params) {
        this.asked.push({ method, params: params ?? {} });
        this.changed();
        if (method === 'roots/list') return { roots: this.roots };
        if (!(method in this.answers)) throw new Error(`no answer to ${method} in this step`);
        return this.answers[method];
    }

    tell(method, params) {
        this.told.push({ method, params: params ?? {} });
        this.changed();
    }

    until(holds) {
        return new Promise(resolve => {
            const finish = () => { clearTimeout(timer); this.changed = () => {}; resolve(); };
            const timer = startTimer(finish, TOLD_MS_MAX); // the answer then shows what is missing
            this.changed = () => holds() && finish();
            this.changed();
        });
    }
}

const CAPABILITIES = { roots: { listChanged: true }, sampling: {}, elicitation: { form: {}, url: {} } };
const ASKED = {
    'elicitation/create': 'ElicitRequestSchema',
    'sampling/createMessage': 'CreateMessageRequestSchema',
    'roots/list': 'ListRootsRequestSchema',
};

function answerRequests(client, exchange) {
    if (exchange.declares) {
        for (const [method, schema] of Object.entries(ASKED)) {
            // 1.x knows a method by its schema, 2.x by its name.
            const known = isVersion1 ? load('@modelcontextprotocol/sdk/types.js')[schema] : method;
            client.setRequestHandler(known, async request => exchange.ask(method, request.params));
        }
    }
    client.fallbackNotificationHandler = async ({ method, params }) => exchange.tell(method, params);
}

// ---- the two clients ----------------------------------------------------------------------------------------------

function open(era, exchange) {
    const info = { name: 'interop-trial', version: '1.0.0' };
    const capabilities = exchange.declares ? CAPABILITIES : {};
    if (!isVersion1) {
        const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
        const stdio = load('@modelcontextprotocol/client/stdio');
        const mode = era === 'modern' ? { pin: MODERN } : era;
        const client = new Client(info, { capabilities, versionNegotiation: { mode } });
        const call = (params, more) => client.callTool(params, { ...timing, ...more });
        return { client, stdio, StreamableHTTPClientTransport, call };
    }
    if (era === 'modern') throw new Error('@modelcontextprotocol/sdk 1.x speaks only the legacy era');
    const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
    const stdio = load('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info, { capabilities });
    const call = (params, more) => client.callTool(params, undefined, { ...timing, ...more });
    return { client, stdio, StreamableHTTPClientTransport, call };
}

function transportFor(target, { stdio, StreamableHTTPClientTransport }) {
    if (target.url) return new StreamableHTTPClientTransport(new URL(target.url));
    // Given `env`, this transport (both packages) still adds the safe part of our own environment: PATH, HOME and such.
    return new stdio.StdioClientTransport({ command: target.command, args: target.args, env: target.env ?? {} });
}

// 1.x has no method for it: its transports are told the version instead, stdio excepted.
function recordVersion(transport) {
    let version;
    const original = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = value => { version = value; original?.(value); };
    return () => version;
}

// ---- the steps, as features.py has them ---------------------------------------------------------------------------

const unheard = honoured => new Error(`the server acknowledged ${JSON.stringify(honoured)}`);

class Session {
    constructor(opened, exchange, version) {
        Object.assign(this, { ...opened, exchange, version, modern: version >= MODERN, subscriptions: new Map() });
    }

    async list({ what }) {
        const methods = {
            tools: 'listTools',
            resources: 'listResources',
            resourceTemplates: 'listResourceTemplates',
            prompts: 'listPrompts',
        };
        const items = [];
        let cursor;
        do { // 2.x gathers the pages itself, 1.x returns one; undefined, not falsy: the empty string is a valid cursor
            const page = await this.client[methods[what]](cursor === undefined ? undefined : { cursor }, timing);
            items.push(...page[what]);
            cursor = page.nextCursor;
        } while (cursor !== undefined);
        return { [what]: items };
    }

    async call_({ name, arguments: args, progress, log_level: level, until }) {
        const params = { name, arguments: args };
        if (level && this.modern) params._meta = { [LOG_LEVEL]: level };
        else if (level) await this.client.setLoggingLevel(level, timing);
        // The client reports its own rounds in the same way ("Fulfilling input required …"). A server may ask for roots during
        // any call, so whether there is such a round is not a property of the call.
        const own = params => params.message?.startsWith('Fulfilling input required by');
        const onprogress = params => own(params) || this.exchange.tell('notifications/progress', params);
        const told = progress ? { onprogress } : {};
        const deadline = Date.now() + TOLD_MS_MAX;
        while (true) {
            const result = await this.call(params, told);
            if (JSON.stringify(result).includes(until ?? '') || Date.now() > deadline) return result;
            await setTimeout(100);
        }
    }

    async follow(step) {
        const { content } = await this.call_(step);
        return this.read(content.find(block => block.type === 'resource_link'));
    }

    read({ uri }) {
        return this.client.readResource({ uri }, timing);
    }

    prompt({ name, arguments: args }) {
        return this.client.getPrompt({ name, arguments: args }, timing);
    }

    complete({ ref, argument, context }) {
        const more = context ? { context: { arguments: context } } : {};
        return this.client.complete({ ref, argument, ...more }, timing);
    }

    async level({ level }) {
        await this.client.setLoggingLevel(level, timing);
    }

    async subscribe({ uri }) {
        if (!this.modern) return this.client.subscribeResource({ uri }, timing);
        const honoured = await this.listen(uri, { resourceSubscriptions: [uri] });
        if (!honoured.resourceSubscriptions?.includes(uri)) throw unheard(honoured);
    }

    async unsubscribe({ uri }) {
        if (!this.modern) return this.client.unsubscribeResource({ uri }, timing);
        await this.subscriptions.get(uri).close();
    }

    // From now on, changes of a list are told. In the legacy era they always are.
    async changes({ what }) {
        if (!this.modern) return;
        const honoured = await this.listen(what, { [`${what}ListChanged`]: true });
        if (!honoured[`${what}ListChanged`]) throw unheard(honoured);
    }

    async listen(key, filter) {
        this.subscriptions.set(key, await this.client.listen(filter, timing));
        return this.subscriptions.get(key).honoredFilter;
    }

    async roots({ roots }) {
        this.exchange.roots = roots;
        await this.client.sendRootsListChanged();
        await this.exchange.until(() => this.exchange.asked.length > 0);
    }

    async task({ name, arguments: args }) {
        const { CallToolResultSchema } = load('@modelcontextprotocol/sdk/types.js');
        const more = { ...timing, task: { ttl: 60_000 } };
        let status;
        for await (const message of this.tasks().callToolStream({ name, arguments: args }, CallToolResultSchema, more)) {
            if (message.task) status = message.task.status;
            if (message.type === 'error') throw message.error;
            if (message.type === 'result') return { status: await this.statusOf(status, message.result), ...message.result };
        }
    }

    // The stream may end with the result before it has told the last status.
    async statusOf(last, result) {
        const { taskId } = result._meta['io.modelcontextprotocol/related-task'];
        return last === 'completed' ? last : (await this.tasks().getTask(taskId, timing)).status;
    }

    async taskCancelled({ name, arguments: args }) {
        const { CallToolResultSchema } = load('@modelcontextprotocol/sdk/types.js');
        const more = { ...timing, task: { ttl: 60_000 } };
        const stream = this.tasks().callToolStream({ name, arguments: args }, CallToolResultSchema, more);
        const { value: created } = await stream.next();
        if (created.type === 'error') throw created.error;
        const { taskId } = created.task;
        const { tasks } = await this.tasks().listTasks(undefined, timing);
        const cancelled = await this.tasks().cancelTask(taskId, timing);
        const after = await this.tasks().getTask(taskId, timing);
        await stream.return();
        return { listed: tasks.some(task => task.taskId === taskId), cancelled: cancelled.status, after: after.status };
    }

    tasks() {
        return this.client.experimental.tasks;
    }

    perform(step) {
        const method = { call: 'call_', 'task-cancelled': 'taskCancelled' }[step.do] ?? step.do;
        return this[method](step);
    }
}

async function answer(session, exchange, step, spoilt) {
    exchange.begin(step.answers ?? {});
    const awaited = step.told ?? {};
    let result;
    try {
        result = { result: await session.perform(step) ?? {} };
        if (step.told && !spoilt.has(step.feature)) {
            const count = method => exchange.told.filter(one => one.method === method).length;
            await exchange.until(() => Object.entries(awaited).every(([method, least]) => count(method) >= least));
        }
    } catch (error) {
        result = { error: errorOf(error) };
        spoilt.add(step.feature); // there is no point in waiting for more of it
    }
    // Only what the step is about: a server may ask for roots or send a log message at any time.
    const about = new Set([...Object.keys(step.answers ?? {}), ...(step.do === 'roots' ? ['roots/list'] : [])]);
    if (about.size > 0) result.asked = exchange.asked.filter(one => about.has(one.method));
    if (step.told) result.told = exchange.told.filter(one => one.method in awaited);
    return result;
}

function errorOf(error) {
    const { code, message, data } = error;
    if (typeof code === 'number') return { kind: 'jsonrpc', code, message, data };
    return { kind: error.constructor.name, message };
}

async function drive(script) {
    const exchange = new Exchange(script);
    const document = {};
    try {
        const opened = open(script.era, exchange);
        answerRequests(opened.client, exchange);
        const transport = transportFor(script.target, opened);
        const versionTold = recordVersion(transport);
        await opened.client.connect(transport, timing);
        const version = opened.client.getNegotiatedProtocolVersion?.() ?? versionTold();
        const session = new Session(opened, exchange, version);
        const [answers, spoilt] = [[], new Set()];
        for (const step of script.steps) answers.push(await answer(session, exchange, step, spoilt));
        Object.assign(document, { protocolVersion: version, answers });
        // A legacy session ends with DELETE; 2.x sends nothing on a modern connection, which has no session.
        await transport.terminateSession?.();
        await opened.client.close();
    } catch (error) {
        document.failed = error.stack;
    }
    return document;
}

const { sessions } = JSON.parse(readFileSync(options.script, 'utf8'));
const { version } = JSON.parse(readFileSync(new URL(`${options.package}/package.json`, packages)));
const client = `@modelcontextprotocol/${options.package} ${version}`;
process.stdout.write(JSON.stringify({ client, sessions: await Promise.all(sessions.map(drive)) }));
