// What is said about an action, in the live region next to it.

export function say(status, text) {
  status.classList.remove("error");
  status.textContent = text;
}

export function fail(status, err) {
  status.classList.add("error");
  status.textContent = err.message;
}

// attempt does an action, and says why it has failed.
export async function attempt(status, action) {
  try {
    await action();
  } catch (err) {
    fail(status, err);
  }
}
