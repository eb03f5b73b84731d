package docker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend/docker"
)

// The engine is looked for where the docker command looks. None of these exist,
// so the error says where it was.
func TestHost(t *testing.T) {
	config := func(current string) map[string]string {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "config.json"), `{"auths": {}, "currentContext": "`+current+`"}`)
		sum := sha256.Sum256([]byte("lab"))
		write(t, filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"),
			`{"Name":"lab","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///nowhere/lab.sock","SkipTLSVerify":false}}}`)
		return map[string]string{"DOCKER_CONFIG": dir}
	}
	with := func(env map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for _, test := range []struct {
		name    string
		env     map[string]string
		host    string
		problem docker.Problem
		where   string
	}{
		{"option", map[string]string{"DOCKER_HOST": "unix:///nowhere/env.sock"}, "unix:///nowhere/option.sock", docker.NoEngine, "unix:///nowhere/option.sock"},
		{"environment", config("lab"), "", docker.NoEngine, "unix:///nowhere/lab.sock"},
		{"environment-before-context", with(config("lab"), "DOCKER_HOST", "unix:///nowhere/env.sock", "DOCKER_CONTEXT", "lab"), "", docker.NoEngine, "unix:///nowhere/env.sock"},
		{"context-variable", with(config("other"), "DOCKER_CONTEXT", "lab"), "", docker.NoEngine, "unix:///nowhere/lab.sock"},
		{"missing-context", config("other"), "", docker.BadHost, "context other"},
		{"refused-tcp", nil, "tcp://127.0.0.1:1", docker.NoEngine, "tcp://127.0.0.1:1"},
		{"ssh", nil, "ssh://host", docker.BadHost, "ssh://host"},
		{"no-scheme", nil, "host", docker.BadHost, "host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"} {
				t.Setenv(name, "")
			}
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			begin := time.Now()
			b, err := docker.New(testContext(t), &docker.Options{Host: test.host})
			if err == nil {
				closeIn(t, b.Close)
				t.Fatal("it connected")
			}
			var typed *docker.Error
			if !errors.As(err, &typed) || typed.Problem != test.problem || typed.Name != test.where || typed.Advice == "" {
				t.Errorf("got %#v, want problem %q of %q", err, test.problem, test.where)
			}
			if !errors.Is(err, test.problem) || !strings.Contains(err.Error(), test.where) {
				t.Errorf("the error does not say what it is: %v", err)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
