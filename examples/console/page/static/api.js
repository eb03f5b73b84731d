// The sandboxes API over fetch.

import { readEvents } from "./events.js";

// An APIError is what the API, or the network before it, has said against a request. Status is
// 0 where no answer came.
export class APIError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class API {
  #key;
  #refused;
  #base;

  // refused is called when the key is no good.
  constructor(key, refused, base = "") {
    this.#key = key;
    this.#refused = refused;
    this.#base = base;
  }

  // at returns the API below a path.
  at(base) {
    return new API(this.#key, this.#refused, this.#base + base);
  }

  // call makes a request and returns the JSON of the answer.
  async call(method, path, options) {
    const answer = await this.send(method, path, options);
    return answer.json();
  }

  // send makes a request, with an object as json or anything that fetch takes as body, and
  // returns the answer. Any but a good one is an APIError.
  async send(method, path, { json, body, signal } = {}) {
    const headers = { Authorization: "Bearer " + this.#key };
    if (json !== undefined) {
      headers["Content-Type"] = "application/json";
      body = JSON.stringify(json);
    } else if (body !== undefined) {
      headers["Content-Type"] = "application/octet-stream";
    }
    let answer;
    try {
      answer = await fetch(this.#base + path, { method, headers, body, signal, cache: "no-store" });
    } catch (err) {
      if (signal?.aborted) throw err;
      throw new APIError(0, "The service does not answer.");
    }
    if (answer.ok) return answer;
    if (answer.status === 401) this.#refused();
    throw new APIError(answer.status, await message(answer));
  }

  // events makes a request as send does and yields the events of the answer, until options.signal
  // is aborted.
  async *events(method, path, options) {
    const answer = await this.send(method, path, options);
    for await (const event of readEvents(answer.body)) {
      options.signal.throwIfAborted(); // what has come by then is not yielded either
      yield event;
    }
  }

  // socket returns a WebSocket at a path. A browser sends no key with it.
  socket(path) {
    const url = new URL(this.#base + path, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return new WebSocket(url);
  }
}

// message returns what an answer says is wrong.
async function message(answer) {
  try {
    const { error } = await answer.json();
    return `${error.message} (${answer.status}, ${error.type})`;
  } catch {
    return `The service has answered ${answer.status} ${answer.statusText}.`;
  }
}
