package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// An outside is what there is to connect to: names and their addresses, and one server
// that every address leads to. It says what it was asked, and is an echo after a line
// "echo".
type outside struct {
	addr  string // of the server
	names map[string][]string

	mu       sync.Mutex // guards what follows
	resolved []string
	dialled  []string
}

func newOutside(t testing.TB) *outside {
	t.Helper()
	o := &outside{names: map[string][]string{
		"public.test":   {"93.184.216.34"},
		"other.test":    {"93.184.216.35"},
		"a.below.test":  {"93.184.216.36"},
		"mixed.test":    {"10.0.0.1", "93.184.216.34"},
		"metadata.test": {"169.254.169.254"},
		"private.test":  {"10.0.0.1"},
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.addr = l.Addr().String()
	echoes := make(chan net.Conn)
	requests := &queueListener{Listener: l, conns: make(chan net.Conn), done: make(chan struct{})}
	server := &httptest.Server{Listener: requests, Config: &http.Server{Handler: http.HandlerFunc(o.answer)}}
	server.Start()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				r := bufio.NewReader(conn)
				if line, err := r.Peek(5); err == nil && string(line) == "echo\n" {
					io.Copy(conn, r)
					conn.Close()
					return
				}
				select {
				case requests.conns <- &readAhead{conn, r}:
				case <-requests.done:
					conn.Close()
				}
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		server.Close()
		close(echoes)
	})
	return o
}

type queueListener struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (q *queueListener) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *queueListener) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

type readAhead struct {
	net.Conn
	r *bufio.Reader
}

func (c *readAhead) Read(p []byte) (int, error) { return c.r.Read(p) }

// answer says what was asked.
func (o *outside) answer(w http.ResponseWriter, r *http.Request) {
	if to := r.URL.Query().Get("redirect"); to != "" {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s host=%s secret=%q body=%q\n", r.Method, r.RequestURI, r.Host, r.Header.Get("X-Secret"), body)
}

// options are those with which names and addresses are the outside's.
func (o *outside) options() sandbox.EgressOptions {
	return sandbox.EgressOptions{
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.resolved = append(o.resolved, name)
			var addrs []netip.Addr
			for _, text := range o.names[name] {
				addrs = append(addrs, netip.MustParseAddr(text))
			}
			if addrs == nil {
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			}
			return addrs, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			o.mu.Lock()
			o.dialled = append(o.dialled, network+" "+address)
			o.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "tcp", o.addr)
		},
	}
}

// led returns where connections have led since the last call.
func (o *outside) led() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	led := o.dialled
	o.dialled = nil
	return led
}

// An egressBox is a sandbox on the fake in which functions run.
type egressBox struct {
	testing.TB
	sandbox.Sandbox
	run func(*fake.Process)
}

func newEgressBox(t testing.TB, cfg *sandbox.Egress, opts sandbox.Options) *egressBox {
	t.Helper()
	box := &egressBox{TB: t}
	b := fake.New(nil)
	b.Handle("inside", func(p *fake.Process) int {
		box.run(p)
		return 0
	})
	opts.Config.Egress = cfg
	sb, err := sandbox.New(t.Context(), b, &opts)
	if err != nil {
		t.Fatal(err)
	}
	box.Sandbox = sb
	t.Cleanup(func() {
		if err := sb.Close(context.Background()); err != nil {
			t.Error(err)
		}
		b.Close(context.Background())
	})
	return box
}

// inside runs do as a command of the sandbox, to its end.
func (b *egressBox) inside(do func(*fake.Process)) {
	b.Helper()
	b.run = do
	rec, err := b.Run(b.Context(), sandbox.Command{Shell: "inside", Timeout: time.Minute})
	if err != nil || rec.Status != sandbox.Completed {
		b.Fatalf("run: %v, %v", rec, err)
	}
}

// proxyOf is the host and port of the proxy that a process is told of.
func proxyOf(p *fake.Process) string {
	u, err := url.Parse(p.Getenv("HTTP_PROXY"))
	if err != nil {
		panic(err)
	}
	return u.Host
}

