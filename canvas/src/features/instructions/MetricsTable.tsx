/** Metrics of a template's versions: messages sent with each, their outcomes and their cost. */

import { plural } from "../../core/text/strings";
import type { InstructionsApi } from "./api";
import { rateText, type TemplateMetrics, type Trial } from "./metrics";
import css from "./Instructions.module.css";
import { useRequest } from "../../core/api/useRequest";

export function MetricsTable({ calls, templateId, turn }: { calls: InstructionsApi; templateId: string; turn: string }) {
  const { value, problem } = useRequest(() => calls.figures(templateId), turn);
  if (value === null) return problem === null ? <p className={css.hint}>Reading the figures…</p> : <p role="alert">{problem}</p>;
  if (value.versions.length === 0) return <p className={css.hint}>No message has been told with it yet.</p>;
  return (
    <>
      {value.trial !== null && <TrialText trial={value.trial} />}
      <div className={css.table} tabIndex={0} role="region" aria-label={`Figures of ${templateId}`}>
        <Table metrics={value} />
      </div>
      <p className={css.hint}>Of those that came to an end, “answered” is how many were answered or declined through Molecule.</p>
    </>
  );
}

function Table({ metrics }: { metrics: TemplateMetrics }) {
  return (
    <table>
      <thead>
        <tr>
          {["Version", "Messages", "Answered", "Declined", "Elsewhere", "Overdue", "Open", "Rate", "Tokens"].map((name) => (
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
      Version {canary.version} is tried on {percent} % of the messages: {rateText(canary.rate)} of {plural(canary.good + canary.missed, "outcome")} were answered, against{" "}
      {rateText(base.rate)} of {plural(base.good + base.missed, "outcome")} with version {base.version}.{" "}
      {needs === null || chance === null
        ? "It is too early to judge it."
        : `A version that is as good would look so bad with a chance of ${rateText(chance)}; at ${rateText(needs)} the trial is ended by itself.`}
    </p>
  );
}
