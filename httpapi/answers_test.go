package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox/backend/fake"
)

const mib = 1 << 20

// printNULs has a command print that many zero bytes on both streams. Each is six in JSON.
func printNULs(b *fake.Backend, cmd string, n int) {
	b.Handle(cmd, func(p *fake.Process) int {
		piece := make([]byte, 64<<10)
		for range n / len(piece) {
			p.Stdout.Write(piece)
			p.Stderr.Write(piece)
		}
		return 0
	})
}

// An answer costs what is stored of the output and a buffer, however much JSON it is.
func TestAnswersAreEncodedAsTheyAreSent(t *testing.T) {
	const stored = 16 * mib
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		printNULs(w.backend, "nul 16", stored)
		printNULs(w.backend, "nul", mib)
		id := w.sandbox(t, "a")
		allocated := func(method, path, body string, want int64) int64 {
			t.Helper()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			conn := w.request(t, method, path, body)
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil || resp.StatusCode != 200 || n < want {
				t.Fatalf("%s %s: %d, %d bytes, %v; want at least %d", method, path, resp.StatusCode, n, err, want)
			}
			runtime.ReadMemStats(&after)
			return int64(after.TotalAlloc - before.TotalAlloc)
		}
		if got := allocated("POST", agent, `{"command":"nul 16","maxBuffer":16777216}`, 2*6*stored); got > 2*2*stored+12*mib {
			t.Errorf("to run it and to answer allocated %d MiB: 32 are stored, and the fake copies what is written", got/mib)
		}
		// The stored records: what is sent of them is 12 MiB each.
		for range 5 {
			allocated("POST", "/v1/sandboxes/"+id+"/exec", `{"command":"nul"}`, 12*mib)
		}
		if got := allocated("GET", "/v1/sandboxes/"+id+"/executions", "", 5*12*mib); got > 2*mib {
			t.Errorf("the list of five records allocated %d MiB", got/mib)
		}
		stream := allocated("POST", "/v1/sandboxes/"+id+"/exec", `{"command":"nul","stream":true}`, 12*mib)
		if stream > 8*mib {
			t.Errorf("a stream allocated %d MiB", stream/mib)
		}
		room := allocated("POST", room, `{"cmd":"nul"}`, 12*mib)
		if room > 8*mib {
			t.Errorf("an answer to a room allocated %d MiB", room/mib)
		}
	})
}

