// The output of a command: text in the order in which it came, marked by its stream.

// A browser lays out the whole of it whenever something is added, and each line is work. So
// what is shown is bounded, and what comes is gathered for a moment first.
const mostShown = 500_000; // characters, of which a line is as many as perLine
const perLine = 100;
const mostGathered = 1_000_000; // characters
const moment = 50; // milliseconds

export class Output {
  #element;
  #costs = []; // of the pieces that are shown
  #gathered = []; // pieces that are not
  #waiting = 0; // characters in gathered
  #drawing = null; // a promise, while something is gathered

  constructor(element) {
    this.#element = element;
  }

  clear() {
    this.#gathered = [];
    this.#waiting = 0;
    this.#drop(this.#costs.length);
  }

  // append adds text of a kind: stdout, stderr, or a note about them. The oldest makes room. It
  // resolves when there is room for more: who waits for it holds a command that prints too fast.
  async append(kind, text) {
    for (const [part] of text.matchAll(/.{1,1024}/gsu)) { // whole characters
      this.#gathered.push({ kind, part, cost: part.length + perLine * (part.split("\n").length - 1) });
    }
    this.#waiting += text.length;
    this.#drawing ??= new Promise((resolve) => setTimeout(resolve, moment)).then(() => this.#draw());
    if (this.#waiting > mostGathered) await this.#drawing;
  }

  #draw() {
    const pieces = this.#gathered;
    this.#gathered = [];
    this.#waiting = 0;
    this.#drawing = null;

    const e = this.#element;
    const atEnd = e.scrollHeight - e.scrollTop - e.clientHeight < 8;
    const costs = [...this.#costs, ...pieces.map((piece) => piece.cost)];
    let kept = costs.length;
    for (let room = mostShown; kept > 0 && room >= costs[kept - 1]; kept--) room -= costs[kept - 1];
    const dropped = Math.min(kept, this.#costs.length);
    for (const piece of pieces.slice(kept - dropped)) this.#add(piece);
    this.#drop(dropped);
    if (atEnd) e.scrollTop = e.scrollHeight;
  }

  // add shows a piece, in one with the last if that is short and of the same kind.
  #add({ kind, part, cost }) {
    const last = this.#element.lastElementChild;
    if (last?.className === kind && last.textContent.length < 1024) {
      last.firstChild.appendData(part);
      this.#costs[this.#costs.length - 1] += cost;
      return;
    }
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = part;
    this.#element.append(span);
    this.#costs.push(cost);
  }

  // drop takes the first pieces away.
  #drop(n) {
    this.#costs.splice(0, n);
    for (; n > 0; n--) this.#element.firstElementChild.remove();
  }
}
