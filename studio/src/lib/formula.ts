// Formulas as text with low and high letters: in `d_k` the k is low, in `W^Q` the Q is high; single letters are italic.
export type Part = string | { tag: "i" | "sub" | "sup"; parts: Part[] };

const FORMULA = /_(?:\{([^{}]*)\}|(\w+))|\^(?:\{([^{}]*)\}|(\w))|(?<![A-Za-z])([A-Za-z])(?![A-Za-z])/;
const SYMBOL = /\b(?:[Wb]\^[QKVO]|W_c|d_k|d_model|h_j)\b/;

export function parseFormula(text: string): Part[] {
  return split(text, FORMULA, (match) => {
    const [, lowGroup, low, highGroup, high, letter] = match;
    if (letter !== undefined) return [{ tag: "i", parts: [letter] }];
    const lowered = lowGroup ?? low;
    return [lowered === undefined ? { tag: "sup", parts: parseFormula(highGroup ?? high ?? "") } : { tag: "sub", parts: parseFormula(lowered) }];
  }, (plain) => plain.replaceAll("-", "−"));
}

/** Return a sentence in which only known symbols, such as W^Q, are set as formulas: a user's snake_case is not. */
export function parseProse(text: string): Part[] {
  return split(text, SYMBOL, (match) => parseFormula(match[0]), (plain) => plain.replace(/(?<!\w)-(?=\d)/g, "−"));
}

function split(text: string, pattern: RegExp, toParts: (match: RegExpMatchArray) => Part[], toText: (plain: string) => string): Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const match of text.matchAll(new RegExp(pattern, "g"))) {
    if (match.index > end) parts.push(toText(text.slice(end, match.index)));
    parts.push(...toParts(match));
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push(toText(text.slice(end)));
  return parts;
}
