package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// An object is a JSON object of the engine's API.
type object = map[string]any

// complete is what an engine says of itself that can do all.
func complete() object {
	return object{
		"MemoryLimit": true, "SwapLimit": true, "CpuCfsQuota": true, "PidsLimit": true,
		"CgroupDriver": "systemd", "CgroupVersion": "2", "DefaultRuntime": "runc",
		"Runtimes": object{"runc": object{"path": "runc"}},
	}
}

// infoOf returns what a backend promises on an engine that says info of itself.
func infoOf(t *testing.T, info object, opts docker.Options) backend.Info {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		var answer any = object{}
		switch {
		case strings.HasSuffix(r.URL.Path, "/info"):
			if info == nil {
				http.Error(w, `{"message":"Forbidden"}`, http.StatusForbidden)
				return
			}
			answer = info
		case strings.HasSuffix(r.URL.Path, "/json"): // lists of containers
			answer = []any{}
		}
		json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	opts.Host = "tcp://" + server.Listener.Addr().String()
	b, err := docker.New(testContext(t), &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIn(t, b.Close)
	return b.Info()
}

// What a runtime is called says nothing; its program does.
func TestRuntimeIsKnownByItsProgram(t *testing.T) {
	runtimes := object{
		"runc":   object{"path": "runc"},
		"gv":     object{"path": "/usr/bin/runsc", "runtimeArgs": []string{"--platform=systrap"}},
		"shim":   object{"runtimeType": "io.containerd.runsc.v1"},
		"runsc":  object{"path": "/opt/bin/runc"},
		"vm":     object{"runtimeType": "io.containerd.kata.v2"},
		"podman": object{"path": "/usr/bin/crun"},
		"own":    object{"path": "/usr/local/bin/own"},
	}
	for _, test := range []struct {
		standard, chosen  string
		own, oom, sharing bool
	}{
		{"runc", "", false, true, true},
		{"runc", "gv", true, false, false},
		{"gv", "", true, false, false},
		{"gv", "runc", false, true, true},
		{"runc", "shim", true, false, false},
		{"runc", "runsc", false, true, true},
		{"runc", "vm", true, true, false},
		{"podman", "", false, true, true},
		{"own", "", false, false, true},
		{"runc", "io.containerd.runsc.v1", true, false, false},
		{"runc", "io.containerd.runc.v2", false, true, true},
	} {
		t.Run(test.standard+"/"+test.chosen, func(t *testing.T) {
			info := complete()
			info["Runtimes"], info["DefaultRuntime"] = runtimes, test.standard
			got := infoOf(t, info, docker.Options{Runtime: test.chosen})
			if got.DedicatedKernel != test.own || got.OOM != test.oom {
				t.Errorf("DedicatedKernel %v, OOM %v, want %v, %v", got.DedicatedKernel, got.OOM, test.own, test.oom)
			}
			caveats := strings.Join(got.Caveats, " ")
			if strings.Contains(caveats, "share the kernel") != test.sharing || strings.Contains(caveats, "memory is not told") == test.oom {
				t.Errorf("caveats: %q", caveats)
			}
		})
	}
}

// What an engine cannot enforce is told, whether it says so or not.
func TestEngineTellsWhatItLacks(t *testing.T) {
	for _, test := range []struct {
		name   string
		change object // what is otherwise than in complete
		oom    bool
		says   []string
	}{
		{"nothing", object{}, true, nil},
		{"memory", object{"MemoryLimit": false, "SwapLimit": false}, false, []string{"Limits.Memory:"}},
		{"processes", object{"PidsLimit": false}, true, []string{"Limits.PIDs:"}},
		{"swap", object{"SwapLimit": false}, true, []string{"swap"}},
		{"no-driver", object{"CgroupDriver": "none"}, false, []string{"Limits.Memory, Limits.CPUs, Limits.PIDs:"}},
		{"rootless-v1", object{"CgroupVersion": "1", "SecurityOptions": []string{"name=seccomp,profile=default", "name=rootless"}}, false,
			[]string{"Limits.Memory, Limits.CPUs, Limits.PIDs:"}},
		{"rootless-v2", object{"SecurityOptions": []string{"name=rootless"}}, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := complete()
			for key, value := range test.change {
				info[key] = value
			}
			got := infoOf(t, info, docker.Options{})
			if got.OOM != test.oom {
				t.Errorf("OOM is %v", got.OOM)
			}
			caveats := strings.Join(got.Caveats, "\n")
			for _, want := range test.says {
				if !strings.Contains(caveats, want) {
					t.Errorf("caveats: got %q, want %q in them", caveats, want)
				}
			}
			if len(test.says) == 0 && len(got.Caveats) != 1 {
				t.Errorf("caveats: got %q, want that of the shared kernel alone", caveats)
			}
		})
	}
}