// send sends bytes to the proxy, and returns all that it answers until it, or the far end,
// closes.
func (b *egressBox) send(raw string) (answer string) {
	b.Helper()
	b.inside(func(p *fake.Process) {
		conn, err := p.Dial(b.Context(), "tcp", proxyOf(p))
		if err != nil {
			b.Errorf("the proxy: %v", err)
			return
		}
		defer conn.Close()
		go func() {
			io.WriteString(conn, raw)
			if !strings.Contains(raw, " http://") { // a server takes its end for the client's
				conn.(interface{ CloseWrite() error }).CloseWrite()
			}
		}()
		got, _ := io.ReadAll(conn)
		answer = string(got)
	})
	return answer
}

// client is an HTTP client inside that looks at the environment as others do.
func client(p *fake.Process) *http.Client {
	proxy := func(r *http.Request) (*url.URL, error) {
		name := map[string]string{"http": "HTTP_PROXY", "https": "HTTPS_PROXY"}[r.URL.Scheme]
		return url.Parse(p.Getenv(name))
	}
	return &http.Client{Transport: &http.Transport{Proxy: proxy, DialContext: p.Dial, DisableKeepAlives: true}}
}

// connectTo is a CONNECT, and text for behind it.
func connectTo(target, text string) string {
	return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" + text
}

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// Each is a request as raw bytes, and what the sandbox is answered and where it is led.
func TestEgressDecides(t *testing.T) {
	const publicIP = "tcp 93.184.216.34:"
	http1 := func(line string, headers ...string) string {
		return line + " HTTP/1.1\r\n" + strings.Join(append(headers, "Connection: close"), "\r\n") + "\r\n\r\n"
	}
	socks := func(kind byte, host string, port int) string {
		text := "\x05\x01\x00\x05\x01\x00" + string(kind)
		if kind == 3 {
			text += string(byte(len(host)))
		}
		return text + host + string([]byte{byte(port >> 8), byte(port)}) + "echo\n"
	}
	tests := []struct {
		name  string
		allow []string
		send  string
		want  string   // is in the answer
		led   []string // where connections led
	}{
		// What is allowed.
		{"connect", []string{"public.test"}, connectTo("public.test:443", "echo\nx"), established + "echo\nx", []string{publicIP + "443"}},
		{"connect-to-a-port", []string{"public.test:22"}, connectTo("public.test:22", "echo\n"), established, []string{publicIP + "22"}},
		{"connect-to-any-port", []string{"public.test:*"}, connectTo("public.test:2222", "echo\n"), established, []string{publicIP + "2222"}},
		{"plain", []string{"public.test"}, http1("GET http://public.test/a%2fb?c;d=%zz", "Host: public.test"),
			"GET /a%2fb?c;d=%zz host=public.test", []string{publicIP + "80"}},
		{"below", []string{"*.below.test"}, connectTo("a.below.test:443", "echo\n"), established, []string{"tcp 93.184.216.36:443"}},
		{"every-host", []string{"*"}, connectTo("public.test:443", "echo\n"), established, []string{publicIP + "443"}},
		{"every-public-address", []string{"*"}, connectTo("93.184.216.34:443", "echo\n"), established, []string{publicIP + "443"}},
		{"an-address", []string{"93.184.216.34"}, connectTo("93.184.216.34:443", "echo\n"), established, []string{publicIP + "443"}},
		{"a-private-address-by-a-rule", []string{"10.0.0.0/8"}, connectTo("10.0.0.1:443", "echo\n"), established, []string{"tcp 10.0.0.1:443"}},
		{"a-name-of-a-private-address-by-two", []string{"private.test:443", "10.0.0.1:443"}, connectTo("private.test:443", "echo\n"), established, []string{"tcp 10.0.0.1:443"}},
		{"ipv6-by-a-rule", []string{"[fd00::/8]:443"}, connectTo("[fd00::1]:443", "echo\n"), established, []string{"tcp [fd00::1]:443"}},
		{"only-the-public-address-of-a-mixed-name", []string{"mixed.test"}, connectTo("mixed.test:443", "echo\n"), established, []string{publicIP + "443"}},
		{"upper-case", []string{"Public.TEST"}, connectTo("pUBLIC.test:443", "echo\n"), established, []string{publicIP + "443"}},
		{"trailing-dot", []string{"public.test"}, connectTo("public.test.:443", "echo\n"), established, []string{publicIP + "443"}},
		{"http2-is-bytes", []string{"public.test"}, connectTo("public.test:443", "echo\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "echo\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []string{publicIP + "443"}},
		{"socks-name", []string{"public.test"}, socks(3, "public.test", 443), "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00echo\n", []string{publicIP + "443"}},
		{"socks-address", []string{"93.184.216.34"}, socks(1, "\x5d\xb8\xd8\x22", 443), "\x05\x00\x05\x00\x00", []string{publicIP + "443"}},

		// What is not.
		{"no-rules", nil, connectTo("public.test:443", "x"), `403 egress: public.test:443 is not allowed from this sandbox; the rule to add is "public.test:443"`, nil},
		{"another-host", []string{"other.test"}, connectTo("public.test:443", "x"), "HTTP/1.1 403 ", nil},
		{"another-port", []string{"public.test:443"}, connectTo("public.test:22", "x"), `the rule to add is "public.test:22"`, nil},
		{"no-default-port", []string{"public.test"}, connectTo("public.test:8080", "x"), "HTTP/1.1 403 ", nil},
		{"not-itself-below", []string{"*.below.test"}, connectTo("below.test:443", "x"), "HTTP/1.1 403 ", nil},
		{"an-end-is-not-below", []string{"*.below.test"}, connectTo("xbelow.test:443", "x"), "HTTP/1.1 403 ", nil},
		{"a-beginning-is-not-it", []string{"public.test"}, connectTo("public.test.evil.test:443", "x"), "HTTP/1.1 403 ", nil},
		{"an-address-of-the-name", []string{"public.test"}, connectTo("93.184.216.34:443", "x"), "HTTP/1.1 403 ", nil},
		{"a-plain-request", []string{"public.test"}, http1("GET http://other.test/", "Host: other.test"), `403 Forbidden`, nil},
		{"socks-refused", []string{"public.test"}, socks(3, "other.test", 443), "\x05\x00\x05\x02\x00", nil},
		{"socks-bind", []string{"*"}, strings.Replace(socks(3, "public.test", 443), "\x05\x01\x00\x03", "\x05\x02\x00\x03", 1), "\x05\x00\x05\x07", nil},
		{"no-such-name", []string{"*"}, connectTo("nowhere.test:443", "x"), "HTTP/1.1 502 egress: the name nowhere.test has no address", nil},

		// Addresses that no name must lead to, however it is spelt.
		{"private", []string{"*"}, connectTo("10.0.0.1:443", "x"), `leads to a private address, which is refused unless a rule names that address and port; the rule to add is "10.0.0.1:443"`, nil},
		{"a-name-of-a-private-address", []string{"private.test"}, connectTo("private.test:443", "x"), "403 egress: private.test:443 leads to a private address", nil},
		{"a-name-of-metadata", []string{"*"}, http1("GET http://metadata.test/latest", "Host: metadata.test"), "leads to a metadata address", nil},
		{"loopback", []string{"*"}, connectTo("127.0.0.1:443", "x"), "loopback address", nil},
		{"loopback-by-ipv6", []string{"*"}, connectTo("[::1]:443", "x"), "loopback address", nil},
		{"ipv4-in-ipv6", []string{"*"}, connectTo("[::ffff:127.0.0.1]:443", "x"), "loopback address", nil},
		{"ipv4-in-ipv6-as-numbers", []string{"*"}, connectTo("[::ffff:a9fe:a9fe]:80", "x"), "metadata address", nil},
		{"ipv4-compatible", []string{"*"}, connectTo("[::7f00:1]:443", "x"), "reserved address", nil},
		{"nat64", []string{"*"}, connectTo("[64:ff9b::7f00:1]:443", "x"), "translated address", nil},
		{"6to4", []string{"*"}, connectTo("[2002:7f00:1::]:443", "x"), "translated address", nil},
		{"unspecified", []string{"*"}, connectTo("0.0.0.0:443", "x"), "unspecified address", nil},
		{"unspecified-ipv6", []string{"*"}, connectTo("[::]:443", "x"), "unspecified address", nil},
		{"shared", []string{"*"}, connectTo("100.64.0.1:443", "x"), "private address", nil},
		{"link-local", []string{"*"}, connectTo("[fe80::1]:443", "x"), "link-local address", nil},
		{"a-zone", []string{"*"}, connectTo("[fe80::1%25eth0]:443", "x"), "HTTP/1.1 40", nil},
		{"multicast", []string{"*"}, connectTo("224.0.0.1:443", "x"), "multicast address", nil},
		{"broadcast", []string{"*"}, connectTo("255.255.255.255:443", "x"), "reserved address", nil},
		{"decimal", []string{"*"}, connectTo("2130706433:443", "x"), "is no host", nil},
		{"hexadecimal", []string{"*"}, connectTo("0x7f000001:443", "x"), "is no host", nil},
		{"octal", []string{"*"}, connectTo("0177.0.0.1:443", "x"), "is no host", nil},
		{"short", []string{"*"}, connectTo("127.1:443", "x"), "is no host", nil},
		{"decimal-with-a-dot", []string{"*"}, connectTo("2130706433.:443", "x"), "is no host", nil},
		{"address-with-a-dot", []string{"*"}, connectTo("127.0.0.1.:443", "x"), "is no host", nil},
		{"two-dots", []string{"*"}, connectTo("public.test..:443", "x"), "is no host", nil},
		{"wide-digits", []string{"*"}, connectTo("１２７.0.0.1:443", "x"), "HTTP/1.1 40", nil},
		{"socks-mapped", []string{"*"}, socks(4, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01", 443), "\x05\x00\x05\x02\x00", nil},
		{"socks-decimal", []string{"*"}, socks(3, "2130706433", 443), "\x05\x00\x05\x02\x00", nil},
		{"socks-nul", []string{"*"}, socks(3, "public.test\x00.evil.test", 443), "\x05\x00\x05\x02\x00", nil},

		// Requests that mean to be misread.
		{"userinfo", []string{"public.test"}, connectTo("public.test:443@other.test:443", "x"), "HTTP/1.1 400 ", nil},
		{"userinfo-in-a-url", []string{"*"}, http1("GET http://public.test@other.test/", "Host: public.test"), "HTTP/1.1 400 ", nil},
		{"a-path-in-connect", []string{"*"}, connectTo("public.test:443/x", "x"), "HTTP/1.1 400 ", nil},
		{"no-port", []string{"*"}, connectTo("public.test", "x"), "HTTP/1.1 400 ", nil},
		{"port-0", []string{"*"}, connectTo("public.test:0", "x"), "HTTP/1.1 400 ", nil},
		{"port-65979", []string{"*"}, connectTo("public.test:65979", "x"), "HTTP/1.1 400 ", nil},
		{"port-with-a-sign", []string{"*"}, connectTo("public.test:+443", "x"), "HTTP/1.1 400 ", nil},
		{"another-host-header", []string{"public.test", "other.test"}, http1("GET http://public.test/", "Host: other.test"), "host=public.test", []string{publicIP + "80"}},
		{"an-allowed-host-header", []string{"public.test"}, http1("GET http://other.test/", "Host: public.test"), "403 Forbidden", nil},
		{"no-url", []string{"*"}, http1("GET /", "Host: public.test"), "HTTP/1.1 400 ", nil},
		{"https-in-the-clear", []string{"*"}, http1("GET https://public.test/", "Host: public.test"), "use CONNECT", nil},
		{"ftp", []string{"*"}, http1("GET ftp://public.test/", "Host: public.test"), "HTTP/1.1 400 ", nil},
		{"trace", []string{"*"}, http1("TRACE http://public.test/", "Host: public.test"), "HTTP/1.1 400 ", nil},
		{"http2", []string{"*"}, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 ", nil},
		{"socks4", []string{"*"}, "\x04\x01\x01\xbb\x5d\xb8\xd8\x22\x00", "400 Bad Request", nil},
		{"a-second-request-elsewhere", []string{"public.test"},
			"GET http://public.test/1 HTTP/1.1\r\nHost: public.test\r\n\r\n" + http1("GET http://other.test/2", "Host: other.test"),
			`the rule to add is "other.test:80"`, []string{publicIP + "80"}},
		{"a-request-in-a-body", []string{"public.test"},
			"POST http://public.test/ HTTP/1.1\r\nHost: public.test\r\nContent-Length: 39\r\nConnection: close\r\n\r\nGET http://other.test/ HTTP/1.1\r\nHost: ",
			`body="GET http://other.test/ HTTP/1.1\r\nHost: "`, []string{publicIP + "80"}},
		{"two-lengths", []string{"public.test"},
			"POST http://public.test/ HTTP/1.1\r\nHost: public.test\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nabcdGET http://other.test/ HTTP/1.1\r\n\r\n",
			"HTTP/1.1 400 ", nil},
		{"a-length-and-chunks", []string{"public.test"},
			"POST http://public.test/ HTTP/1.1\r\nHost: public.test\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
				http1("GET http://other.test/smuggled", "Host: other.test"),
			`body=""`, []string{publicIP + "80"}},
		{"a-chunked-that-is-not", []string{"public.test"},
			"POST http://public.test/ HTTP/1.1\r\nHost: public.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501 Not Implemented", nil},
		{"a-header-with-a-line-in-it", []string{"public.test"},
			"GET http://public.test/ HTTP/1.1\r\nHost: public.test\r\nX: a\rGET http://other.test/ HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOutside(t)
			box := newEgressBox(t, &sandbox.Egress{Allow: tt.allow}, sandbox.Options{Egress: o.options()})
			got := box.send(tt.send)
			if !strings.Contains(got, tt.want) {
				t.Errorf("answered %q, without %q", got, tt.want)
			}
			if diff := cmp.Diff(tt.led, o.led()); diff != "" {
				t.Errorf("led (-want +got)\n%s", diff)
			}
			if strings.Contains(got, "smuggled host=") {
				t.Error("what was smuggled was answered by the far end")
			}
		})
	}
}

// A name is looked up once for each connection, and what is dialled is what was judged.
func TestEgressRebinding(t *testing.T) {
	o := newOutside(t)
	opts := o.options()
	n := 0
	opts.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		n++
		if n%2 == 0 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}}, sandbox.Options{Egress: opts})
	for i := range 4 {
		want := established
		if i%2 == 1 {
			want = "loopback address"
		}
		if got := box.send(connectTo("rebinding.test:443", "echo\n")); !strings.Contains(got, want) {
			t.Errorf("answered %q, want %q", got, want)
		}
	}
	if diff := cmp.Diff([]string{"tcp 93.184.216.34:443", "tcp 93.184.216.34:443"}, o.led()); diff != "" {
		t.Errorf("led (-want +got)\n%s", diff)
	}
}

