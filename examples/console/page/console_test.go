package page_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/examples/console/page"
	"github.com/sandbox-go/sandbox/httpapi"
)

const key = "key_of_the_test"

// A console is a server of the page and of the API over a scripted backend.
type console struct {
	url     string
	backend *fake.Backend
	manager *sandbox.Manager
}

func serve(t *testing.T, info *sandbox.BackendInfo) *console {
	t.Helper()
	b := fake.New(&fake.Options{Info: info})
	m := sandbox.NewManager(b, nil)
	h := httpapi.New(m, &httpapi.Options{
		Authenticate: httpapi.BearerKeys(map[string]string{key: "owner"}),
		NewSandbox: func(context.Context, *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
			var opts sandbox.CreateOptions
			if b.Info().Egress {
				opts.Config.Egress = &sandbox.Egress{Allow: []string{"127.0.0.1:1"}}
			}
			return &opts, nil
		},
	})
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler())
	mux.Handle("/v1/sandboxes", h.Sandboxes())
	mux.Handle("/v1/sandboxes/", h.Sandboxes())
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close the manager: %v", err)
		}
		server.Close()
		if err := h.Wait(ctx); err != nil {
			t.Errorf("wait for the terminals: %v", err)
		}
		if err := b.Close(ctx); err != nil {
			t.Errorf("close the backend: %v", err)
		}
	})
	return &console{server.URL, b, m}
}

// sandbox returns the only sandbox.
func (c *console) sandbox() sandbox.Sandbox {
	for _, sb := range c.manager.All() {
		return sb
	}
	return nil
}

// files returns its files.
func (c *console) files() *sandbox.Files { return c.sandbox().Files() }

