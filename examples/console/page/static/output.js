// The output of a command: text in the order in which it came, marked by its stream.

const most = 1 << 20; // characters that are kept

export class Output {
  #element;
  #length = 0;

  constructor(element) {
    this.#element = element;
  }

  clear() {
    this.#element.replaceChildren();
    this.#length = 0;
  }

  // append adds text of a kind: stdout, stderr, or a note about them. The oldest makes room.
  append(kind, text) {
    const e = this.#element;
    const atEnd = e.scrollHeight - e.scrollTop - e.clientHeight < 8;
    const last = e.lastElementChild;
    if (last?.className === kind && last.textContent.length < 4096) {
      last.firstChild.appendData(text);
    } else {
      const span = document.createElement("span");
      span.className = kind;
      span.textContent = text;
      e.append(span);
    }
    this.#length += text.length;
    while (this.#length > most && e.childElementCount > 1) {
      this.#length -= e.firstElementChild.textContent.length;
      e.firstElementChild.remove();
    }
    if (atEnd) e.scrollTop = e.scrollHeight;
  }
}
