package sandbox_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// onHost is a fake whose sandboxes listen on this machine's loopback address, so that its
// programs can be their clients.
type onHost struct{ *fake.Backend }

func (b onHost) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	i, err := b.Backend.Create(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return onHostInstance{i, i.(backend.Filer), i.(backend.Dialer)}, nil
}

type onHostInstance struct {
	backend.Instance
	backend.Filer
	backend.Dialer
}

func (onHostInstance) Listen(context.Context) (net.Listener, error) {
	return net.Listen("tcp4", "127.0.0.1:0")
}

// newOnHost returns a sandbox of onHost, and the variables that its commands have.
func newOnHost(t testing.TB, cfg *sandbox.Egress, opts sandbox.EgressOptions) (sb sandbox.Sandbox, env []string) {
	t.Helper()
	b := fake.New(nil)
	b.Handle("env", func(p *fake.Process) int {
		env = p.Command().Env
		return 0
	})
	sb, err := sandbox.New(t.Context(), onHost{b}, &sandbox.Options{Config: sandbox.Config{Egress: cfg}, Egress: opts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sb.Close(context.Background())
		b.Close(context.Background())
	})
	if _, err := sb.Run(t.Context(), sandbox.Command{Shell: "env"}); err != nil {
		t.Fatal(err)
	}
	return sb, env
}

// A site is what is served in the clear and with TLS, as any name.
func newSite(t testing.TB, files map[string]string) sandbox.EgressOptions {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.Host+r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if to, ok := strings.CutPrefix(text, "redirect "); ok {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		io.WriteString(w, text)
	})
	clear, secret := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secret.EnableHTTP2 = true
	secret.StartTLS()
	t.Cleanup(clear.Close)
	t.Cleanup(secret.Close)
	return sandbox.EgressOptions{
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := clear.Listener.Addr().String()
			if strings.HasSuffix(address, ":443") {
				to = secret.Listener.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	}
}

