import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";
import type { Plugin } from "vite";

const COMPRESSIBLE = /\.(js|css|html|json|md|svg|webmanifest)$/;
/** Brotli saves a few bytes of smaller files; the server gzips them at the first request. */
const LEAST_BYTES = 4096;

const brotli = promisify(brotliCompress);

async function compressFile(path: string): Promise<void> {
  const bytes = await readFile(path);
  if (bytes.length < LEAST_BYTES) return;
  await writeFile(`${path}.br`, await brotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } }));
}

/** Writes a .br beside every file that is worth it: Python has no Brotli. */
export function compressFiles(): Plugin {
  return {
    name: "molecule-compress",
    apply: "build",
    async writeBundle(options) {
      const folder = options.dir ?? "dist";
      const files = (await readdir(folder, { recursive: true })).filter((name) => COMPRESSIBLE.test(name));
      await Promise.all(files.map((name) => compressFile(join(folder, name))));
    },
  };
}
