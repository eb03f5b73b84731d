// The history of the sandbox: the records of what runs and ran in it, and their output.

import { ending } from "./ending.js";
import { follow } from "./follow.js";
import { Output } from "./output.js";
import { attempt, fail, say } from "./status.js";

const perPage = 10; // records in one answer: each may have 2 MiB of output

export function historyPanel(root, api) {
  const status = root.querySelector(".records .status");
  const rows = root.querySelector("tbody");
  const ended = root.querySelector(".record .status");
  const output = new Output(root.querySelector(".output"));
  let chosen = null; // the id of the execution whose output is shown
  let reading = new AbortController(); // leaving a stream of a record ends nothing

  // reload lists the records, newest first. Of each, the output is read again when it is chosen.
  async function reload() {
    say(status, "Reading…");
    const list = [];
    for (let after = ""; ; ) {
      const page = await api.call("GET", `/executions?limit=${perPage}${after}`);
      list.unshift(...page.data.map(row).reverse());
      if (!page.has_more) break;
      after = "&after=" + encodeURIComponent(page.data.at(-1).id);
    }
    rows.replaceChildren(...list);
    mark();
    say(status, list.length === 1 ? "1 execution" : `${list.length.toLocaleString()} executions`);
  }

  function row(record) {
    const tr = document.getElementById("record-row").content.cloneNode(true).firstElementChild;
    const button = tr.querySelector("button");
    button.textContent = record.id;
    button.addEventListener("click", () => show(record.id));
    tr.querySelector(".started").textContent = new Date(record.started_at).toLocaleTimeString();
    tr.querySelector(".ending").textContent = ending(record);
    tr.querySelector(".size").textContent = (record.stdout_bytes + record.stderr_bytes).toLocaleString();
    return tr;
  }

  function mark() {
    for (const button of rows.querySelectorAll("button")) {
      button.setAttribute("aria-current", String(button.textContent === chosen));
    }
  }

  // show follows the output of an execution to its end, from the first byte that is stored.
  async function show(id) {
    reading.abort();
    reading = new AbortController();
    const { signal } = reading;
    chosen = id;
    mark();
    output.clear();
    say(ended, "Reading…");
    try {
      const record = await follow(api.events("GET", `/executions/${encodeURIComponent(id)}/stream`, { signal }), output);
      say(ended, ending(record));
    } catch (err) {
      if (!signal.aborted) fail(ended, err);
    }
  }

  root.querySelector(".reload").addEventListener("click", () => attempt(status, reload));

  return { root, shown: () => attempt(status, reload), close: () => reading.abort() };
}
