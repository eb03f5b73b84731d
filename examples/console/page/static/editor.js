// Edits one text file.

import { Path } from "./path.js";
import { confirmed } from "./question.js";
import { attempt, say } from "./status.js";

const most = 1 << 20; // bytes that a textarea is still quick with

// editorPanel makes an editor of a form. Saved is called when a file was written, and left with
// the path of the last one, or null, when the editor is closed.
export function editorPanel(form, api, { saved, left }) {
  const { path: name, content } = form.elements;
  const status = form.querySelector(".status");
  let path = null; // of the file that is open, or null for a new one
  let original = "";
  let newline = "\n";

  const dirty = () => !form.hidden && content.value !== original;

  async function mayDiscard() {
    return !dirty() || confirmed(`Discard the changes to ${name.value || "the new file"}?`, "Discard");
  }

  function show(file, shown, text) {
    path = file;
    name.value = shown;
    name.readOnly = file !== null;
    content.value = text;
    original = content.value;
    say(status, "");
    form.hidden = false;
  }

  async function open(file) {
    if (!(await mayDiscard())) return;
    const answer = await api.call("GET", `/files?limit=${most + 1}&path=${file.encoded}`);
    if (answer.lossy) throw new Error(`${file.shown} is not UTF-8 text: download it.`);
    if (answer.size_bytes > most) throw new Error(`${file.shown} is too large to be edited here: download it.`);
    // A textarea makes every line end with \n. What that would change for good is not opened.
    const ending = answer.content.includes("\r\n") ? "\r\n" : "\n";
    if (answer.content.replaceAll("\r\n", "\n").replaceAll("\r", "\n").replaceAll("\n", ending) !== answer.content) {
      throw new Error(`${file.shown} has several kinds of line ends, which would not be kept: download it.`);
    }
    newline = ending;
    show(file, file.shown, answer.content);
    content.focus();
    content.setSelectionRange(0, 0);
  }

  async function create(directory) {
    if (!(await mayDiscard())) return;
    newline = "\n";
    show(null, directory.child({ name: "" }).shown, "");
    name.focus();
  }

  async function save() {
    const file = path ?? new Path(name.value);
    const text = content.value;
    say(status, "Saving…");
    const answer = await api.call("PUT", `/files?path=${file.encoded}`, { body: text.replaceAll("\n", newline) });
    original = text;
    path = file;
    name.readOnly = true;
    say(status, `Saved ${answer.size_bytes.toLocaleString()} bytes.`);
    saved();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(status, save);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.querySelector(".close").addEventListener("click", async () => {
    if (!(await mayDiscard())) return;
    form.hidden = true;
    left(path);
  });

  const closed = new AbortController();
  window.addEventListener("beforeunload", (event) => {
    if (dirty()) event.preventDefault();
  }, { signal: closed.signal });

  return { open, create, close: () => closed.abort() };
}