// Programs that people use find the way out by themselves, and understand what they are
// told where there is none.
func TestEgressClients(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"www.test/":                        "hello",
		"www.test/away":                    "redirect http://refused.test/",
		"mod.test/a.test/m/@v/list":        "v1.0.0\n",
		"mod.test/a.test/m/@v/v1.0.0.info": `{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}`,
		"mod.test/a.test/m/@v/v1.0.0.mod":  "module a.test/m\n",
		"pip.test/simple/left/":            "<!DOCTYPE html><a href=\"http://pip.test/left-1.2.3-py3-none-any.whl\">left-1.2.3-py3-none-any.whl</a>",
		"npm.test/left":                    `{"name":"left","dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{"name":"left","version":"1.2.3","dist":{"tarball":"http://npm.test/left.tgz","shasum":"0"}}}}`,
	}
	if _, err := exec.LookPath("git"); err == nil {
		bareRepository(t, filepath.Join(dir, "repo"), "git.test/repo.git", files)
	}
	sb, env := newOnHost(t, &sandbox.Egress{Allow: []string{"www.test", "mod.test", "npm.test", "pip.test", "git.test"}}, newSite(t, files))
	env = append(env, "HOME="+dir, "PATH="+os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_SSL_NO_VERIFY=1",
		"GOPATH="+filepath.Join(dir, "go"), "GOCACHE="+filepath.Join(dir, "cache"), "GOFLAGS=-modcacherw", "GOSUMDB=off", "GONOSUMDB=*",
		"npm_config_cache="+filepath.Join(dir, "npm"), "npm_config_update_notifier=false", "npm_config_fetch_retries=0")
	tests := []struct {
		name, command, want string
	}{
		{"curl", "curl -sS http://www.test/", "hello"},
		{"curl-tls", "curl -sSk https://www.test/", "hello"},
		{"curl-http2", "curl -sSk --http2 -o /dev/null -w %{http_version} https://www.test/", "2"},
		{"curl-socks", "curl -sSk --noproxy '' --proxy socks5h://${HTTP_PROXY#http://} https://www.test/", "hello"},
		{"curl-redirect", "curl -sSL http://www.test/away", `"refused.test:80"`},
		{"curl-refused", "curl -sSk https://refused.test/ 2>&1", "403"},
		{"curl-refused-says-why", "curl -svk https://refused.test/ 2>&1", `the rule to add is "refused.test:443"`},
		{"git", "git clone -q http://git.test/repo.git cloned && cat cloned/file", "content"},
		{"git-tls", "git ls-remote -q https://git.test/repo.git", "refs/heads/"},
		{"git-refused", "git ls-remote https://refused.test/repo.git 2>&1", "403"},
		{"go", "GOPROXY=http://mod.test go list -m -versions a.test/m@v1.0.0", "a.test/m v1.0.0"},
		{"go-refused-says-why", "GOPROXY=https://refused.test go list -m a.test/m@v1.0.1 2>&1", `the rule to add is "refused.test:443"`},
		{"npm", "npm view left version --registry http://npm.test/", "1.2.3"},
		{"node", `node -e 'fetch("http://www.test/").then(r => r.text()).then(console.log)'`, "hello"},
		{"node-refused-says-why", `node -e 'require("http").get("http://refused.test/", r => r.pipe(process.stdout))'`, `"refused.test:80"`},
		{"pip", "pip --isolated --disable-pip-version-check index versions left --index-url http://pip.test/simple --trusted-host pip.test 2>&1", "left (1.2.3)"},
		{"pip-refused-says-why", "pip --isolated --disable-pip-version-check download left --no-deps --retries 1 --index-url https://refused.test/simple 2>&1", `the rule to add is`},
		{"wget", "wget -q -O - http://www.test/", "hello"},
		{"python3", `python3 -c 'import urllib.request as u; print(u.urlopen("http://www.test/").read())'`, "hello"},
		{"python3-refused-says-why", `python3 -c 'import urllib.request as u; u.urlopen("https://refused.test/")' 2>&1`, `the rule to add is "refused.test:443"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			program, _, _ := strings.Cut(tt.name, "-")
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("this machine has no %s", program)
			}
			if program == "node" && exec.Command("node", "-e", looksForProxies).Run() != nil {
				t.Skip("this machine's Node does not know NODE_USE_ENV_PROXY")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", tt.command)
			cmd.Dir, cmd.Env = dir, env
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), tt.want) {
				t.Errorf("%v: %s\nwithout %q", err, out, tt.want)
			}
		})
	}
	for _, a := range sb.Egress() {
		if refused := a.Host == "refused.test"; refused != (a.Verdict == sandbox.EgressRefused) {
			t.Errorf("%+v", a)
		}
	}
}

// looksForProxies is a program of Node, which fails where that is older than NODE_USE_ENV_PROXY.
const looksForProxies = `const [major, minor] = process.versions.node.split(".").map(Number)
process.exit(major >= 24 || major === 22 && minor >= 21 ? 0 : 1)`

// bareRepository makes a repository of one file that is served as plain files.
func bareRepository(t *testing.T, dir, url string, files map[string]string) {
	t.Helper()
	script := fmt.Sprintf(`set -e
git init -q %[1]s && cd %[1]s
echo content >file && git add file
git -c user.name=a -c user.email=a@a.test commit -q -m one
git clone -q --bare . ../bare.git && cd ../bare.git && git update-server-info`, dir)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root := filepath.Join(filepath.Dir(dir), "bare.git")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[url+strings.TrimPrefix(path, root)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a way costs, beside the same without it.
func BenchmarkEgress(b *testing.B) {
	large := strings.Repeat("0123456789abcdef", 64<<20/16)
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			io.WriteString(w, large)
			return
		}
		io.WriteString(w, "hello")
	})
	clear, secret := httptest.NewServer(site), httptest.NewTLSServer(site)
	defer clear.Close()
	defer secret.Close()
	_, env := newOnHost(b, &sandbox.Egress{Allow: []string{"127.0.0.0/8:*"}, MaxConns: -1}, sandbox.EgressOptions{})
	var proxy string
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "HTTP_PROXY="); ok {
			proxy = value
		}
	}
	for _, through := range []bool{false, true} {
		name := map[bool]string{false: "direct", true: "egress"}[through]
		newClient := func(keep bool) *http.Client {
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: !keep}
			if through {
				transport.Proxy = proxyTo(b, proxy)
			}
			return &http.Client{Transport: transport}
		}
		get := func(client *http.Client, url string) {
			resp, err := client.Get(url)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
		for _, bench := range []struct {
			name, url string
			keep      bool
			bytes     int
		}{
			{"request", clear.URL, true, 0},
			{"request-on-a-new-connection", clear.URL, false, 0},
			{"tls-request", secret.URL, true, 0},
			{"tls-request-on-a-new-connection", secret.URL, false, 0},
			{"download", clear.URL + "/large", true, len(large)},
			{"tls-download", secret.URL + "/large", true, len(large)},
		} {
			b.Run(bench.name+"/"+name, func(b *testing.B) {
				client := newClient(bench.keep)
				defer client.CloseIdleConnections()
				b.SetBytes(int64(bench.bytes))
				for b.Loop() {
					get(client, bench.url)
				}
			})
		}
	}
	b.Run("idle-connections", func(b *testing.B) { benchmarkIdle(b, proxy) })
}
