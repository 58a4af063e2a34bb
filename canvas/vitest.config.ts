import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  test: {
    environment: "jsdom",
    pool: "vmThreads", // a jsdom is made once for each worker and not for each file: 20 s of CPU instead of 54
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["./vitest.setup.ts"],
    unstubGlobals: true,
    restoreMocks: true,
    testTimeout: 20_000,
  },
});
