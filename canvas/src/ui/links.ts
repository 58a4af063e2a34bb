/** Which addresses in a message may be followed, and where they lead. */

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** The address if it may be followed: an absolute one that only opens a page or an email. */
export function safeAddress(address: string): URL | null {
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return null;
  try {
    const url = new URL(address);
    return SCHEMES.has(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

/** The host, or the mailbox. */
export function destination(url: URL): string {
  return url.protocol === "mailto:" ? safeDecode(url.pathname) : url.host;
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const NAMED = /(?:[a-z][a-z0-9+.-]*:\/{0,2})?((?:[\p{L}\p{N}_-]+[.\u3002\uff0e])+[\p{L}\p{N}-]{2,}|localhost|\d{1,3}(?:\.\d{1,3}){3})/giu;

/** Hosts that the text of a link names. */
function namedHosts(text: string): string[] {
  return [...text.normalize("NFKC").matchAll(NAMED)].map((match) => (match[1] ?? "").toLowerCase());
}

/** Whether the text names another host than the address leads to. */
export function isMisleading(text: string, url: URL): boolean {
  const real = url.protocol === "mailto:" ? destination(url).toLowerCase().replace(/^.*@/, "") : url.hostname.toLowerCase();
  const words = url.protocol === "mailto:" ? text.replace(/[^\s@]+@/g, "") : text;
  const bare = (host: string): string => host.replace(/^www\./, "");
  return namedHosts(words).some((place) => bare(place) !== bare(real));
}
