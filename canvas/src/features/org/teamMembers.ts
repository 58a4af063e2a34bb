/** The members of a new team, as a person types them. */

export interface TeamMember {
  name: string;
  role?: string;
}

/** One member on each line: a name, and a role after the first colon. */
export function membersOf(words: string): readonly TeamMember[] {
  return words.split("\n").flatMap((line) => {
    const [name = "", ...rest] = line.split(":");
    const role = rest.join(":").trim();
    return name.trim() === "" ? [] : [{ name: name.trim(), ...(role === "" ? {} : { role }) }];
  });
}
