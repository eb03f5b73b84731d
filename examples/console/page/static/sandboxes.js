// The list of sandboxes, and the workspace of the one that is chosen.

import { attempt, say } from "./status.js";
import { openWorkspace, facts } from "./workspace.js";

// showSandboxes fills the console. The workspaces of sandboxes that are not shown stay: what
// runs there goes on.
export function showSandboxes(root, api, sandboxes) {
  const list = root.querySelector("ul");
  const status = root.querySelector(".sandboxes .status");
  const form = root.querySelector(".sandboxes form");
  const area = root.querySelector("#workspaces");
  const empty = area.querySelector(".empty");
  const workspaces = new Map(); // by the sandbox's id
  let chosen = null;

  function show(latest) {
    sandboxes = latest;
    for (const [id, workspace] of workspaces) {
      const sandbox = sandboxes.find((other) => other.id === id);
      if (sandbox) workspace.update(sandbox);
      else forget(id);
    }
    list.replaceChildren(...sandboxes.map(item));
    mark();
    if (sandboxes.length === 0) say(status, "No sandboxes yet.");
  }

  function item(sandbox) {
    const li = document.getElementById("list-item").content.cloneNode(true).firstElementChild;
    const button = li.firstElementChild;
    button.dataset.id = sandbox.id;
    button.querySelector(".mono").textContent = sandbox.id;
    button.querySelector(".facts").textContent = facts(sandbox);
    button.addEventListener("click", () => choose(sandbox));
    return li;
  }

  function choose(sandbox) {
    chosen = sandbox.id;
    if (!workspaces.has(chosen)) {
      const workspace = openWorkspace(api.at("/v1/sandboxes/" + encodeURIComponent(chosen)), sandbox, removed);
      workspaces.set(chosen, workspace);
      area.append(workspace.element);
    }
    mark();
    return workspaces.get(chosen);
  }

  function mark() {
    for (const button of list.querySelectorAll("button")) {
      button.setAttribute("aria-current", String(button.dataset.id === chosen));
    }
    for (const [id, workspace] of workspaces) workspace.element.hidden = id !== chosen;
    empty.hidden = chosen !== null;
  }

  function forget(id) {
    workspaces.get(id).close();
    workspaces.delete(id);
    if (chosen === id) chosen = null;
  }

  async function refresh() {
    say(status, "");
    const answer = await api.call("GET", "/v1/sandboxes");
    show(answer.data);
  }

  async function removed(id) {
    await attempt(status, refresh);
    if (sandboxes.length > 0) say(status, `Removed ${id}.`);
    (list.querySelector("button") ?? form.querySelector("button")).focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(status, async () => {
      say(status, "Creating a sandbox…");
      const made = await api.call("POST", "/v1/sandboxes", { json: { size: form.elements.size.value } });
      await refresh();
      say(status, `Created ${made.id}.`);
      choose(made).focus();
    });
  });
  root.querySelector(".refresh").addEventListener("click", () => attempt(status, refresh));
  show(sandboxes);
}
