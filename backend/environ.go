package backend

import (
	"slices"
	"strings"
)

// Environ returns the command's whole environment: base, which the backend
// provides, then what the spec adds. A later entry replaces an earlier one of the same
// key, and takes its place. TERM is set where there is a terminal.
func (s *Spec) Environ(base []string) []string {
	var terminal []string
	if s.Terminal != nil {
		terminal = []string{"TERM=xterm-256color"}
	}
	var env []string
	at := make(map[string]int)
	for _, kv := range slices.Concat(terminal, base, s.Env) {
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