// The time to take an answer begins when it is being sent, and anew with each piece that
// is taken. The log says what the client got.
func TestSlowClients(t *testing.T) {
	slow := func(w *testServer, out *bytes.Buffer) {
		w.server.WriteTimeout = time.Second
		w.opts.Logger = slog.New(slog.NewTextHandler(out, nil))
	}
	for _, tt := range []struct{ name, method, path, body string }{
		{"room", "POST", room, `{"cmd":"nul"}`},
		{"agent", "POST", agent, `{"command":"nul"}`},
		{"sandbox", "POST", exec, `{"command":"nul"}`},
		{"stream", "POST", exec, `{"command":"nul","stream":true}`},
		{"records", "GET", "/v1/sandboxes/{id}/executions", ""},
	} {
		inBubble(t, tt.name+"/that-reads-slowly-gets-all", func(t *testing.T) {
			var out bytes.Buffer
			w := start(t, func(w *testServer) { slow(w, &out) })
			printNULs(w.backend, "nul", mib/4)
			id := w.sandbox(t, "a")
			w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"nul"}`)
			conn := w.request(t, tt.method, strings.Replace(tt.path, "{id}", id, 1), tt.body)
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got int64
			for err == nil {
				var n int64
				time.Sleep(20 * time.Second)
				n, err = io.CopyN(io.Discard, resp.Body, 40<<10)
				got += n
			}
			if err != io.EOF || got < 3*mib {
				t.Errorf("got %d bytes, then %v; want 3 MiB and EOF", got, err)
			}
			synctest.Wait()
			if last := lastLine(out.String()); !strings.Contains(last, fmt.Sprintf("bytes=%d", got)) || strings.Contains(last, "cut=true") {
				t.Errorf("got %d bytes, the log says %s", got, last)
			}
		})
		inBubble(t, tt.name+"/that-stops-reading-is-cut-off", func(t *testing.T) {
			var out bytes.Buffer
			w := start(t, func(w *testServer) { slow(w, &out) })
			printNULs(w.backend, "nul", mib)
			id := w.sandbox(t, "a")
			w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"nul"}`)
			conn := w.request(t, tt.method, strings.Replace(tt.path, "{id}", id, 1), tt.body)
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			io.CopyN(io.Discard, resp.Body, mib)
			time.Sleep(31 * time.Second)
			if tt.name == "stream" {
				time.Sleep(61 * time.Second) // first the command has to time out, which nobody reads
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != io.ErrUnexpectedEOF {
				t.Errorf("the answer ended with %v, want it cut off", err)
			}
			synctest.Wait()
			last := lastLine(out.String())
			var bytes int
			if m := regexp.MustCompile(` bytes=(\d+) cut=true err=`).FindStringSubmatch(last); m != nil {
				fmt.Sscan(m[1], &bytes)
			}
			if bytes < mib || bytes > 2*mib {
				t.Errorf("got a little more than 1 MiB, the log says %s", last)
			}
		})
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// A reader of event streams may have a limit of 64 KiB a line: no line is longer than
// 32 KiB, but for the last event's. And a reader may take a line that was cut off for the
// whole: then it has not seen the event's id, which comes after the data.
func TestEventLines(t *testing.T) {
	var seq, nul strings.Builder
	for i := range 150_000 {
		fmt.Fprintln(&seq, i+1)
	}
	nul.WriteString(strings.Repeat("\x00", 100_000) + strings.Repeat("€\xff\u2028", 30_000))
	for name, printed := range map[string]string{"seq": seq.String(), "escapes": nul.String()} {
		inBubble(t, name, func(t *testing.T) {
			w := start(t, nil)
			w.backend.Handle("say it", func(p *fake.Process) int {
				io.WriteString(p.Stdout, printed)
				return 0
			})
			id := w.sandbox(t, "a")
			_, body := w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", streamBody)
			var (
				name, data string
				offsets    []string
			)
			for i, line := range strings.Split(body, "\n") {
				field, value, _ := strings.Cut(line, ": ")
				if len(line) > 32<<10 && name != "exit" {
					t.Fatalf("line %d, of an event %s, has %d bytes", i, name, len(line))
				}
				switch field {
				case "event":
					name, data = value, ""
				case "data":
					data = value
				case "id":
					if data == "" {
						t.Fatalf("line %d: the id of an event %s comes before its data", i, name)
					}
					if name == "stdout" {
						offsets = append(offsets, value)
					}
				}
			}
			if len(offsets) < 10 {
				t.Fatalf("only %d events", len(offsets))
			}
			// Who has seen the first half of the events reads on from there.
			events := newEventReader(strings.NewReader(body)).all(t)
			half := len(offsets) / 2
			_, rest := w.do(t, "GET", "/v1/sandboxes/"+id+"/executions/"+idOf(t, events[0])+"/stream?offset="+offsets[half-1], "")
			seen := textOf(t, events[1:1+half], "stdout") + textOf(t, newEventReader(strings.NewReader(rest)).all(t), "stdout")
			if want := strings.ToValidUTF8(printed, "\uFFFD"); seen != want {
				t.Errorf("put together after %s, the text has %d bytes, want %d", offsets[half-1], len(seen), len(want))
			}
		})
	}
}

// idOf returns the execution's id in a start event.
func idOf(t *testing.T, e event) string {
	t.Helper()
	var start struct{ ID string }
	if err := json.Unmarshal([]byte(e.data), &start); err != nil {
		t.Fatal(err)
	}
	return start.ID
}

// request makes a request of owner a on a connection of its own and reads no answer.
func (w *testServer) request(t testing.TB, method, path, body string) net.Conn {
	t.Helper()
	conn, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer key-a\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
