// JSON that is easier to read, without another meaning.

/** JSON in lines. Only space between its parts is added: every character of it stays, and no number changes. */
export function pretty(text) {
  let out = "";
  let depth = 0;
  let quoted = false;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at++) {
    const one = text[at];
    if (quoted) {
      out += one;
      if (one === "\\") out += text[++at] ?? "";
      else if (one === '"') quoted = false;
    } else if (one === '"') {
      quoted = true;
      out += one;
    } else if (one === "{" || one === "[") {
      const empty = text[at + 1] === (one === "{" ? "}" : "]");
      depth += empty ? 0 : 1;
      out += empty ? one + text[++at] : one + line();
    } else if (one === "}" || one === "]") {
      depth -= 1;
      out += line() + one;
    } else if (one === ",") out += one + line();
    else if (one === ":") out += ": ";
    else if (!/\s/.test(one)) out += one;
  }
  return out;
}

/** A text of JSON in parts that begin after the escape of a line feed, unless its string ends there. JSON has no NUL. */
export const broken = (text) => text.replace(/\\[^]"?/g, (escape) => (escape === "\\n" ? "\\n\0" : escape)).split("\0");
