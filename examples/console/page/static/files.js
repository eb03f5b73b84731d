// The files of the sandbox: a directory's list, and an editor beside it.

import { APIError } from "./api.js";
import { editorPanel } from "./editor.js";
import { Path } from "./path.js";
import { confirmed } from "./question.js";
import { attempt, say } from "./status.js";

export function filesPanel(root, api) {
  const form = root.querySelector(".browser form");
  const status = root.querySelector(".browser .status");
  const rows = root.querySelector("tbody");
  const up = root.querySelector(".up");
  const picker = root.querySelector("[type=file]");
  const editor = editorPanel(root.querySelector(".editor"), api, {
    saved: () => attempt(status, reload),
    left: focus,
  });
  let directory = new Path(".");
  let entries = [];
  let count = ""; // of the entries, in words

  // list shows a directory.
  async function list(path) {
    say(status, "Reading…");
    const answer = await api.call("GET", `/files?list=true&path=${path.encoded}`);
    directory = path;
    entries = answer.entries;
    form.elements.directory.value = path.shown;
    up.disabled = path.parent() === null;
    rows.replaceChildren(...entries.map(row));
    count = entries.length === 1 ? "1 entry" : `${entries.length.toLocaleString()} entries`;
    if (answer.has_more) count = `The first ${count}: there are more.`;
    say(status, count);
  }
  const reload = () => list(directory);

  // focus goes to the row of a path, or else to the first, or else to the directory.
  function focus(path) {
    const row = [...rows.children].find((tr) => tr.dataset.path === path?.encoded) ?? rows.firstElementChild;
    (row?.querySelector("button") ?? form.elements.directory).focus();
  }

  // open shows a directory, or a file. Which of them a symbolic link is, only trying tells.
  async function open(entry) {
    const path = directory.child(entry);
    if (entry.type === "dir") return list(path);
    if (entry.type === "symlink") {
      try {
        return await list(path);
      } catch (err) {
        if (!(err instanceof APIError) || err.status !== 400) throw err;
      }
    }
    await editor.open(path);
    say(status, count);
  }

  // download saves a file, or a directory as tar.
  async function download(entry) {
    const path = directory.child(entry).encoded;
    const isDirectory = entry.type === "dir";
    say(status, `Reading ${entry.name}…`);
    const answer = await api.send("GET", isDirectory ? `/files/archive?path=${path}` : `/files?raw=true&path=${path}`);
    const url = URL.createObjectURL(await answer.blob());
    const link = document.createElement("a");
    link.href = url;
    link.download = isDirectory ? entry.name + ".tar" : entry.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads it after the click
    say(status, `Downloaded ${entry.name}.`);
  }

  async function remove(entry) {
    const all = entry.type === "dir" ? " and all that is in it" : "";
    if (!(await confirmed(`Remove ${entry.name}${all}?`, "Remove"))) return;
    const next = entries[entries.indexOf(entry) + 1];
    await api.call("DELETE", `/files?recursive=${entry.type === "dir"}&path=${directory.child(entry).encoded}`);
    await reload();
    say(status, `Removed ${entry.name}.`);
    focus(next && directory.child(next));
  }

  async function upload(files) {
    for (const file of files) {
      const exists = entries.some((entry) => entry.name === file.name);
      if (exists && !(await confirmed(`Replace ${file.name}?`, "Replace"))) continue;
      say(status, `Sending ${file.name}…`);
      await api.call("PUT", `/files?path=${directory.child(file).encoded}`, { body: file });
    }
    await reload();
  }

  function row(entry) {
    const tr = document.getElementById("file-row").content.cloneNode(true).firstElementChild;
    tr.dataset.path = directory.child(entry).encoded;
    tr.querySelector(".name").append(nameOf(entry));
    tr.querySelector(".size").textContent = entry.type === "file" ? entry.size_bytes.toLocaleString() : "";
    const changed = new Date(entry.modified_at);
    tr.querySelector(".changed").textContent = changed.toLocaleString([], { dateStyle: "short", timeStyle: "short" });
    for (const [name, action] of Object.entries({ download, remove })) {
      const button = tr.querySelector("." + name);
      button.setAttribute("aria-label", `${button.textContent} ${entry.name}`);
      button.addEventListener("click", () => attempt(status, () => action(entry)));
    }
    tr.querySelector(".download").disabled = entry.type === "special";
    return tr;
  }

  function nameOf(entry) {
    const name = document.createElement(entry.type === "special" ? "span" : "button");
    name.className = "mono " + entry.type;
    name.textContent = entry.name + (entry.type === "dir" ? "/" : "") + (entry.target ? " → " + entry.target : "");
    if (entry.type !== "special") {
      name.type = "button";
      name.addEventListener("click", () => attempt(status, async () => {
        const focused = document.activeElement === name;
        await open(entry);
        if (focused && !name.isConnected) focus();
      }));
    }
    return name;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = form.elements.directory.value;
    attempt(status, () => list(typed === directory.shown ? directory : new Path(typed)));
  });
  up.addEventListener("click", () => attempt(status, () => list(directory.parent())));
  root.querySelector(".new").addEventListener("click", () => editor.create(directory));
  root.querySelector(".upload").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => attempt(status, async () => {
    await upload([...picker.files]);
    picker.value = ""; // so that the same file can be chosen again
  }));

  return { root, shown: () => attempt(status, reload), close: editor.close };
}
