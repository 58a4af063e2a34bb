/** The envelope in which a message of Molecule reaches a model: its instructions and its body. Pure. */

export interface Envelope {
  body: string;
  instructions: string | null;
}

const ENVELOPE = /^\s*(?:<channel\b[^>]*>)?\s*(?:<instructions>([\s\S]*?)<\/instructions>)?\s*<body>([\s\S]*?)<\/body>\s*(?:<\/channel>)?\s*$/;
const ENTITIES: Readonly<Record<string, string>> = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&#39;": "'", "&amp;": "&" };

/** The parts of an enveloped message; null for any other text. */
export function readEnvelope(text: string): Envelope | null {
  const found = ENVELOPE.exec(text);
  if (found === null) return null;
  const instructions = found[1] ?? null;
  return { body: unescaped(found[2] ?? ""), instructions: instructions === null ? null : unescaped(instructions) };
}

function unescaped(text: string): string {
  return text.replace(/&(?:lt|gt|quot|amp|#x27|#39);/g, (entity) => ENTITIES[entity] ?? entity);
}
