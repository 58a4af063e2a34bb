/** The base instructions of a thread: the full text with hash, version and source, and the layers on top of them. */

import { useSession } from "../../core/app";
import { useRequest } from "../../core/api/useRequest";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { showInvisible } from "../../core/text/invisible";
import { plural, sizeText } from "../../core/text/strings";
import type { ThreadItem, ThreadView } from "../../core/wire";
import css from "./Threads.module.css";
import { pathOf } from "./useThreads";
import { layerText, provenanceText } from "./texts";

export function BaseInstructionsPanel({ thread }: { thread: ThreadItem }) {
  const { api } = useSession();
  const { value, problem, reread } = useRequest(() => api.request<ThreadView>("GET", pathOf(thread.thread_id)), `${thread.thread_id} ${thread.base.version} ${thread.base.sha256} ${thread.turns} ${thread.closed}`);
  if (value === null) {
    if (problem === null) return <Notice icon="clock" title="Loading instructions…" />;
    return (
      <Notice icon="warning" title="Could not load instructions" actions={<Button onClick={() => void reread()}>Try again</Button>}>
        {problem}
      </Notice>
    );
  }
  const { base, base_instructions, layers } = value;
  return (
    <div className={css.tree}>
      <section className={css.part} aria-label="Base instructions">
        <h3>Base instructions, version {base.version}</h3>
        <p>Every request of this thread uses these instructions. Only an override creates a new version.</p>
        <dl className={css.facts}>
          <div>
            <dt>Source</dt>
            <dd>
              <bdi>{showInvisible(provenanceText(base.provenance))}</bdi>
              {base.provenance.from_thread !== undefined && (
                <>
                  {" "}
                  <Link className={css.way} to={{ view: "thread", id: base.provenance.from_thread, tab: "base" }}>
                    View source thread
                  </Link>
                </>
              )}
            </dd>
          </div>
          <div>
            <dt>Size</dt>
            <dd>
              {sizeText(base.bytes)}, about {plural(base.tokens, "token")}
            </dd>
          </div>
          <div>
            <dt>SHA-256</dt>
            <dd>
              <code className={css.mono} data-sha>
                {base.sha256}
              </code>
            </dd>
          </div>
          <div>
            <dt>Item</dt>
            <dd>
              <code className={css.mono}>{base.item_id}</code>
            </dd>
          </div>
        </dl>
        <Text text={base_instructions} label="Text of the base instructions" />
      </section>
      <section className={css.part} aria-label="Layers">
        <h3>Layers</h3>
        {layers.length === 0 && <p className={css.quiet}>No layers.</p>}
        {layers.map(({ layer, version, origin, tokens, text }) => (
          <div key={layer} className={css.part}>
            <p>
              {layerText(layer)}, version {version}{" "}
              <span className={css.quiet}>
                from <bdi>{showInvisible(origin)}</bdi> · {plural(tokens, "token")}
              </span>
            </p>
            <Text text={text} label={`Text of ${layerText(layer)}`} />
          </div>
        ))}
      </section>
    </div>
  );
}

function Text({ text, label }: { text: string; label: string }) {
  return (
    <div className={css.textBox}>
      <pre className={css.text} tabIndex={0} role="region" aria-label={label} dir="auto">
        {showInvisible(text)}
      </pre>
      <CopyButton text={text} label={`Copy: ${label}`} />
    </div>
  );
}