// A name that no rule allows is not looked up: a lookup tells somebody something.
func TestEgressLooksUpOnlyWhatIsAllowed(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"public.test"}}, sandbox.Options{Egress: o.options()})
	box.send(connectTo("secret.other.test:443", ""))
	box.send(connectTo("public.test:443", "echo\n"))
	if diff := cmp.Diff([]string{"public.test"}, o.resolved); diff != "" {
		t.Errorf("looked up (-want +got)\n%s", diff)
	}
}

// A client that follows a redirect asks again, and is judged again.
func TestEgressRedirects(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"public.test"}}, sandbox.Options{Egress: o.options()})
	box.inside(func(p *fake.Process) {
		resp, err := client(p).Get("http://public.test/?redirect=http://metadata.test/latest")
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(text), `"metadata.test:80"`) {
			t.Errorf("answered %d %q", resp.StatusCode, text)
		}
	})
	if diff := cmp.Diff([]string{"tcp 93.184.216.34:80"}, o.led()); diff != "" {
		t.Errorf("led (-want +got)\n%s", diff)
	}
}

// A process that relays for others is judged by where it connects to.
func TestEgressRelayed(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"public.test"}}, sandbox.Options{Egress: o.options()})
	box.inside(func(p *fake.Process) {
		l, err := p.Listen(8080)
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			up, err := p.Dial(t.Context(), "tcp", proxyOf(p))
			if err != nil {
				return
			}
			go io.Copy(up, conn)
			io.Copy(conn, up)
			conn.Close()
		}()
		conn, err := p.Dial(t.Context(), "tcp", "127.0.0.1:8080")
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, connectTo("other.test:443", ""))
		got, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(got), "HTTP/1.1 403 ") {
			t.Errorf("answered %q", got)
		}
	})
	if led := o.led(); led != nil {
		t.Errorf("led %q", led)
	}
}

