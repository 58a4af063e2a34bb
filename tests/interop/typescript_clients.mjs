// The official SDKs in TypeScript: 1.x (handshake), 2.x (both eras) and the tasks package, from the folder of the tools.
// Prints one line of JSON with what they have seen. Arguments: which client, and a thread's URI.
const { MOLECULE_TEST_URL: address, MOLECULE_TEST_TOKEN: token, MOLECULE_TEST_TOOLS: tools } = process.env;
const [which, desk, threadUri] = process.argv.slice(2);
const url = new URL(`${address}/mcp`);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const scope = `file://${tools}/node_modules/@modelcontextprotocol`;
const delegation = { name: "delegate_task", arguments: { workspace_id: desk, task: `Make tea (${which})`, wait: 60 } };
const extension = { "io.modelcontextprotocol/tasks": {} };

async function common(client) {
  const { prompts } = await client.listPrompts();
  const completed = await client.complete({
    ref: { type: "ref/prompt", name: "ask" },
    argument: { name: "workspace", value: "de" },
  });
  const prompt = await client.getPrompt({ name: "ask", arguments: { workspace: "Desk", question: "Open?" } });
  const { resources } = await client.listResources();
  const { contents } = await client.readResource({ uri: threadUri });
  return {
    prompts: prompts.map((each) => each.name),
    completed: completed.completion.values,
    prompt: prompt.messages[0].content.text,
    resources: resources.map((each) => each.uri),
    content: contents[0].uri,
  };
}

async function first() {
  const { Client } = await import(`${scope}/sdk/dist/esm/client/index.js`);
  const { StreamableHTTPClientTransport } = await import(`${scope}/sdk/dist/esm/client/streamableHttp.js`);
  const { CallToolResultSchema } = await import(`${scope}/sdk/dist/esm/types.js`);
  const client = new Client({ name: "first", version: "1" }, { capabilities: {} });
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  const found = await common(client);
  const seen = [];
  for await (const message of client.experimental.tasks.callToolStream(delegation, CallToolResultSchema, { task: {} })) {
    seen.push(message.type);
    if (message.type === "taskCreated") found.task = message.task.taskId;
    if (message.type === "result") found.result = message.result.structuredContent.result;
    if (message.type === "error") found.error = String(message.error);
  }
  const listed = await client.experimental.tasks.listTasks();
  found.listed = listed.tasks.map((each) => each.taskId);
  found.seen = [...new Set(seen)];
  await client.close();
  return found;
}

// What an application adds for tasks of 2026-07-28: requests that the SDK's own types do not know.
let requests = 0;
async function dispatch(request) {
  const name = request.params.name ?? request.params.taskId;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      ...requestInit.headers,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": request.method,
      ...(name === undefined ? {} : { "Mcp-Name": name }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++requests, ...request }),
  });
  const { result, error } = await response.json();
  return error === undefined ? { kind: "result", result } : { kind: "error", error };
}

async function second(mode) {
  const { Client, StreamableHTTPClientTransport } = await import(`${scope}/client/dist/index.mjs`);
  const { createTaskSessionFromClient, resultFromTaskOutcome } = await import(`${scope}/ext-tasks/dist/client/index.js`);
  const clientInfo = { name: "second", version: "1" };
  const options = { capabilities: { extensions: extension }, versionNegotiation: { mode } };
  const client = new Client(clientInfo, options);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  const found = await common(client);
  found.era = client.getProtocolEra();
  const framing = { protocolVersion: "2026-07-28", clientInfo, clientCapabilities: { extensions: extension } };
  const raw = found.era === "modern" ? { rawDispatch: dispatch, v2RequestFraming: framing } : {};
  const session = createTaskSessionFromClient(client, { endpointId: "test", ...raw });
  const execution = await session.callTool(delegation.name, delegation.arguments);
  const { outcome } = await execution.settle();
  found.result = resultFromTaskOutcome(outcome).structuredContent.result;
  await session.close();
  await client.close();
  return found;
}

const clients = { first, legacy: () => second("legacy"), modern: () => second("auto") };
console.log(JSON.stringify(await clients[which]()));
process.exit(0);
