package kubernetes_test

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// A recorder notes what is asked of the API server, as RBAC names it.
type recorder struct {
	mu    sync.Mutex
	asked map[string]int // how often, by "group resource verb"
}

func (r *recorder) note(req *http.Request) {
	// /api/v1/namespaces/NS/pods/NAME/exec, /apis/GROUP/v1/namespaces/NS/leases/NAME
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	parts = parts[4:]
	resource, named := parts[0], len(parts) > 1
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	verb := map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}[req.Method]
	if verb == "get" && !named {
		verb = "list"
		if req.URL.Query().Get("watch") != "" {
			verb = "watch"
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[group+" "+resource+" "+verb]++
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// What the backend asks for in a life with all that it can do is what the manifest lets
// it do.
func TestRBAC(t *testing.T) {
	c, ctx := testCluster(t), testContext(t)
	r := &recorder{asked: map[string]int{
		" pods/exec create": 1, // over SPDY, which this API server does not need
	}}
	config := r.config(c)
	owner := ownerOf(t)
	_, service := startService(t, owner)
	service.Kill()
	b := newBackend(t, kubernetes.Options{Config: config, Owner: owner})
	if opened, err := b.Recover(ctx); err != nil || len(opened) != 1 {
		t.Fatalf("recovered %v, %v", opened, err)
	}
	sb := newSandbox(t, b, nil)
	output(t, sb, "echo hi")
	r.await(t, "coordination.k8s.io leases update")
	closeIn(t, b.Close)
	r.compare(t, "deploy/rbac.yaml")
}

// The same with a warm pool: what it asks for in addition is in a manifest of its own.
func TestRBACOfWarmPool(t *testing.T) {
	p := newPool(t, 1, kubernetes.Options{})
	r := &recorder{asked: make(map[string]int)}
	b := newBackend(t, kubernetes.Options{Config: r.config(p.cluster), WarmPool: p.name, AbandonAfter: 10 * time.Second})
	output(t, newSandbox(t, b, nil), "echo hi")
	r.await(t, "extensions.agents.x-k8s.io sandboxclaims patch")
	closeIn(t, b.Close)
	r.mu.Lock()
	maps.DeleteFunc(r.asked, func(what string, _ int) bool { return !strings.Contains(what, "agents.x-k8s.io") })
	r.mu.Unlock()
	r.compare(t, "deploy/warmpool.yaml")
}

// config returns c's, of which r notes all that is asked.
func (r *recorder) config(c cluster) *rest.Config {
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			r.note(req)
			return next.RoundTrip(req)
		})
	})
	return config
}

// await waits until something is asked.
func (r *recorder) await(t *testing.T, what string) {
	t.Helper()
	eventually(t, "the backend asks for "+what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.asked[what] > 0
	})
}

// counts returns how often what was asked for so far.
func (r *recorder) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.asked)
}

// compare checks that a manifest allows what was asked for, and no more.
func (r *recorder) compare(t *testing.T, manifest string) {
	t.Helper()
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role rbacv1.Role
		if err := yaml.Unmarshal(doc, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed = append(allowed, rule.APIGroups[0]+" "+resource+" "+verb)
				}
			}
		}
	}
	var asked []string
	for what := range r.asked {
		asked = append(asked, what)
	}
	slices.SortFunc(asked, cmp.Compare)
	slices.SortFunc(allowed, cmp.Compare)
	if d := diff.Diff(asked, allowed); d != "" {
		t.Errorf("%s allows other than what is asked for (-asked +allowed):\n%s", manifest, d)
	}
}

// Commands and files cost the API server no request: all goes over the sandbox's one exec.
func TestCommandsCostNoRequest(t *testing.T) {
	c := testCluster(t)
	r := &recorder{asked: make(map[string]int)}
	sb := newSandbox(t, newBackend(t, kubernetes.Options{Config: r.config(c)}), nil)
	output(t, sb, "true")
	before := r.ofSandboxes()
	for range 100 {
		output(t, sb, "echo hi >file; cat file")
	}
	if data, err := sb.Files().ReadFile(testContext(t), "file", nil); err != nil || string(data) != "hi\n" {
		t.Errorf("the file has %q: %v", data, err)
	}
	if n := r.ofSandboxes() - before; n > 0 {
		t.Errorf("100 commands and a file cost %d requests: %v", n, r.asked)
	}
}

// ofSandboxes returns how much was asked, without what a replica costs: its Lease, and the
// watch of its pods.
func (r *recorder) ofSandboxes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for what, times := range r.asked {
		if !strings.Contains(what, " leases ") && what != " pods watch" && what != " pods list" {
			n += times
		}
	}
	return n
}
