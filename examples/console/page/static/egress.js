// What has tried to get out of the sandbox, and what became of it.

import { attempt, say } from "./status.js";

export function egressPanel(root, api) {
  const status = root.querySelector(".status");
  const rows = root.querySelector("tbody");

  // reload lists the attempts, newest first.
  async function reload() {
    say(status, "Reading…");
    const { data } = await api.call("GET", "/egress");
    rows.replaceChildren(...data.map(row).reverse());
    say(status, data.length === 1 ? "1 connection" : `${data.length.toLocaleString()} connections`);
  }

  function row(egress) {
    const tr = document.getElementById("egress-row").content.cloneNode(true).firstElementChild;
    tr.querySelector(".name").textContent = `${egress.host}:${egress.port}`;
    tr.querySelector(".started").textContent = new Date(egress.started_at).toLocaleTimeString();
    tr.querySelector(".ending").textContent = egress.reason ? `${egress.verdict}: ${egress.reason}` : egress.verdict;
    tr.querySelector(".size").textContent = (egress.bytes_sent + egress.bytes_received).toLocaleString();
    return tr;
  }

  root.querySelector(".reload").addEventListener("click", () => attempt(status, reload));

  return { root, shown: () => attempt(status, reload), close: () => {} };
}
