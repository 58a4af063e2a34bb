/** Metrics of a template's versions: messages sent with each, their outcomes and their cost. */

import { plural } from "../../core/text/strings";
import type { InstructionsApi } from "./api";
import { rateText, type TemplateMetrics, type Trial } from "./metrics";
import css from "./Instructions.module.css";
import { useRequest } from "../../core/api/useRequest";

export function MetricsTable({ calls, templateId, turn }: { calls: InstructionsApi; templateId: string; turn: string }) {
  const { value, problem } = useRequest(() => calls.figures(templateId), turn);
  if (value === null) return problem === null ? <p className={css.hint}>Loading metrics…</p> : <p role="alert">{problem}</p>;
  if (value.versions.length === 0) return <p className={css.hint}>No message has been sent with this template yet.</p>;
  return (
    <>
      {value.trial !== null && <TrialText trial={value.trial} />}
      <div className={css.table} tabIndex={0} role="region" aria-label={`Metrics of ${templateId}`}>
        <Table metrics={value} />
      </div>
      <p className={css.hint}>The rate is the share of completed messages that were answered or declined through Molecule.</p>
    </>
  );
}

function Table({ metrics }: { metrics: TemplateMetrics }) {
  return (
    <table>
      <thead>
        <tr>
          {["Version", "Messages", "Answered", "Declined", "Outside", "Overdue", "Open", "Rate", "Tokens"].map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {metrics.versions.map((each) => (
          <tr key={each.version}>
            <th scope="row">{each.version}</th>
            {[each.deliveries, each.answered, each.declined, each.outside, each.overdue, each.open].map((count, at) => (
              <td key={at}>{count.toLocaleString("en-GB")}</td>
            ))}
            <td>{rateText(each.rate)}</td>
            <td>{each.deliveries === 0 ? "–" : plural(Math.round(each.tokens / each.deliveries), "token")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function TrialText({ trial: { percent, base, canary, chance, needs } }: { trial: Trial }) {
  return (
    <p>
      Version {canary.version} is used for {percent} % of messages: {rateText(canary.rate)} of {plural(canary.good + canary.missed, "outcome")} were answered, compared with{" "}
      {rateText(base.rate)} of {plural(base.good + base.missed, "outcome")} for version {base.version}.{" "}
      {needs === null || chance === null
        ? "There is not enough data yet to compare them."
        : `If both versions were equally good, a result this low would have a probability of ${rateText(chance)}. The canary ends automatically at ${rateText(needs)}.`}
    </p>
  );
}