// An address of this machine's own is one of the service's listeners.
func TestEgressToThisMachine(t *testing.T) {
	o := newOutside(t)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*:*"}}, sandbox.Options{Egress: o.options()})
	for _, a := range addrs {
		ip, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		target := netip.AddrPortFrom(ip.Unmap(), 80).String()
		if got := box.send(connectTo(target, "")); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
			t.Errorf("%s: answered %q", target, got)
		}
	}
}

// The variables that tools look for lead to the proxy, but what the user says wins.
func TestEgressEnvironment(t *testing.T) {
	box := newEgressBox(t, &sandbox.Egress{}, sandbox.Options{Config: sandbox.Config{Env: map[string]string{"NO_PROXY": "own"}}})
	box.inside(func(p *fake.Process) {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
			if got := p.Getenv(name); !strings.HasPrefix(got, "http://127.0.0.1:") {
				t.Errorf("%s is %q", name, got)
			}
		}
		for name, want := range map[string]string{"NO_PROXY": "own", "no_proxy": "localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY": "1"} {
			if got := p.Getenv(name); got != want {
				t.Errorf("%s is %q", name, got)
			}
		}
	})
}

// egressEvents keeps what an observer is told of egress.
type egressEvents struct {
	sandbox.NopObserver
	mu  sync.Mutex
	all []sandbox.EgressAttempt
}

