package backend

import (
	"slices"
	"strings"
)

// Environ joins layers of KEY=VALUE entries into one environment. A later entry
// replaces an earlier one of the same key and takes its place.
func Environ(layers ...[]string) []string {
	var env []string
	at := make(map[string]int)
	for _, kv := range slices.Concat(layers...) {
		key, _, _ := strings.Cut(kv, "=")
		if i, ok := at[key]; ok {
			env[i] = kv
			continue
		}
		at[key] = len(env)
		env = append(env, kv)
	}
	return env
}