// content returns what a file holds.
func (c *console) content(t *testing.T, name string) string {
	t.Helper()
	content, err := c.files().ReadFile(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// signIn opens the page by the URL with the key, and makes a sandbox.
func (p *tab) signIn(c *console) {
	p.t.Helper()
	p.do(chromedp.Navigate(c.url + "/#key=" + key))
	p.wait(text(".sandboxes .status"), "No sandboxes yet.")
	p.tabTo("Create")
	p.press(kb.Enter)
	p.wait(text(".sandboxes .status"), "Created sbx_")
	p.wait(focus, "command")
}

func TestConsole(t *testing.T) {
	p := openTab(t)
	c := serve(t, nil)
	script(c.backend)

	t.Run("asks-for-a-key", func(t *testing.T) {
		p := p.in(t)
		p.do(chromedp.Navigate(c.url))
		p.wait(focus, "key")
		p.press("wrong" + kb.Enter)
		p.wait(text("#sign-in .status"), "401, unauthorized")
	})
	t.Run("takes-the-key-from-the-url", func(t *testing.T) {
		p := p.in(t)
		p.signIn(c)
		if url := p.eval("location.href"); url != c.url+"/" {
			t.Errorf("the URL is %s", url)
		}
	})
	t.Run("runs-a-command-with-live-output", func(t *testing.T) {
		p := p.in(t)
		next := make(chan struct{})
		c.backend.Handle("two\nlines", func(process *fake.Process) int {
			io.WriteString(process.Stdout, "<b>first</b>\n")
			select {
			case <-next:
			case <-process.Done():
			}
			io.WriteString(process.Stderr, "last\n")
			return 3
		})
		p.press("two")
		p.press(kb.Enter, chromedp.ModifierShift)
		p.press("lines" + kb.Enter)
		p.wait(text(".output"), "<b>first</b>\n")
		p.wait(text(".command .status"), "Running…")
		close(next)
		p.wait(text(".command .status"), "Exit code 3 after ")
		p.wait(text(".output .stderr"), "last\n")
		if typed := p.eval("document.activeElement.value"); typed != "two\nlines" {
			t.Errorf("the command has become %q", typed)
		}
	})
	t.Run("cancels-a-command-that-has-printed-much", func(t *testing.T) {
		p := p.in(t)
		p.press("a", chromedp.ModifierCtrl)
		p.press("flood" + kb.Enter)
		p.wait(text(".output"), "y\ndry\n")
		p.tabTo("Cancel")
		p.press(kb.Enter)
		p.wait(text(".command .status"), "Cancelled after ")
		p.wait(focus, "command")
	})
	t.Run("types-at-a-terminal", func(t *testing.T) {
		p := p.in(t)
		p.press("\t", chromedp.ModifierShift)
		p.wait(focus, "Command")
		p.press(kb.ArrowRight)
		p.wait(focus, "Terminal")
		p.tabTo("Open a terminal")
		p.press(kb.Enter)
		p.wait(text(".terminal .status"), "Connected.")
		p.wait(focus, "Terminal input")
		p.press("hellö" + kb.Enter)
		p.wait(text(".xterm-rows"), "heard hellö")
		p.do(chromedp.EmulateViewport(1000, 700))
		p.wait(`document.querySelector(".xterm-rows").childElementCount < 30`, "true")
		p.press("size" + kb.Enter)
		p.wait(text(".xterm-rows"), "heard size of ")
		rows := p.eval(`document.querySelector(".xterm-rows").childElementCount`)
		p.wait(text(".xterm-rows"), "×"+rows)
		p.do(chromedp.EmulateViewport(1280, 800))

		p.press(kb.F6, chromedp.ModifierShift)
		p.wait(focus, "Close")
		p.press(kb.Enter)
		p.wait(text(".terminal .status"), "Closed.")
		p.wait(focus, "Open a terminal")
		p.press(kb.Enter)
		p.wait(text(".terminal .status"), "Connected.")
		p.press("exit" + kb.Enter)
		p.wait(text(".terminal .status"), "Exit code 7 after ")
		p.wait(focus, "Open a terminal")
	})
	t.Run("edits-files", func(t *testing.T) {
		p := p.in(t)
		p.press("\t", chromedp.ModifierShift)
		p.press(kb.ArrowRight)
		p.wait(focus, "Files")
		p.wait(text(".browser .status"), "0 entries")
		p.tabTo("New file")
		p.press(kb.Enter)
		p.wait(focus, "path")
		p.press("notes/a <b>.txt\tone" + kb.Enter + "two")
		p.press("s", chromedp.ModifierCtrl)
		p.wait(text(".editor .status"), "Saved 7 bytes.")
		if got := c.content(t, "notes/a <b>.txt"); got != "one\ntwo" {
			t.Errorf("saved %q", got)
		}
		p.wait(text(".browser tbody"), "notes/")
		p.tabTo("Close")
		p.press(kb.Enter)
		p.wait(focus, "notes/")
		p.press(kb.Enter)
		p.wait(focus, "a <b>.txt")

		// The ends of lines are kept.
		if err := c.files().WriteFile(t.Context(), "notes/a <b>.txt", []byte("x\r\ny\r\n"), nil); err != nil {
			t.Fatal(err)
		}
		p.press(kb.Enter)
		p.wait(focus, "content")
		p.press("new ")
		p.press("s", chromedp.ModifierCtrl)
		p.wait(text(".editor .status"), "Saved 10 bytes.")
		if got := c.content(t, "notes/a <b>.txt"); got != "new x\r\ny\r\n" {
			t.Errorf("saved %q", got)
		}

		p.press("more")
		p.tabTo("Close")
		p.press(kb.Enter)
		p.wait(text("dialog"), "Discard the changes")
		p.press(kb.Escape)
		p.press(kb.Enter)
		p.tabTo("Discard")
		p.press(kb.Enter)
		p.wait(`document.querySelector(".editor").hidden`, "true")
	})
	t.Run("moves-files", func(t *testing.T) {
		p := p.in(t)
		dir := t.TempDir()
		up := filepath.Join(dir, "up.bin")
		if err := os.WriteFile(up, []byte("\xff\x00"), 0o644); err != nil {
			t.Fatal(err)
		}
		p.do(chromedp.SetUploadFiles(chromedp.CSS("[type=file]"), []string{up}))
		p.wait(text(".browser .status"), "2 entries")
		if got := c.content(t, "notes/up.bin"); got != "\xff\x00" {
			t.Errorf("uploaded %q", got)
		}
		p.tabTo("up.bin")
		p.press(kb.Enter)
		p.wait(text(".browser .status"), "up.bin is not UTF-8 text")

		_, err := chromedp.CallBrowser(p.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(up); err != nil {
			t.Fatal(err)
		}
		p.tabTo("Download up.bin")
		p.press(kb.Enter)
		p.wait(text(".browser .status"), "Downloaded up.bin.")
		var got []byte
		for deadline := time.Now().Add(patience); string(got) != "\xff\x00" && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			got, err = os.ReadFile(up)
		}
		if string(got) != "\xff\x00" {
			t.Errorf("downloaded %q, %v", got, err)
		}

		p.tabTo("Remove up.bin")
		p.press(kb.Enter)
		p.wait(text("dialog"), "Remove up.bin?")
		p.tabTo("Remove")
		p.press(kb.Enter)
		p.wait(text(".browser .status"), "Removed up.bin.")
		p.wait(focus, "a <b>.txt")
	})
	t.Run("shows-the-history", func(t *testing.T) {
		p := p.in(t)
		next := make(chan struct{})
		c.backend.Handle("wait", func(process *fake.Process) int {
			io.WriteString(process.Stdout, "so far\n")
			select {
			case <-next:
			case <-process.Done():
			}
			io.WriteString(process.Stderr, "the rest\n")
			return 5
		})
		sb := c.sandbox()
		for range 8 { // more records than one answer has
			if _, err := sb.Run(t.Context(), sandbox.Command{Shell: "true"}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sb.Start(t.Context(), sandbox.Command{Shell: "wait"}); err != nil {
			t.Fatal(err)
		}
		var ids []string // newest first
		for _, exec := range sb.Execs() {
			ids = append([]string{exec.ID()}, ids...)
		}

		p.do(chromedp.Focus(chromedp.CSS("[role=tab][aria-selected=true]")))
		p.press(kb.ArrowRight)
		p.wait(focus, "History")
		p.wait(text(".records .status"), "13 executions")
		p.wait(`[...document.querySelectorAll(".records button.mono")].map((b) => b.textContent)`, strings.Join(ids, ","))
		p.wait(text(".records tbody"), "Running")
		p.tabTo(ids[0])
		p.press(kb.Enter)
		p.wait(text(".record .output"), "so far\n")
		p.tabTo(ids[len(ids)-1]) // another takes its place
		p.press(kb.Enter)
		p.wait(text(".record .status"), "Exit code 3 after ")
		p.wait(text(".record .output"), "last\n")
		if got := p.eval(text(".record .output")); got != "<b>first</b>\nlast\n" {
			t.Errorf("the output is %q", got)
		}
		p.do(chromedp.Focus(chromedp.CSS(".records button.mono")))
		p.press(kb.Enter)
		p.wait(text(".record .output"), "so far\n")
		close(next)
		p.wait(text(".record .output .stderr"), "the rest\n")
		p.wait(text(".record .status"), "Exit code 5 after ")
		p.tabTo(ids[len(ids)-2])
		p.press(kb.Enter)
		p.wait(text(".record .output .note"), "bytes of stdout are missing]")
		p.wait(text(".record .status"), "Cancelled after ")

		p.do(chromedp.Focus(chromedp.CSS(".history .reload")))
		p.press(kb.Enter)
		p.wait(text(".records tbody"), "Exit code 5 after ")
		p.do(chromedp.Focus(chromedp.CSS("[role=tab][aria-selected=true]")))
		p.press(kb.ArrowLeft)
	})
	t.Run("shows-what-has-tried-to-get-out", func(t *testing.T) {
		p := p.in(t)
		c.backend.Handle("get out", func(process *fake.Process) int {
			for _, target := range []string{"127.0.0.1:1", "<b>.test:443", "other.test:443"} {
				conn, err := process.Dial(context.Background(), "tcp", strings.TrimPrefix(process.Getenv("HTTP_PROXY"), "http://"))
				if err != nil {
					return 1
				}
				fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\n\r\n", target)
				io.Copy(io.Discard, conn)
				conn.Close()
			}
			return 0
		})
		if _, err := c.sandbox().Run(t.Context(), sandbox.Command{Shell: "get out"}); err != nil {
			t.Fatal(err)
		}
		p.do(chromedp.Focus(chromedp.CSS("[role=tab][aria-selected=true]")))
		p.press(kb.ArrowRight)
		p.press(kb.ArrowRight)
		p.wait(focus, "Egress")
		p.wait(text(".egress .status"), "3 connections")
		p.wait(text(".egress tbody"), `other.test:443 is not allowed from this sandbox; the rule to add is "other.test:443"`)
		p.wait(text(".egress tbody"), "failed: 127.0.0.1:1 cannot be reached: connection refused")
		p.do(chromedp.Focus(chromedp.CSS("[role=tab][aria-selected=true]")))
		p.press(kb.ArrowLeft)
		p.press(kb.ArrowLeft)
	})
	t.Run("removes-the-sandbox-and-its-terminal", func(t *testing.T) {
		p := p.in(t)
		p.do(chromedp.Focus(chromedp.CSS("[role=tab][aria-selected=true]")))
		p.press(kb.ArrowLeft)
		p.tabTo("Open a terminal")
		p.press(kb.Enter)
		p.wait(text(".terminal .status"), "Connected.")
		p.do(chromedp.Focus(chromedp.CSS(".workspace .remove")))
		p.press(kb.Enter)
		p.wait(text("dialog"), "and all that runs in it?")
		p.tabTo("Remove")
		p.press(kb.Enter)
		p.wait(text(".sandboxes .status"), "No sandboxes yet.")
		p.wait(focus, "Create")
	})
	// That the wrong key is refused is what a browser calls an error.
	p.quiet(func(message string) bool { return strings.Contains(message, "status of 401") })
}

// script is what commands do.
func script(b *fake.Backend) {
	b.Handle("flood", func(p *fake.Process) int {
		for range 128 {
			io.WriteString(p.Stdout, strings.Repeat("y\n", 1<<14)) // 4 MiB in all
		}
		io.WriteString(p.Stdout, "dry\n")
		p.Sleep(time.Hour)
		return 0
	})
	shell := func(c *fake.Command) bool { return strings.Contains(c.Shell, "exec sh -i") }
	b.HandleFunc(shell, func(p *fake.Process) int {
		lines := bufio.NewScanner(p.Stdin)
		for lines.Scan() {
			if lines.Text() == "exit" {
				return 7
			}
			fmt.Fprintf(p.Stdout, "heard %s of %d×%d\n", lines.Text(), p.Terminal().Cols, p.Terminal().Rows)
		}
		return 0
	})
}

func TestConsoleWithoutTerminals(t *testing.T) {
	p := openTab(t)
	c := serve(t, &sandbox.BackendInfo{Name: "fake", Containment: sandbox.ContainmentSupervisor, Files: true})
	p.signIn(c)
	p.press("\t", chromedp.ModifierShift)
	p.press(kb.ArrowRight)
	p.tabTo("Open a terminal")
	p.press(kb.Enter)
	p.wait(text(".terminal .status"), "this backend has no terminals")
	p.wait(focus, "Open a terminal")
	p.quiet(func(message string) bool { return strings.Contains(message, "501 (Not Implemented)") })
}
