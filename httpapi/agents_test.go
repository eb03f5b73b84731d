package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/internal/faketest"
	"github.com/sandbox-go/sandbox/internal/text"
)

type agentAnswer struct {
	ExitCode                   *int
	Handle, State              string
	Stdout, Stderr             string
	StdoutOffset, StderrOffset int64
}

func (w *testServer) agent(t testing.TB, method, path, body string) agentAnswer {
	t.Helper()
	code, got := w.do(t, method, path, body)
	var answer agentAnswer
	if err := json.Unmarshal([]byte(got), &answer); err != nil || code != 200 {
		t.Fatalf("%s %s: %d: %s", method, path, code, got)
	}
	return answer
}

func TestAgentSession(t *testing.T) {
	const hostile = "a\xe2\x82\xac\xffb\xe2\x82\xf0\x9f\x98\x80\xe2"

	inBubble(t, "reads-on-to-the-same-text", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("say it", func(p *fake.Process) int {
			for i := range len(hostile) {
				io.WriteString(p.Stdout, hostile[i:i+1])
				p.Sleep(time.Second)
			}
			io.WriteString(p.Stderr, "err")
			return 3
		})
		began := time.Now()
		a := w.agent(t, "POST", agent, `{"command":"say it","yield":1.5}`)
		if a.State != "running" || a.ExitCode != nil || a.Stdout != "a" || a.StdoutOffset != 1 || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("after %v: %+v", time.Since(began), a)
		}
		stdout, stderr, calls := a.Stdout, a.Stderr, 0
		for a.State == "running" {
			a = w.agent(t, "GET", fmt.Sprintf("%s/%s?stdoutOffset=%d&stderrOffset=%d&wait=60", agent, a.Handle, a.StdoutOffset, a.StderrOffset), "")
			stdout, stderr = stdout+a.Stdout, stderr+a.Stderr
			calls++
		}
		if want := text.String([]byte(hostile)); stdout != want || stderr != "err" || a.StdoutOffset != int64(len(hostile)) || *a.ExitCode != 3 {
			t.Errorf("%q and %q, want %q; %+v", stdout, stderr, want, a)
		}
		if calls < 4 || calls > len(hostile)+2 {
			t.Errorf("%d calls", calls)
		}
	})

	inBubble(t, "wait-is-bounded", func(t *testing.T) {
		w := start(t, nil)
		a := w.agent(t, "POST", agent, `{"command":"sleep 9000","yield":0}`)
		synctest.Wait()
		began := time.Now()
		a = w.agent(t, "GET", agent+"/"+a.Handle+"?stdoutOffset=2&wait=2.5", "")
		if d := time.Since(began); d != 2500*time.Millisecond || a.State != "running" || a.Stdout != "" || a.StdoutOffset != 2 {
			t.Errorf("after %v: %+v", d, a)
		}
	})

	inBubble(t, "a-command-that-ends-in-time-is-answered-as-ever", func(t *testing.T) {
		w := start(t, nil)
		a := w.agent(t, "POST", agent, `{"command":"exit 3","yield":5}`)
		if a.State != "exited" || *a.ExitCode != 3 || a.Stdout != "out\n" {
			t.Errorf("%+v", a)
		}
	})

	inBubble(t, "what-is-not-stored-is-not-waited-for", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("flood", func(p *fake.Process) int {
			for range 100 {
				io.WriteString(p.Stdout, "0123456789")
				p.Sleep(time.Second)
			}
			return 0
		})
		a := w.agent(t, "POST", agent, `{"command":"flood","yield":5.5,"maxBuffer":15}`)
		if a.Stdout != "012345678901234" || a.StdoutOffset != 15 {
			t.Errorf("%+v", a)
		}
		a = w.agent(t, "GET", agent+"/"+a.Handle+"?stdoutOffset=15&wait=3600", "")
		if a.State != "exited" || a.Stdout != "" || a.StdoutOffset != 15 {
			t.Errorf("%+v", a)
		}
	})

	inBubble(t, "takes-input-and-is-killed", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("cat", func(p *fake.Process) int { io.Copy(p.Stdout, p.Stdin); p.Sleep(time.Hour); return 0 })
		a := w.agent(t, "POST", agent, `{"command":"cat","yield":0,"openStdin":true}`)
		code, body := w.do(t, "POST", agent+"/"+a.Handle+"/stdin?close=true", "typed")
		if code != 200 {
			t.Errorf("%d", code)
		}
		diffJSON(t, `{"bytesWritten":5,"closed":true}`, body)
		if code, _ := w.do(t, "POST", agent+"/"+a.Handle+"/stdin", "more"); code != 409 {
			t.Errorf("after the end: %d", code)
		}
		synctest.Wait()
		for range 2 {
			a = w.agent(t, "DELETE", agent+"/"+a.Handle, "")
			if a.State != "exited" || a.ExitCode != nil || a.Stdout != "typed" {
				t.Errorf("%+v", a)
			}
		}
	})

	inBubble(t, "leaving-before-the-answer-cancels-and-after-it-does-not", func(t *testing.T) {
		records := make(chan *sandbox.Execution, 10)
		w := start(t, func(w *testServer) {
			w.limits.Observer = faketest.Records(func(_ sandbox.Key, rec *sandbox.Execution) {
				if rec.Status != sandbox.Running {
					records <- rec
				}
			})
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.client.Do(request(ctx, t, "POST", agent, `{"command":"sleep 9000","yield":10}`)); err == nil {
			t.Error("it was answered")
		}
		if rec := <-records; rec.Status != sandbox.Cancelled || rec.Duration > 2*time.Second {
			t.Errorf("%s after %v", rec.Status, rec.Duration)
		}
		w.agent(t, "POST", agent, `{"command":"sleep 9000","yield":1,"timeout":100}`)
		if rec := <-records; rec.Status != sandbox.TimedOut || rec.Duration != 100*time.Second {
			t.Errorf("%s after %v", rec.Status, rec.Duration)
		}
	})

	inBubble(t, "a-handle-is-its-agents-own", func(t *testing.T) {
		w := start(t, nil)
		a := w.agent(t, "POST", agent, `{"command":"true"}`)
		w.agent(t, "POST", "/agents/other/sandbox/exec", `{"command":"true"}`)
		for _, path := range []string{"/agents/other/sandbox/exec/" + a.Handle, "/agents/never/sandbox/exec/" + a.Handle, agent + "/exec_none"} {
			for method, suffix := range map[string]string{"GET": "", "DELETE": "", "POST": "/stdin"} {
				code, body := w.do(t, method, path+suffix, "")
				if code != 404 {
					t.Errorf("%s %s: %d", method, path, code)
				}
				diffJSON(t, `{"error":"there is no execution of that handle","code":"NOT_FOUND"}`, body)
			}
		}
		r := request(t.Context(), t, "GET", agent+"/"+a.Handle, "")
		r.Header.Set("Authorization", "Bearer key-b")
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 404 {
			t.Errorf("another owner: %d", resp.StatusCode)
		}
	})

	inBubble(t, "files-and-commands-see-the-same", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("cat f", func(p *fake.Process) int {
			root, err := p.Root()
			if err != nil {
				return 1
			}
			content, err := root.ReadFile("workspace/d/f")
			if err != nil {
				return 1
			}
			p.Stdout.Write(content)
			return 0
		})
		code, body := w.do(t, "POST", "/agents/agent_1/sandbox/write", `{"path":"/home/user/d/f","content":"héllo"}`)
		if code != 200 {
			t.Errorf("%d", code)
		}
		diffJSON(t, `{"success":true}`, body)
		if a := w.agent(t, "POST", agent, `{"command":"cat f"}`); a.Stdout != "héllo" {
			t.Errorf("%+v", a)
		}
		for request, want := range map[string]string{
			`{"path":"d/f"}`:                               `{"bytesRead":6,"content":"héllo"}`,
			`{"path":"d/f","limit":0,"offset":0}`:          `{"bytesRead":6,"content":"héllo"}`,
			`{"path":"d/f","limit":null,"offset":null}`:    `{"bytesRead":6,"content":"héllo"}`,
			`{"path":"d/f","limit":2,"offset":3}`:          `{"bytesRead":2,"content":"ll"}`,
			`{"path":"/workspace/d/f","offset":100}`:       `{"bytesRead":0,"content":""}`,
			`{"path":"d/f","limit":9999999,"encoding":""}`: `{"bytesRead":6,"content":"héllo"}`,
		} {
			_, body := w.do(t, "POST", "/agents/agent_1/sandbox/read", request)
			diffJSON(t, want, body)
		}
	})
}

// What is refused makes no sandbox.
func TestAgentFilesRefused(t *testing.T) {
	inBubble(t, "refused", func(t *testing.T) {
		w := start(t, nil)
		for _, body := range []string{`{}`, `{"path":""}`, `{"path":1}`, `{"path":"a\u0000"}`, `{"path":"` + strings.Repeat("x", 300) + `"}`, `{"path":"x","content":1}`, `{"path":"x","limit":-1}`, `{"path":"x","offset":0.5}`} {
			for _, op := range []string{"read", "write"} {
				if op == "write" && strings.Contains(body, `"x"`) && !strings.Contains(body, "content") {
					continue
				}
				if op == "read" && strings.Contains(body, "content") {
					continue
				}
				code, got := w.do(t, "POST", "/agents/"+url.PathEscape("a b")+"/sandbox/"+op, body)
				if code != 400 {
					t.Errorf("%s %s: %d: %s", op, body, code, got)
				}
			}
		}
		if calls := w.backend.Calls(); calls != nil {
			t.Errorf("the backend was asked for %v", calls)
		}
	})
}
