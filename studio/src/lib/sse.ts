// Server-sent events from fetch: EventSource cannot send the token as a header.

export interface ServerEvent {
  event: string;
  data: string;
}

/** Split a stream's text into complete messages and the rest, which waits for more text. */
export function parseEvents(text: string): { messages: ServerEvent[]; rest: string } {
  const blocks = text.split("\n\n");
  const rest = blocks.pop() ?? "";
  const messages = blocks.map((block) => {
    const fields = block.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line));
    const all = (name: string) => fields.flatMap((field) => (field?.[1] === name ? [field[2]!] : []));
    return { event: all("event").at(-1) ?? "message", data: all("data").join("\n") };
  });
  return { messages: messages.filter(({ data }) => data), rest };
}

/** Yield the messages of a response until it ends. */
export async function* readEvents(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const { messages, rest } = parseEvents(text + value);
    text = rest;
    yield* messages;
  }
}
