/** The address of the service worker, as browsers with trusted types want it. */

const WORKER = "/app/worker.js";

interface ScriptUrlPolicy {
  createScriptURL: (url: string) => string;
}

interface PolicyFactory {
  createPolicy: (name: string, rules: ScriptUrlPolicy) => ScriptUrlPolicy;
}

// The only policy that the server allows. Its name can be used once, so it is used when the page starts, and it makes this
// address whatever it is asked for.
const { trustedTypes } = globalThis as { trustedTypes?: PolicyFactory };
const policy = trustedTypes?.createPolicy("molecule-worker", { createScriptURL: () => WORKER });

export function workerUrl(): string {
  return policy === undefined ? WORKER : policy.createScriptURL(WORKER);
}
