// The dialog before what cannot be undone.

const dialog = document.getElementById("question");

// confirmed asks, and resolves to whether the answer is the verb.
export function confirmed(question, verb) {
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("[value=yes]").textContent = verb;
  dialog.returnValue = "no"; // also of Escape
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
