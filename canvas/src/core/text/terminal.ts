/** Remove what a terminal would interpret: colours, cursor movements, titles and hyperlinks, each code as a whole. */

/** ECMA-48: control sequences, control strings up to their terminator, and the other escapes. An 8-bit form is removed only
 * if it is whole: its first byte is also a part of text that was decoded wrongly. */
const CODE = /\u001b\[[0-?]*[ -/]*[@-~]?|\u009b[0-?]+[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|[\u0090\u0098\u009d-\u009f][^\u0007\n\u001b\u0080-\u009f]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]?/g;

export function withoutTerminalCodes(text: string): string {
  return text.replace(CODE, "");
}
