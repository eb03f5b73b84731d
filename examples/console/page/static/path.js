// Names of files. They are bytes, and need not be UTF-8: such a name is shown as well as it can
// be, and sent exactly.

export class Path {
  // shown is the name for people, encoded the name for a URL.
  constructor(shown, encoded = encodeURIComponent(shown)) {
    this.shown = shown;
    this.encoded = encoded;
  }

  // child returns the path of an entry in a list of this directory.
  child({ name, name_base64: base64 }) {
    const encoded = base64 === undefined ? encodeURIComponent(name) : encodeBytes(atob(base64));
    if (this.shown === ".") return new Path(name, encoded);
    if (this.shown.endsWith("/")) return new Path(this.shown + name, this.encoded + encoded);
    return new Path(`${this.shown}/${name}`, `${this.encoded}%2F${encoded}`);
  }

  // parent returns the directory above, or null where the path does not name one.
  parent() {
    const shown = this.shown.replace(/(.)\/+$/, "$1");
    const encoded = this.encoded.replace(/(.)(%2F)+$/, "$1");
    if (/^(\/|\.|(.*\/)?\.\.)$/.test(shown)) return null;
    const slash = shown.lastIndexOf("/");
    if (slash < 0) return new Path(".");
    if (slash === 0) return new Path("/");
    return new Path(shown.slice(0, slash), encoded.slice(0, encoded.lastIndexOf("%2F")));
  }
}

// encodeBytes percent-encodes a string of bytes.
function encodeBytes(bytes) {
  return Array.from(bytes, (byte) => "%" + byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}
