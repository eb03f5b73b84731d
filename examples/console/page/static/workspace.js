// What can be done in one sandbox.

import { commandPanel } from "./command.js";
import { egressPanel } from "./egress.js";
import { filesPanel } from "./files.js";
import { historyPanel } from "./history.js";
import { confirmed } from "./question.js";
import { attempt } from "./status.js";
import { makeTabs } from "./tabs.js";
import { terminalPanel } from "./terminal.js";

// facts returns in a line what there is to know about a sandbox.
export function facts(sandbox) {
  const parts = [sandbox.status];
  if (sandbox.size) parts.push(sandbox.size);
  if (sandbox.expires_at) {
    const time = new Date(sandbox.expires_at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    parts.push(`until ${time}`);
  }
  return parts.join(" · ");
}

// openWorkspace makes the workspace of a sandbox, whose API is given. Removed is called with the
// sandbox's id when the user has removed it.
export function openWorkspace(api, sandbox, removed) {
  const element = document.getElementById("workspace").content.cloneNode(true).firstElementChild;
  element.querySelector("h2").textContent = sandbox.id;
  element.setAttribute("aria-label", "Sandbox " + sandbox.id);

  const panels = [
    commandPanel(element.querySelector(".command"), api),
    terminalPanel(element.querySelector(".terminal"), api),
    filesPanel(element.querySelector(".files"), api),
    historyPanel(element.querySelector(".history"), api),
    egressPanel(element.querySelector(".egress"), api),
  ];
  makeTabs(element, sandbox.id, (root) => panels.find((panel) => panel.root === root).shown?.());

  const line = element.querySelector("header .facts");
  element.querySelector("header .remove").addEventListener("click", () => attempt(line, async () => {
    if (!(await confirmed(`Remove ${sandbox.id}, its files, and all that runs in it?`, "Remove"))) return;
    await api.call("DELETE", "");
    await removed(sandbox.id);
  }));

  const workspace = {
    element,
    focus: () => element.querySelector("textarea").focus(),
    update(latest) {
      line.classList.remove("error");
      line.textContent = facts(latest);
    },
    close() {
      for (const panel of panels) panel.close();
      element.remove();
    },
  };
  workspace.update(sandbox);
  return workspace;
}
