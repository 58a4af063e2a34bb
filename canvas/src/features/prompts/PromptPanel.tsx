/** The system prompt of an agent: its sections with source and size, why it was rebuilt, and what changed. Follows the agent
 * while it is shown. */

import { useId, useMemo, useState } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { ShellCommand } from "../../ui/ShellCommand";
import { CopyButton } from "../../ui/CopyButton";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { ApiError } from "../../core/api/api";
import { useSelected } from "../../core/store/store";
import { plural, sizeText } from "../../core/text/strings";
import { showInvisible } from "../../core/text/invisible";
import { useRequest } from "../../core/api/useRequest";
import { countOf, partText, piecesOf, promptOf, shareOf, sumOf, triggerText, type Build, type Change, type Prompt, type Section } from "./model";
import css from "./Prompt.module.css";

/** `none`: the agent has not reported one. */
type Found = Prompt | "none";

export function PromptTab({ workspaceId }: { workspaceId: string }) {
  return (
    <div className={css.tab}>
      <PromptPanel workspaceId={workspaceId} />
      <p>
        <Link className={css.way} to={{ view: "prompt", workspaceId }}>
          Open full page
        </Link>
      </p>
    </div>
  );
}

export function PromptPanel({ workspaceId }: { workspaceId: string }) {
  const { api, promptBuilds } = useSession();
  const turn = useSelected(promptBuilds, (all) => (all.get(workspaceId) ?? 0) + (all.get("") ?? 0));
  const ask = async (): Promise<Found> => {
    try {
      const found = promptOf(await api.request("GET", `/workspaces/${encodeURIComponent(workspaceId)}/prompt`));
      if (found === null) throw new Error("The server sent a response that this page cannot read. Reload the page.");
      return found;
    } catch (error) {
      if (error instanceof ApiError && error.code === "no_prompt_yet") return "none";
      throw error;
    }
  };
  const { value, problem, reread } = useRequest(ask, String(turn));
  if (value === null) {
    if (problem === null) return <Notice icon="clock" title="Loading prompt…" />;
    return (
      <Notice icon="warning" title="Could not load prompt" actions={<Button onClick={() => void reread()}>Try again</Button>}>
        {problem}
      </Notice>
    );
  }
  if (value === "none") return <NoPrompt />;
  return (
    <div className={css.panel}>
      {problem !== null && (
        <p role="alert" className={css.problem}>
          Could not refresh the prompt: {problem}
        </p>
      )}
      <Facts build={value.build} />
      <Sections key={workspaceId} build={value.build} />
      <Changes prompt={value} />
    </div>
  );
}

function NoPrompt() {
  return (
    <div className={css.none}>
      <Notice icon="book" title="No prompt reported yet">
        Run this command in the agent’s folder. It reports the prompt now and after every change.
      </Notice>
      <ShellCommand label="Report the prompt" text="molecule prompt watch" />
    </div>
  );
}

