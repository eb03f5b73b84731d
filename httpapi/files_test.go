package httpapi_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/httpapi"
)

// tarOf returns an archive of files by name.
func tarOf(files map[string]string) string {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))})
		if _, werr := io.WriteString(w, files[name]); errors.Join(err, werr) != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buf.String()
}

func TestFiles(t *testing.T) {
	owned := func(t *testing.T, w *testServer) (string, *sandbox.Files) {
		t.Helper()
		id := w.sandbox(t, "a")
		sb, err := w.manager.Get(sandbox.Key{Owner: "a", Namespace: httpapi.Sandboxes, Name: id})
		if err != nil {
			t.Fatal(err)
		}
		return "/v1/sandboxes/" + id + "/files", sb.Files()
	}

	inBubble(t, "every-byte-comes-back", func(t *testing.T) {
		w := start(t, nil)
		path, _ := owned(t, w)
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		name := url.QueryEscape("d/\xff ü?&=#/f")
		if code, body := w.do(t, "PUT", path+"?path="+name, string(all)); code != 200 {
			t.Fatalf("%d: %s", code, body)
		}
		if _, got := w.do(t, "GET", path+"?raw=true&path="+name, ""); got != string(all) {
			t.Errorf("%q", got)
		}
		_, body := w.do(t, "GET", path+"?list=true&path=d", "")
		diffJSON(t, `{"entries":[{"name":"`+"\uFFFD"+` ü?&=#","name_base64":"/yDDvD8mPSM=","*":0}],"*":0}`, body)
	})

	inBubble(t, "a-file-that-is-replaced-keeps-its-mode", func(t *testing.T) {
		w := start(t, nil)
		path, files := owned(t, w)
		mode := func(want fs.FileMode) {
			t.Helper()
			info, err := files.Stat(t.Context(), "d/f")
			if err != nil || info.Mode != want {
				t.Errorf("mode %v, %v; want %v", info.Mode, err, want)
			}
		}
		w.do(t, "PUT", path, `{"path":"d/f","content":"1"}`)
		mode(0o644)
		w.do(t, "PUT", path, `{"path":"d/f","content":"2","mode":"0755"}`)
		mode(0o755)
		w.do(t, "PUT", path, `{"path":"d/f","content":"3"}`)
		mode(0o755)
		_, body := w.do(t, "GET", path+"?path=d/f", "")
		diffJSON(t, `{"content":"3","*":0}`, body)
		w.do(t, "PUT", path, `{"path":"d/f","content":"4","mode":"0000"}`)
		mode(0)
	})

	inBubble(t, "what-does-not-fit-into-an-answer-is-read-in-parts", func(t *testing.T) {
		w := start(t, nil)
		path, _ := owned(t, w)
		large := strings.Repeat("x", 16<<20+1)
		if code, body := w.do(t, "PUT", path+"?path=f", large); code != 200 {
			t.Fatalf("%d: %s", code, body)
		}
		if code, body := w.do(t, "GET", path+"?path=f", ""); code != 413 {
			t.Errorf("%d: %.99s", code, body)
		}
		for _, encoding := range []string{"utf-8", "base64"} {
			_, body := w.do(t, "GET", path+"?path=f&limit=0&encoding="+encoding, "")
			diffJSON(t, `{"content":"","size_bytes":0,"*":0}`, body)
		}
		if code, body := w.do(t, "GET", path+"?path=f&limit=0&raw=true", ""); code != 200 || body != "" {
			t.Errorf("%d: %.99s", code, body)
		}
		if code, body := w.do(t, "GET", path+"?path=f&offset=1", ""); code != 200 || len(body) < 16<<20 {
			t.Errorf("%d: %.99s", code, body)
		}
		if _, got := w.do(t, "GET", path+"?path=f&raw=true", ""); got != large {
			t.Errorf("%d bytes", len(got))
		}
	})

	inBubble(t, "a-tree-goes-in-and-out", func(t *testing.T) {
		w := start(t, nil)
		path, _ := owned(t, w)
		want := map[string]string{"a": "1", "b/c": "2"}
		if code, body := w.do(t, "PUT", path+"/archive?path=tree", tarOf(want)); code != 200 {
			t.Fatalf("%d: %s", code, body)
		}
		_, body := w.do(t, "GET", path+"/archive?path=tree", "")
		got := make(map[string]string)
		for r := tar.NewReader(strings.NewReader(body)); ; {
			header, err := r.Next()
			if err != nil {
				break
			}
			if header.Typeflag == tar.TypeReg {
				content, _ := io.ReadAll(r)
				got[header.Name] = string(content)
			}
		}
		if !maps.Equal(want, got) {
			t.Errorf("%q", got)
		}
	})

	inBubble(t, "an-archive-that-breaks-off-says-why", func(t *testing.T) {
		var log bytes.Buffer
		w := start(t, func(w *testServer) {
			w.decorate = func(b backend.Backend) backend.Backend { return brokenArchives{b} }
			w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		path, _ := owned(t, w)
		resp, err := w.client.Do(request(t.Context(), t, "GET", path+"/archive", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.Trailer == nil {
			t.Errorf("no trailer is announced: %v", resp.Header)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("the body: %v", err)
		}
		if got, want := resp.Trailer.Get("Sandbox-Error"), "d/f: file does not exist"; got != want {
			t.Errorf("the trailer has %q, want %q", got, want)
		}
		for r := tar.NewReader(bytes.NewReader(body)); err == nil; _, err = r.Next() {
		}
		if err == io.EOF {
			t.Errorf("%d bytes are taken for a whole archive", len(body))
		}
		synctest.Wait()
		if !strings.Contains(log.String(), "cut=true") || !strings.Contains(log.String(), "d/f: file does not exist") {
			t.Errorf("the log has %s", log.String())
		}
	})

	inBubble(t, "an-upload-that-breaks-off-leaves-the-old-content", func(t *testing.T) {
		w := start(t, func(w *testServer) { w.server.ReadTimeout, w.server.WriteTimeout = time.Second, time.Second })
		path, files := owned(t, w)
		w.do(t, "PUT", path, `{"path":"f","content":"old"}`)
		r, body := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			req := request(t.Context(), t, "PUT", path+"?path=f", "")
			req.Body, req.ContentLength = r, -1
			if resp, err := w.client.Do(req); err == nil {
				resp.Body.Close()
				t.Errorf("status %s", resp.Status)
			}
		}()
		io.WriteString(body, "new")
		time.Sleep(5 * time.Second) // longer than the server's deadlines
		body.CloseWithError(errors.New("the client dies"))
		<-done
		content, err := fs.ReadFile(sandbox.FS(t.Context(), oneSandbox{files: files}, "."), "f")
		if err != nil || string(content) != "old" {
			t.Errorf("%q, %v", content, err)
		}
	})

	inBubble(t, "symbolic-links-lead-nowhere-else", func(t *testing.T) {
		w := start(t, nil)
		path, files := owned(t, w)
		if err := files.WriteTar(t.Context(), ".", strings.NewReader(linksTar())); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"out": 403, "out/passwd": 403, "up/etc/passwd": 403, "dangling": 404} {
			code, body := w.do(t, "GET", path+"?path="+name, "")
			if code != want || !json.Valid([]byte(body)) {
				t.Errorf("%s: %d: %s", name, code, body)
			}
		}
		_, body := w.do(t, "GET", path+"?list=true&path=.", "")
		diffJSON(t, `{"entries":[{"name":"dangling","type":"symlink","target":"none","*":0},{"name":"out","type":"symlink","target":"/etc","*":0},{"name":"up","*":0}],"*":0}`, body)
	})
}

// A oneSandbox is what sandbox.FS needs of a sandbox.
type oneSandbox struct {
	sandbox.Sandbox
	files *sandbox.Files
}

func (s oneSandbox) Files() *sandbox.Files { return s.files }

// linksTar returns an archive of symbolic links.
func linksTar() string {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, link := range [][2]string{{"out", "/etc"}, {"up", "../../../.."}, {"dangling", "none"}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: link[0], Linkname: link[1]}); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buf.String()
}

// brokenArchives is a backend whose archives break off between two entries.
type brokenArchives struct{ backend.Backend }

// Info promises files only: a decorated instance hides what else there is.
func (b brokenArchives) Info() backend.Info {
	info := b.Backend.Info()
	info.Ports, info.Terminal, info.Recover = false, false, false
	return info
}

func (b brokenArchives) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	i, err := b.Backend.Create(ctx, cfg)
	return brokenInstance{i}, err
}

type brokenInstance struct{ backend.Instance }

func (brokenInstance) File(_ context.Context, r *backend.FileRequest) error {
	w := tar.NewWriter(r.Output)
	for range 200 {
		w.WriteHeader(&tar.Header{Name: "f", Mode: 0o600, Size: 512})
		w.Write(make([]byte, 512))
	}
	return &fs.PathError{Op: "read tar", Path: "d/f", Err: fs.ErrNotExist}
}
