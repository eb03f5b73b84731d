package benchtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// Egress reports what a request and a download through the way out of a sandbox of b cost
// beside the same on this machine. It closes the sandbox with the benchmark.
func Egress(tb *testing.B, b backend.Backend) {
	large := make([]byte, 64<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.Write(large[:size])
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	name := strings.Replace(addr, "127.0.0.1", "server.test", 1)
	sb, err := sandbox.New(tb.Context(), b, &sandbox.Options{
		Config: sandbox.Config{Egress: &sandbox.Egress{Allow: []string{name}}},
		Egress: sandbox.EgressOptions{
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
			},
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	defer sb.Close(context.Background())
	program := programtest.Build(tb, egressClient)
	content, err := os.ReadFile(program)
	if err == nil {
		err = sb.Files().WriteFile(tb.Context(), "client", content, &sandbox.WriteOptions{Mode: 0o755})
	}
	if err != nil {
		tb.Fatal(err)
	}
	for _, way := range []struct {
		name        string
		size, count int
	}{
		{"plain", 1, 50}, {"plain-new", 1, 50}, {"connect", 1, 50}, {"connect-new", 1, 50},
		{"plain", len(large), 2}, {"connect", len(large), 2},
	} {
		tb.Run(fmt.Sprintf("%s/%d", way.name, way.size), func(tb *testing.B) {
			args := []string{way.name, name, strconv.Itoa(way.size), strconv.Itoa(way.count)}
			var near, far []time.Duration
			for tb.Loop() {
				out, err := exec.Command(program, append([]string{way.name, addr}, args[2:]...)...).Output()
				if err != nil {
					tb.Fatal(err)
				}
				near = append(near, durations(tb, string(out))...)
				rec, err := sb.Run(tb.Context(), sandbox.Command{Argv: append([]string{"./client"}, args...)})
				if err != nil || rec.ExitCode == nil || *rec.ExitCode != 0 {
					tb.Fatalf("%v: %+v", err, rec)
				}
				far = append(far, durations(tb, rec.Stdout.String())...)
			}
			direct, egress := Median(near), Median(far)
			tb.ReportMetric(0, "ns/op")
			if way.size > 1 {
				tb.ReportMetric(float64(way.size)/direct.Seconds()/1e6, "direct-MB/s")
				tb.ReportMetric(float64(direct)/float64(egress), "of-direct")
				return
			}
			tb.ReportMetric(direct.Seconds()*1e3, "direct-ms")
			tb.ReportMetric((egress-direct).Seconds()*1e3, "added-ms")
		})
	}
}

// durations are those that a client has printed.
func durations(tb *testing.B, printed string) (all []time.Duration) {
	for _, text := range strings.Fields(printed) {
		ns, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, time.Duration(ns))
	}
	return all
}

// egressClient is the source of a program that measures what it takes to ask a server, through
// the proxy of its environment if there is one. Its arguments are the way, the server's host
// and port, how many bytes to ask for, and how often. It prints how long each took, in ns.
const egressClient = `package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	way, server, size := os.Args[1], os.Args[2], os.Args[3]
	n, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	c := &client{server: server, path: "/" + size, buffer: make([]byte, 256<<10)}
	if c.proxy = strings.TrimPrefix(os.Getenv("HTTP_PROXY"), "http://"); c.proxy == "" {
		c.proxy = server
	} else if c.tunnel = strings.HasPrefix(way, "connect"); !c.tunnel {
		c.path = "http://" + server + c.path
	}
	for range n {
		begun := time.Now()
		if c.conn == nil {
			c.dial()
		}
		c.get()
		if strings.HasSuffix(way, "-new") {
			c.conn.Close()
			c.conn = nil
		}
		fmt.Println(time.Since(begun).Nanoseconds())
	}
}

type client struct {
	server, proxy, path string
	tunnel              bool
	buffer              []byte
	conn                net.Conn
	r                   *bufio.Reader
}

func (c *client) dial() {
	conn, err := net.Dial("tcp", c.proxy)
	if err != nil {
		log.Fatal(err)
	}
	c.conn, c.r = conn, bufio.NewReader(conn)
	if c.tunnel {
		c.ask("CONNECT", c.server)
	}
}

func (c *client) get() {
	resp := c.ask("GET", c.path)
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, c.buffer); err != nil {
		log.Fatal(err)
	}
}

func (c *client) ask(method, target string) *http.Response {
	fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, target, c.server)
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil || resp.StatusCode != http.StatusOK {
		log.Fatal(method, target, resp, err)
	}
	return resp
}
`
