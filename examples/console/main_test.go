package main_test

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServesThePageAndTheAPI(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "console")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "-addr", "127.0.0.1:0", "-backend", "local")
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the console ended with %v", err)
		}
		hung.Stop()
	}()
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	url, key, ok := strings.Cut(strings.TrimSpace(line), "/#key=")
	url, found := strings.CutPrefix(url, "open ")
	if !ok || !found {
		t.Fatalf("it printed %q", line)
	}

	for _, test := range []struct {
		method, path, key, body string
		code                    int
		part                    string
	}{
		{"GET", "/", "", "", http.StatusOK, "<title>Sandbox console</title>"},
		{"GET", "/xterm/xterm.mjs", "", "", http.StatusOK, "export{"},
		{"GET", "/v1/sandboxes", "", "", http.StatusUnauthorized, `"unauthorized"`},
		{"GET", "/v1/sandboxes", key, "", http.StatusOK, `"data":[]`},
		{"POST", "/v1/sandboxes", key, "{}", http.StatusCreated, `"status":"running"`},
		{"GET", "/v1/sandboxes/sbx_missing", key, "", http.StatusNotFound, `"not_found"`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, url+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if test.key != "" {
			r.Header.Set("Authorization", "Bearer "+test.key)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != test.code || !strings.Contains(string(body), test.part) {
			t.Errorf("%s %s: %d, %v: %.200s; want %d and %q", test.method, test.path, resp.StatusCode, err, body, test.code, test.part)
		}
	}
}

func TestRefusesAnUnknownBackend(t *testing.T) {
	cmd := exec.Command("go", "run", ".", "-addr", "127.0.0.1:0", "-backend", "none")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), `there is no backend "none": use local`) {
		t.Errorf("%v: %s", err, out)
	}
}
