package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// splitKeys returns the keys in a comma-separated list.
func splitKeys(list string) []string {
	var keys []string
	for key := range strings.SplitSeq(list, ",") {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// newKey returns a key that nobody can guess.
func newKey() string { return "key_" + strings.ToLower(rand.Text()) }

// accounts returns the account of each key: a name that is the same in every run
// and does not give the key away.
func accounts(keys []string) map[string]string {
	owners := make(map[string]string)
	for _, key := range keys {
		sum := sha256.Sum256([]byte(key))
		owners[key] = "account_" + hex.EncodeToString(sum[:8])
	}
	return owners
}
