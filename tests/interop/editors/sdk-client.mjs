// A client made with the official TypeScript SDK: `node sdk-client.mjs TURNS COMMAND...`. TURNS is JSON, a list of steps:
// {"prompt": TEXT, "choose": OPTION, "cancelAfter": TEXT, "session": ID} or {"load": ID}. Prints one line of JSON.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const [, , turns, command, ...flags] = process.argv;
const cwd = process.cwd();
const agentProcess = spawn(command, flags, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agentProcess.stdin), Readable.toWeb(agentProcess.stdout));
const results = [];
let shown = [];
let choice = null;
let whenShown = () => undefined;

const app = client({ name: "sdk-client" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    shown.push(`permission ${params.toolCall.title}: ${params.options.map((each) => each.name).join(", ")}`);
    return { outcome: choice === null ? { outcome: "cancelled" } : { outcome: "selected", optionId: choice } };
  })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    const text = update.content?.text ?? update.title ?? update.status ?? "";
    shown.push(`${update.sessionUpdate} ${text}`);
    whenShown(text);
  });

await app.connectWith(stream, async (agent) => {
  const greeting = await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
  let session = null;
  for (const step of JSON.parse(turns)) {
    shown = [];
    choice = step.choose ?? null;
    if (step.load !== undefined) {
      session = step.load;
      await agent.request(methods.agent.session.load, { sessionId: session, cwd, mcpServers: [] });
      results.push({ version: greeting.protocolVersion, session, shown });
      continue;
    }
    session ??= (await agent.request(methods.agent.session.new, { cwd, mcpServers: [] })).sessionId;
    const begun = step.cancelAfter === undefined ? null : new Promise((resolve) => {
      whenShown = (text) => text.includes(step.cancelAfter) && resolve();
    });
    const prompted = agent.request(methods.agent.session.prompt, { sessionId: session, prompt: [{ type: "text", text: step.prompt }] });
    if (begun !== null) {
      await begun;
      await agent.notify(methods.agent.session.cancel, { sessionId: session });
    }
    results.push({ version: greeting.protocolVersion, session, stopReason: (await prompted).stopReason, shown });
  }
});
agentProcess.stdin.end();
console.log(JSON.stringify(results));
