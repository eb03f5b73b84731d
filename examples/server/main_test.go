package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/internal/programtest"
)

// bin is the built server.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "server")
	if err != nil {
		panic(err)
	}
	bin = filepath.Join(dir, "server")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as deploy/deployment.yaml has it
	out, err := build.CombinedOutput()
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Printf("build: %v\n%s", err, out)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// A service is the built binary, running.
type service struct {
	url    string
	key    string // the one it made, or empty
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read once it has ended
}

// serve starts the server, and kills what is left with the test.
func serve(t *testing.T, env []string, args ...string) *service {
	t.Helper()
	s := &service{cmd: exec.Command(bin, append([]string{"-addr", "127.0.0.1:0"}, args...)...)}
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", &s.stderr)
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if key, ok := strings.CutPrefix(lines.Text(), "key for this run: "); ok {
			s.key = key
		}
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			s.url = url
			return s
		}
	}
	t.Fatalf("the server has not started: %v", s.cmd.Wait())
	return nil
}

// begin makes a request.
func (s *service) begin(t *testing.T, key, method, path, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// do makes a request and checks the status code and a part of the body.
func (s *service) do(t *testing.T, key, method, path, body string, code int, part string, header ...string) string {
	t.Helper()
	resp := s.begin(t, key, method, path, body, header...)
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != code || !strings.Contains(string(got), part) {
		t.Errorf("%s %s: %d: %s; want %d and %q", method, path, resp.StatusCode, got, code, part)
	}
	return string(got)
}

func TestServes(t *testing.T) {
	s := serve(t, []string{"SANDBOX_API_KEYS=one, two"}, "-keys", keyFile(t, "# me\n\nthree\n us:  four \nus: five\n"), "-open-rooms", "-host", "rooms.example.com")
	s.do(t, "", "GET", "/healthz", "", 200, "ok")
	s.do(t, "", "GET", "/openapi.yaml", "", 200, "openapi: 3.1")
	s.do(t, "", "GET", "/nothing", "", 404, "")

	s.do(t, "", "POST", "/api/rooms/r/sandbox/exec", `{"cmd":"echo hi >file; cat file"}`, 200, `"stdout":"hi\n"`)
	s.do(t, "", "POST", "/api/rooms//sandbox/exec", `{"cmd":"true"}`, 404, `"error":"not found - room ID is required"`)
	s.do(t, "", "POST", "/api/rooms/r/sandbox/exec", `{"cmd":"true"}`, 403, `"error"`, "Sec-Fetch-Site", "cross-site")
	for host, code := range map[string]int{"rooms.example.com": 200, "localhost:1": 200, "evil.example": 403, "evil.example:8080": 403, "127.0.0.1.evil.example": 403} {
		s.do(t, "", "POST", "/api/rooms/r/sandbox/exec", `{"cmd":"true"}`, code, "", "Host", host)
	}
	s.do(t, "", "DELETE", "/api/rooms/r", "", 200, `"success":true`)

	s.do(t, "", "POST", "/agents/a/sandbox/exec", `{"command":"true"}`, 401, `"code":"UNAUTHORIZED"`)
	s.do(t, "one", "POST", "/agents/a/sandbox/exec", `{"command":"pwd >/dev/null; exit 3","workdir":"/home/user"}`, 200, `"exitCode":3`)
	s.do(t, "three", "POST", "/agents/a/sandbox/exec", `{"command":"sleep 60","timeout":0.2}`, 200, `"exitCode":124`)

	made := s.do(t, "two", "POST", "/v1/sandboxes", `{}`, 201, `"status":"running"`)
	id := made[len(`{"id":"`):][:len("sbx_")+26]
	s.do(t, "two", "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"echo $A","env":{"A":"b"}}`, 200, `"stdout":"b\n"`)
	s.do(t, "two", "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"echo $A","env":{"A":"b"},"stream":true}`, 200, "event: exit\n")
	s.do(t, "one", "GET", "/v1/sandboxes/"+id, "", 404, `"type":"not_found"`)
	four := s.do(t, "four", "POST", "/v1/sandboxes", `{}`, 201, "")[len(`{"id":"`):][:len("sbx_")+26]
	s.do(t, "five", "GET", "/v1/sandboxes/"+four, "", 200, "") // of the same owner
	s.do(t, "one", "GET", "/v1/sandboxes//executions", "", 404, `"type":"not_found"`)
	s.do(t, "two", "PUT", "/v1/sandboxes/"+id+"/files", `{"path":"d/f","content":"hi"}`, 200, `"size_bytes":2`)
	s.do(t, "two", "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"cat d/f"}`, 200, `"stdout":"hi"`)
	s.do(t, "two", "POST", "/v1/sandboxes/"+id+"/ports", `{"port":3000}`, 200, `"url":"`+s.url+`/v1/sandboxes/`+id+`/ports/3000/`)
	s.stop(t)
}

// keyFile returns a file of keys that only this user can read.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Keys that everybody can read, or that are no keys, are no start, and no root is none.
func TestRefuses(t *testing.T) {
	open := keyFile(t, "secret")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-key", "secret"}, "not defined: -key"},
		{[]string{"-keys", open}, "can be read by everybody"},
		{[]string{"-keys", keyFile(t, "# none\n")}, "has no key"},
		{[]string{"-keys", keyFile(t, "secret\nme: \n")}, "line 2"},
		{[]string{"-keys", keyFile(t, "two words\n")}, "line 1"},
		{[]string{"-keys", "/no/such/file"}, "/no/such/file"},
		{[]string{"-root", "/no/such/file"}, "no such file"},
		{[]string{"-root", keyFile(t, "no archive")}, "no tar archive"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out, err := exec.CommandContext(ctx, bin, append([]string{"-addr", "127.0.0.1:0"}, tt.args...)...).CombinedOutput()
		cancel()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), tt.want) {
			t.Errorf("%q: %v: %s; want %q", tt.args, err, out, tt.want)
		}
	}
}

// Where commands run as the service's user, no key is safe from them, and who runs the
// service is told.
func TestWarnsOfCommandsAsTheServicesUser(t *testing.T) {
	s := serve(t, nil, "-keys", keyFile(t, "secret"))
	uid := s.do(t, "secret", "POST", "/agents/a/sandbox/exec", `{"command":"id -u"}`, 200, "")
	s.stop(t)
	shared := strings.Contains(uid, fmt.Sprintf(`"stdout":"%d\n"`, os.Getuid()))
	if warned := strings.Contains(s.stderr.String(), "commands run as this service's user"); warned != shared {
		t.Errorf("commands run as the service's user: %v, warned: %v", shared, warned)
	}
	if strings.Contains(s.stderr.String(), "secret") {
		t.Error("the log has the key")
	}
}

func TestMakesAKey(t *testing.T) {
	s := serve(t, []string{"SANDBOX_API_KEYS="})
	if s.key == "" {
		t.Fatal("no key was printed")
	}
	s.do(t, "", "POST", "/api/rooms/r/sandbox/exec", `{"cmd":"true"}`, 401, `"error"`)
	s.do(t, s.key, "POST", "/api/rooms/r/sandbox/exec", `{"cmd":"true"}`, 200, `"result"`)
	s.stop(t)
}

func TestSIGTERMEndsStreamsAndLeavesNothing(t *testing.T) {
	s := serve(t, nil, "-keys", keyFile(t, "k"))
	made := s.do(t, "k", "POST", "/v1/sandboxes", `{}`, 201, "")
	id := made[len(`{"id":"`):][:len("sbx_")+26]
	// Nothing else on the machine sleeps for so long.
	span := fmt.Sprintf("%d.%09d", 100_000+os.Getpid(), time.Now().Nanosecond())
	s.do(t, "k", "POST", "/agents/a/sandbox/exec", `{"command":"setsid sleep `+span+` >/dev/null 2>&1 & echo $!"}`, 200, "")
	resp := s.begin(t, "k", "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"(setsid sleep `+span+` &); echo ready; sleep `+span+`","stream":true}`)
	events := bufio.NewScanner(resp.Body)
	for events.Scan() && !strings.Contains(events.Text(), "ready") {
	}
	if runtime.GOOS == "linux" && len(programtest.Running(t, span)) < 3 {
		t.Errorf("running: %q", programtest.Running(t, span))
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	var last []string
	for events.Scan() {
		if line := events.Text(); line != "" {
			last = append(last, line)
		}
	}
	if n := len(last); n != 4 || last[1] != "event: exit" || !strings.Contains(last[2], `"status":"cancelled","exit_code":null`) {
		t.Errorf("after the signal: %q", last)
	}
	s.wait(t)
	if left := programtest.Running(t, span); left != nil {
		t.Errorf("left running: %q", left)
	}
}

// stop ends the server by SIGTERM.
func (s *service) stop(t *testing.T) {
	t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.wait(t)
}

// wait waits for the server's good end, for as long as it may take.
func (s *service) wait(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.cmd.Process.Kill() })
	defer stop()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
