// Begins the page: finds the key, asks for it where there is none, and shows the console.

import { API } from "./api.js";
import * as key from "./key.js";
import { showSandboxes } from "./sandboxes.js";
import { say, fail } from "./status.js";

const signIn = document.getElementById("sign-in");
const shown = document.getElementById("console");
const signOut = document.getElementById("sign-out");

// start shows the console if the key is good, and else asks for another.
async function start(candidate) {
  const api = new API(candidate, () => {
    key.forget();
    if (!shown.hidden) location.reload(); // what is open belongs to that key
  });
  say(signIn.querySelector(".status"), "");
  let list;
  try {
    list = await api.call("GET", "/v1/sandboxes");
  } catch (err) {
    ask();
    fail(signIn.querySelector(".status"), err);
    return;
  }
  key.save(candidate);
  signIn.hidden = true;
  shown.hidden = signOut.hidden = false;
  showSandboxes(shown, api, list.data);
}

function ask() {
  signIn.hidden = false;
  signIn.querySelector("input").focus();
}

signIn.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  start(event.target.elements.key.value.trim());
});

signOut.addEventListener("click", () => {
  key.forget();
  location.reload();
});

// A URL with another key, opened in this tab, does not load the page again.
window.addEventListener("hashchange", () => {
  if (key.takeFromURL()) location.reload();
});

key.takeFromURL();
const known = key.load();
if (known) start(known);
else ask();
