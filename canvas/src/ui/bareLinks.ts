/** Bare links that end at CJK punctuation: in these scripts no blank separates an address from the sentence.
 *
 * A syntax extension of micromark beside that of GFM, whose path ends at blanks only. The rules for the end of an
 * address are those of GFM: closing punctuation is not part of it, and a closing parenthesis only with its opening one. */

import type { gfmAutolinkLiteral } from "micromark-extension-gfm-autolink-literal";

type Extension = ReturnType<typeof gfmAutolinkLiteral>;
type Constructs = NonNullable<NonNullable<Extension["text"]>[string]>;
type Construct = Exclude<Constructs, readonly unknown[]>;
type Tokenizer = Construct["tokenize"];
type Context = ThisParameterType<Tokenizer>;
type State = ReturnType<Tokenizer>;
type Code = Parameters<State>[0];

/** Ideographic and full-width punctuation, and quotation marks. Not the middle dot and the iteration marks, which names have. */
const CJK = /[\u2018-\u201f\u3000-\u3003\u3008-\u3011\u3014-\u301b\u301d-\u301f\uff01\uff08\uff09\uff0c\uff0e\uff1a\uff1b\uff1f\uff3b\uff3d\uff5b\uff5d\uff5f-\uff64]/;
const BLANK = /\s/;
const CLOSING = /[!"'*,.:;?_~)&\]]/;
const HOST = /[\p{L}\p{N}[]/u;
const KINDS = [
  { token: "literalAutolinkHttp", prefix: /^h(t(t(p(s?(:(\/(\/)?)?)?)?)?)?)?$/i, whole: /^https?:\/\/$/i, before: /[^a-z]/i },
  { token: "literalAutolinkWww", prefix: /^w(w(w(\.)?)?)?$/i, whole: /^www\.$/i, before: /[\s(*_[\]~]/ },
] as const;

const TRAIL: Construct = { partial: true, tokenize: tokenizeTrail };
const [HTTP, WWW] = KINDS.map((kind): Construct => ({ name: kind.token, tokenize: tokenizerOf(kind) })) as [Construct, Construct];
const EXTENSION: Extension = { text: { 72: HTTP, 104: HTTP, 87: WWW, 119: WWW } };

/** A plugin of remark. It comes after `gfm`, so that its constructs are tried first. */
export function bareLinks(this: unknown): void {
  const data = (this as { data: () => { micromarkExtensions?: Extension[] } }).data();
  (data.micromarkExtensions ??= []).push(EXTENSION);
}

function tokenizerOf({ token, prefix, whole, before }: (typeof KINDS)[number]): Tokenizer {
  const type = token as Parameters<Parameters<Tokenizer>[0]["enter"]>[0];
  return function tokenizeBareLink(effects, ok, nok) {
    let read = "";
    let open = 0;
    // The end of a run of punctuation is looked for once, not from each of its characters.
    let runGoesOn = false;
    const mayBegin = isBefore(this.previous, before) && !isInLabel(this);
    return (code) => {
      if (!mayBegin) return nok(code);
      effects.enter("literalAutolink");
      effects.enter(type);
      return inPrefix(code);
    };

    function inPrefix(code: Code): State | undefined {
      if (whole.test(read) && matches(code, HOST)) return inAddress(code);
      read += textOf(code);
      if (isEnd(code) || !prefix.test(read)) return nok(code);
      effects.consume(code);
      return inPrefix;
    }

    function inAddress(code: Code): State | undefined {
      if (isEnd(code)) return leave(code);
      const closes = matches(code, CLOSING) && !(textOf(code) === ")" && open > 0);
      if (runGoesOn || !closes) runGoesOn = closes;
      else {
        runGoesOn = true;
        return effects.check(TRAIL, leave, consume)(code);
      }
      return consume(code);
    }

    function consume(code: Code): State {
      open += textOf(code) === "(" ? 1 : textOf(code) === ")" ? -1 : 0;
      effects.consume(code);
      return inAddress;
    }

    function leave(code: Code): State | undefined {
      effects.exit(type);
      effects.exit("literalAutolink");
      return ok(code);
    }
  };
}

/** Closing punctuation and character references, up to the end of the address. */
function tokenizeTrail(...[effects, ok, nok]: Parameters<Tokenizer>): State {
  let reference = "";
  return inTrail;

  function inTrail(code: Code): State | undefined {
    if (isEnd(code)) return reference === "" ? ok(code) : nok(code);
    const next = reference + textOf(code);
    if (/^&[a-z]*$/i.test(next)) reference = next;
    else if (/^&[a-z]+;$/i.test(next)) reference = "";
    else if (reference !== "" || !matches(code, CLOSING)) return nok(code);
    effects.consume(code);
    return inTrail;
  }
}

function textOf(code: Code): string {
  return code === null || code < 0 ? "" : String.fromCodePoint(code);
}

function matches(code: Code, pattern: RegExp): boolean {
  return pattern.test(textOf(code));
}

function isEnd(code: Code): boolean {
  return code === null || code < 0 || matches(code, BLANK) || matches(code, CJK) || textOf(code) === "<";
}

function isBefore(code: Code, pattern: RegExp): boolean {
  return code === null || code < 0 || matches(code, pattern) || matches(code, CJK);
}

/** Tokens with no open bracket before them: each token is looked at once, however many links a text has. */
const CHECKED = new WeakSet<object>();

/** Return whether a bracket is open: the text of a link cannot have a link. */
function isInLabel({ events }: Context): boolean {
  for (let at = events.length - 1; at >= 0; at--) {
    const token = events[at]?.[1];
    if (token === undefined || CHECKED.has(token)) break;
    if ((token.type === "labelLink" || token.type === "labelImage") && !(token as { _balanced?: boolean })._balanced) return true;
  }
  const last = events.at(-1)?.[1];
  if (last !== undefined) CHECKED.add(last);
  return false;
}
