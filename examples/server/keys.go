package main

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sandbox-go/sandbox"
)

// A keyring has the owner of each key.
type keyring map[string]string

// add adds a key. Without an owner it is an account of its own: a name that is the same
// in every run and does not give the key away.
func (k keyring) add(owner, key string) {
	if owner == "" {
		sum := sha256.Sum256([]byte(key))
		owner = "account_" + hex.EncodeToString(sum[:8])
	}
	k[key] = owner
}

// addList adds the keys in a comma-separated list.
func (k keyring) addList(list string) {
	for key := range strings.SplitSeq(list, ",") {
		if key = strings.TrimSpace(key); key != "" {
			k.add("", key)
		}
	}
}

// addFile adds the keys in a file, one a line: "key", or "owner: key". An empty line and
// one that begins with "#" have none. It returns what the file may be read by.
func (k keyring) addFile(name string) (fs.FileMode, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	before := len(k)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		owner, key, named := strings.Cut(line, ":")
		if !named {
			owner, key = "", line
		}
		owner, key = strings.TrimSpace(owner), strings.TrimSpace(key)
		if key == "" || named && owner == "" || strings.ContainsAny(key, " \t") {
			return 0, fmt.Errorf(`%s: line %d is neither "key" nor "owner: key"`, name, n)
		}
		k.add(owner, key)
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if len(k) == before {
		return 0, fmt.Errorf("%s has no key", name)
	}
	return info.Mode(), nil
}

// checkKeyFile refuses a key file that commands can read whoever they run as.
func checkKeyFile(name string, mode fs.FileMode, info sandbox.BackendInfo) error {
	seen := info.Name == "local" || info.Name == "namespace" // whose sandboxes see files of this machine
	if mode.IsRegular() && mode.Perm()&0o004 != 0 && seen {
		return fmt.Errorf("%s can be read by everybody, and so by commands: chmod go= %s", name, name)
	}
	return nil
}

// sharedUser is what must be known of keys where commands run as the service's user.
const sharedUser = "commands run as this service's user: they can read its files, its environment and its memory, and so every key; " +
	"for commands of strangers use another backend, or run the service as root, and give keys by -keys only"

// newKey returns a key that nobody can guess.
func newKey() string { return "key_" + strings.ToLower(rand.Text()) }
