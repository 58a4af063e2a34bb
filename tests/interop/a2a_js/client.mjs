// A stock client of the JavaScript SDK of A2A: it does what a client can do, and prints what it saw.
// Arguments: the folder of its packages, the base address of a workspace, the binding, and the address of a webhook.
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, base, binding, hook] = process.argv.slice(2);
const resolve = createRequire(`${folder}/`).resolve;
const load = (name) => import(pathToFileURL(resolve(name)).href);
const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } =
  await load('@a2a-js/sdk/client');
const { Role, taskStateToJSON } = await load('@a2a-js/sdk');

const fetchImpl = (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set('Authorization', `Bearer ${process.env.A2A_TOKEN}`);
  return fetch(url, { ...init, headers });
};
const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
  preferredTransports: [binding],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
});
const client = await factory.createFromUrl(`${base}/`);

const part = (content, more = {}) => ({ content, metadata: undefined, filename: '', mediaType: '', ...more });
const message = (script, { parts, taskId = '' } = {}) => ({
  tenant: '',
  message: {
    messageId: `${script}-${randomUUID()}`,
    contextId: '',
    taskId,
    role: Role.ROLE_USER,
    parts: parts ?? [part({ $case: 'text', value: 'Please do it' })],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  },
  configuration: undefined,
  metadata: undefined,
});
const state = (task) => taskStateToJSON(task.status.state);
const send = async (script, more) => {
  const result = await client.sendMessage(message(script, more));
  return result.payload?.value ?? result;
};
const text = (part) => part.content.value;

const seen = { card: (await client.getAgentCard()).name };
const task = await send('tck-complete-task');
seen.send = [state(task), text(task.artifacts[0].parts[0])];
const events = [];
for await (const event of client.sendMessageStream(message('tck-stream-001'))) events.push(event.payload);
seen.stream = events.map((event) => event.$case);
seen.stream_end = state(events.at(-1).value);
const asked = await send('tck-input-required');
seen.asked = [state(asked), text(asked.status.message.parts[0])];
const answered = await send('tck-complete-task', { taskId: asked.id });
seen.answered = [state(answered), answered.id === asked.id, answered.history.length];
const open = await send('tck-input-required');
seen.cancel = state(await client.cancelTask({ tenant: '', id: open.id, metadata: undefined }));
const raw = part({ $case: 'raw', value: Buffer.from([0, 255]) }, { filename: 'a.bin', mediaType: 'application/octet-stream' });
const withFile = await send('tck-artifact-file', { parts: [raw] });
const file = withFile.artifacts[0].parts[0];
seen.file = [file.filename, await (await fetchImpl(text(file))).text()];
const hooked = await send('tck-input-required');
const created = await client.createTaskPushNotificationConfig({
  tenant: '',
  id: 'mine',
  taskId: hooked.id,
  url: hook,
  token: 'the-token',
  authentication: { scheme: 'Bearer', credentials: 'the-credentials' },
});
const named = { tenant: '', taskId: hooked.id, id: 'mine' };
const found = await client.getTaskPushNotificationConfig(named);
const listed = await client.listTaskPushNotificationConfig({ tenant: '', taskId: hooked.id, pageSize: 0, pageToken: '' });
seen.push = [created.id, found.url === hook, found.token, found.authentication.credentials, listed.configs.length];
await send('tck-complete-task', { taskId: hooked.id });
await client.deleteTaskPushNotificationConfig({ ...named, id: 'none' });
const got = await client.getTask({ tenant: '', id: hooked.id });
seen.get = [state(got), got.id === hooked.id];
const page = await client.listTasks({ tenant: '', contextId: '', status: 0, pageSize: 100, pageToken: '' });
const own = [task.id, events[0].value.id, asked.id, open.id, withFile.id, hooked.id];
seen.listed = JSON.stringify(page.tasks.map((each) => each.id).sort()) === JSON.stringify(own.sort());
process.stdout.write(JSON.stringify(seen));
