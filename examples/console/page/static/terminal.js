// A terminal in the sandbox, over a WebSocket.

import { ending } from "./ending.js";
import { attempt, fail, say } from "./status.js";
import { FitAddon } from "./xterm/addon-fit.mjs";
import { Terminal } from "./xterm/xterm.mjs";

const mostUnshown = 4 << 20; // bytes that may wait to be shown
const mostTyped = 64 << 10; // bytes in one message: a large paste is several

export function terminalPanel(root, api) {
  const connect = root.querySelector(".connect");
  const disconnect = root.querySelector(".disconnect");
  const status = root.querySelector(".status");
  const screen = root.querySelector(".screen");
  let session = null;

  function ended(text, err) {
    session?.freeze();
    const inside = screen.contains(document.activeElement) || document.activeElement === disconnect;
    connect.disabled = false;
    disconnect.disabled = true;
    if (err) fail(status, err);
    else say(status, text);
    if (inside) connect.focus();
  }

  connect.addEventListener("click", () => attempt(status, async () => {
    connect.disabled = true;
    say(status, "Connecting…");
    try {
      const { ticket } = await api.call("POST", "/terminal/tickets");
      session?.dispose();
      session = new Session(screen, () => disconnect.focus());
      const { rows, cols } = session.size;
      const query = new URLSearchParams({ ticket, rows, cols });
      session.attach(api.socket("/terminal?" + query), {
        opened() {
          disconnect.disabled = false;
          say(status, "Connected.");
          session.focus();
        },
        ended,
      });
    } catch (err) {
      connect.disabled = false;
      throw err;
    }
  }));
  disconnect.addEventListener("click", () => session.disconnect());

  return {
    root,
    shown: () => session?.fit(),
    close: () => session?.dispose(),
  };
}

// A Session is a screen and the connection to its program.
class Session {
  #terminal;
  #fit = new FitAddon();
  #socket = null;
  #left = false; // by the user
  #unwatch;
  #unshown = 0;
  #skipped = 0;

  // leave is called when the user asks to leave the screen by the keyboard.
  constructor(screen, leave) {
    this.#terminal = new Terminal({
      cursorBlink: false,
      fontFamily: getComputedStyle(screen).fontFamily,
      fontSize: 14,
      minimumContrastRatio: 4.5, // programs choose colours for a dark screen
      screenReaderMode: true,
      theme: theme(screen),
    });
    const t = this.#terminal;
    t.loadAddon(this.#fit);
    t.open(screen);
    t.attachCustomKeyEventHandler((event) => {
      if (event.key !== "F6" || !event.shiftKey) return true;
      event.preventDefault();
      if (event.type === "keydown") leave();
      return false;
    });
    t.onData((text) => this.#type(new TextEncoder().encode(text)));
    t.onBinary((bytes) => this.#type(Uint8Array.from(bytes, (c) => c.charCodeAt(0))));
    t.onResize(({ rows, cols }) => this.#send(JSON.stringify({ type: "resize", rows, cols })));

    const resized = new ResizeObserver(() => this.fit());
    resized.observe(screen);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => (t.options.theme = theme(screen));
    scheme.addEventListener("change", recolour);
    this.#unwatch = () => {
      resized.disconnect();
      scheme.removeEventListener("change", recolour);
    };
    this.fit();
  }

  get size() {
    return { rows: this.#terminal.rows, cols: this.#terminal.cols };
  }

  // fit makes the terminal as large as the screen, unless that is hidden.
  fit() {
    this.#fit.fit();
  }

  focus() {
    this.#terminal.focus();
  }

  // attach shows what comes by a socket that is being opened, and sends what is typed.
  attach(socket, { opened, ended }) {
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    let last = null;
    let wasOpen = false;
    socket.addEventListener("open", () => {
      wasOpen = true;
      opened();
    });
    socket.addEventListener("message", ({ data }) => {
      if (typeof data !== "string") {
        this.#print(new Uint8Array(data));
        return;
      }
      const message = JSON.parse(data);
      if (message.type === "gap") this.#note(`${message.bytes} bytes are missing`);
      if (message.type === "exit" || message.type === "error") last = message;
    });
    socket.addEventListener("close", ({ reason }) => {
      if (!wasOpen) {
        // A browser does not show its page the answer that refuses a WebSocket.
        ended("", new Error("The service has refused the terminal. Its backend may have none, or the sandbox may be gone."));
      } else if (last?.type === "exit") {
        ended(ending(last.execution));
      } else if (last?.type === "error") {
        ended("", new Error(last.error.message));
      } else if (this.#left) {
        ended("Closed.");
      } else {
        ended("", new Error("The connection was lost." + (reason ? ` (${reason})` : "")));
      }
    });
  }

  // disconnect leaves the program, which ends it.
  disconnect() {
    this.#left = true;
    this.#socket?.close();
  }

  // freeze keeps what is shown, for reading.
  freeze() {
    this.#terminal.options.disableStdin = true;
    this.#terminal.options.cursorInactiveStyle = "none";
  }

  dispose() {
    this.disconnect();
    this.#unwatch();
    this.#terminal.dispose();
  }

  // print shows bytes. A program that prints faster than they can be shown loses some, so that
  // Ctrl-C still gets through.
  #print(bytes) {
    if (this.#unshown > mostUnshown) {
      this.#skipped += bytes.length;
      return;
    }
    if (this.#skipped > 0) {
      this.#note(`${this.#skipped} bytes came too fast to be shown`);
      this.#skipped = 0;
    }
    this.#unshown += bytes.length;
    this.#terminal.write(bytes, () => (this.#unshown -= bytes.length));
  }

  #note(text) {
    this.#terminal.write(`\r\n\x1b[0;7m ${text} \x1b[0m\r\n`);
  }

  #type(bytes) {
    for (let i = 0; i < bytes.length; i += mostTyped) this.#send(bytes.subarray(i, i + mostTyped));
  }

  #send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(message);
  }
}

// theme returns the colours that the style sheet gives the screen.
function theme(screen) {
  const { color, backgroundColor, accentColor } = getComputedStyle(screen);
  return {
    foreground: color,
    background: backgroundColor,
    cursor: color,
    cursorAccent: backgroundColor,
    selectionBackground: accentColor,
  };
}
