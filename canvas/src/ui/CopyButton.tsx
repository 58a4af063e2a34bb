/** Copy a text and confirm it. */

import { useEffect, useState } from "react";
import { announce } from "./Announcer";
import { Button, IconButton } from "./Button";
import { copyText } from "./clipboard";
import type { IconName } from "./Icon";

const SHOWN_MS = 1_500;

interface Props {
  text: string;
  label: string;
  icon?: IconName;
  /** Text beside the icon. */
  words?: string;
}

export function CopyButton({ text, label, icon = "copy", words }: Props) {
  const [result, setResult] = useState<"copied" | "failed" | null>(null);
  useEffect(() => {
    if (result === null) return;
    const timer = setTimeout(() => setResult(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = async (): Promise<void> => {
    const done = await copyText(text);
    setResult(done ? "copied" : "failed");
    announce(done ? "Copied" : "The browser blocked copying");
  };
  const shown: IconName = result === "copied" ? "check" : result === "failed" ? "warning" : icon;
  if (words === undefined) return <IconButton icon={shown} label={label} onClick={() => void copy()} />;
  return (
    <Button icon={shown} aria-label={label} onClick={() => void copy()}>
      {result === "copied" ? "Copied" : words}
    </Button>
  );
}