func (e *egressEvents) EgressEnded(_ context.Context, event sandbox.EgressEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event.Attempt)
}

// Every attempt is seen by the observer, and kept by the sandbox.
func TestEgressIsSeen(t *testing.T) {
	o := newOutside(t)
	events := &egressEvents{}
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"public.test", "private.test", "nowhere.test"}}, sandbox.Options{Egress: o.options(), Observer: events})
	box.send(connectTo("public.test:443", "echo\n12345"))
	box.send(connectTo("other.test:22", ""))
	box.send(connectTo("private.test:443", ""))
	box.send(connectTo("nowhere.test:443", ""))
	box.send(connectTo("2130706433:443", ""))
	box.send("GET http://public.test/ HTTP/1.0\r\n\r\n")
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := box.Egress()
	if a := got[2]; a.Err == nil || !strings.Contains(a.Err.Error(), `"10.0.0.1:443"`) || strings.Contains(a.Reason, "10.0.0.1") {
		t.Errorf("of the private address: the sandbox is told %q, the service %v", a.Reason, a.Err)
	}
	addr := netip.MustParseAddrPort
	want := []sandbox.EgressAttempt{
		{ID: "egr_000001", Protocol: sandbox.EgressConnect, Host: "public.test", Port: 443, Verdict: sandbox.EgressAllowed, Rule: "public.test", Addr: addr("93.184.216.34:443"), Sent: 10, Received: 10},
		{ID: "egr_000002", Protocol: sandbox.EgressConnect, Host: "other.test", Port: 22, Verdict: sandbox.EgressRefused, Rule: "other.test:22"},
		{ID: "egr_000003", Protocol: sandbox.EgressConnect, Host: "private.test", Port: 443, Verdict: sandbox.EgressRefused},
		{ID: "egr_000004", Protocol: sandbox.EgressConnect, Host: "nowhere.test", Port: 443, Verdict: sandbox.EgressFailed, Rule: "nowhere.test"},
		{ID: "egr_000005", Protocol: sandbox.EgressConnect, Host: "2130706433", Port: 443, Verdict: sandbox.EgressRefused},
		{ID: "egr_000006", Protocol: sandbox.EgressHTTP, Host: "public.test", Port: 80, Verdict: sandbox.EgressAllowed, Rule: "public.test", Addr: addr("93.184.216.34:80")},
	}
	same := cmp.Options{
		cmpopts.IgnoreFields(sandbox.EgressAttempt{}, "SandboxID", "StartedAt", "EndedAt", "Reason", "Err"),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Sent" || p.Last().String() == ".Received" }, cmp.Comparer(func(a, b int64) bool {
			return a == b || a > 10 && b == 0 || a == 0 && b > 10 // of HTTP it is headers too
		})),
	}
	for what, all := range map[string][]sandbox.EgressAttempt{"kept": got, "observed": events.all} {
		slices.SortFunc(all, func(a, b sandbox.EgressAttempt) int { return strings.Compare(a.ID, b.ID) })
		if diff := cmp.Diff(want, all, same); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
		for _, a := range all {
			if a.SandboxID != box.ID() || a.StartedAt.IsZero() || a.EndedAt.IsZero() || (a.Verdict == sandbox.EgressAllowed) != (a.Reason == "") {
				t.Errorf("%s: %+v", what, a)
			}
		}
	}
}

