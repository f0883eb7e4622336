// Texts that are easier to read without another meaning: JSON in lines, and the difference of two texts.

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

/** A text of JSON in which the escape of a line feed is followed by a real one, so that long texts can be read. */
export const broken = (text) => text.replace(/\\[^]/g, (escape) => (escape === "\\n" ? "\\n\n" : escape));

const MOST = 600;

/** The lines of two texts as `[sign, line]`, where sign is "-", "+" or " ". */
export function difference(before, after) {
  const old = before.split("\n").slice(0, MOST);
  const now = after.split("\n").slice(0, MOST);
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) found.push([" ", old[i++], j++]);
    else if (j >= now.length || (i < old.length && common[i + 1][j] >= common[i][j + 1])) found.push(["-", old[i++]]);
    else found.push(["+", now[j++]]);
  }
  return found;
}
