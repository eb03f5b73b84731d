package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox/backend/fake"
)

// serving starts a command of owner a's sandbox that serves port 3000, and returns
// the URL's path.
func (w *testServer) serving(t testing.TB, id string, h http.HandlerFunc) string {
	t.Helper()
	server := &http.Server{Handler: h}
	return w.listening(t, id, func(l net.Listener) { server.Serve(l) })
}

// listening starts a command of owner a's sandbox that has serve listen on port 3000
// until it is killed, and returns the URL's path.
func (w *testServer) listening(t testing.TB, id string, serve func(net.Listener)) string {
	t.Helper()
	w.backend.Handle("serve", func(p *fake.Process) int {
		l, err := p.Listen(3000)
		if err != nil {
			t.Error(err)
			return 1
		}
		go serve(l)
		<-p.Done()
		return 0
	})
	w.background(t, id, `{"command":"serve","background":true}`)
	synctest.Wait()
	return w.port(t, id, 3000)
}

// port asks for a port's URL and returns its path.
func (w *testServer) port(t testing.TB, id string, number int) string {
	t.Helper()
	code, body := w.do(t, "POST", "/v1/sandboxes/"+id+"/ports", fmt.Sprintf(`{"port":%d}`, number))
	var answer struct{ URL string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 {
		t.Fatalf("%d: %s", code, body)
	}
	path, ok := strings.CutPrefix(answer.URL, "http://server")
	if !ok {
		t.Fatalf("url %q", answer.URL)
	}
	return path
}

// anonymous makes a request without a key and does not follow redirects.
func (w *testServer) anonymous(t testing.TB, method, path, body string, header ...string) *http.Response {
	t.Helper()
	r := request(t.Context(), t, method, path, body)
	r.Header.Del("Authorization")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := w.client.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestPorts(t *testing.T) {
	inBubble(t, "passes-requests-on-as-they-are", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			// A ServeMux would redirect.
			w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.api.Sandboxes().ServeHTTP(rw, r) })
		})
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			rw.Header().Set("X-Own", "1")
			rw.WriteHeader(418)
			fmt.Fprintf(rw, "%s %s %s %s", r.Method, r.RequestURI, r.Host, body)
		})
		for _, tt := range []struct{ method, path, body, want string }{
			{"GET", "", "", "GET / localhost:3000 "},
			{"GET", "/", "", "GET / localhost:3000 "},
			{"POST", "/a//b/%2F/../c%20d/?q=1;2&x=%zz", "body", "POST /a//b/%2F/../c%20d/?q=1;2&x=%zz localhost:3000 body"},
			{"DELETE", "/%ff", "", "DELETE /%ff localhost:3000 "},
		} {
			resp := w.rawURL(t, tt.method, url+tt.path, tt.body)
			if got := read(t, resp); resp.StatusCode != 418 || got != tt.want || resp.Header.Get("X-Own") != "1" {
				t.Errorf("%s: %d: %q, want %q", tt.path, resp.StatusCode, got, tt.want)
			}
		}
	})

	inBubble(t, "no-key-and-no-token-gets-in", func(t *testing.T) {
		w := start(t, nil)
		got := make(chan http.Header, 1)
		url := w.serving(t, w.sandbox(t, "a"), func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
		token := url[strings.LastIndex(url, "/")+1:]
		w.anonymous(t, "GET", url+"/", "",
			"Authorization", "Bearer key-a", "Proxy-Authorization", "x", "Cookie", "a=b", "Referer", "http://server"+url+"/page",
			"X-Forwarded-Uri", url, "X-Original-Url", "/x?"+strings.ToUpper(token), "X-Forwarded-For", "1.2.3.4", "Forwarded", "for=1.2.3.4",
			"Accept-Language", "de", "User-Agent", "me")
		want := http.Header{
			"Accept-Language":   {"de"},
			"User-Agent":        {"me"},
			"X-Forwarded-Host":  {"server"},
			"X-Forwarded-Proto": {"http"},
			"Accept-Encoding":   {"gzip"},
		}
		if diff := cmp.Diff(want, <-got); diff != "" {
			t.Errorf("header (-want +got):\n%s", diff)
		}
		w.anonymous(t, "GET", url+"/", "", "Referer", "http://server/console?secret")
		if referer := (<-got).Get("Referer"); referer != "" {
			t.Errorf("Referer: %s", referer)
		}
	})

	inBubble(t, "a-page-gets-an-origin-of-its-own", func(t *testing.T) {
		w := start(t, nil)
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, _ *http.Request) {
			h := rw.Header()
			h.Set("Set-Cookie", "session=stolen; Path=/")
			h.Set("Clear-Site-Data", "*")
			h.Set("Service-Worker-Allowed", "/")
			h.Set("Strict-Transport-Security", "max-age=1")
			h.Set("Content-Security-Policy", "sandbox allow-same-origin allow-scripts")
			h.Set("Link", "</x>")
			rw.WriteHeader(103)
		})
		r := request(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				t.Errorf("%d with %v", code, h)
				return nil
			},
		}), t, "GET", url+"/", "")
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for _, name := range []string{"Set-Cookie", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security"} {
			if value := resp.Header.Get(name); value != "" {
				t.Errorf("%s: %s", name, value)
			}
		}
		policies := resp.Header["Content-Security-Policy"]
		if len(policies) != 2 || !strings.HasPrefix(policies[1], "sandbox ") || strings.Contains(policies[1], "same-origin") {
			t.Errorf("policies %q", policies)
		}
	})

	inBubble(t, "locations-lead-below-the-url", func(t *testing.T) {
		w := start(t, nil)
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Location", r.Header.Get("X-Location"))
			rw.WriteHeader(302)
		})
		for location, want := range map[string]string{
			"/login?a=b#c":               url + "/login?a=b#c",
			"/%2Fx":                      url + "/%2Fx",
			"next":                       "next",
			"../up":                      "../up",
			"?q":                         "?q",
			"http://localhost:3000/x":    url + "/x",
			"http://127.0.0.1:3000":      url + "/",
			"https://0.0.0.0:3000/x":     url + "/x",
			"http://localhost:4000/x":    "http://localhost:4000/x",
			"https://example.com/x":      "https://example.com/x",
			"//example.com/x":            "//example.com/x",
			"javascript:alert(1)":        "javascript:alert(1)",
			"http://localhost.evil:3000": "http://localhost.evil:3000",
		} {
			resp := w.anonymous(t, "GET", url+"/", "", "X-Location", location)
			if got := resp.Header.Get("Location"); got != want {
				t.Errorf("%s: %s, want %s", location, got, want)
			}
		}
	})

	inBubble(t, "a-browser-is-sent-into-the-directory", func(t *testing.T) {
		w := start(t, nil)
		url := w.serving(t, w.sandbox(t, "a"), func(http.ResponseWriter, *http.Request) {})
		resp := w.anonymous(t, "GET", url+"?a=b", "", "Accept", "text/html,*/*")
		token := url[strings.LastIndex(url, "/")+1:]
		if got, want := resp.Header.Get("Location"), "./"+token+"/?a=b"; resp.StatusCode != 307 || got != want {
			t.Errorf("%d: %s, want %s", resp.StatusCode, got, want)
		}
	})

	inBubble(t, "an-answer-comes-as-it-is-written", func(t *testing.T) {
		w := start(t, func(w *testServer) { w.server.ReadTimeout, w.server.WriteTimeout = time.Second, time.Second })
		url := w.serving(t, w.sandbox(t, "a"), func(rw http.ResponseWriter, _ *http.Request) {
			for range 3 {
				io.WriteString(rw, "x")
				http.NewResponseController(rw).Flush()
				time.Sleep(time.Second)
			}
		})
		began := time.Now()
		resp := w.anonymous(t, "GET", url+"/", "")
		if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if rest := read(t, resp); rest != "xx" {
			t.Errorf("%q", rest)
		}
	})

	inBubble(t, "websocket", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		url := w.serving(t, id, func(rw http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(rw, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			for {
				kind, data, err := conn.Read(r.Context())
				if err != nil {
					return
				}
				if err := conn.Write(r.Context(), kind, data); err != nil {
					return
				}
			}
		})
		conn, _, err := websocket.Dial(t.Context(), "ws://server"+url+"/echo", &websocket.DialOptions{
			HTTPClient: w.client,
			HTTPHeader: http.Header{"Origin": {"null"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		if err := conn.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
			t.Error(err)
		}
		if _, data, err := conn.Read(t.Context()); err != nil || string(data) != "hi" {
			t.Errorf("%q, %v", data, err)
		}
		w.do(t, "DELETE", "/v1/sandboxes/"+id, "")
		if _, _, err := conn.Read(t.Context()); err == nil {
			t.Error("it outlives its sandbox")
		}
		if err := w.api.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})

	inBubble(t, "lives-as-long-as-the-sandbox", func(t *testing.T) {
		w := start(t, nil)
		id, other := w.sandbox(t, "a"), w.sandbox(t, "a")
		url := w.serving(t, id, func(http.ResponseWriter, *http.Request) {})
		if again := w.port(t, id, 3000); again != url {
			t.Errorf("%s, then %s", url, again)
		}
		for number := 4000; ; number++ {
			code, _ := w.do(t, "POST", "/v1/sandboxes/"+other+"/ports", fmt.Sprintf(`{"port":%d}`, number))
			if code == 429 && number == 4256 {
				break
			}
			if code != 200 {
				t.Fatalf("port %d: %d", number, code)
			}
		}
		other = w.sandbox(t, "a")
		if w.port(t, id, 3001) == url || w.port(t, other, 3000) == url {
			t.Error("another port or sandbox has the same URL")
		}
		for path, want := range map[string]int{
			url + "/":                               200,
			strings.Replace(url, id, other, 1):      404,
			strings.Replace(url, "3000", "3001", 1): 404,
			url[:len(url)-1] + "_":                  404,
			w.port(t, id, 3001):                     502,
		} {
			resp := w.anonymous(t, "GET", path, "")
			if body := read(t, resp); resp.StatusCode != want || want != 200 && !json.Valid([]byte(body)) {
				t.Errorf("%s: %d: %s", path, resp.StatusCode, body)
			}
		}
		w.backend.Lose(id)
		synctest.Wait()
		if resp := w.anonymous(t, "GET", url+"/", ""); resp.StatusCode != 404 {
			t.Errorf("after the end: %d", resp.StatusCode)
		}
	})

	inBubble(t, "its-use-keeps-the-sandbox", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		url := w.port(t, id, 3000)
		for range 10 {
			time.Sleep(20 * time.Minute)
			if resp := w.anonymous(t, "GET", url, ""); resp.StatusCode != 502 {
				t.Fatalf("%d", resp.StatusCode)
			}
		}
		time.Sleep(31 * time.Minute)
		if resp := w.anonymous(t, "GET", url, ""); resp.StatusCode != 404 {
			t.Errorf("it never expires: %d", resp.StatusCode)
		}
	})

	inBubble(t, "its-token-is-not-logged", func(t *testing.T) {
		var log bytes.Buffer
		w := start(t, func(w *testServer) { w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		url := w.port(t, w.sandbox(t, "a"), 3000)
		w.anonymous(t, "GET", url+"/x", "")
		synctest.Wait()
		if !strings.Contains(log.String(), "***/x") || strings.Contains(log.String(), url[strings.LastIndex(url, "/"):]) {
			t.Errorf("%s", &log)
		}
	})
}

// rawURL makes a request without a key, whose target is sent as it is.
func (w *testServer) rawURL(t testing.TB, method, target, body string) *http.Response {
	t.Helper()
	r := request(t.Context(), t, method, "/", body)
	r.Header.Del("Authorization")
	path, query, _ := strings.Cut(target, "?")
	r.URL.Opaque, r.URL.RawQuery = path, query
	resp, err := w.client.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// With a domain of their own, ports are sites like any other.
func TestPortsDomain(t *testing.T) {
	inBubble(t, "domain", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.opts.BaseURL, w.opts.PortsDomain = "https://api.example.com/base", "Ports.example.net"
			w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.Host, ".example.net") {
					w.api.Ports().ServeHTTP(rw, r)
					return
				}
				w.api.Sandboxes().ServeHTTP(rw, r)
			})
		})
		id := w.sandbox(t, "a")
		got := make(chan http.Header, 1)
		w.backend.Handle("serve", func(p *fake.Process) int {
			l, err := p.Listen(3000)
			if err != nil {
				t.Error(err)
				return 1
			}
			server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				got <- r.Header
				rw.Header().Set("Set-Cookie", "a=b")
				rw.Header().Set("Location", "/x")
			})}
			go server.Serve(l)
			<-p.Done()
			server.Close()
			return 0
		})
		w.background(t, id, `{"command":"serve","background":true}`)
		synctest.Wait()
		_, body := w.do(t, "POST", "/v1/sandboxes/"+id+"/ports", `{"port":3000}`)
		var answer struct{ URL string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		host, ok := strings.CutPrefix(answer.URL, "https://")
		token, isBelow := strings.CutSuffix(host, ".Ports.example.net")
		if !ok || !isBelow {
			t.Fatalf("url %s", answer.URL)
		}
		call := func(host, path string) *http.Response {
			r := request(t.Context(), t, "GET", path, "")
			r.Host = host
			r.Header.Set("Cookie", "a=b")
			r.Header.Set("Origin", "https://"+strings.ToLower(host))
			resp, err := w.client.Transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp
		}
		resp := call(host, "/p")
		seen := <-got
		if seen.Get("Authorization") != "" || seen.Get("Cookie") != "a=b" || strings.Contains(fmt.Sprint(seen), token) {
			t.Errorf("the sandbox sees %v", seen)
		}
		if resp.Header.Get("Set-Cookie") != "a=b" || resp.Header.Get("Content-Security-Policy") != "" || resp.Header.Get("Location") != "/x" {
			t.Errorf("the client sees %v", resp.Header)
		}
		for _, other := range []struct{ host, path string }{
			{"x.Ports.example.net", "/"},
			{"api.example.com", "/v1/sandboxes/" + id + "/ports/3000/" + token + "/"},
		} {
			if resp := call(other.host, other.path); resp.StatusCode != 404 {
				t.Errorf("%s: %d", other.host, resp.StatusCode)
			}
		}
	})
}
