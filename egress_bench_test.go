package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"testing"
)

// proxyTo has a transport use a proxy for what the environment would not use one for.
func proxyTo(tb testing.TB, proxy string) func(*http.Request) (*url.URL, error) {
	u, err := url.Parse(proxy)
	if err != nil {
		tb.Fatal(err)
	}
	return http.ProxyURL(u)
}

// benchmarkIdle reports what an idle connection costs, in all that this process has.
func benchmarkIdle(b *testing.B, proxy string) {
	const n = 1000
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var far []net.Conn
	accepted := make(chan net.Conn, n)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	host := proxy[len("http://"):]
	for b.Loop() {
		before := memory()
		var near []net.Conn
		for range n {
			conn, err := net.Dial("tcp", host)
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\n\r\n", l.Addr())
			if line, _ := bufio.NewReaderSize(io.LimitReader(conn, int64(len(established))), 16).ReadString('\n'); line != established[:len(line)] || line == "" {
				b.Fatalf("answered %q", line)
			}
			near, far = append(near, conn), append(far, <-accepted)
		}
		b.ReportMetric(float64(memory()-before)/n/1024, "KiB/connection")
		for _, conn := range append(near, far...) {
			conn.Close()
		}
		far = nil
	}
}

// memory is what the process has in use of heap and stacks.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
