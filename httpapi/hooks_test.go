package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/httpapi"
)

func TestOptions(t *testing.T) {
	inBubble(t, "nil-refuses-everybody", func(t *testing.T) {
		w := start(t, nil)
		mux := http.NewServeMux()
		httpapi.New(w.manager, nil).Register(mux)
		w.server.Handler = mux
		for _, path := range []string{room, agent, "/v1/sandboxes"} {
			if code, body := w.do(t, "POST", path, `{"cmd":"true","command":"true"}`); code != 401 {
				t.Errorf("%s: %d: %s", path, code, body)
			}
		}
	})

	inBubble(t, "authenticators-by-api", func(t *testing.T) {
		w := start(t, func(w *testServer) { w.opts.AuthenticateRooms = httpapi.Anyone })
		for path, want := range map[string]int{room: 200, agent: 401, "/v1/sandboxes": 401} {
			r := request(t.Context(), t, "POST", path, `{"cmd":"true"}`)
			r.Header.Del("Authorization")
			resp, err := w.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
			}
		}
	})

	inBubble(t, "authenticator-chooses-the-answer", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.opts.Authenticate = func(*http.Request) (httpapi.Principal, error) {
				return httpapi.Principal{}, &httpapi.Error{Status: 429, Message: "slow down"}
			}
		})
		code, body := w.do(t, "POST", agent, `{}`)
		if code != 429 {
			t.Errorf("%d", code)
		}
		diffJSON(t, `{"error":"slow down","code":"RATE_LIMITED"}`, body)
	})

	inBubble(t, "new-sandbox-is-asked-once-and-decides", func(t *testing.T) {
		type question struct {
			Key  sandbox.Key
			Path string
		}
		var asked []question
		given := &sandbox.CreateOptions{Config: sandbox.Config{Image: "img", Env: map[string]string{"A": "1"}, Labels: map[string]string{"l": "1"}, Lifetime: 30 * time.Minute}}
		w := start(t, func(w *testServer) {
			w.opts.NewSandbox = func(_ context.Context, r *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
				if r.Principal.Owner != r.Key.Owner {
					t.Errorf("the principal is %+v, the key %+v", r.Principal, r.Key)
				}
				asked = append(asked, question{r.Key, r.Request.URL.Path})
				return given, nil
			}
			w.opts.Sizes = map[string]sandbox.Limits{"large": {Memory: 1 << 30}}
		})
		w.do(t, "POST", room, `{"cmd":"true"}`)
		w.do(t, "POST", room, `{"cmd":"true"}`)
		w.do(t, "POST", agent, `{"command":"true"}`)
		w.do(t, "POST", "/v1/sandboxes", `{"size":"large","timeout_minutes":15}`)
		w.do(t, "POST", "/v1/sandboxes", `{"size":"small","timeout_minutes":60}`)
		want := []question{
			{sandbox.Key{Owner: "a", Namespace: "rooms", Name: "r1"}, room},
			{sandbox.Key{Owner: "a", Namespace: "agents", Name: "agent_1"}, agent},
			{sandbox.Key{Owner: "a", Namespace: "sandboxes"}, "/v1/sandboxes"},
			{sandbox.Key{Owner: "a", Namespace: "sandboxes"}, "/v1/sandboxes"},
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		var configs []sandbox.Config
		for _, call := range w.backend.Calls() {
			if call.Op == fake.OpCreate {
				cfg := *call.Config
				cfg.ID = ""
				// What the Manager adds is its own affair.
				maps.DeleteFunc(cfg.Labels, func(name, _ string) bool { return strings.HasPrefix(name, "sandbox-go.") })
				configs = append(configs, cfg)
			}
		}
		made := func(labels map[string]string, limits sandbox.Limits, lifetime time.Duration) sandbox.Config {
			return sandbox.Config{Image: "img", Env: map[string]string{"A": "1"}, Labels: labels, Limits: limits, Lifetime: lifetime}
		}
		plain := made(map[string]string{"l": "1"}, sandbox.Limits{}, 30*time.Minute)
		if diff := cmp.Diff([]sandbox.Config{
			plain, plain,
			made(map[string]string{"l": "1", "size": "large", "timeout_minutes": "15"}, sandbox.Limits{Memory: 1 << 30}, 15*time.Minute),
			made(map[string]string{"l": "1", "size": "small", "timeout_minutes": "30"}, sandbox.Limits{}, 30*time.Minute),
		}, configs); diff != "" {
			t.Errorf("made (-want +got):\n%s", diff)
		}
		if len(given.Config.Labels) != 1 {
			t.Errorf("the labels that were given are now %v", given.Config.Labels)
		}
	})

	inBubble(t, "authorize-changes-the-command", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.opts.Authorize = func(_ context.Context, r *httpapi.AuthorizeRequest) error {
				r.Command.Shell = "pwd"
				r.Command.Dir = path.Join("/", r.Principal.Owner, r.Key.Owner, r.Key.Namespace, r.Key.Name, r.Request.Method)
				return nil
			}
		})
		_, body := w.do(t, "POST", agent, `{"command":"true"}`)
		diffJSON(t, `{"stdout":"/a/a/agents/agent_1/POST\n","*":0}`, body)
		id := w.sandbox(t, "a")
		_, body = w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"true"}`)
		diffJSON(t, `{"stdout":"/a/a/sandboxes/`+id+`/POST\n","*":0}`, body)
	})

	// The documents know no tail: what is cut from what they send is truncated.
	inBubble(t, "authorize-asks-for-a-tail", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.opts.Authorize = func(_ context.Context, r *httpapi.AuthorizeRequest) error {
				r.Command.MaxOutput, r.Command.MaxTail = 2, 10
				return nil
			}
		})
		id := w.sandbox(t, "a")
		for path, want := range map[string]string{
			room:                            `{"result":{"stdout":"ou","truncated":true,"*":0},"*":0}`,
			agent:                           `{"stdout":"ou","stdoutOffset":2,"truncated":true,"*":0}`,
			"/v1/sandboxes/" + id + "/exec": `{"stdout":"ou","stdout_tail":"t\n","truncated":true,"*":0}`,
		} {
			_, body := w.do(t, "POST", path, `{"cmd":"exit 3","command":"exit 3"}`)
			diffJSON(t, want, body)
		}
	})

	inBubble(t, "authorize-gives-an-input-that-fails", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.opts.Authorize = func(_ context.Context, r *httpapi.AuthorizeRequest) error {
				r.Command.Stdin = iotest.ErrReader(errors.New("the upload broke off"))
				return nil
			}
		})
		w.backend.Handle("cat", func(p *fake.Process) int { io.Copy(p.Stdout, p.Stdin); return 0 })
		_, body := w.do(t, "POST", "/v1/sandboxes/"+w.sandbox(t, "a")+"/exec", `{"command":"cat"}`)
		diffJSON(t, `{"status":"completed","stdin_error":"the upload broke off","*":0}`, body)
	})

	inBubble(t, "what-is-refused-makes-no-sandbox", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.opts.Authorize = func(_ context.Context, r *httpapi.AuthorizeRequest) error {
				if r.Command.Shell == "true" {
					return errors.New("no")
				}
				return nil
			}
		})
		for _, body := range []string{`{"cmd":"true"}`, `{"cmd":"\u0000"}`, `{"cmd":1}`} {
			if code, body := w.do(t, "POST", room, body); code < 400 {
				t.Errorf("%d: %s", code, body)
			}
		}
		if calls := w.backend.Calls(); calls != nil {
			t.Errorf("the backend was asked for %v", calls)
		}
	})
}

// Names are opaque: whatever the path says, it is one sandbox of its own, and
// nobody else's.
func TestNames(t *testing.T) {
	ids := []string{
		"a", "A", "a%20b", "a%2Fb", "a%2fb%2F", "..", ".", "...", "sandbox", "exec", "a:b", "a%00",
		"%F0%9F%9A%80", "%C3%A9", "e%CC%81", strings.Repeat("x", 300), strings.Repeat("x", 301), "a%5Cb", "a;b", "a=b&c", "%25", "%252F", "-", "~", "$(id)",
	}
	for _, api := range []struct{ name, format, body string }{
		{"rooms", "/api/rooms/ID/sandbox/exec", `{"cmd":"where"}`},
		{"agents", "/agents/ID/sandbox/exec", `{"command":"where"}`},
	} {
		inBubble(t, api.name, func(t *testing.T) {
			w := start(t, func(w *testServer) {
				w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					// As examples/server does: a ServeMux would redirect.
					if strings.HasPrefix(r.URL.Path, "/api/rooms/") {
						w.api.Rooms().ServeHTTP(rw, r)
						return
					}
					w.api.Agents().ServeHTTP(rw, r)
				})
			})
			w.backend.Handle("where", func(p *fake.Process) int { io.WriteString(p.Stdout, p.Command().Sandbox); return 0 })
			where := make(map[string]string)
			for _, key := range []string{"key-a", "key-b"} {
				for _, id := range ids {
					code, body := w.raw(t, key, strings.Replace(api.format, "ID", id, 1), api.body)
					if code == 400 && id == "a%00" {
						continue
					}
					if code != 200 {
						t.Errorf("%s: %d: %s", id, code, body)
						continue
					}
					var answer struct {
						Stdout string
						Result struct{ Stdout string }
					}
					if err := json.Unmarshal([]byte(body), &answer); err != nil {
						t.Fatal(err)
					}
					place := answer.Stdout + answer.Result.Stdout
					if other, ok := where[place]; ok {
						t.Errorf("%s of %s runs where %s does", id, key, other)
					}
					where[place] = id + " of " + key
				}
			}
			for _, path := range []string{"", "a/", "a//b", "/a"} {
				code, body := w.raw(t, "key-a", strings.Replace(api.format, "ID", path, 1), api.body)
				if code != 404 || !json.Valid([]byte(body)) {
					t.Errorf("%q: %d: %s", path, code, body)
				}
			}
		})
	}

	inBubble(t, "each-api-lists-its-own", func(t *testing.T) {
		w := start(t, nil)
		w.do(t, "POST", room, `{"cmd":"true"}`)
		w.do(t, "POST", agent, `{"command":"true"}`)
		_, body := w.do(t, "GET", "/v1/sandboxes", "")
		diffJSON(t, `{"object":"list","data":[],"has_more":false}`, body)
	})

	inBubble(t, "a-dead-one-is-replaced", func(t *testing.T) {
		w := start(t, nil)
		for range 2 {
			if code, _ := w.do(t, "POST", room, `{"cmd":"lose it"}`); code != 500 {
				t.Errorf("%d", code)
			}
			if code, body := w.do(t, "POST", room, `{"cmd":"echo hi"}`); code != 200 {
				t.Errorf("%d: %s", code, body)
			}
		}
	})
}

// raw makes a request whose path is sent as it is.
func (w *testServer) raw(t *testing.T, key, path, body string) (int, string) {
	t.Helper()
	r := request(t.Context(), t, "POST", "/", body)
	r.Header.Set("Authorization", "Bearer "+key)
	r.URL.Opaque = path
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := start(t, func(w *testServer) {
			w.opts.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if slices.Contains([]string{"time", "execution"}, a.Key) {
						return slog.Attr{}
					}
					return a
				},
			}))
			w.opts.NewSandbox = func(_ context.Context, r *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
				if r.Key.Namespace == httpapi.Agents {
					return nil, errors.New("the cause")
				}
				return nil, nil
			}
		})
		id := w.sandbox(t, "a")
		w.do(t, "POST", room, `{"cmd":"sleep 9000"}`)
		w.do(t, "POST", agent, `{"command":"true"}`)
		w.do(t, "GET", "/v1/sandboxes/x%2Fy", "")
		w.do(t, "GET", "/v1/sandboxes/"+id+"/executions", "")
		synctest.Wait()
		want := `level=INFO msg=request api=rooms method=POST path=/api/rooms/r1/sandbox/exec status=200 duration=5m0s owner=a bytes=224
