import react from "@vitejs/plugin-react";
import { env } from "node:process";
import { defineConfig } from "vite";
import { compressFiles } from "./compress.ts";

// `scripts/canvas dev` shows the sources as they are edited, on the data of a server that runs beside it.
const server = env["MOLECULE_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/app/",
  plugins: [react(), compressFiles()],
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