// A proxy of an engine may refuse to say what the engine is.
func TestEngineMayNotBeAsked(t *testing.T) {
	if got := infoOf(t, nil, docker.Options{}); got.OOM || got.DedicatedKernel {
		t.Errorf("OOM %v, DedicatedKernel %v: nobody has said so", got.OOM, got.DedicatedKernel)
	}
}

// An altered engine is the tests' one, save for what say changes in what it says of
// itself, take in what a container is to be made of, made in the answer when it is
// made, and exec in what it says of an exec. Nil changes nothing. One that is busy answers an internal error where a container
// is missing, as Podman does when it is removed meanwhile, and tells no events.
type altered struct {
	say, take, made, exec func(object)
	busy                  bool
}

// newAltered returns the address of an altered engine.
func newAltered(tb testing.TB, api *client.Client, e altered) string {
	tb.Helper()
	socket, ok := strings.CutPrefix(api.DaemonHost(), "unix://")
	if !ok {
		tb.Skip("the engine is not on a unix socket")
	}
	alter := func(body io.ReadCloser, header http.Header, change func(object)) io.ReadCloser {
		defer body.Close()
		var o object
		if err := json.NewDecoder(body).Decode(&o); err != nil {
			tb.Error(err)
		}
		change(o)
		b, err := json.Marshal(o)
		if err != nil {
			tb.Error(err)
		}
		header.Set("Content-Length", strconv.Itoa(len(b)))
		return io.NopCloser(bytes.NewReader(b))
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "engine"})
			if e.busy && strings.HasSuffix(r.Out.URL.Path, "/events") {
				r.Out.URL.Path = "/none"
			}
			if e.take != nil && strings.HasSuffix(r.Out.URL.Path, "/containers/create") {
				r.Out.Body = alter(r.Out.Body, r.Out.Header, e.take)
				r.Out.ContentLength, _ = strconv.ParseInt(r.Out.Header.Get("Content-Length"), 10, 64)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if e.say != nil && strings.HasSuffix(r.Request.URL.Path, "/info") {
				r.Body = alter(r.Body, r.Header, e.say)
			}
			if e.exec != nil && strings.Contains(r.Request.URL.Path, "/exec/") && strings.HasSuffix(r.Request.URL.Path, "/json") {
				r.Body = alter(r.Body, r.Header, e.exec)
			}
			if e.made != nil && strings.HasSuffix(r.Request.URL.Path, "/containers/create") && r.StatusCode == http.StatusCreated {
				r.Body = alter(r.Body, r.Header, e.made)
			}
			if e.busy && r.Request.Method != http.MethodHead && strings.Contains(r.Request.URL.Path, "/containers/") && r.StatusCode == http.StatusNotFound {
				r.StatusCode = http.StatusInternalServerError
				r.Body = alter(r.Body, r.Header, func(o object) { o["message"] = "container 0123 does not exist in database: no such container" })
			}
			return nil
		},
	})
	path := filepath.Join(tb.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	server.Listener.Close()
	server.Listener = l
	server.Start()
	tb.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return "unix://" + path
}