function Facts({ build }: { build: Build }) {
  const { trigger, builtAt, revision, sections, budget, hash, sessionHash, warnings } = build;
  const nodes = useData((state) => state.orgNodes);
  const tokens = sumOf(sections, "tokens");
  return (
    <section className={css.facts} aria-label="Prompt build">
      <p>
        Rebuilt because <strong className={css.why}>{showInvisible(triggerText(trigger, (id) => nodes.get(id)?.name))}</strong>, <Time at={builtAt} />
        <span className={css.quiet}> · revision {revision}</span>
      </p>
      <p className={css.quiet}>
        {plural(sections.length, "section")} · about {plural(tokens, "token")}
        {budget > 0 && ` of ${budget.toLocaleString("en-GB")}`} · {sizeText(sumOf(sections, "bytes"))} · <Hash hash={hash} />
      </p>
      {budget > 0 && <meter className={css.meter} min={0} max={Math.max(budget, tokens)} value={tokens} aria-label="Share of the token budget" />}
      {sessionHash !== null && sessionHash !== hash && (
        <p className={css.differs}>
          <Icon name="warning" size={14} />
          <span>
            The running session uses another prompt (<Hash hash={sessionHash} />
            ). A session keeps its first prompt and receives the differences before its next turn. New sessions start with this prompt.
          </span>
        </p>
      )}
      {warnings.length > 0 && (
        <ul className={css.warnings} aria-label="Warnings">
          {warnings.map((each, at) => (
            <li key={at}>
              <Icon name="warning" size={14} />
              <bdi>{showInvisible(each)}</bdi>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** This many characters identify a hash; its title shows all of it. */
const HASH_LETTERS = 10;

function Hash({ hash }: { hash: string }) {
  return (
    <code className={css.hash} title={hash}>
      {hash.slice(0, HASH_LETTERS)}
    </code>
  );
}

function Sections({ build: { sections } }: { build: Build }) {
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const id = useId();
  const found = useMemo(() => new Map(sections.map((each) => [each.key, countOf(each.text, words) + countOf(each.title, words)])), [sections, words]);
  const shown = words === "" ? sections : sections.filter(({ key }) => (found.get(key) ?? 0) > 0);
  const all = useMemo(() => sections.map(({ text }) => text).join("\n\n"), [sections]);
  const count = [...found.values()].reduce((sum, each) => sum + each, 0);
  const turn = (key: string, on: boolean): void => setOpen((before) => new Set(on ? [...before, key] : [...before].filter((each) => each !== key)));
  return (
    <section className={css.sections} aria-label="Sections">
      <div className={css.bar}>
        <label htmlFor={id} className="visually-hidden">
          Search the prompt
        </label>
        <input id={id} className={css.search} type="search" placeholder="Search" autoComplete="off" value={words} onChange={(event) => setWords(event.target.value)} />
        <CopyButton text={all} label="Copy all of the prompt" words="Copy all" />
      </div>
      <p role="status" className={words === "" ? "visually-hidden" : css.quiet}>
        {words === "" ? "" : count === 0 ? `No results for “${words}”.` : `${plural(count, "result")} in ${plural(shown.length, "section")}`}
      </p>
      {shown.map((each) => (
        <SectionItem
          key={each.key}
          section={each}
          share={shareOf(each, sections)}
          words={words}
          open={words !== "" || open.has(each.key)}
          onTurn={(on) => turn(each.key, on)}
        />
      ))}
    </section>
  );
}

interface SectionProps {
  section: Section;
  share: number;
  words: string;
  open: boolean;
  onTurn: (open: boolean) => void;
}

function SectionItem({ section, share, words, open, onTurn }: SectionProps) {
  const { part, title, source, bytes, tokens, hash, text, shortened } = section;
  const id = useId();
  return (
    <div className={css.section} data-section={part}>
      <h3 className={css.sectionHead}>
        <button type="button" className={css.turn} aria-expanded={open} aria-controls={open ? id : undefined} onClick={() => onTurn(!open)}>
          <span className={css.twist}>
            <Icon name={open ? "below" : "right"} size={14} />
          </span>
          <span className={css.titles}>
            <bdi className={css.title}>{showInvisible(title)}</bdi>
            <span className={css.quiet}>
              {part}. {partText(part)}
            </span>
          </span>
          <span className={css.figures}>
            <span>{plural(tokens, "token")}</span>
            <span>{share} %</span>
          </span>
        </button>
      </h3>
      <span className={css.share} aria-hidden="true">
        <span className={css.shared} style={{ width: `${share}%` }} />
      </span>
      {open && (
        <div id={id} className={css.inside}>
          <p className={css.quiet}>
            From <bdi className={css.source}>{showInvisible(source)}</bdi> · {sizeText(bytes)} · {plural(tokens, "token")} · <Hash hash={hash} />
          </p>
          {shortened !== null && (
            <p className={css.shortened}>
              <bdi>Shortened to keep the budget: {showInvisible(shortened)}</bdi>
            </p>
          )}
          <div className={css.textBox}>
            <pre className={css.text} tabIndex={0} role="region" aria-label={`Text of ${title}`} dir="auto">
              <Found text={showInvisible(text)} words={words} />
            </pre>
            <CopyButton text={text} label={`Copy ${title}`} />
          </div>
        </div>
      )}
    </div>
  );
}

function Found({ text, words }: { text: string; words: string }) {
  return piecesOf(text, words).map((piece, at) => (at % 2 === 1 ? <mark key={at}>{piece}</mark> : piece));
}

const SIGNS = { same: { sign: " ", word: "" }, added: { sign: "+", word: "added: " }, removed: { sign: "−", word: "removed: " } } as const;
const CHANGED: Readonly<Record<Change["change"], string>> = { added: "added", removed: "removed", changed: "changed" };

function Changes({ prompt: { previous, diff } }: { prompt: Prompt }) {
  return (
    <section className={css.changes} aria-label="Changes">
      <h3>Changes since the previous build</h3>
      {previous === null ? (
        <p className={css.quiet}>First reported prompt.</p>
      ) : diff.length === 0 ? (
        <p className={css.quiet}>No changes.</p>
      ) : (
        diff.map(({ part, title, change, lines }, at) => (
          <section key={at} className={css.change} aria-label={`Changes of ${title}`}>
            <p>
              <bdi className={css.title}>{showInvisible(title)}</bdi> {CHANGED[change]} <span className={css.quiet}>· {partText(part)}</span>
            </p>
            <div className={css.lines} tabIndex={0} role="region" aria-label={`Lines of ${title}`}>
              {lines.map(({ kind, text }, line) => (
                <div key={line} className={css[kind]}>
                  <span aria-hidden="true" className={css.sign}>
                    {SIGNS[kind].sign}
                  </span>
                  <span className="visually-hidden">{SIGNS[kind].word}</span>
                  <code>{showInvisible(text)}</code>
                </div>
              ))}
            </div>
          </section>
        ))
      )}
    </section>
  );
}
