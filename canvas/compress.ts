import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { Plugin } from "vite";

const COMPRESSIBLE = /\.(js|css|html|json|md|svg|webmanifest)$/;
const LEAST_BYTES = 1024; // below that the headers of a response weigh more than what is saved

const brotli = promisify(brotliCompress);
const gzipped = promisify(gzip);

async function compressFile(path: string): Promise<void> {
  const bytes = await readFile(path);
  if (bytes.length < LEAST_BYTES) return;
  const [br, gz] = await Promise.all([
    brotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } }),
    gzipped(bytes, { level: constants.Z_BEST_COMPRESSION }),
  ]);
  await Promise.all([writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)]);
}

/** Writes a .br and a .gz beside every file that is worth it, so that the server never compresses. */
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
