package backendtest

// smokeCase is the one that must hold before any other can.
func smokeCase() []Case {
	return []Case{{
		Name:  "a-command-runs",
		Rule:  "A sandbox can be made, runs a command to its end with its output, and can be closed.",
		smoke: true,
		run:   func(s *subject) { s.completed(s.run(print("hi\n"), exit(3)), 3, "hi\n", "") },
	}}
}