level=ERROR msg=request api=agents method=POST path=/agents/agent_1/sandbox/exec status=500 duration=0s owner=a bytes=45 err="internal error: the cause"
level=INFO msg=request api=sandboxes method=GET path=/v1/sandboxes/x%2Fy status=404 duration=0s owner=a bytes=67 err="No sandbox with that id: sandbox: find x/y: not found"
level=INFO msg=request api=sandboxes method=GET path=/v1/sandboxes/` + id + `/executions status=200 duration=0s owner=a bytes=45
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// A panic in a function of the user's is the request's: its connection is cut, as
// net/http does it, and the service goes on.
func TestPanicsOfHooks(t *testing.T) {
	for name, hook := range map[string]func(*testServer, func()){
		"authenticate": func(w *testServer, f func()) {
			w.opts.Authenticate = func(r *http.Request) (httpapi.Principal, error) { f(); return httpapi.Principal{Owner: "a"}, nil }
		},
		"new-sandbox": func(w *testServer, f func()) {
			w.opts.NewSandbox = func(context.Context, *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
				f()
				return nil, nil
			}
		},
		"authorize": func(w *testServer, f func()) {
			w.opts.Authorize = func(context.Context, *httpapi.AuthorizeRequest) error { f(); return nil }
		},
		"logger": func(w *testServer, f func()) { w.opts.Logger = slog.New(logHook{slog.DiscardHandler, f}) },
	} {
		inBubble(t, name, func(t *testing.T) {
			for _, value := range []any{"hook", http.ErrAbortHandler} {
				panics := true
				var errs bytes.Buffer
				w := start(t, func(w *testServer) {
					w.server.ErrorLog = log.New(&errs, "", 0)
					hook(w, func() {
						if panics {
							panic(value)
						}
					})
				})
				for _, path := range []string{room, agent} {
					body := `{"cmd":"true","command":"true"}`
					panics = true
					resp, err := w.client.Do(request(t.Context(), t, "POST", path, body))
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					if err == nil && name != "logger" { // which is called after the answer
						t.Errorf("%s: an answer in spite of the panic", path)
					}
					panics = false
					if code, body := w.do(t, "POST", path, body); code != 200 {
						t.Errorf("%s: %d after a panic: %s", path, code, body)
					}
				}
				if logged := strings.Contains(errs.String(), "panic serving"); logged != (value != http.ErrAbortHandler) {
					t.Errorf("net/http logged %q", errs.String())
				}
			}
		})
	}
}

