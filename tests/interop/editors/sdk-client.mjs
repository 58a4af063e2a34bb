// A client made with the official TypeScript SDK: `node sdk-client.mjs STEPS COMMAND...`. STEPS is JSON, a list of steps:
// {"prompt": TEXT, "choose": OPTION, "cancelAfter": TEXT}, {"load": ID}, or a list of such steps to be done at once. "in"
// names the session of a step, or there is one. Prints one line of JSON: a result for each step, in the same shape.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const [, , steps, command, ...flags] = process.argv;
const cwd = process.cwd();
const agentProcess = spawn(command, flags, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agentProcess.stdin), Readable.toWeb(agentProcess.stdout));
const sessionIds = new Map();
const views = new Map(); // by the id of a session: what its step has shown, and what it answers
const newView = (step) => ({ shown: [], choice: step.choose ?? null, whenShown: () => undefined });
const viewOf = (sessionId) => views.get(sessionId) ?? newView({});

const app = client({ name: "sdk-client" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    const { shown, choice } = viewOf(params.sessionId);
    shown.push(`permission ${params.toolCall.title}: ${params.options.map((each) => each.name).join(", ")}`);
    return { outcome: choice === null ? { outcome: "cancelled" } : { outcome: "selected", optionId: choice } };
  })
  .onNotification(methods.client.session.update, ({ params: { sessionId, update } }) => {
    const text = update.content?.text ?? update.title ?? update.status ?? "";
    const view = viewOf(sessionId);
    view.shown.push(`${update.sessionUpdate} ${text}`);
    view.whenShown(text);
  });

await app.connectWith(stream, async (agent) => {
  const { protocolVersion } = await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });

  const loaded = async (name, session) => {
    sessionIds.set(name, session);
    const view = newView({});
    views.set(session, view);
    await agent.request(methods.agent.session.load, { sessionId: session, cwd, mcpServers: [] });
    return { version: protocolVersion, session, shown: view.shown };
  };

  const prompted = async (name, step) => {
    if (!sessionIds.has(name)) {
      sessionIds.set(name, (await agent.request(methods.agent.session.new, { cwd, mcpServers: [] })).sessionId);
    }
    const session = sessionIds.get(name);
    const view = newView(step);
    views.set(session, view);
    const begun = new Promise((resolve) => {
      view.whenShown = (text) => text.includes(step.cancelAfter) && resolve();
    });
    const ended = agent.request(methods.agent.session.prompt, { sessionId: session, prompt: [{ type: "text", text: step.prompt }] });
    if (step.cancelAfter !== undefined) {
      await begun;
      await agent.notify(methods.agent.session.cancel, { sessionId: session });
    }
    return { version: protocolVersion, session, stopReason: (await ended).stopReason, shown: view.shown };
  };

  const done = (step) => {
    if (Array.isArray(step)) return Promise.all(step.map(done));
    const name = step.in ?? "";
    return step.load === undefined ? prompted(name, step) : loaded(name, step.load);
  };

  const results = [];
  for (const step of JSON.parse(steps)) results.push(await done(step));
  console.log(JSON.stringify(results));
});
agentProcess.stdin.end();