// What has ended is forgotten, and what lasts is not.
func TestEgressKeepsSome(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"public.test"}}, sandbox.Options{Egress: o.options()})
	box.inside(func(p *fake.Process) {
		lasting, err := p.Dial(t.Context(), "tcp", proxyOf(p))
		if err != nil {
			t.Error(err)
			return
		}
		defer lasting.Close()
		io.WriteString(lasting, connectTo("public.test:443", ""))
		io.ReadFull(lasting, make([]byte, len(established)))
		for range 300 {
			conn, err := p.Dial(t.Context(), "tcp", proxyOf(p))
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, connectTo("other.test:443", ""))
			io.ReadAll(conn)
			conn.Close()
		}
		all := box.Egress()
		if len(all) != 257 || all[0].Host != "public.test" || !all[0].EndedAt.IsZero() || all[0].Verdict != sandbox.EgressAllowed {
			t.Errorf("%d are kept, the first is %+v", len(all), all[0])
		}
	})
}

// A plain request gets the headers that the sandbox does not have, and only where they
// belong.
func TestEgressHeaders(t *testing.T) {
	o := newOutside(t)
	opts := o.options()
	opts.Header = func(_ context.Context, r sandbox.EgressRequest) http.Header {
		if r.Host == "public.test" && r.Port == 80 && r.Path == "/x y" {
			return http.Header{"x-secret": {"s3cret"}}
		}
		return nil
	}
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}}, sandbox.Options{Egress: opts})
	for raw, want := range map[string]string{
		"GET http://public.test/x%20y HTTP/1.0\r\nX-Secret: own\r\nConnection: X-Secret\r\n\r\n": `secret="s3cret"`,
		"GET http://other.test/x%20y HTTP/1.0\r\n\r\n":                                           `secret=""`,
		"GET http://public.test/y HTTP/1.0\r\nX-Secret: own\r\n\r\n":                             `secret="own"`,
	} {
		if got := box.send(raw); !strings.Contains(got, want) {
			t.Errorf("%q: answered %q", raw, got)
		}
	}
}

