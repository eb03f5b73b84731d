// Server-Sent Events over fetch, because EventSource can send neither a body nor a key.

// readEvents yields the events of a stream of bytes, each with its name and its data, which is
// JSON. See the HTML standard, section 9.2.6.
export async function* readEvents(body) {
  let name = "";
  let data = [];
  for await (const line of readLines(body)) {
    if (line === "") {
      if (data.length > 0) yield { name, data: JSON.parse(data.join("\n")) };
      name = "";
      data = [];
      continue;
    }
    const [, field, value] = line.match(/^([^:]*):? ?(.*)$/s);
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
}

// readLines yields the whole lines of a stream of UTF-8.
async function* readLines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      yield* lines;
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops reading has no use for its error
  }
}
