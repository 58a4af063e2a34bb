import react from "@vitejs/plugin-react";
import { env } from "node:process";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { compressFiles } from "./compress.ts";
import { fillServiceWorker, WORKER } from "./serviceWorker.ts";

// `scripts/canvas dev` shows the sources as they are edited, on the data of a server that runs beside it.
const server = env["MOLECULE_URL"] ?? "http://127.0.0.1:8080";

const pathOf = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

type Info = { isEntry: boolean; importers: readonly string[] } | null;

/** Whether the page's entry imports a module, directly or by others, and not only when it is needed. */
function isFirst(id: string, infoOf: (id: string) => Info, met = new Set<string>()): boolean {
  if (met.has(id)) return false;
  met.add(id);
  const info = infoOf(id);
  return info !== null && !id.endsWith(WORKER) && (info.isEntry || info.importers.some((each) => isFirst(each, infoOf, met)));
}

export default defineConfig({
  base: "/app/",
  plugins: [react(), fillServiceWorker(), compressFiles()],
  resolve: {
    // For browsers this package turns `&amp;` and the like into text by way of innerHTML, which our policy forbids.
    alias: {
      "decode-named-character-reference": pathOf("node_modules/decode-named-character-reference/index.js"),
    },
  },
  build: {
    assetsInlineLimit: 0, // the server's content security policy takes fonts from files only
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    license: { fileName: "licenses.md" },
    // What the first picture needs is one file, however many of its modules later parts need too.
    rolldownOptions: {
      input: { index: pathOf("index.html"), worker: pathOf(WORKER) },
      output: {
        codeSplitting: { groups: [{ name: (id, graph) => (isFirst(id, (each) => graph.getModuleInfo(each)) ? "first" : null) }] },
        // The worker has one address for ever, in the folder that it serves.
        entryFileNames: ({ name }) => (name === "worker" ? "worker.js" : "assets/[name]-[hash].js"),
      },
    },
  },
  server: {
    strictPort: true,
    proxy: {
      // The server refuses commands and live channels that come from the page of another origin.
      "^/(?!app/)": { target: server, ws: true, changeOrigin: true, headers: { origin: server } },
    },
  },
});