// logHook is a log handler that calls a function.
type logHook struct {
	slog.Handler
	f func()
}

func (logHook) Enabled(context.Context, slog.Level) bool { return true }

func (h logHook) Handle(context.Context, slog.Record) error {
	h.f()
	return nil
}

// The tickets and the ports of one owner are bounded, and leave the others theirs.
func TestOneOwnersTicketsAndPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		id, other := w.sandbox(t, "a"), w.sandbox(t, "b")
		tickets := "/v1/sandboxes/%s/terminal/tickets"
		for i := range 300 {
			code, body := w.do(t, "POST", fmt.Sprintf(tickets, id), "")
			if want := i < 256; (code == 201) != want || code != 201 && code != 429 {
				t.Fatalf("ticket %d: %d: %s", i, code, body)
			}
		}
		if code, body := w.raw(t, "key-b", fmt.Sprintf(tickets, other), ""); code != 201 {
			t.Errorf("another owner's ticket: %d: %s", code, body)
		}
		time.Sleep(31 * time.Second)
		if code, body := w.do(t, "POST", fmt.Sprintf(tickets, id), ""); code != 201 {
			t.Errorf("a ticket when the others have expired: %d: %s", code, body)
		}
		ids := []string{id}
		for range 4 {
			ids = append(ids, w.sandbox(t, "a"))
		}
		ports, body := "/v1/sandboxes/%s/ports", `{"port":%d}`
		for i := range 1025 {
			code, got := w.do(t, "POST", fmt.Sprintf(ports, ids[i/250]), fmt.Sprintf(body, 1+i%250))
			if want := i < 1024; (code == 200) != want || code != 200 && code != 429 {
				t.Fatalf("port %d: %d: %s", i, code, got)
			}
		}
		if code, got := w.raw(t, "key-b", fmt.Sprintf(ports, other), `{"port":1}`); code != 200 {
			t.Errorf("another owner's port: %d: %s", code, got)
		}
		if err := w.manager.Remove(t.Context(), sandbox.Key{Owner: "a", Namespace: httpapi.Sandboxes, Name: id}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if code, got := w.do(t, "POST", fmt.Sprintf(ports, ids[4]), `{"port":1000}`); code != 200 {
			t.Errorf("a port when others have gone: %d: %s", code, got)
		}
	})
}