// After the bytes that a sandbox may carry, connections are cut and refused.
func TestEgressBytes(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}, MaxBytes: 100_000}, sandbox.Options{Egress: o.options()})
	box.send(connectTo("public.test:443", "echo\n"+strings.Repeat("x", 1<<20)))
	if got := box.send(connectTo("public.test:443", "")); !strings.Contains(got, "403 egress: this sandbox has carried the 100000 bytes that it may") {
		t.Errorf("answered %q", got)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := box.Egress()
	if n := all[0].Sent + all[0].Received; n < 100_000 || n > 300_000 || all[0].Reason == "" {
		t.Errorf("%+v", all[0])
	}
}

// A connection lasts as long as it may.
func TestEgressTime(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}, MaxTime: 50 * time.Millisecond}, sandbox.Options{Egress: o.options()})
	box.inside(func(p *fake.Process) {
		conn, err := p.Dial(t.Context(), "tcp", proxyOf(p))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, connectTo("public.test:443", "echo\n"))
		io.ReadAll(conn)
	})
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := box.Egress(); !strings.Contains(all[0].Reason, "50ms") || all[0].EndedAt.Sub(all[0].StartedAt) < 50*time.Millisecond {
		t.Errorf("%+v", all[0])
	}
}

// More connections than a sandbox may have wait for their turn.
func TestEgressConns(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}, MaxConns: 2}, sandbox.Options{Egress: o.options()})
	box.inside(func(p *fake.Process) {
		ask := func() net.Conn {
			conn, err := p.Dial(t.Context(), "tcp", proxyOf(p))
			if err != nil {
				t.Error(err)
				return nil
			}
			io.WriteString(conn, connectTo("public.test:443", ""))
			io.ReadFull(conn, make([]byte, len(established)))
			return conn
		}
		first, second := ask(), ask()
		defer second.Close()
		third := make(chan net.Conn)
		go func() { third <- ask() }()
		select {
		case <-third:
			t.Error("a third connection was served")
		case <-time.After(50 * time.Millisecond):
		}
		first.Close()
		(<-third).Close()
	})
}

