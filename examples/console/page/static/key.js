// The API key of this tab. It comes behind the "#" of the URL, which is sent to nobody, or is
// typed in. It is kept until the tab is closed, and never in the address bar or the history.

const slot = "sandbox-api-key";

// takeFromURL reports whether there was a key in the URL.
export function takeFromURL() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!given) return false;
  save(given);
  history.replaceState(null, "", location.pathname + location.search);
  return true;
}

export const load = () => sessionStorage.getItem(slot);
export const save = (key) => sessionStorage.setItem(slot, key);
export const forget = () => sessionStorage.removeItem(slot);
