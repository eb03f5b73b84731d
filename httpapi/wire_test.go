package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/httpapi"
)

// The whole protocol, one request a row. In path, {id} and {other} are sandboxes
// of the owners a and b, {exec} a finished execution in {id}, {handle} one of owner a's agent, {gone} a sandbox that
// has died. In want, "*" stands for anything. A row whose code is an error must
// start no command unless it says which.
func TestWire(t *testing.T) {
	for _, tt := range wire() {
		inBubble(t, tt.name, func(t *testing.T) {
			w := start(t, tt.set)
			paths := w.populate(t)
			before := len(w.starts())
			resp, body := tt.send(t, w, paths.Replace(tt.path))
			if resp.StatusCode != tt.code {
				t.Errorf("code = %d, want %d; body: %s", resp.StatusCode, tt.code, body)
			}
			if got := resp.Header.Get("Content-Type"); got != "application/json" && tt.wantHeader["Content-Type"] == "" {
				t.Errorf("Content-Type = %q", got)
			}
			for name, want := range tt.wantHeader {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			if tt.wantBody != "" && body != tt.wantBody {
				t.Errorf("body = %q, want %q", body, tt.wantBody)
			}
			if tt.want != "" {
				diffJSON(t, paths.Replace(tt.want), body)
			}
			if started := w.starts()[before:]; tt.code >= 400 && !slices.Equal(started, tt.starts) {
				t.Errorf("started %q, want %q", started, tt.starts)
			}
		})
	}
}

type wireTest struct {
	name               string
	set                func(*testServer)
	method, path, body string
	header             map[string]string // replaces the key of owner a
	code               int
	wantHeader         map[string]string
	want               string   // JSON
	wantBody           string   // any other
	starts             []string // by a request that is answered with an error
}

const (
	room      = "/api/rooms/r1/sandbox/exec"
	agent     = "/agents/agent_1/sandbox/exec"
	handle    = "/agents/worker/sandbox/exec/{handle}"
	sandboxes = "/v1/sandboxes"
	exec      = "/v1/sandboxes/{id}/exec"

	execution0 = "/v1/sandboxes/{id}/executions/{exec}"
	files      = "/v1/sandboxes/{id}/files"
	ports      = "/v1/sandboxes/{id}/ports"
	terminal   = "/v1/sandboxes/{id}/terminal"
)

func wire() []wireTest {
	none := map[string]string{"Authorization": ""}
	wrong := map[string]string{"Authorization": "Bearer wrong"}
	keyB := map[string]string{"Authorization": "Bearer key-b"}
	upgrade := func(authorization string) map[string]string {
		return map[string]string{"Authorization": authorization, "Connection": "upgrade", "Upgrade": "websocket", "Sec-Websocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-Websocket-Version": "13"}
	}
	noRetry := map[string]string{"X-Should-Retry": "false"}
	maybeRetry := map[string]string{"X-Should-Retry": ""}
	long := `"` + strings.Repeat("x", 1<<20+1) + `"`
	part := strings.Repeat("x", 256)
	env := `"A":"` + strings.Repeat("x", 120<<10) + `"`
	for name := 'B'; name <= 'Q'; name++ {
		env += `,"` + string(name) + `":"` + strings.Repeat("x", 120<<10) + `"`
	}
	archive := tarOf(map[string]string{"a/b": "content"})
	large := `{"x":"` + strings.Repeat("x", 9<<20) + `"}`
	roomWant := func(stdout, stderr string, code string, success string) string {
		return `{"result":{"stdout":"` + stdout + `","stderr":"` + stderr + `","success":` + success + `,"exitCode":` + code + `,"command":"*","duration":"*","timestamp":"*","truncated":false,"stdoutBytes":"*","stderrBytes":"*"},"sandboxName":"sandbox-r1"}`
	}
	execution := func(status, code, stdout, stderr string) string {
		return `{"object":"execution","id":"*","sandbox_id":"{id}","status":"` + status + `","exit_code":` + code + `,"stdout":"` + stdout + `","stderr":"` + stderr + `","truncated":false,"duration_ms":"*","started_at":"*","finished_at":"*","*":0}`
	}
	agentWant := func(code, stdout, stderr, outOffset, errOffset string) string {
		return `{"exitCode":` + code + `,"handle":"*","state":"exited","stdout":"` + stdout + `","stderr":"` + stderr + `","stdoutOffset":` + outOffset + `,"stderrOffset":` + errOffset + `,"truncated":false,"stdoutBytes":"*","stderrBytes":"*"}`
	}
	roomError := func(msg string) string { return `{"error":"` + msg + `"}` }
	roomInvalid := func(details string) string { return `{"error":"invalid request","details":` + details + `}` }
	sbError := func(msg, kind string) string {
		return `{"error":{"message":"` + msg + `","type":"` + kind + `"}}`
	}
	longName := func(property string) string {
		return sbError(property+": must not have a part longer than 255 bytes", "invalid_request")
	}
	agentError := func(msg, code string) string { return `{"error":"` + msg + `","code":"` + code + `"}` }
	refuse := func(e *httpapi.Error) func(*testServer) {
		return func(w *testServer) {
			w.opts.Authorize = func(context.Context, *httpapi.AuthorizeRequest) error { return e }
		}
	}
	config := func(err error) func(*testServer) {
		return func(w *testServer) {
			w.opts.NewSandbox = func(_ context.Context, r *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
				if r.Key.Name == "warm" || r.Key.Namespace == httpapi.Sandboxes && r.Key.Name != "" {
					return nil, nil
				}
				return nil, err
			}
		}
	}
	noEngine := func(w *testServer) {
		w.fake.Create = func(_ context.Context, cfg *sandbox.Config) error {
			if cfg.Labels["made"] == "before" {
				return nil
			}
			return errors.New("the engine does not answer")
		}
	}
	bare := func(w *testServer) { w.fake.Info = &backend.Info{Name: "bare"} }
	full := func(w *testServer) { w.limits.MaxSandboxes, w.limits.MaxSandboxesPerOwner = 3, -1 }

	return []wireTest{
		// rooms
		{name: "room-runs", method: "POST", path: room, body: `{"cmd":"echo hi"}`, code: 200, want: roomWant("hi\\n", "", "0", "true")},
		{name: "room-exit-code", method: "POST", path: room, body: `{"cmd":"exit 3"}`, code: 200, want: roomWant("out\\n", "err\\n", "3", "false")},
		{name: "room-timeout", method: "POST", path: room, body: `{"cmd":"sleep 9000"}`, code: 200, want: roomWant("a\\n", "", "124", "false")},
		{name: "room-not-utf8", method: "POST", path: room, body: `{"cmd":"print binary"}`, code: 200, want: roomWant("a\uFFFD\\u0000b<&>\uFFFD", "", "0", "true")},
		{name: "room-spaces-are-a-command", method: "POST", path: room, body: `{"cmd":"   "}`, code: 200, want: roomWant("", "*", "127", "false")},
		{name: "room-extra-property", method: "POST", path: room, body: `{"x":[{"cmd":1}],"cmd":"true","x":2}`, code: 200, want: roomWant("", "", "0", "true")},
		{name: "room-content-type-is-not-looked-at", method: "POST", path: room, header: map[string]string{"Authorization": "Bearer key-a", "Content-Type": "text/plain"}, body: `{"cmd":"true"}`, code: 200},
		{name: "room-missing-cmd", method: "POST", path: room, body: `{}`, code: 400, want: roomInvalid(`{"cmd":["Invalid input: expected string, received undefined"]}`)},
		{name: "room-upper-case-cmd", method: "POST", path: room, body: `{"CMD":"true"}`, code: 400, want: roomInvalid(`{"cmd":["Invalid input: expected string, received undefined"]}`)},
		{name: "room-number-cmd", method: "POST", path: room, body: `{"cmd":1}`, code: 400, want: roomInvalid(`{"cmd":["Invalid input: expected string, received number"]}`)},
		{name: "room-null-cmd", method: "POST", path: room, body: `{"cmd":null}`, code: 400, want: roomInvalid(`{"cmd":["Invalid input: expected string, received null"]}`)},
		{name: "room-boolean-cmd", method: "POST", path: room, body: `{"cmd":true}`, code: 400, want: roomInvalid(`{"cmd":["Invalid input: expected string, received boolean"]}`)},
		{name: "room-array-cmd", method: "POST", path: room, body: `{"cmd":["true"]}`, code: 400, want: roomInvalid(`{"cmd":["Invalid input: expected string, received array"]}`)},
		{name: "room-object-cmd", method: "POST", path: room, body: `{"cmd":{}}`, code: 400, want: roomInvalid(`{"cmd":["Invalid input: expected string, received object"]}`)},
		{name: "room-empty-cmd", method: "POST", path: room, body: `{"cmd":""}`, code: 400, want: roomInvalid(`{"cmd":["Command cannot be empty"]}`)},
		{name: "room-array", method: "POST", path: room, body: `[]`, code: 400, want: roomInvalid(`{}`)},
		{name: "room-string", method: "POST", path: room, body: `"x"`, code: 400, want: roomInvalid(`{}`)},
		{name: "room-null", method: "POST", path: room, body: ` null`, code: 400, want: roomInvalid(`{}`)},
		{name: "room-empty-body", method: "POST", path: room, body: ``, code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-malformed", method: "POST", path: room, body: `{"cmd":`, code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-trailing-garbage", method: "POST", path: room, body: `{"cmd":"true"} x`, code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-two-documents", method: "POST", path: room, body: `{"cmd":"true"}{"cmd":"true"}`, code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-duplicate", method: "POST", path: room, body: `{"cmd":"true","\u0063md":"exit 3"}`, code: 400, want: roomInvalid(`{"cmd":["must not be given twice"]}`)},
		{name: "room-invalid-utf8", method: "POST", path: room, body: "{\"cmd\":\"\xff\"}", code: 400, want: roomInvalid(`{"body":["must be UTF-8"]}`)},
		{name: "room-lone-high-surrogate", method: "POST", path: room, body: `{"cmd":"\ud83d"}`, code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-lone-low-surrogate", method: "POST", path: room, body: `{"cmd":"\ude00\ud83d"}`, code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-surrogate-and-text", method: "POST", path: room, body: `{"cmd":"\ud83d\\ude00"}`, code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-surrogate-pair", method: "POST", path: room, body: `{"cmd":"\ud83d\ude00"}`, code: 200},
		{name: "room-escaped-backslash", method: "POST", path: room, body: `{"cmd":"\\ud83d"}`, code: 200},
		{name: "room-deep-nesting", method: "POST", path: room, body: `{"x":` + strings.Repeat("[", 1<<20), code: 400, want: roomInvalid(`{"body":["*"]}`)},
		{name: "room-byte-order-mark", method: "POST", path: room, body: "\ufeff" + `{"cmd":"echo hi"}`, code: 200, want: roomWant("hi\\n", "", "0", "true")},
		{name: "room-two-byte-order-marks", method: "POST", path: room, body: "\ufeff\ufeff" + `{"cmd":"echo hi"}`, code: 400, want: roomInvalid(`{"body":["must be one JSON object*"]}`)},
		{name: "room-only-a-byte-order-mark", method: "POST", path: room, body: "\ufeff", code: 400, want: roomInvalid(`{"body":["must be one JSON object*"]}`)},
		{name: "room-nul", method: "POST", path: room, body: `{"cmd":"a\u0000b"}`, code: 400, want: roomInvalid(`{"cmd":["*"]}`)},
		{name: "room-long-cmd", method: "POST", path: room, body: `{"cmd":` + long + `}`, code: 400, want: roomInvalid(`{"cmd":["*"]}`)},
		{name: "room-large-body", method: "POST", path: room, body: large, code: 413, want: roomError("*")},
		{name: "room-no-key", method: "POST", path: room, header: none, body: `{"cmd":"true"}`, code: 401, wantHeader: map[string]string{"WWW-Authenticate": "Bearer"}, want: roomError("missing or invalid API key")},
		{name: "room-wrong-key", method: "POST", path: room, header: wrong, body: `{"cmd":"true"}`, code: 401, want: roomError("missing or invalid API key")},
		{name: "room-402", set: refuse(&httpapi.Error{Status: 402, Message: "m"}), method: "POST", path: room, body: `{"cmd":"true"}`, code: 402, want: roomError("m")},
		{name: "room-403", set: refuse(&httpapi.Error{Status: 403, Message: "m"}), method: "POST", path: room, body: `{"cmd":"true"}`, code: 403, want: roomError("m")},
		{name: "room-429", set: refuse(&httpapi.Error{Status: 429, Message: "m", RetryAfter: 1500 * time.Millisecond}), method: "POST", path: room, body: `{"cmd":"true"}`, code: 429, wantHeader: map[string]string{"Retry-After": "2"}, want: roomError("m")},
		{name: "room-503", set: refuse(&httpapi.Error{Status: 503, Message: "m"}), method: "POST", path: room, body: `{"cmd":"true"}`, code: 503, want: roomError("m")},
		{name: "room-limit", set: full, method: "POST", path: room, body: `{"cmd":"true"}`, code: 503, wantHeader: map[string]string{"Retry-After": "1"}, want: roomError("*")},
		{name: "room-engine-stopped", set: noEngine, method: "POST", path: room, body: `{"cmd":"true"}`, code: 500, want: roomError("sandbox execution failed: sandbox: create: the engine does not answer")},
		{name: "room-lost", method: "POST", path: room, body: `{"cmd":"lose it"}`, code: 500, want: roomError("*"), starts: []string{"lose it"}},
		{name: "room-no-shell", method: "POST", path: room, body: `{"cmd":"no-shell"}`, code: 500, want: roomError("sandbox execution failed: sh: not found"), starts: []string{"no-shell"}},
		{name: "room-hook-fails", set: config(errors.New("secret")), method: "POST", path: room, body: `{"cmd":"true"}`, code: 500, want: roomError("sandbox execution failed: internal error")},
		{name: "room-get", method: "GET", path: room, code: 405, wantHeader: map[string]string{"Allow": "POST"}, want: roomError("method not allowed - only POST is supported")},
		{name: "room-put", method: "PUT", path: room, body: `{"cmd":"true"}`, code: 405, wantHeader: map[string]string{"Allow": "POST"}},
		{name: "room-trailing-slash", method: "POST", path: room + "/", body: `{"cmd":"true"}`, code: 404, want: roomError("not found - only /sandbox/exec is supported")},
		{name: "room-unknown-endpoint", method: "POST", path: "/api/rooms/r1/sandbox", body: `{"cmd":"true"}`, code: 404, want: roomError("not found - only /sandbox/exec is supported")},
		{name: "room-no-id", method: "POST", path: "/api/rooms", code: 404, want: roomError("not found - room ID is required")},
		{name: "room-no-id-slash", method: "POST", path: "/api/rooms/", code: 404, want: roomError("not found - room ID is required")},
		{name: "room-nul-id", method: "POST", path: "/api/rooms/a%00/sandbox/exec", body: `{"cmd":"true"}`, code: 400, want: roomInvalid(`{"roomID":["must not contain a NUL byte"]}`)},
		{name: "room-not-utf8-id", method: "POST", path: "/api/rooms/%ff/sandbox/exec", body: `{"cmd":"true"}`, code: 400, want: roomInvalid(`{"roomID":["must be UTF-8"]}`)},
		{name: "room-long-id", method: "POST", path: "/api/rooms/" + strings.Repeat("x", 1025) + "/sandbox/exec", body: `{"cmd":"true"}`, code: 400, want: roomInvalid(`{"roomID":["*"]}`)},
		{name: "room-removed", method: "DELETE", path: "/api/rooms/warm", code: 200, want: `{"success":true,"sandboxName":"sandbox-warm"}`},
		{name: "room-removed-before", method: "DELETE", path: "/api/rooms/cold", code: 200, want: `{"success":true,"sandboxName":"sandbox-cold"}`},
		{name: "room-removed-no-key", method: "DELETE", path: "/api/rooms/warm", header: none, code: 401},
		{name: "room-get-room", method: "GET", path: "/api/rooms/warm", code: 405, wantHeader: map[string]string{"Allow": "DELETE"}, want: roomError("method not allowed - only DELETE is supported")},
		{name: "room-not-removable", set: func(w *testServer) {
			failed := false
			w.fake.Destroy = func(context.Context, string) error {
				if failed {
					return nil
				}
				failed = true
				return errors.New("the engine does not answer")
			}
		}, method: "DELETE", path: "/api/rooms/warm", code: 500, want: roomError("*")},

		// sandboxes
		{name: "sandbox-runs", method: "POST", path: exec, body: `{"command":"echo hi"}`, code: 200, want: execution("completed", "0", "hi\\n", "")},
		{name: "sandbox-exit-code", method: "POST", path: exec, body: `{"command":"exit 3","stream":false}`, code: 200, want: execution("completed", "3", "out\\n", "err\\n")},
		{name: "sandbox-timeout", method: "POST", path: exec, body: `{"command":"sleep 9000","timeout_ms":1000}`, code: 200, want: execution("timeout", "124", "a\\n", "")},
		{name: "sandbox-default-timeout", method: "POST", path: exec, body: `{"command":"sleep 9000"}`, code: 200, want: execution("timeout", "124", "a\\n", "")},
		{name: "sandbox-cwd", method: "POST", path: exec, body: `{"command":"pwd","cwd":"/workspace/x"}`, code: 200, want: execution("completed", "0", "/workspace/x\\n", "")},
		{name: "sandbox-env", method: "POST", path: exec, body: `{"command":"env","env":{"A":"1","B":"2\n3","A":"4"}}`, code: 200, want: execution("completed", "0", "*A=4\\nB=2\\n3\\n", "")},
		{name: "sandbox-no-shell", method: "POST", path: exec, body: `{"command":"no-shell"}`, code: 200, want: execution("failed", "null", "", "")},
		{name: "sandbox-no-memory", method: "POST", path: exec, body: `{"command":"no-memory"}`, code: 200, want: execution("failed", "null", "", "")},
		{name: "sandbox-bad-cwd", method: "POST", path: exec, body: `{"command":"true","cwd":"/missing"}`, code: 400, want: sbError("cwd: /missing: bad directory", "invalid_request"), starts: []string{"true"}},
		{name: "sandbox-large-env", method: "POST", path: exec, body: `{"command":"true","env":{"BIG":"` + strings.Repeat("x", 101) + `"}}`, code: 400, want: sbError("env: too long", "invalid_request"), starts: []string{"true"}},
		{name: "sandbox-missing-command", method: "POST", path: exec, body: `{}`, code: 400, want: sbError("command: Invalid input: expected string, received undefined", "invalid_request")},
		{name: "sandbox-upper-case-command", method: "POST", path: exec, body: `{"COMMAND":"true"}`, code: 400, want: sbError("*", "invalid_request")},
		{name: "sandbox-empty-command", method: "POST", path: exec, body: `{"command":""}`, code: 400, want: sbError("command: Command cannot be empty", "invalid_request")},
		{name: "sandbox-long-command", method: "POST", path: exec, body: `{"command":` + long + `}`, code: 400, want: sbError("*", "invalid_request")},
		{name: "sandbox-empty-body", method: "POST", path: exec, code: 400, want: sbError("*", "invalid_request")},
		{name: "sandbox-array", method: "POST", path: exec, body: `[]`, code: 400, want: sbError("the body must be a JSON object, not array", "invalid_request")},
		{name: "sandbox-malformed", method: "POST", path: exec, body: `{"command"`, code: 400, want: sbError("*", "invalid_request")},
		{name: "sandbox-byte-order-mark", method: "POST", path: exec, body: "\ufeff" + `{"command":"echo hi"}`, code: 200, want: execution("completed", "0", "hi\\n", "")},
		{name: "sandbox-duplicate", method: "POST", path: exec, body: `{"command":"true","command":"true"}`, code: 400, want: sbError("command: must not be given twice", "invalid_request")},
		{name: "sandbox-large-body", method: "POST", path: exec, body: large, code: 413, want: sbError("*", "too_large")},
		{name: "sandbox-timeout-0", method: "POST", path: exec, body: `{"command":"true","timeout_ms":0}`, code: 400, want: sbError("timeout_ms: must be an integer from 1 to 600000, *", "invalid_request")},
		{name: "sandbox-timeout-negative", method: "POST", path: exec, body: `{"command":"true","timeout_ms":-1}`, code: 400},
		{name: "sandbox-timeout-too-long", method: "POST", path: exec, body: `{"command":"true","timeout_ms":600001}`, code: 400},
		{name: "sandbox-encoding-unstreamed", method: "POST", path: exec, body: `{"command":"true","encoding":"base64"}`, code: 400, want: sbError("encoding: needs stream: *", "invalid_request")},
		{name: "sandbox-encoding-unknown", method: "POST", path: exec, body: `{"command":"true","stream":true,"encoding":"latin1"}`, code: 400, want: sbError("encoding: must be one of utf-8, base64", "invalid_request")},
		{name: "sandbox-timeout-too-long-streamed", method: "POST", path: exec, body: `{"command":"true","timeout_ms":600001,"stream":true}`, code: 400, want: sbError("timeout_ms: must be an integer from 1 to 600000, *", "invalid_request")},
		{name: "sandbox-timeout-longest", method: "POST", path: exec, body: `{"command":"true","timeout_ms":6e5}`, code: 200},
		{name: "sandbox-timeout-fraction", method: "POST", path: exec, body: `{"command":"true","timeout_ms":1.5}`, code: 400},
		{name: "sandbox-timeout-huge", method: "POST", path: exec, body: `{"command":"true","timeout_ms":1e999}`, code: 400, want: sbError("timeout_ms: must be an integer*", "invalid_request")},
		{name: "sandbox-timeout-string", method: "POST", path: exec, body: `{"command":"true","timeout_ms":"1"}`, code: 400, want: sbError("timeout_ms: Invalid input: expected number, received string", "invalid_request")},
		{name: "sandbox-stream-string", method: "POST", path: exec, body: `{"command":"true","stream":"true"}`, code: 400},
		{name: "sandbox-cwd-number", method: "POST", path: exec, body: `{"command":"true","cwd":1}`, code: 400},
		{name: "sandbox-cwd-nul", method: "POST", path: exec, body: `{"command":"true","cwd":"/\u0000"}`, code: 400, want: sbError("cwd: *", "invalid_request")},
		{name: "sandbox-env-array", method: "POST", path: exec, body: `{"command":"true","env":[]}`, code: 400},
		{name: "sandbox-env-number", method: "POST", path: exec, body: `{"command":"true","env":{"A":1}}`, code: 400, want: sbError("env: \\\"A\\\": Invalid input: expected string, received number", "invalid_request")},
		{name: "sandbox-env-empty-name", method: "POST", path: exec, body: `{"command":"true","env":{"":"x"}}`, code: 400, want: sbError("env: *", "invalid_request")},
		{name: "sandbox-env-equals-name", method: "POST", path: exec, body: `{"command":"true","env":{"A=B":"x"}}`, code: 400, want: sbError("env: *", "invalid_request")},
		{name: "sandbox-env-nul", method: "POST", path: exec, body: `{"command":"true","env":{"A":"\u0000"}}`, code: 400, want: sbError("env: *", "invalid_request")},
		{name: "sandbox-no-key", method: "POST", path: exec, header: none, body: `{"command":"true"}`, code: 401, want: sbError("missing or invalid API key", "unauthorized")},
		{name: "sandbox-wrong-key", method: "POST", path: exec, header: wrong, body: `{"command":"true"}`, code: 401, want: sbError("missing or invalid API key", "unauthorized")},
		{name: "sandbox-basic-auth", method: "POST", path: exec, header: map[string]string{"Authorization": "Basic key-a"}, body: `{"command":"true"}`, code: 401},
		{name: "sandbox-scheme-in-lower-case", method: "POST", path: exec, header: map[string]string{"Authorization": "bearer key-a"}, body: `{"command":"true"}`, code: 200},
		{name: "sandbox-other-key-of-the-owner", method: "POST", path: exec, header: map[string]string{"Authorization": "Bearer key-a2"}, body: `{"command":"true"}`, code: 200},
		{name: "sandbox-key-of-another-owner", method: "POST", path: exec, header: keyB, body: `{"command":"true"}`, code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "sandbox-unknown", method: "POST", path: "/v1/sandboxes/sbx_none/exec", body: `{"command":"true"}`, code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "sandbox-of-a-room", method: "POST", path: "/v1/sandboxes/warm/exec", body: `{"command":"true"}`, code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "sandbox-upper-case-id", method: "POST", path: "/v1/sandboxes/SBX_NONE/exec", body: `{"command":"true"}`, code: 404},
		{name: "sandbox-nul-id", method: "POST", path: "/v1/sandboxes/%00/exec", body: `{"command":"true"}`, code: 400, want: sbError("id: must not contain a NUL byte", "invalid_request")},
		{name: "sandbox-402", set: refuse(&httpapi.Error{Status: 402, Message: "m"}), method: "POST", path: exec, body: `{"command":"true"}`, code: 402, want: sbError("m", "insufficient_credit")},
		{name: "sandbox-402-streamed", set: refuse(&httpapi.Error{Status: 402, Message: "m"}), method: "POST", path: exec, body: `{"command":"true","stream":true}`, code: 402, want: sbError("m", "insufficient_credit")},
		{name: "sandbox-403", set: refuse(&httpapi.Error{Status: 403, Message: "m"}), method: "POST", path: exec, body: `{"command":"true"}`, code: 403, want: sbError("m", "forbidden")},
		{name: "sandbox-429", set: refuse(&httpapi.Error{Status: 429, Message: "m", RetryAfter: time.Minute}), method: "POST", path: exec, body: `{"command":"true"}`, code: 429, wantHeader: map[string]string{"Retry-After": "60"}, want: sbError("m", "rate_limited")},
		{name: "sandbox-503", set: refuse(&httpapi.Error{Status: 503, Message: "m"}), method: "POST", path: exec, body: `{"command":"true"}`, code: 503, want: sbError("m", "unavailable")},
		{name: "sandbox-500", set: refuse(&httpapi.Error{Message: "m"}), method: "POST", path: exec, body: `{"command":"true"}`, code: 500, want: sbError("m", "internal")},
		{name: "sandbox-code-of-a-hook", set: refuse(&httpapi.Error{Status: 403, Code: "OVER_BUDGET", Message: "m"}), method: "POST", path: exec, body: `{"command":"true"}`, code: 403, want: sbError("m", "over_budget")},
		{name: "sandbox-gone", method: "POST", path: "/v1/sandboxes/{gone}/exec", body: `{"command":"true"}`, code: 409, want: sbError("*", "conflict")},
		{name: "sandbox-gone-streamed", method: "POST", path: "/v1/sandboxes/{gone}/exec", body: `{"command":"true","stream":true}`, code: 409, want: sbError("*", "conflict")},
		{name: "sandbox-lost", method: "POST", path: exec, body: `{"command":"lose it"}`, code: 409, want: sbError("*", "conflict"), starts: []string{"lose it"}},
		{name: "sandbox-bad-cwd-streamed", method: "POST", path: exec, body: `{"command":"true","cwd":"/missing","stream":true}`, code: 400, want: sbError("cwd: /missing: bad directory", "invalid_request"), starts: []string{"true"}},
		{name: "sandbox-get-exec", method: "GET", path: exec, code: 405, wantHeader: map[string]string{"Allow": "POST"}, want: sbError("*", "invalid_request")},
		{name: "sandbox-created", method: "POST", path: sandboxes, body: `{"size":"medium","timeout_minutes":15}`, code: 201, want: `{"id":"*","object":"sandbox","status":"running","size":"medium","timeout_minutes":15,"created_at":"2000-01-01T00:00:01Z","expires_at":"2000-01-01T00:15:01Z"}`},
		{name: "sandbox-created-by-default", method: "POST", path: sandboxes, body: `{}`, code: 201, want: `{"id":"*","object":"sandbox","status":"running","size":"small","timeout_minutes":60,"created_at":"*","expires_at":"2000-01-01T01:00:01Z"}`},
		{name: "sandbox-create-size", method: "POST", path: sandboxes, body: `{"size":"huge"}`, code: 400, want: sbError("size: must be one of small, medium, large", "invalid_request")},
		{name: "sandbox-create-size-number", method: "POST", path: sandboxes, body: `{"size":1}`, code: 400},
		{name: "sandbox-create-too-short", method: "POST", path: sandboxes, body: `{"timeout_minutes":14}`, code: 400, want: sbError("timeout_minutes: must be an integer from 15 to 1440", "invalid_request")},
		{name: "sandbox-create-too-long", method: "POST", path: sandboxes, body: `{"timeout_minutes":1441}`, code: 400},
		{name: "sandbox-create-longest", method: "POST", path: sandboxes, body: `{"timeout_minutes":1440}`, code: 201},
		{name: "sandbox-create-no-key", method: "POST", path: sandboxes, header: none, body: `{}`, code: 401},
		{name: "sandbox-create-402", set: config(&httpapi.Error{Status: 402, Message: "m"}), method: "POST", path: sandboxes, body: `{}`, code: 402, want: sbError("m", "insufficient_credit")},
		{name: "sandbox-create-limit", set: full, method: "POST", path: sandboxes, body: `{}`, code: 429, wantHeader: map[string]string{"Retry-After": "1"}, want: sbError("*", "rate_limited")},
		{name: "sandbox-create-engine-stopped", set: noEngine, method: "POST", path: sandboxes, body: `{}`, code: 503, want: sbError("*the engine does not answer", "unavailable")},
		{name: "sandbox-create-unsupported", set: func(w *testServer) {
			w.fake.Create = func(_ context.Context, cfg *sandbox.Config) error {
				if cfg.Labels["size"] == "large" {
					return errors.ErrUnsupported
				}
				return nil
			}
		}, method: "POST", path: sandboxes, body: `{"size":"large"}`, code: 500, want: sbError("*", "internal")},
		{name: "sandbox-list", method: "GET", path: sandboxes + "?limit=100", code: 200, want: `{"object":"list","data":["*","*"],"has_more":false}`},
		{name: "sandbox-list-of-another-owner", method: "GET", path: sandboxes, header: keyB, code: 200, want: `{"object":"list","data":[{"id":"{other}","object":"sandbox","status":"running","created_at":"*","expires_at":null}],"has_more":false}`},
		{name: "sandbox-list-head", method: "HEAD", path: sandboxes, code: 200},
		{name: "sandbox-list-no-key", method: "GET", path: sandboxes, header: none, code: 401},
		{name: "sandbox-put", method: "PUT", path: sandboxes, code: 405, wantHeader: map[string]string{"Allow": "GET, POST"}},
		{name: "sandbox-get", method: "GET", path: "/v1/sandboxes/{id}", code: 200, want: `{"id":"{id}","object":"sandbox","status":"running","created_at":"*","expires_at":null}`},
		{name: "sandbox-get-gone", method: "GET", path: "/v1/sandboxes/{gone}", code: 200, want: `{"id":"{gone}","object":"sandbox","status":"failed","created_at":"*","expires_at":null}`},
		{name: "sandbox-get-of-another-owner", method: "GET", path: "/v1/sandboxes/{other}", code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "sandbox-delete", method: "DELETE", path: "/v1/sandboxes/{id}", code: 200, want: `{"id":"{id}","object":"sandbox","status":"deleted","created_at":"*","expires_at":null}`},
		{name: "sandbox-delete-gone", method: "DELETE", path: "/v1/sandboxes/{gone}", code: 200, want: `{"id":"{gone}","object":"sandbox","status":"deleted","created_at":"*","expires_at":null}`},
		{name: "sandbox-delete-unknown", method: "DELETE", path: "/v1/sandboxes/sbx_none", code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "sandbox-delete-of-another-owner", method: "DELETE", path: "/v1/sandboxes/{other}", code: 404},
		{name: "sandbox-executions", method: "GET", path: "/v1/sandboxes/{id}/executions", code: 200, want: `{"object":"list","data":[` + execution("completed", "0", "hi\\n", "") + `,"*"],"has_more":false}`},
		{name: "sandbox-no-executions", method: "GET", path: "/v1/sandboxes/{gone}/executions", code: 200, want: `{"object":"list","data":["*"],"has_more":false}`},
		{name: "sandbox-executions-of-another-owner", method: "GET", path: "/v1/sandboxes/{other}/executions", code: 404},
		{name: "sandbox-execution", method: "GET", path: "/v1/sandboxes/{id}/executions/{exec}", code: 200, want: execution("completed", "0", "hi\\n", "")},
		{name: "sandbox-execution-unknown", method: "GET", path: "/v1/sandboxes/{id}/executions/exec_none", code: 404, want: sbError("No execution with that id", "not_found")},
		{name: "sandbox-execution-of-another-sandbox", method: "GET", path: "/v1/sandboxes/{gone}/executions/{exec}", code: 404, want: sbError("No execution with that id", "not_found")},
		{name: "sandbox-list-page", method: "GET", path: sandboxes + "?limit=1", code: 200, want: `{"object":"list","data":["*"],"has_more":true}`},
		{name: "sandbox-list-limit-0", method: "GET", path: sandboxes + "?limit=0", code: 400, want: sbError("limit: must be an integer from 1 to 1000", "invalid_request")},
		{name: "sandbox-list-limit-twice", method: "GET", path: sandboxes + "?limit=1&limit=2", code: 400, want: sbError("limit: must not be given twice", "invalid_request")},
		{name: "sandbox-list-after-the-last", method: "GET", path: sandboxes + "?after={gone}", code: 200, want: `{"object":"list","data":"*","has_more":false}`},
		{name: "sandbox-list-after-another-owner", method: "GET", path: sandboxes + "?after={other}", code: 400, want: sbError("after: is not in the list any more*", "invalid_request")},
		{name: "sandbox-list-bad-query", method: "GET", path: sandboxes + "?limit=%zz", code: 400, want: sbError("the query is malformed*", "invalid_request")},
		{name: "sandbox-executions-page", method: "GET", path: "/v1/sandboxes/{id}/executions?limit=1&after={exec}", code: 200, want: `{"object":"list","data":[` + execution("completed", "3", "out\\n", "err\\n") + `],"has_more":false}`},
		{name: "sandbox-executions-after-unknown", method: "GET", path: "/v1/sandboxes/{id}/executions?after=exec_none", code: 400},
		{name: "sandbox-no-egress", method: "GET", path: "/v1/sandboxes/{id}/egress", code: 200, want: `{"object":"list","data":[],"has_more":false}`},
		{name: "sandbox-egress-of-another-owner", method: "GET", path: "/v1/sandboxes/{other}/egress", code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "sandbox-egress-after-unknown", method: "GET", path: "/v1/sandboxes/{id}/egress?after=egr_000001", code: 400},
		{name: "sandbox-egress-post", method: "POST", path: "/v1/sandboxes/{id}/egress", code: 405, wantHeader: map[string]string{"Allow": "GET"}},
		{name: "sandbox-background", method: "POST", path: exec, body: `{"command":"sleep 9000","background":true}`, code: 202, want: `{"object":"execution","id":"*","sandbox_id":"{id}","status":"running","exit_code":null,"stdout":"*","stderr":"","truncated":false,"duration_ms":null,"started_at":"*","finished_at":null,"*":0}`},
		{name: "sandbox-background-longest", method: "POST", path: exec, body: `{"command":"true","background":true,"timeout_ms":86400000}`, code: 202},
		{name: "sandbox-background-too-long", method: "POST", path: exec, body: `{"command":"true","background":true,"timeout_ms":86400001}`, code: 400},
		{name: "sandbox-background-streamed", method: "POST", path: exec, body: `{"command":"true","background":true,"stream":true}`, code: 400, want: sbError("background: must not be combined with stream*", "invalid_request")},
		{name: "sandbox-background-string", method: "POST", path: exec, body: `{"command":"true","background":"yes"}`, code: 400},
		{name: "sandbox-background-bad-cwd", method: "POST", path: exec, body: `{"command":"true","background":true,"cwd":"/missing"}`, code: 400, starts: []string{"true"}},
		{name: "sandbox-background-gone", method: "POST", path: "/v1/sandboxes/{gone}/exec", body: `{"command":"true","background":true}`, code: 409, want: sbError("*", "conflict")},
		{name: "sandbox-open-stdin-alone", method: "POST", path: exec, body: `{"command":"true","open_stdin":true}`, code: 400, want: sbError("open_stdin: needs stream or background*", "invalid_request")},
		{name: "sandbox-long-key", method: "POST", path: exec, header: map[string]string{"Authorization": "Bearer key-a", "Idempotency-Key": strings.Repeat("x", 256)}, body: `{"command":"true"}`, code: 400, want: sbError("Idempotency-Key: must not be longer than 255 bytes", "invalid_request")},
		{name: "sandbox-stream-malformed-offset", method: "GET", path: execution0 + "/stream?offset=1", code: 400, want: sbError("offset: must be two offsets, OUT-ERR, as in 12-0", "invalid_request")},
		{name: "sandbox-stream-malformed-id", method: "GET", path: execution0 + "/stream", header: map[string]string{"Authorization": "Bearer key-a", "Last-Event-ID": "1-+1"}, code: 400, want: sbError("Last-Event-ID: *", "invalid_request")},
		{name: "sandbox-stream-unknown-encoding", method: "GET", path: execution0 + "/stream?encoding=latin1", code: 400, want: sbError("encoding: must be one of utf-8, base64", "invalid_request")},
		{name: "sandbox-stream-negative-offset", method: "GET", path: execution0 + "/stream?offset=-1-0", code: 400},
		{name: "sandbox-stream-past-the-end", method: "GET", path: execution0 + "/stream?offset=4-0", code: 400, want: sbError("offset: offset 4 of stdout is not between 0 and its current end, 3", "invalid_request")},
		{name: "sandbox-stream-far-past-the-end", method: "GET", path: execution0 + "/stream?offset=0-99999999999999999999", code: 400},
		{name: "sandbox-stream-unknown", method: "GET", path: "/v1/sandboxes/{id}/executions/exec_none/stream", code: 404},
		{name: "sandbox-stream-of-another-owner", method: "GET", path: execution0 + "/stream", header: keyB, code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "sandbox-stream-head", method: "HEAD", path: execution0 + "/stream", code: 200, wantHeader: map[string]string{"Content-Type": "text/event-stream"}},
		{name: "sandbox-stdin-over", method: "POST", path: execution0 + "/stdin", body: "x", code: 409, want: sbError("the command's input is not open: start it with open_stdin", "conflict")},
		{name: "sandbox-stdin-unknown", method: "POST", path: "/v1/sandboxes/{id}/executions/exec_none/stdin", body: "x", code: 404},
		{name: "sandbox-stdin-of-another-owner", method: "POST", path: execution0 + "/stdin", header: keyB, body: "x", code: 404},
		{name: "sandbox-stdin-get", method: "GET", path: execution0 + "/stdin", code: 405, wantHeader: map[string]string{"Allow": "POST"}},
		{name: "sandbox-signal-over", method: "POST", path: execution0 + "/signal", body: `{"signal":"SIGINT"}`, code: 409, want: sbError("the execution is over", "conflict")},
		{name: "sandbox-signal-none", method: "POST", path: execution0 + "/signal", body: `{}`, code: 400, want: sbError("signal: *", "invalid_request")},
		{name: "sandbox-signal-0", method: "POST", path: execution0 + "/signal", body: `{"signal":0}`, code: 400},
		{name: "sandbox-signal-65", method: "POST", path: execution0 + "/signal", body: `{"signal":65}`, code: 400},
		{name: "sandbox-signal-unknown", method: "POST", path: execution0 + "/signal", body: `{"signal":"SIGNAL"}`, code: 400, want: sbError(`signal: \"SIGNAL\" is no signal*`, "invalid_request")},
		{name: "sandbox-signal-null", method: "POST", path: execution0 + "/signal", body: `{"signal":null}`, code: 400},
		{name: "sandbox-signal-of-another-owner", method: "POST", path: execution0 + "/signal", header: keyB, body: `{"signal":2}`, code: 404},
		{name: "sandbox-cancel-over", method: "DELETE", path: execution0, code: 200, want: execution("completed", "0", "hi\\n", "")},
		{name: "sandbox-cancel-unknown", method: "DELETE", path: "/v1/sandboxes/{id}/executions/exec_none", code: 404, want: sbError("No execution with that id", "not_found")},
		{name: "sandbox-cancel-of-another-owner", method: "DELETE", path: execution0, header: keyB, code: 404},
		{name: "sandbox-execution-put", method: "PUT", path: execution0, code: 405, wantHeader: map[string]string{"Allow": "DELETE, GET"}},
		{name: "sandbox-execution-unknown-route", method: "GET", path: execution0 + "/kill", code: 404, want: sbError("there is no such route", "not_found")},
		{name: "sandbox-unknown-route", method: "POST", path: "/v1/sandboxes/{id}/run", body: `{"command":"true"}`, code: 404, want: sbError("there is no such route", "not_found")},
		{name: "sandbox-trailing-slash", method: "GET", path: "/v1/sandboxes/", code: 404, want: sbError("there is no such route", "not_found")},

		// files of sandboxes
		{name: "file-read", method: "GET", path: files + "?path=dir/text", code: 200, want: `{"object":"file","path":"dir/text","content":"héllo","encoding":"utf-8","size_bytes":6}`},
		{name: "file-read-absolute", method: "GET", path: files + "?path=/workspace/dir/text", code: 200, want: `{"object":"file","path":"/workspace/dir/text","content":"héllo","encoding":"utf-8","size_bytes":6}`},
		{name: "file-read-part", method: "GET", path: files + "?path=dir/text&offset=3&limit=2", code: 200, want: `{"object":"file","path":"dir/text","content":"ll","encoding":"utf-8","size_bytes":2}`},
		{name: "file-read-nothing", method: "GET", path: files + "?path=dir/text&limit=0", code: 200, want: `{"object":"file","path":"dir/text","content":"","encoding":"utf-8","size_bytes":0}`},
		{name: "file-read-past-the-end", method: "GET", path: files + "?path=dir/text&offset=99", code: 200, want: `{"object":"file","path":"dir/text","content":"","encoding":"utf-8","size_bytes":0}`},
		{name: "file-read-half-a-character", method: "GET", path: files + "?path=dir/text&limit=2", code: 200, want: `{"object":"file","path":"dir/text","content":"h�","encoding":"utf-8","size_bytes":2,"lossy":true}`},
		{name: "file-read-binary", method: "GET", path: files + "?path=dir/below/binary", code: 200, want: `{"object":"file","path":"dir/below/binary","content":"a�\u0000","encoding":"utf-8","size_bytes":3,"lossy":true}`},
		{name: "file-read-base64", method: "GET", path: files + "?path=dir/below/binary&encoding=base64", code: 200, want: `{"object":"file","path":"dir/below/binary","content":"Yf8A","encoding":"base64","size_bytes":3}`},
		{name: "file-read-raw", method: "GET", path: files + "?path=dir/below/binary&raw=true", code: 200, wantHeader: map[string]string{"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox", "Content-Disposition": "attachment"}, wantBody: "a\xff\x00"},
		{name: "file-read-missing", method: "GET", path: files + "?path=none", code: 404, want: sbError("none: file does not exist", "not_found")},
		{name: "file-read-raw-missing", method: "GET", path: files + "?path=none&raw=true", code: 404, want: sbError("none: file does not exist", "not_found")},
		{name: "file-read-directory", method: "GET", path: files + "?path=dir", code: 400, want: sbError("dir: is a directory", "invalid_request")},
		{name: "file-read-below-a-file", method: "GET", path: files + "?path=dir/text/x", code: 400, want: sbError("dir/text/x: not a directory", "invalid_request")},
		{name: "file-read-outside", method: "GET", path: files + "?path=../../../etc/passwd", code: 403, want: sbError("../../../etc/passwd: leads out of the sandbox", "forbidden")},
		{name: "file-read-no-path", method: "GET", path: files, code: 400, want: sbError("path: is missing*", "invalid_request")},
		{name: "file-read-empty-path", method: "GET", path: files + "?path=", code: 400},
		{name: "file-read-nul", method: "GET", path: files + "?path=a%00b", code: 400, want: sbError("path: must not contain a NUL byte", "invalid_request")},
		{name: "file-read-long-name", method: "GET", path: files + "?path=" + strings.Repeat("x", 300), code: 400, want: sbError("path: must not have a part longer than 255 bytes", "invalid_request")},
		{name: "file-read-long-path", method: "GET", path: files + "?path=" + strings.Repeat("x/", 3000), code: 400, want: sbError("path: must not be longer than 4096 bytes", "invalid_request")},
		{name: "file-read-not-utf8-name", method: "GET", path: files + "?path=%ff", code: 404, want: sbError("�: file does not exist", "not_found")},
		{name: "file-read-negative-offset", method: "GET", path: files + "?path=dir/text&offset=-1", code: 400},
		{name: "file-read-bad-encoding", method: "GET", path: files + "?path=dir/text&encoding=latin1", code: 400, want: sbError("encoding: must be one of utf-8, base64", "invalid_request")},
		{name: "file-read-of-another-owner", method: "GET", path: files + "?path=dir/text", header: keyB, code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "file-read-gone", method: "GET", path: "/v1/sandboxes/{gone}/files?path=x", code: 409, want: sbError("*", "conflict")},
		{name: "file-read-no-key", method: "GET", path: files + "?path=dir/text", header: none, code: 401},
		{name: "file-list", method: "GET", path: files + "?path=dir&list=true&recursive=false", code: 200, want: `{"object":"list","path":"dir","entries":[{"name":"below","type":"dir","size_bytes":"*","mode":"0755","modified_at":"*"},{"name":"text","type":"file","size_bytes":6,"mode":"0750","modified_at":"*"}],"has_more":false}`},
		{name: "file-list-recursive", method: "GET", path: files + "?path=dir&list=true&recursive=true", code: 200, want: `{"object":"list","path":"dir","entries":[{"name":"below","*":0},{"name":"below/binary","type":"file","size_bytes":3,"*":0},{"name":"text","*":0}],"has_more":false}`},
		{name: "file-list-file", method: "GET", path: files + "?path=dir/text&list=true", code: 400, want: sbError("dir/text: not a directory", "invalid_request")},
		{name: "file-list-missing", method: "GET", path: files + "?path=none&list=true", code: 404},
		{name: "file-stat", method: "GET", path: files + "?path=dir/text&stat=true", code: 200, want: `{"name":"dir/text","type":"file","size_bytes":6,"mode":"0750","modified_at":"*"}`},
		{name: "file-stat-missing", method: "GET", path: files + "?path=none&stat=true", code: 404},
		{name: "file-remove-a-parent", method: "DELETE", path: files + "?path=dir/..&recursive=true", code: 400, want: sbError("dir/..: is a directory by itself and not an entry of one: name the entries that are in it", "invalid_request")},
		{name: "file-remove-the-start", method: "DELETE", path: files + "?path=.&recursive=true", code: 400},
		{name: "file-write", method: "PUT", path: files, body: `{"path":"new/deep/file","content":"héllo"}`, code: 200, want: `{"object":"file","path":"new/deep/file","size_bytes":6}`},
		{name: "file-write-base64", method: "PUT", path: files, body: `{"path":"b","content":"Yf8A","encoding":"base64","mode":"0700"}`, code: 200, want: `{"object":"file","path":"b","size_bytes":3}`},
		{name: "file-write-raw", method: "PUT", path: files + "?path=raw/file&mode=600", body: "a\xff\x00", code: 200, want: `{"object":"file","path":"raw/file","size_bytes":3}`},
		{name: "file-write-json-as-content", method: "PUT", path: files + "?path=dir/text", header: map[string]string{"Authorization": "Bearer key-a", "Content-Type": "application/json"}, body: `{"path":"x","content":"y"}`, code: 200, want: `{"object":"file","path":"dir/text","size_bytes":26}`},
		{name: "file-write-long-name", method: "PUT", path: files, body: `{"path":"a/` + part + `","content":""}`, code: 400, want: longName("path")},
		{name: "file-write-raw-long-name", method: "PUT", path: files + "?path=" + part + "/b", body: "x", code: 400, want: longName("path")},
		{name: "file-write-longest-name", method: "PUT", path: files, body: `{"path":"` + part[1:] + `","content":""}`, code: 200},
		{name: "file-write-bad-base64", method: "PUT", path: files, body: `{"path":"b","content":"?","encoding":"base64"}`, code: 400, want: sbError("content: is not base64", "invalid_request")},
		{name: "file-write-bad-encoding", method: "PUT", path: files, body: `{"path":"b","content":"","encoding":"x"}`, code: 400},
		{name: "file-write-bad-mode", method: "PUT", path: files, body: `{"path":"b","content":"","mode":"4755"}`, code: 400, want: sbError("mode: must be permissions in octal, as in 0644", "invalid_request")},
		{name: "file-write-no-path", method: "PUT", path: files, body: `{"content":"x"}`, code: 400, want: sbError("path: Invalid input: expected string, received undefined", "invalid_request")},
		{name: "file-write-no-content", method: "PUT", path: files, body: `{"path":"x"}`, code: 400},
		{name: "file-write-null-content", method: "PUT", path: files, body: `{"path":"x","content":null}`, code: 400},
		{name: "file-write-directory", method: "PUT", path: files, body: `{"path":"dir","content":"x"}`, code: 400, want: sbError("dir: is a directory", "invalid_request")},
		{name: "file-write-below-a-file", method: "PUT", path: files, body: `{"path":"dir/text/x","content":"x"}`, code: 400},
		{name: "file-write-outside", method: "PUT", path: files, body: `{"path":"../../../x","content":"x"}`, code: 403},
		{name: "file-write-nul", method: "PUT", path: files, body: `{"path":"a\u0000","content":"x"}`, code: 400},
		{name: "file-write-of-another-owner", method: "PUT", path: files, header: keyB, body: `{"path":"x","content":"x"}`, code: 404},
		{name: "file-delete", method: "DELETE", path: files + "?path=dir/text", code: 200, want: `{"success":true,"path":"dir/text"}`},
		{name: "file-delete-recursive", method: "DELETE", path: files + "?path=dir&recursive=true", code: 200},
		{name: "file-delete-full-directory", method: "DELETE", path: files + "?path=dir", code: 409, want: sbError("dir: directory not empty", "conflict")},
		{name: "file-delete-missing", method: "DELETE", path: files + "?path=none", code: 404},
		{name: "file-delete-long-name", method: "DELETE", path: files + "?path=" + part, code: 400, want: longName("path")},
		{name: "file-mkdir", method: "POST", path: files + "/mkdir", body: `{"path":"x/y"}`, code: 200, want: `{"success":true,"path":"x/y"}`},
		{name: "file-mkdir-exists", method: "POST", path: files + "/mkdir", body: `{"path":"dir"}`, code: 200},
		{name: "file-mkdir-over-a-file", method: "POST", path: files + "/mkdir", body: `{"path":"dir/text"}`, code: 400},
		{name: "file-mkdir-no-path", method: "POST", path: files + "/mkdir", body: `{}`, code: 400},
		{name: "file-mkdir-long-name", method: "POST", path: files + "/mkdir", body: `{"path":"` + part + `"}`, code: 400, want: longName("path")},
		{name: "file-rename", method: "POST", path: files + "/rename", body: `{"from":"dir/text","to":"moved"}`, code: 200, want: `{"success":true,"path":"moved"}`},
		{name: "file-rename-missing", method: "POST", path: files + "/rename", body: `{"from":"none","to":"moved"}`, code: 404},
		{name: "file-rename-nowhere", method: "POST", path: files + "/rename", body: `{"from":"dir/text"}`, code: 400, want: sbError("to: *", "invalid_request")},
		{name: "file-rename-from-a-long-name", method: "POST", path: files + "/rename", body: `{"from":"` + part + `","to":"x"}`, code: 400, want: longName("from")},
		{name: "file-rename-to-a-long-name", method: "POST", path: files + "/rename", body: `{"from":"dir/text","to":"` + part + `"}`, code: 400, want: longName("to")},
		{name: "file-archive", method: "GET", path: files + "/archive?path=dir", code: 200, wantHeader: map[string]string{"Content-Type": "application/x-tar"}},
		{name: "file-archive-missing", method: "GET", path: files + "/archive?path=none", code: 404},
		{name: "file-archive-long-name", method: "GET", path: files + "/archive?path=" + part, code: 400, want: longName("path")},
		{name: "file-archive-in", method: "PUT", path: files + "/archive?path=into", body: archive, code: 200, want: `{"success":true,"path":"into"}`},
		{name: "file-archive-in-malformed", method: "PUT", path: files + "/archive", body: strings.Repeat("x", 600), code: 400},
		{name: "file-archive-in-long-name", method: "PUT", path: files + "/archive?path=" + part, body: archive, code: 400, want: longName("path")},
		{name: "file-unsupported", set: bare, method: "GET", path: files + "?path=x", code: 501, want: sbError("this backend does not reach files", "not_implemented")},
		{name: "file-unknown-route", method: "GET", path: files + "/chmod", code: 404, want: sbError("there is no such route", "not_found")},
		{name: "file-post", method: "POST", path: files, code: 405, wantHeader: map[string]string{"Allow": "DELETE, GET, PUT"}},

		// ports of sandboxes
		{name: "port", method: "POST", path: ports, body: `{"port":3000}`, code: 200, want: `{"url":"http://server/v1/sandboxes/{id}/ports/3000/*","port":3000}`},
		{name: "port-base-url", set: func(w *testServer) { w.opts.BaseURL = "https://sandboxes.example.com/base/" }, method: "POST", path: ports, body: `{"port":3000}`, code: 200, want: `{"url":"https://sandboxes.example.com/base/v1/sandboxes/{id}/ports/3000/*","port":3000}`},
		{name: "port-none", method: "POST", path: ports, body: `{}`, code: 400, want: sbError("port: Invalid input: expected number, received undefined", "invalid_request")},
		{name: "port-0", method: "POST", path: ports, body: `{"port":0}`, code: 400, want: sbError("port: must be an integer from 1 to 65535", "invalid_request")},
		{name: "port-65536", method: "POST", path: ports, body: `{"port":65536}`, code: 400},
		{name: "port-string", method: "POST", path: ports, body: `{"port":"3000"}`, code: 400},
		{name: "port-of-another-owner", method: "POST", path: ports, header: keyB, body: `{"port":3000}`, code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "port-gone", method: "POST", path: "/v1/sandboxes/{gone}/ports", body: `{"port":3000}`, code: 409, want: sbError("*", "conflict")},
		{name: "port-no-key", method: "POST", path: ports, header: none, body: `{"port":3000}`, code: 401},
		{name: "port-unsupported", set: bare, method: "POST", path: ports, body: `{"port":3000}`, code: 501, want: sbError("this backend does not reach ports", "not_implemented")},
		{name: "port-get", method: "GET", path: ports, code: 405, wantHeader: map[string]string{"Allow": "POST"}},
		{name: "port-unknown-token", method: "GET", path: ports + "/3000/token/", header: none, code: 404, want: sbError("there is no such port*", "not_found")},

		// terminals of sandboxes
		{name: "terminal-without-upgrade", method: "GET", path: terminal, code: 426, wantHeader: map[string]string{"Upgrade": "websocket"}, want: sbError("this is a WebSocket*", "invalid_request")},
		{name: "terminal-bad-cols", method: "GET", path: terminal + "?cols=-1", code: 400, want: sbError("cols: must be an integer from 0 to 65535", "invalid_request")},
		{name: "terminal-no-key", method: "GET", path: terminal, header: none, code: 401},
		{name: "terminal-old-ticket", method: "GET", path: terminal + "?ticket=ticket_x", header: none, code: 401, want: sbError("the ticket is unknown*", "unauthorized")},
		{name: "terminal-bad-version", method: "GET", path: terminal, header: map[string]string{"Authorization": "Bearer key-a", "Connection": "upgrade", "Upgrade": "websocket", "Sec-Websocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-Websocket-Version": "8"}, code: 400, want: sbError("Sec-WebSocket-Version: must be 13", "invalid_request")},
		{name: "terminal-bad-key", method: "GET", path: terminal, header: map[string]string{"Authorization": "Bearer key-a", "Connection": "upgrade", "Upgrade": "websocket", "Sec-Websocket-Key": "AAAA", "Sec-Websocket-Version": "13"}, code: 400, want: sbError("Sec-WebSocket-Key: *", "invalid_request")},
		{name: "terminal-of-another-owner", method: "GET", path: terminal, header: upgrade("Bearer key-b"), code: 404, want: sbError("No sandbox with that id", "not_found")},
		{name: "terminal-gone", method: "GET", path: "/v1/sandboxes/{gone}/terminal", header: upgrade("Bearer key-a"), code: 409, want: sbError("*", "conflict")},
		{name: "terminal-bad-cwd", method: "GET", path: terminal + "?cwd=/missing&command=true", header: upgrade("Bearer key-a"), code: 400, want: sbError("cwd: /missing: bad directory", "invalid_request"), starts: []string{"true"}},
		{name: "terminal-nul", method: "GET", path: terminal + "?command=a%00", header: upgrade("Bearer key-a"), code: 400, want: sbError("command: contains a NUL byte*", "invalid_request")},
		{name: "terminal-403", set: refuse(&httpapi.Error{Status: 403, Message: "m"}), method: "GET", path: terminal, header: upgrade("Bearer key-a"), code: 403, want: sbError("m", "forbidden")},
		{name: "terminal-unsupported", set: bare, method: "GET", path: terminal, header: upgrade("Bearer key-a"), code: 501, want: sbError("this backend has no terminals", "not_implemented")},
		{name: "terminal-head", method: "HEAD", path: terminal, header: upgrade("Bearer key-a"), code: 405, wantHeader: map[string]string{"Allow": "GET"}},
		{name: "terminal-post", method: "POST", path: terminal, code: 405, wantHeader: map[string]string{"Allow": "GET"}},
		{name: "ticket", method: "POST", path: terminal + "/tickets", code: 201, wantHeader: map[string]string{"Cache-Control": "no-store"}, want: `{"ticket":"ticket_*","expires_at":"2000-01-01T00:00:31Z"}`},
		{name: "ticket-of-another-owner", method: "POST", path: terminal + "/tickets", header: keyB, code: 404},
		{name: "ticket-unsupported", set: bare, method: "POST", path: terminal + "/tickets", code: 501, want: sbError("this backend has no terminals", "not_implemented")},
		{name: "ticket-no-key", method: "POST", path: terminal + "/tickets", header: none, code: 401},

		// agents
		{name: "agent-runs", method: "POST", path: agent, body: `{"command":"echo hi"}`, code: 200, wantHeader: maybeRetry, want: agentWant("0", "hi\\n", "", "3", "0")},
		{name: "agent-as-the-client-sends-it", method: "POST", path: agent, body: `{"command":"pwd","maxBuffer":0,"timeout":30,"workdir":"/home/user","more":{}}`, code: 200, want: agentWant("0", "/home/user\\n", "", "11", "0")},
		{name: "agent-exit-code", method: "POST", path: agent, body: `{"command":"exit 3"}`, code: 200, want: agentWant("3", "out\\n", "err\\n", "4", "4")},
		{name: "agent-nulls", method: "POST", path: agent, body: `{"command":"true","timeout":null,"workdir":null}`, code: 200, want: agentWant("0", "", "", "0", "0")},
		{name: "agent-timeout", method: "POST", path: agent, body: `{"command":"sleep 9000","timeout":0.25}`, code: 200, want: agentWant("124", "a\\n", "", "2", "0")},
		{name: "agent-tiny-timeout", method: "POST", path: agent, body: `{"command":"sleep 9000","timeout":1e-300}`, code: 200, want: agentWant("124", "*", "", `"*"`, "0")},
		{name: "exec-env-value-too-long", method: "POST", path: exec, body: `{"command":"true","env":{"A":"` + strings.Repeat("x", 128<<10) + `"}}`, code: 400, want: sbError("env: a variable takes 131074 bytes with its name, at most 131071 are taken*", "invalid_request")},
		{name: "exec-env-too-long-in-all", method: "POST", path: exec, body: `{"command":"true","env":{` + env + `}}`, code: 400, want: sbError("env: *", "invalid_request")},
		{name: "agent-max-buffer", method: "POST", path: agent, body: `{"command":"exit 3","maxBuffer":2}`, code: 200, want: `{"exitCode":3,"stdout":"ou","stderr":"er","stdoutOffset":2,"stderrOffset":2,"truncated":true,"stdoutBytes":4,"stderrBytes":4,"*":0}`},
		{name: "agent-max-buffer-within-a-character", method: "POST", path: agent, body: `{"command":"print 3 MiB","maxBuffer":7}`, code: 200, want: `{"exitCode":0,"stdout":"€€","stdoutOffset":6,"stderrOffset":0,"truncated":true,"stdoutBytes":3145728,"stderrBytes":0,"*":0}`},
		{name: "agent-max-buffer-largest", method: "POST", path: agent, body: `{"command":"true","maxBuffer":16777216}`, code: 200},
		{name: "agent-max-buffer-too-large", method: "POST", path: agent, body: `{"command":"true","maxBuffer":16777217}`, code: 400, want: agentError("maxBuffer: must be an integer from 0 to 16777216", "INVALID_REQUEST")},
		{name: "agent-max-buffer-negative", method: "POST", path: agent, body: `{"command":"true","maxBuffer":-1}`, code: 400},
		{name: "agent-max-buffer-fraction", method: "POST", path: agent, body: `{"command":"true","maxBuffer":1.5}`, code: 400},
		{name: "agent-timeout-0", method: "POST", path: agent, body: `{"command":"true","timeout":0}`, code: 400, want: agentError("timeout: must be more than 0 and at most 3600 seconds", "INVALID_REQUEST")},
		{name: "agent-timeout-too-long", method: "POST", path: agent, body: `{"command":"true","timeout":3600.1}`, code: 400},
		{name: "agent-timeout-string", method: "POST", path: agent, body: `{"command":"true","timeout":"1"}`, code: 400},
		{name: "agent-workdir-number", method: "POST", path: agent, body: `{"command":"true","workdir":1}`, code: 400, want: agentError("workdir: Invalid input: expected string, received number", "INVALID_REQUEST")},
		{name: "agent-bad-workdir", method: "POST", path: agent, body: `{"command":"true","workdir":"/missing"}`, code: 400, want: agentError("workdir: /missing: bad directory", "INVALID_REQUEST"), starts: []string{"true"}},
		{name: "agent-missing-command", method: "POST", path: agent, body: `{}`, code: 400, want: agentError("command: Invalid input: expected string, received undefined", "INVALID_REQUEST")},
		{name: "agent-empty-command", method: "POST", path: agent, body: `{"command":""}`, code: 400, want: agentError("command: Command cannot be empty", "INVALID_REQUEST")},
		{name: "agent-null", method: "POST", path: agent, body: `null`, code: 400, want: agentError("the body must be a JSON object, not null", "INVALID_REQUEST")},
		{name: "agent-byte-order-mark", method: "POST", path: agent, body: "\ufeff" + `{"command":"echo hi"}`, code: 200, want: agentWant("0", "hi\\n", "", "3", "0")},
		{name: "agent-large-body", method: "POST", path: agent, body: large, code: 413, want: agentError("*", "TOO_LARGE")},
		{name: "agent-no-key", method: "POST", path: agent, header: none, body: `{"command":"true"}`, code: 401, want: agentError("missing or invalid API key", "UNAUTHORIZED")},
		{name: "agent-403", set: refuse(&httpapi.Error{Status: 403, Code: "monthly_token_budget_exceeded", Message: "m"}), method: "POST", path: agent, body: `{"command":"true"}`, code: 403, want: agentError("m", "MONTHLY_TOKEN_BUDGET_EXCEEDED")},
		{name: "agent-402", set: refuse(&httpapi.Error{Status: 402, Message: "m"}), method: "POST", path: agent, body: `{"command":"true"}`, code: 402, want: agentError("m", "INSUFFICIENT_CREDIT")},
		{name: "agent-404", set: config(sandbox.ErrNotFound), method: "POST", path: agent, body: `{"command":"true"}`, code: 404, want: agentError("not found", "NOT_FOUND")},
		{name: "agent-429", set: refuse(&httpapi.Error{Status: 429, Message: "m", RetryAfter: time.Second}), method: "POST", path: agent, body: `{"command":"true"}`, code: 429, wantHeader: map[string]string{"Retry-After": "1", "X-Should-Retry": ""}, want: agentError("m", "RATE_LIMITED")},
		{name: "agent-limit", set: full, method: "POST", path: agent, body: `{"command":"true"}`, code: 429, wantHeader: map[string]string{"Retry-After": "1"}, want: agentError("*", "RATE_LIMITED")},
		{name: "agent-503", set: refuse(&httpapi.Error{Status: 503, Message: "m"}), method: "POST", path: agent, body: `{"command":"true"}`, code: 503, want: agentError("m", "UNAVAILABLE")},
		{name: "agent-engine-stopped", set: noEngine, method: "POST", path: agent, body: `{"command":"true"}`, code: 503, wantHeader: maybeRetry, want: agentError("*", "UNAVAILABLE")},
		{name: "agent-lost", method: "POST", path: agent, body: `{"command":"lose it"}`, code: 503, wantHeader: noRetry, want: agentError("*", "UNAVAILABLE"), starts: []string{"lose it"}},
		{name: "agent-no-shell", method: "POST", path: agent, body: `{"command":"no-shell"}`, code: 500, wantHeader: maybeRetry, want: agentError("sh: not found", "INTERNAL"), starts: []string{"no-shell"}},
		{name: "agent-yield", method: "POST", path: agent, body: `{"command":"sleep 9000","yield":0.5}`, code: 200, want: `{"exitCode":null,"handle":"*","state":"running","stdout":"a\n","stderr":"","stdoutOffset":2,"stderrOffset":0,"truncated":false,"stdoutBytes":2,"stderrBytes":0}`},
		{name: "agent-yield-null", method: "POST", path: agent, body: `{"command":"echo hi","yield":null}`, code: 200, want: agentWant("0", "hi\\n", "", "3", "0")},
		{name: "agent-yield-negative", method: "POST", path: agent, body: `{"command":"true","yield":-1}`, code: 400, want: agentError("yield: must be at least 0 and at most 3600 seconds", "INVALID_REQUEST")},
		{name: "agent-yield-lost", method: "POST", path: agent, body: `{"command":"lose it","yield":5}`, code: 503, wantHeader: noRetry, starts: []string{"lose it"}},
		{name: "agent-yield-bad-workdir", method: "POST", path: agent, body: `{"command":"true","workdir":"/missing","yield":5}`, code: 400, starts: []string{"true"}},
		{name: "agent-open-stdin-alone", method: "POST", path: agent, body: `{"command":"true","openStdin":true}`, code: 400, want: agentError("openStdin: needs yield*", "INVALID_REQUEST")},
		{name: "agent-open-stdin-yield-null", method: "POST", path: agent, body: `{"command":"true","openStdin":true,"yield":null}`, code: 400, want: agentError("openStdin: needs yield*", "INVALID_REQUEST")},
		{name: "agent-handle", method: "GET", path: handle, code: 200, want: agentWant("0", "hi\\n", "", "3", "0")},
		{name: "agent-handle-offset", method: "GET", path: handle + "?stdoutOffset=1&wait=1", code: 200, want: agentWant("0", "i\\n", "", "3", "0")},
		{name: "agent-handle-past-the-end", method: "GET", path: handle + "?stdoutOffset=4", code: 400, want: agentError("stdoutOffset: is past the stream's current end, 3", "INVALID_REQUEST")},
		{name: "agent-handle-negative-offset", method: "GET", path: handle + "?stderrOffset=-1", code: 400},
		{name: "agent-handle-bad-wait", method: "GET", path: handle + "?wait=NaN", code: 400, want: agentError("wait: must be at least 0*", "INVALID_REQUEST")},
		{name: "agent-handle-unknown", method: "GET", path: "/agents/worker/sandbox/exec/exec_none", code: 404, want: agentError("there is no execution of that handle", "NOT_FOUND")},
		{name: "agent-handle-of-another-owner", method: "GET", path: handle, header: keyB, code: 404},
		{name: "agent-handle-post", method: "POST", path: handle, code: 405, wantHeader: map[string]string{"Allow": "DELETE, GET"}},
		{name: "agent-kill-over", method: "DELETE", path: handle, code: 200, want: agentWant("0", "hi\\n", "", "3", "0")},
		{name: "agent-stdin-over", method: "POST", path: handle + "/stdin", body: "x", code: 409, wantHeader: noRetry, want: agentError("the command's input is not open: start it with openStdin", "CONFLICT")},
		{name: "agent-stdin-get", method: "GET", path: handle + "/stdin", code: 405},
		{name: "agent-read", method: "POST", path: "/agents/worker/sandbox/read", body: `{"path":"notes"}`, code: 200, want: `{"bytesRead":6,"content":"héllo"}`},
		{name: "agent-read-missing", method: "POST", path: "/agents/worker/sandbox/read", body: `{"path":"none"}`, code: 404, want: agentError("none: file does not exist", "NOT_FOUND")},
		{name: "agent-read-directory", method: "POST", path: "/agents/worker/sandbox/read", body: `{"path":"."}`, code: 400, want: agentError(".: is a directory", "INVALID_REQUEST")},
		{name: "agent-read-outside", method: "POST", path: "/agents/worker/sandbox/read", body: `{"path":"/../../etc/passwd"}`, code: 403, want: agentError("*", "FORBIDDEN")},
		{name: "agent-read-no-path", method: "POST", path: "/agents/worker/sandbox/read", body: `{}`, code: 400, want: agentError("path: *", "INVALID_REQUEST")},
		{name: "agent-read-long-name", method: "POST", path: "/agents/worker/sandbox/read", body: `{"path":"` + part + `"}`, code: 400, want: agentError("path: must not have a part longer than 255 bytes", "INVALID_REQUEST")},
		{name: "agent-read-no-key", method: "POST", path: "/agents/worker/sandbox/read", header: none, body: `{"path":"notes"}`, code: 401},
		{name: "agent-read-get", method: "GET", path: "/agents/worker/sandbox/read", code: 405},
		{name: "agent-write", method: "POST", path: "/agents/worker/sandbox/write", body: `{"path":"a/b","content":""}`, code: 200, want: `{"success":true}`},
		{name: "agent-write-no-content", method: "POST", path: "/agents/worker/sandbox/write", body: `{"path":"a"}`, code: 400, want: agentError("content: *", "INVALID_REQUEST")},
		{name: "agent-write-long-name", method: "POST", path: "/agents/worker/sandbox/write", body: `{"path":"` + part + `","content":""}`, code: 400, want: agentError("path: must not have a part longer than 255 bytes", "INVALID_REQUEST")},
		{name: "agent-write-directory", method: "POST", path: "/agents/worker/sandbox/write", body: `{"path":".","content":""}`, code: 400},
		{name: "agent-get", method: "GET", path: agent, code: 405, wantHeader: map[string]string{"Allow": "POST"}, want: agentError("*", "INVALID_REQUEST")},
		{name: "agent-no-id", method: "POST", path: "/agents/", code: 404, want: agentError("*", "NOT_FOUND")},
		{name: "agent-unknown-route", method: "POST", path: "/agents/a/sandbox/exec/", code: 404, want: agentError("*", "NOT_FOUND")},
		{name: "agent-nul-id", method: "POST", path: "/agents/%00/sandbox/exec", body: `{"command":"true"}`, code: 400, want: agentError("agentId: must not contain a NUL byte", "INVALID_REQUEST")},
	}
}

// populate makes what paths of the table speak of.
func (w *testServer) populate(t *testing.T) *strings.Replacer {
	t.Helper()
	made := &sandbox.CreateOptions{Config: sandbox.Config{Labels: map[string]string{"made": "before"}}}
	create := func(owner, api, name string) sandbox.Sandbox {
		sb, err := w.manager.Create(t.Context(), sandbox.Key{Owner: owner, Namespace: api, Name: name}, made)
		if errors.Is(err, sandbox.ErrLimit) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return sb
	}
	id, gone, other := create("a", httpapi.Sandboxes, ""), create("a", httpapi.Sandboxes, ""), create("b", httpapi.Sandboxes, "")
	create("a", httpapi.Rooms, "warm")
	worker := create("a", httpapi.Agents, "worker")
	run := func(sb sandbox.Sandbox, shell string) string {
		rec, err := sb.Run(t.Context(), sandbox.Command{Shell: shell})
		if err != nil {
			t.Fatal(err)
		}
		return rec.ID
	}
	exec := run(id, "echo hi")
	time.Sleep(time.Second) // so that the order of the two is certain
	run(id, "exit 3")
	if err := errors.Join(
		id.Files().MkdirAll(t.Context(), "dir/below", 0o755),
		id.Files().WriteFile(t.Context(), "dir/text", []byte("héllo"), &sandbox.WriteOptions{Mode: 0o750}),
		id.Files().WriteFile(t.Context(), "dir/below/binary", []byte("a\xff\x00"), &sandbox.WriteOptions{Mode: 0o600}),
	); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	run(gone, "true")
	w.backend.Lose(gone.ID())
	<-gone.Gone()
	handle := ""
	if worker != nil { // where there is room for it
		handle = run(worker, "echo hi")
		if err := worker.Files().WriteFile(t.Context(), "notes", []byte("héllo"), nil); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
	}
	return strings.NewReplacer("{handle}", handle, "{id}", id.ID(), "{exec}", exec, "{gone}", gone.ID(), "{other}", other.ID())
}

func (tt *wireTest) send(t *testing.T, w *testServer, path string) (*http.Response, string) {
	t.Helper()
	r := request(t.Context(), t, tt.method, "/", tt.body)
	target, err := url.ParseRequestURI(path)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = target.Path, target.RawPath, target.RawQuery
	for name, value := range tt.header {
		r.Header.Set(name, value)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// diffJSON compares two documents. Where want has a string with a "*", got may
// have anything that begins as the string does before it and ends as it does after
// it; where it is only "*", anything at all. Where an object of want has a property
// named "*", got's may have more.
func diffJSON(t *testing.T, want, got string) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("want: %v: %s", err, want)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Errorf("body is not JSON: %v: %s", err, got)
		return
	}
	if diff := cmp.Diff(w, mask(w, g)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func mask(want, got any) any {
	switch want := want.(type) {
	case string:
		before, after, ok := strings.Cut(want, "*")
		if s, isString := got.(string); ok && (want == "*" || isString && strings.HasPrefix(s, before) && strings.HasSuffix(s, after)) {
			return want
		}
	case map[string]any:
		if object, ok := got.(map[string]any); ok {
			masked := make(map[string]any)
			for name, v := range object {
				if w, ok := want[name]; ok || want["*"] == nil {
					masked[name] = mask(w, v)
				}
			}
			if more, ok := want["*"]; ok {
				masked["*"] = more
			}
			return masked
		}
	case []any:
		if array, ok := got.([]any); ok && len(array) == len(want) {
			masked := make([]any, len(array))
			for i := range array {
				masked[i] = mask(want[i], array[i])
			}
			return masked
		}
	}
	return got
}
