// The dialog before what cannot be undone.

// confirmed asks, and resolves to whether the answer is the verb.
export function confirmed(question, verb) {
  const dialog = document.getElementById("question").content.cloneNode(true).firstElementChild;
  dialog.ariaLabel = question;
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("[value=yes]").textContent = verb;
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes"); // Escape leaves it empty
    });
  });
}
