// Runs a command and shows its output as it comes.

import { ending } from "./ending.js";
import { follow } from "./follow.js";
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

  function started(id) {
    execution = id;
    cancel.disabled = false;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (run.disabled) return;
    enable(true);
    output.clear();
    say(status, "Running…");
    try {
      const json = { command: form.elements.command.value, stream: true };
      const record = await follow(api.events("POST", "/exec", { json, signal: closed.signal }), output, started);
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
