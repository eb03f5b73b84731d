package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// echo sends a body back as it comes, from its first byte on.
func echo(rw http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(rw)
	rc.EnableFullDuplex()
	if r.ContentLength > 0 {
		rw.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
	}
	rc.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		rw.Write(buf[:n])
		rc.Flush()
		if err != nil {
			return
		}
	}
}

// sending makes a POST request whose body is what is written to the pipe. A length of
// -1 has it sent in chunks.
func sending(t testing.TB, path string, length int64) (*http.Request, *io.PipeWriter) {
	t.Helper()
	body, in := io.Pipe()
	t.Cleanup(func() { in.Close() })
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://server"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = length
	return r, in
}

// onePiece is what a program with a body that comes in pieces is sent at once.
var onePiece = strings.Repeat("0123456789", 10)

// slowly writes ten pieces, 30 ms apart, each once the answer to the one before has
// come, and checks each answer.
func slowly(t testing.TB, in *io.PipeWriter, out io.Reader) {
	t.Helper()
	got := make([]byte, len(onePiece))
	for i := range 10 {
		time.Sleep(30 * time.Millisecond)
		if _, err := io.WriteString(in, onePiece); err != nil {
			t.Fatalf("piece %d: %v", i, err)
		}
		if i == 9 {
			in.Close() // which a client of HTTP/2 waits for before it sends the last piece
		}
		if n, err := io.ReadFull(out, got); err != nil || string(got) != onePiece {
			t.Fatalf("piece %d comes back as %q, %v", i, got[:n], err)
		}
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}

func TestPortBodies(t *testing.T) {
	for name, length := range map[string]int64{"chunked": -1, "with-a-length": int64(10 * len(onePiece))} {
		for _, version := range []string{"http1", "http2"} {
			inBubble(t, "both-ways-as-they-come-"+name+"-"+version, func(t *testing.T) {
				w := start(t, func(w *testServer) {
					w.server.ReadTimeout, w.server.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
					w.server.Protocols = new(http.Protocols)
					w.server.Protocols.SetHTTP1(true)
					w.server.Protocols.SetUnencryptedHTTP2(true)
				})
				url := w.serving(t, w.sandbox(t, "a"), echo)
				client := w.transport
				if version == "http2" {
					client = &http.Transport{DialContext: client.DialContext, Protocols: new(http.Protocols)}
					client.Protocols.SetUnencryptedHTTP2(true)
					defer client.CloseIdleConnections()
				}
				for range 2 {
					r, in := sending(t, url+"/", length)
					resp, err := client.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					slowly(t, in, resp.Body)
					resp.Body.Close()
				}
			})
		}
	}

	inBubble(t, "large", func(t *testing.T) {
		w := start(t, nil)
		url := w.serving(t, w.sandbox(t, "a"), echo)
		const size = 100 << 20
		for _, length := range []int64{size, -1} {
			r, in := sending(t, url+"/", length)
			sent, got := sha256.New(), sha256.New()
			go func() {
				piece := make([]byte, 1<<20)
				for i := range byte(size >> 20) {
					piece[0] = i
					sent.Write(piece)
					in.Write(piece)
				}
				in.Close()
			}()
			resp, err := w.transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(got, resp.Body)
			if err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
				t.Errorf("length %d: %d bytes came back, %v", length, n, err)
			}
			resp.Body.Close()
		}
	})

	inBubble(t, "go-on-after-the-answer", func(t *testing.T) {
		w := start(t, nil)
		seen := make(chan string, 1)
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(rw)
			rc.EnableFullDuplex()
			rw.Header().Set("Content-Length", "5")
			io.WriteString(rw, "early")
			rc.Flush()
			body, err := io.ReadAll(r.Body)
			seen <- fmt.Sprint(string(body), err)
		})
		conn := w.begin(t, "POST "+url+"/ HTTP/1.1\r\nHost: server\r\nContent-Length: 10\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp); resp.StatusCode != 200 || got != "early" {
			t.Errorf("%d: %q", resp.StatusCode, got)
		}
		for range 5 {
			time.Sleep(10 * time.Second)
			io.WriteString(conn, "ab")
		}
		if got, want := <-seen, "ababababab<nil>"; got != want {
			t.Errorf("the program has %q, want %q", got, want)
		}
	})

	inBubble(t, "what-is-left-is-no-request", func(t *testing.T) {
		w := start(t, nil)
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(rw)
			rc.EnableFullDuplex()
			rw.Header().Set("Content-Length", "5")
			io.WriteString(rw, "early")
			rc.Flush()
			io.Copy(io.Discard, r.Body)
		})
		next := "GET /v1/sandboxes HTTP/1.1\r\nHost: server\r\n\r\n"
		conn := w.begin(t, fmt.Sprintf("POST %s/ HTTP/1.1\r\nHost: server\r\nContent-Length: %d\r\n\r\n", url, len(next)))
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		time.Sleep(time.Minute)
		io.WriteString(conn, next)
		if resp, err := http.ReadResponse(in, nil); err == nil {
			t.Errorf("the rest of a body was answered: %s", resp.Status)
		}
	})

	inBubble(t, "an-early-refusal-arrives", func(t *testing.T) {
		w := start(t, nil)
		url := w.listening(t, w.sandbox(t, "a"), each(func(conn net.Conn, r *http.Request) {
			io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbig\r\n0\r\n\r\n")
		}))
		// A client that sends all of it, whatever is answered.
		const size = 10 << 20
		for _, length := range []string{fmt.Sprint("Content-Length: ", size), "Transfer-Encoding: chunked"} {
			conn := w.begin(t, "POST "+url+"/ HTTP/1.1\r\nHost: server\r\n"+length+"\r\n\r\n")
			if strings.HasPrefix(length, "T") {
				fmt.Fprintf(conn, "%x\r\n", size)
			}
			if n, err := conn.Write(make([]byte, size)); err != nil {
				t.Errorf("%s: sent %d: %v", length, n, err)
			}
			if strings.HasPrefix(length, "T") {
				io.WriteString(conn, "\r\n0\r\n\r\n")
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, resp); resp.StatusCode != 413 || got != "big" {
				t.Errorf("%d: %q", resp.StatusCode, got)
			}
		}
		// A client that stops then is not kept waiting.
		began := time.Now()
		conn := w.begin(t, "POST "+url+"/ HTTP/1.1\r\nHost: server\r\nContent-Length: 10\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp); got != "big" || !resp.Close || time.Since(began) > 2*time.Second {
			t.Errorf("%q after %v, closed: %v", got, time.Since(began), resp.Close)
		}
	})

	inBubble(t, "a-body-that-is-cut-is-no-whole-one", func(t *testing.T) {
		w := start(t, nil)
		seen := make(chan error, 1)
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			seen <- err
		})
		for _, length := range []int64{10, -1} {
			ctx, leave := context.WithCancel(t.Context())
			r, in := sending(t, url+"/", length)
			go w.transport.RoundTrip(r.WithContext(ctx))
			io.WriteString(in, "ab")
			synctest.Wait()
			leave()
			if err := <-seen; err == nil {
				t.Errorf("length %d: the program takes the part for the whole", length)
			}
		}
	})

	// Middleware without Unwrap hides what full duplex takes.
	inBubble(t, "a-server-of-one-way-only-says-so", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				w.api.Sandboxes().ServeHTTP(struct{ http.ResponseWriter }{rw}, r)
			})
		})
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/echo" {
				echo(rw, r)
				return
			}
			io.Copy(rw, r.Body)
		})
		if resp := w.anonymous(t, "POST", url+"/", "abc"); resp.StatusCode != 200 || read(t, resp) != "abc" {
			t.Errorf("%d", resp.StatusCode)
		}
		r, in := sending(t, url+"/echo", -1)
		time.AfterFunc(time.Minute, func() { in.Close() })
		resp, err := w.transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, resp); resp.StatusCode != 502 || !strings.Contains(body, "before it has the whole request") {
			t.Errorf("%d: %s", resp.StatusCode, body)
		}
	})

	inBubble(t, "each-request-has-its-connection", func(t *testing.T) {
		w := start(t, nil)
		arrived := 0
		url := w.listening(t, w.sandbox(t, "a"), each(func(conn net.Conn, r *http.Request) {
			arrived++
			io.Copy(io.Discard, r.Body)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			time.Sleep(time.Millisecond) // kept for a while, as it seems
		}))
		for i := range 200 {
			resp := w.anonymous(t, "POST", url+"/", "x")
			if got := read(t, resp); resp.StatusCode != 200 || got != "ok" {
				t.Fatalf("request %d: %d: %s", i, resp.StatusCode, got)
			}
			time.Sleep(time.Millisecond)
		}
		if arrived != 200 {
			t.Errorf("200 requests arrived %d times", arrived)
		}
	})

	inBubble(t, "a-header-without-end", func(t *testing.T) {
		w := start(t, nil)
		url := w.listening(t, w.sandbox(t, "a"), each(func(conn net.Conn, r *http.Request) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: ")
			for err := error(nil); err == nil; {
				_, err = conn.Write(make([]byte, 1<<16))
			}
		}))
		if resp := w.anonymous(t, "GET", url+"/", ""); resp.StatusCode != 502 {
			t.Errorf("%d", resp.StatusCode)
		}
	})
}

// each serves one request of each connection and closes it.
func each(serve func(net.Conn, *http.Request)) func(net.Listener) {
	return func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			go func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					serve(conn, r)
				}
			}()
		}
	}
}

// begin sends the beginning of a request over a connection of its own.
func (w *testServer) begin(t testing.TB, request string) net.Conn {
	t.Helper()
	conn, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}