// A limit that the engine does not enforce is an error of Create that names it, also
// where it is a default, and nothing is left behind. With a negative number the
// sandbox is to be had.
func TestLimitsAreEnforcedOrRefused(t *testing.T) {
	api := engine(t)
	hostConfig := func(o object) object { return o["HostConfig"].(object) }
	silent := func(fields ...string) func(object) {
		return func(o object) {
			for _, field := range fields {
				delete(hostConfig(o), field)
			}
		}
	}
	warns := func(text string) altered {
		return altered{made: func(o object) { o["Warnings"] = []string{text} }}
	}
	none := backend.Limits{Memory: -1, CPUs: -1, PIDs: -1}
	for _, test := range []struct {
		name string
		altered
		names []string // of the limits that are not enforced
		cfg   backend.Limits
	}{
		{"told-none", altered{say: func(o object) { o["CgroupDriver"] = "none" }}, []string{"Memory", "CPUs", "PIDs"}, none},
		{"told-processes", altered{say: func(o object) { o["PidsLimit"] = false }}, []string{"PIDs"}, backend.Limits{PIDs: -1}},
		{"silent-memory", altered{take: silent("Memory", "MemorySwap")}, []string{"Memory"}, backend.Limits{Memory: -1}},
		{"silent-processors", altered{take: silent("NanoCpus")}, []string{"CPUs"}, backend.Limits{CPUs: -1}},
		{"silent-processes", altered{take: silent("PidsLimit")}, []string{"PIDs"}, backend.Limits{PIDs: -1}},
		{"larger", altered{take: func(o object) { hostConfig(o)["NanoCpus"] = 1.5e9 }}, []string{"CPUs"}, backend.Limits{CPUs: 1.5}},
		{"warned-memory", warns("Your kernel does not support memory limit capabilities or the cgroup is not mounted. Limitation discarded."),
			[]string{"Memory"}, backend.Limits{Memory: -1}},
		{"warned-processes", warns("Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs limit discarded."),
			[]string{"PIDs"}, backend.Limits{PIDs: -1}},
		{"warned-processors", warns("Your kernel does not support CPU cfs quota or the cgroup is not mounted. Quota discarded."),
			[]string{"CPUs"}, backend.Limits{CPUs: -1}},
		{"warned-all", warns("Resource limits are not supported and ignored on cgroups V1 rootless systems"), []string{"Memory", "CPUs", "PIDs"}, none},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBackend(t, docker.Options{Host: newAltered(t, api, test.altered)})
			if b.Info().DedicatedKernel && test.take != nil {
				t.Skip("limits are not to be seen from inside")
			}
			sb, err := sandbox.New(testContext(t), b, nil)
			if err == nil {
				closeIn(t, sb.Close)
			}
			if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, docker.NoLimit) {
				t.Errorf("got %v, want that it is not supported", err)
			}
			for _, field := range []string{"Memory", "CPUs", "PIDs"} {
				want := strings.Contains(strings.Join(test.names, " "), field)
				if err != nil && strings.Contains(err.Error(), "Limits."+field) != want {
					t.Errorf("names Limits.%s: %v; %v", field, !want, err)
				}
			}
			nothingLeft(t, api, ownerOf(t))
			sb = newSandbox(t, b, &sandbox.Config{Limits: test.cfg})
			if got := output(t, sb, "echo works"); got != "works\n" {
				t.Errorf("without: %q", got)
			}
		})
	}
}

// What else the engine warns of when it makes a container is logged, once.
func TestWarningsAreLogged(t *testing.T) {
	const text = "Your kernel does not support swap limit capabilities or the cgroup is not mounted. Memory limited without swap."
	host := newAltered(t, engine(t), altered{made: func(o object) { o["Warnings"] = []string{text} }})
	var log bytes.Buffer
	b := newBackend(t, docker.Options{Host: host, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		newSandbox(t, b, nil)
	}
	if n := strings.Count(log.String(), text); n != 1 {
		t.Errorf("it was logged %d times: %s", n, &log)
	}
}

// What Info says of gVisor is what its sandboxes find.
func TestGVisor(t *testing.T) {
	b := newBackend(t, docker.Options{})
	if !isGVisor(b.Info()) {
		t.Skip("the engine's runtime is not gVisor")
	}
	if got := output(t, newSandbox(t, b, nil), "dmesg | grep -c 'Starting gVisor'"); got != "1\n" {
		t.Errorf("the log of the sandbox's kernel names gVisor in %q lines", got)
	}
}