// What the user gives to be called may fail in all ways.
func TestEgressFunctionsFail(t *testing.T) {
	o := newOutside(t)
	for name, change := range map[string]func(*sandbox.EgressOptions){
		"resolve-panics": func(e *sandbox.EgressOptions) {
			e.Resolve = func(context.Context, string) ([]netip.Addr, error) { panic("x") }
		},
		"resolve-of-nothing": func(e *sandbox.EgressOptions) {
			e.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, nil }
		},
		"dial-panics": func(e *sandbox.EgressOptions) {
			e.Dial = func(context.Context, string, string) (net.Conn, error) { panic("x") }
		},
		"dial-of-nothing": func(e *sandbox.EgressOptions) {
			e.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, nil }
		},
		"dial-fails": func(e *sandbox.EgressOptions) {
			e.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("internal 10.1.2.3") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := o.options()
			change(&opts)
			box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}}, sandbox.Options{Egress: opts})
			if got := box.send(connectTo("public.test:443", "")); !strings.HasPrefix(got, "HTTP/1.1 502 ") || strings.Contains(got, "10.1.2.3") {
				t.Errorf("answered %q", got)
			}
			if a := box.Egress()[0]; a.Verdict != sandbox.EgressFailed || name != "resolve-of-nothing" && a.Err == nil {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A closed sandbox carries nothing any more.
func TestEgressEndsWithTheSandbox(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}}, sandbox.Options{Egress: o.options()})
	up := make(chan struct{})
	box.run = func(p *fake.Process) {
		conn, err := p.Dial(context.Background(), "tcp", proxyOf(p))
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, connectTo("public.test:443", "echo\n"))
		io.ReadFull(conn, make([]byte, len(established)+5))
		close(up)
		<-p.Done()
	}
	if _, err := box.Start(t.Context(), sandbox.Command{Shell: "inside"}); err != nil {
		t.Fatal(err)
	}
	<-up
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := box.Egress()[0]; a.EndedAt.IsZero() {
		t.Errorf("%+v", a)
	}
}

// Rules are checked before anything is made.
func TestEgressRules(t *testing.T) {
	for _, rule := range []string{
		"", ":443", "public.test:", "public.test:0", "public.test:65536", "public.test:http", "public.test:+1", "a b",
		"*.", "**", "a.*.test", "*.10.0.0.1", "*test", "http://public.test", "public.test/x", "10.0.0.0/33", "10.0.0",
		"2130706433", "[::1", "[::1]x", "[::1]:", "fe80::1%eth0", "user@public.test", "::ffff:10.0.0.0/104",
	} {
		_, err := sandbox.New(t.Context(), fake.New(nil), &sandbox.Options{Config: sandbox.Config{Egress: &sandbox.Egress{Allow: []string{rule}}}})
		var invalid *sandbox.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != sandbox.FieldConfigEgress || !strings.Contains(err.Error(), fmt.Sprintf("%q", rule)) {
			t.Errorf("%q: %v", rule, err)
		}
	}
}

// A backend that does not hold sandboxes to rules makes none with them.
func TestEgressUnsupported(t *testing.T) {
	info := fake.New(nil).Info()
	info.Egress = false
	b := fake.New(&fake.Options{Info: &info})
	_, err := sandbox.New(t.Context(), b, &sandbox.Options{Config: sandbox.Config{Egress: &sandbox.Egress{}}})
	if !errors.Is(err, errors.ErrUnsupported) || len(b.Sandboxes()) != 0 {
		t.Errorf("got %v, and %q are left", err, b.Sandboxes())
	}
}

// Bytes of a long download are exact.
func TestEgressCarriesAll(t *testing.T) {
	o := newOutside(t)
	box := newEgressBox(t, &sandbox.Egress{Allow: []string{"*"}}, sandbox.Options{Egress: o.options()})
	text := "echo\n" + strings.Repeat("0123456789abcde\n", 1<<16)
	if got := box.send(connectTo("public.test:443", text)); !bytes.Equal([]byte(got), []byte(established+text)) {
		t.Errorf("%d bytes came back of %d", len(got)-len(established), len(text))
	}
}
