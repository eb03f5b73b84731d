package httpapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/httpapi"
	"github.com/sandbox-go/sandbox/internal/benchtest"
)

// BenchmarkExec prints what a call over loopback TCP takes, a Run of the same command and a
// call of a handler that only reads its body and answers, as medians of the same run; and
// what the call adds to both of them.
func BenchmarkExec(b *testing.B) {
	for _, api := range []struct{ name, path, body string }{
		{"rooms", room, `{"cmd":"echo hi"}`},
		{"sandboxes", exec, `{"command":"echo hi"}`},
		{"agents", agent, `{"command":"echo hi"}`},
	} {
		b.Run(api.name, func(b *testing.B) {
			w := start(b, nil)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go w.server.Serve(l)
			w.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
			}
			path := api.path
			id := w.sandbox(b, "a")
			if path == exec {
				path = "/v1/sandboxes/" + id + "/exec"
			}
			sb, err := w.manager.Get(sandbox.Key{Owner: "a", Namespace: httpapi.Sandboxes, Name: id})
			if err != nil {
				b.Fatal(err)
			}
			empty := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				io.WriteString(rw, "{}")
			}))
			defer empty.Close()
			var nothing, run, call []time.Duration
			for b.Loop() {
				began := time.Now()
				response, err := empty.Client().Post(empty.URL, "application/json", strings.NewReader(api.body))
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				nothing = append(nothing, time.Since(began))
				began = time.Now()
				if _, err := sb.Run(b.Context(), sandbox.Command{Shell: "echo hi"}); err != nil {
					b.Fatal(err)
				}
				run = append(run, time.Since(began))
				began = time.Now()
				if code, body := w.do(b, "POST", path, api.body); code != 200 {
					b.Fatalf("%d: %s", code, body)
				}
				call = append(call, time.Since(began))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(run), "run-µs")
			b.ReportMetric(median(call), "call-µs")
			b.ReportMetric(median(nothing), "empty-µs")
			b.ReportMetric(median(call)-median(run)-median(nothing), "added-µs")
		})
	}
}

// median returns the median in microseconds.
func median(d []time.Duration) float64 {
	return float64(benchtest.Median(d).Nanoseconds()) / 1000
}
