// A client of the official TypeScript SDK with OAuth. Arguments: folder of the packages, line of the SDK, address.
// It prints the address to which it sends the person, reads what the redirect had, and prints what a tool answers.
import { createInterface } from "node:readline/promises";
import { pathToFileURL } from "node:url";

const [folder, line, address] = process.argv.slice(2);
const scope = `${pathToFileURL(folder).href}/node_modules/@modelcontextprotocol`;
const { Client, StreamableHTTPClientTransport } =
  line === "1"
    ? {
        ...(await import(`${scope}/sdk/dist/esm/client/index.js`)),
        ...(await import(`${scope}/sdk/dist/esm/client/streamableHttp.js`)),
      }
    : await import(`${scope}/client/dist/index.mjs`);

const kept = {};
const provider = {
  redirectUrl: "http://127.0.0.1:41235/callback",
  clientMetadata: {
    client_name: `TypeScript SDK ${line}`,
    redirect_uris: ["http://127.0.0.1:41235/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => "state of the SDK",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (url) => void console.log(url.href),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
};

async function connect() {
  const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider: provider });
  const client = new Client({ name: "oauth", version: "1" });
  try {
    await client.connect(transport);
    return { client };
  } catch (error) {
    return { transport, error };
  }
}

const first = await connect();
if (first.client !== undefined) throw new Error("it was connected without a person");
const lines = createInterface({ input: process.stdin });
const { value } = await lines[Symbol.asyncIterator]().next();
const answer = JSON.parse(value);
await first.transport.finishAuth(line === "1" ? answer.code : new URLSearchParams(answer));
const second = await connect();
if (second.client === undefined) throw second.error;
const result = await second.client.callTool({ name: "get_runtime_identity", arguments: {} });
const before = kept.tokens.access_token;
kept.tokens = { ...kept.tokens, access_token: "ended" };
const again = await second.client.callTool({ name: "get_runtime_identity", arguments: {} });
console.log(JSON.stringify({ first: result, second: again, refreshed: kept.tokens.access_token !== before }));
await second.client.close();
lines.close();
process.exit(0);
