import react from "@vitejs/plugin-react";
import { env } from "node:process";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { compressFiles } from "./compress.ts";

// `scripts/canvas dev` shows the sources as they are edited, on the data of a server that runs beside it.
const server = env["MOLECULE_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/app/",
  plugins: [react(), compressFiles()],
  resolve: {
    // For browsers this package turns `&amp;` and the like into text by way of innerHTML, which our policy forbids.
    alias: {
      "decode-named-character-reference": fileURLToPath(
        new URL("node_modules/decode-named-character-reference/index.js", import.meta.url),
      ),
    },
  },
  build: {
    assetsInlineLimit: 0, // the server's content security policy takes fonts from files only
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    license: { fileName: "licenses.md" },
  },
  server: {
    strictPort: true,
    proxy: {
      // The server refuses commands and live channels that come from the page of another origin.
      "^/(?!app/)": { target: server, ws: true, changeOrigin: true, headers: { origin: server } },
    },
  },
});
