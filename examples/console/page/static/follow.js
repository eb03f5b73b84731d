// The events of an execution.

// follow shows an execution's output as its events come, and returns its record. Started is called
// with its id.
export async function follow(events, output, started = () => {}) {
  for await (const { name, data } of events) {
    switch (name) {
      case "start":
        started(data.id);
        break;
      case "stdout":
      case "stderr":
        await output.append(name, data.data);
        break;
      case "gap":
        await output.append("note", `[${data.bytes} bytes of ${data.stream} are missing]\n`);
        break;
      case "exit":
        return data;
      case "error":
        throw new Error(data.error.message);
    }
  }
  throw new Error("The connection was lost. The History tab shows how the command ended.");
}
