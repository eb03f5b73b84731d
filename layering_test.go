package sandbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandbox-go/sandbox"

// Which packages of the module each may import. What a pattern that ends in "/..."
// names may import is also what lies below it. A package that is not here may
// import nothing of the module.
func layers() map[string][]string {
	driver := []string{"backend", "backend/pump", "internal/agent/...", "internal/cgroup", "internal/files", "internal/framing", "internal/host", "internal/proc", "internal/relay", "internal/workspace"}
	return map[string][]string{
		".":                   {"backend", "internal/egress", "internal/files", "internal/relay", "internal/text"},
		"internal/egress":     {"internal/relay"},
		"httpapi":             {".", "internal/jsonstream", "internal/text"},
		"internal/jsonstream": {"internal/text"},
		"backend/fake":        {"backend", "internal/files"},
		"backend/local":       driver,
		"backend/pump":        {"backend"},
		"backend/namespace":   driver,
		"backend/docker":      driver,
		"backend/backendtest": {".", "backend"},
		"backend/escapetest":  {".", "backend"},
		"internal/agent/...":  driver,
		"internal/cgroup":     {"backend"},
		"internal/workspace":  driver,
		"internal/files":      {"backend", "internal/framing"},
		"internal/proc":       driver,
		"examples/quickstart": {".", "backend/local", "backend/namespace"},
		"internal/speed":      {".", "httpapi", "backend/docker", "backend/local", "backend/namespace", "internal/benchtest", "internal/dockerexec"},
		// for tests only:
		"internal/faketest":    {".", "backend/...", "internal/..."},
		"internal/programtest": {"backend"},
		"internal/benchtest":   {".", "backend", "internal/programtest"},
	}
}

// What each package, and all that it imports, may need from outside the module.
func modules() map[string][]string {
	core := []string{"golang.org/x/sync", "github.com/hashicorp/go-multierror", "github.com/hashicorp/errwrap"}
	local := append(core, "golang.org/x/sys", "github.com/hashicorp/yamux", "github.com/creack/pty")
	return map[string][]string{
		".":                 core,
		"httpapi":           append(core, "github.com/coder/websocket"),
		"backend/fake":      nil,
		"backend/local":     local,
		"backend/namespace": append(local, "github.com/elastic/go-seccomp-bpf", "golang.org/x/net"),
	}
}

func TestPackagesImportOneWay(t *testing.T) {
	for pkg, imports := range list(t, "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...") {
		for _, imported := range imports {
			if to, ok := within(imported); ok && !allows(layers(), pkg, to) {
				t.Errorf("%s imports %s", pkg, to)
			}
		}
	}
}

// Whoever imports the core must not compile an engine's client.
func TestDependenciesStayLight(t *testing.T) {
	for pkg, allowed := range modules() {
		for _, deps := range list(t, "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`, "./"+pkg) {
			for _, dep := range deps {
				first, _, _ := strings.Cut(dep, "/")
				if _, own := within(dep); own || !strings.Contains(first, ".") {
					continue
				}
				if !slices.ContainsFunc(allowed, func(m string) bool { return below(dep, m) }) {
					t.Errorf("%s needs %s", pkg, dep)
				}
			}
		}
	}
}

// list runs go list with a format of lines that begin with an import path, and
// returns the rest of each by the path within the module.
func list(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %q: %v\n%s", args, err, &stderr)
	}
	lines := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg, _ := within(words[0])
		lines[pkg] = words[1:]
	}
	return lines
}

// within returns the path of an import path within the module.
func within(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func allows(layers map[string][]string, from, to string) bool {
	for pattern, targets := range layers {
		if matches(pattern, from) && slices.ContainsFunc(targets, func(target string) bool { return matches(target, to) }) {
			return true
		}
	}
	return false
}

func matches(pattern, pkg string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return below(pkg, tree)
	}
	return pattern == pkg
}

func below(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }
