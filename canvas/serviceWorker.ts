import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Plugin } from "vite";

/** The source of the service worker, below this folder. */
export const WORKER = "worker/worker.ts";

/** What the worker keeps: the files of the build that a page asks for. */
const KEPT = /^(?:assets\/.+\.(?:js|css|svg|png|woff2)|icons\/.+\.png|manifest\.webmanifest)$/;
const PLACEHOLDER = "__SHELL__";

/** Writes the list of the build's files, and a version of it, into the service worker. */
export function fillServiceWorker(): Plugin {
  let publicFolder = "";
  return {
    name: "molecule-service-worker",
    apply: "build",
    enforce: "post",
    configResolved(config) {
      publicFolder = config.publicDir;
    },
    async generateBundle(_options, bundle) {
      const worker = bundle["worker.js"];
      if (worker?.type !== "chunk" || worker.imports.length > 0) throw new Error("The service worker must be one file.");
      const copied = (await readdir(publicFolder, { recursive: true })).map((name) => name.replaceAll("\\", "/"));
      const files = [...Object.keys(bundle), ...copied].filter((name) => KEPT.test(name)).sort();
      const hash = createHash("sha256").update(worker.code).update(files.join("\n"));
      const page = bundle["index.html"];
      if (page?.type === "asset") hash.update(page.source);
      for (const name of copied.filter((each) => KEPT.test(each)).sort()) hash.update(await readFile(join(publicFolder, name)));
      const shell = JSON.stringify({ version: hash.digest("hex").slice(0, 16), files });
      if (!worker.code.includes(PLACEHOLDER)) throw new Error("The service worker has no place for the list of files.");
      worker.code = worker.code.replace(PLACEHOLDER, () => shell);
    },
  };
}
