//go:build linux && (amd64 || arm64)

package agentclient_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/relay"
)

// What it costs to come out through an agent, beside a direct connection: a round trip,
// a download, and an idle connection in the memory of the agent.
func BenchmarkListener(b *testing.B) {
	l := agentclient.NewListener()
	defer l.Close()
	agent := startAgentWith(b, agentclient.Options{Listener: l})
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	go serveBytes(server)
	go func() { // as package sandbox does, without what decides
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				upstream, err := net.Dial("tcp", server.Addr().String())
				if err != nil {
					conn.Close()
					return
				}
				relay.Both(conn, upstream)
			}()
		}
	}()
	for _, way := range []struct{ name, addr string }{{"direct", server.Addr().String()}, {"agent", l.Addr().String()}} {
		b.Run("round-trip/"+way.name, func(b *testing.B) {
			conn := dialBench(b, way.addr)
			for b.Loop() {
				download(b, conn, 1)
			}
		})
		b.Run("download/"+way.name, func(b *testing.B) {
			const size = 16 << 20
			conn := dialBench(b, way.addr)
			b.SetBytes(size)
			for b.Loop() {
				download(b, conn, size)
			}
		})
	}
	b.Run("idle", func(b *testing.B) {
		const n = 1000
		for b.Loop() {
			before := resident(b, agent.cmd.Process.Pid)
			for range n {
				download(b, dialBench(b, l.Addr().String()), 1)
			}
			b.ReportMetric(float64(resident(b, agent.cmd.Process.Pid)-before)/n, "KiB-of-the-agent/connection")
		}
	})
}

// serveBytes sends as many bytes as each line says.
func serveBytes(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for {
				var n int64
				if _, err := fmt.Fscanln(conn, &n); err != nil {
					return
				}
				if _, err := io.CopyN(conn, zeros{}, n); err != nil {
					return
				}
			}
		}()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func dialBench(b *testing.B, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

func download(b *testing.B, conn net.Conn, n int64) {
	fmt.Fprintln(conn, n)
	if _, err := io.CopyN(io.Discard, conn, n); err != nil {
		b.Fatal(err)
	}
}

// resident returns the resident memory of a process in KiB.
func resident(b *testing.B, pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		b.Fatal(err)
	}
	return n
}
