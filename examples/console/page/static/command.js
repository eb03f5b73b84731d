// Runs a command and shows its output as it comes.

import { ending } from "./ending.js";
import { Output } from "./output.js";
import { attempt, fail, say } from "./status.js";

export function commandPanel(root, api) {
  const form = root.querySelector("form");
  const run = root.querySelector(".run");
  const cancel = root.querySelector(".cancel");
  const status = root.querySelector(".status");
  const output = new Output(root.querySelector(".output"));
  const closed = new AbortController(); // leaving a stream ends its command
  let execution = null; // the id of the one that runs

  function enable(running) {
    run.disabled = running;
    cancel.disabled = true; // until its id is known
    if (!running) execution = null;
  }

  async function follow(command) {
    for await (const { name, data } of api.events("/exec", { command, stream: true }, closed.signal)) {
      switch (name) {
        case "start":
          execution = data.id;
          cancel.disabled = false;
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
    throw new Error("The connection was lost, and with it how the command has ended.");
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (run.disabled) return;
    enable(true);
    output.clear();
    say(status, "Running…");
    try {
      const record = await follow(form.elements.command.value);
      say(status, ending(record));
      status.classList.toggle("error", record.status !== "completed" || record.exit_code !== 0);
    } catch (err) {
      if (!closed.signal.aborted) fail(status, err);
    }
    const focused = document.activeElement === cancel;
    enable(false);
    if (focused) form.elements.command.focus();
  });

  form.elements.command.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });

  // The exit event tells how it ends.
  cancel.addEventListener("click", () => attempt(status, () => api.call("DELETE", "/executions/" + execution)));

  return { root, close: () => closed.abort() };
}
