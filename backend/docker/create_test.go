package docker_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// What the engine refuses is a typed error that says what to do, within seconds,
// and leaves nothing behind.
func TestCreateRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		opts    docker.Options
		cfg     backend.Config
		problem docker.Problem
	}{
		{"missing-image", docker.Options{Pull: docker.PullNever}, backend.Config{Image: "no.invalid/such:image"}, docker.NoImage},
		{"unreachable-registry", docker.Options{}, backend.Config{Image: "127.0.0.1:1/such:image"}, docker.NoImage},
		{"malformed-image", docker.Options{}, backend.Config{Image: "Not An Image"}, docker.NoImage},
		{"missing-runtime", docker.Options{Runtime: "no-such-runtime"}, backend.Config{}, docker.NoRuntime},
		{"missing-network", docker.Options{}, backend.Config{Network: "no-such-network"}, docker.NoNetwork},
		{"missing-mount", docker.Options{}, backend.Config{Mounts: []backend.Mount{{Source: "/no/such/directory", Target: "/data"}}}, docker.BadMount},
		{"relative-mount", docker.Options{}, backend.Config{Mounts: []backend.Mount{{Source: "/tmp", Target: "data"}}}, docker.BadMount},
		{"mount-over-ours", docker.Options{}, backend.Config{Mounts: []backend.Mount{{Source: "/tmp", Target: "/workspace"}}}, docker.BadMount},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := engine(t)
			b := newBackend(t, test.opts)
			test.cfg.ID = "sbx_refused"
			begin := time.Now()
			_, err := b.Create(testContext(t), &test.cfg)
			var typed *docker.Error
			if !errors.As(err, &typed) || typed.Problem != test.problem || typed.Name == "" || typed.Advice == "" {
				t.Errorf("got %v, want the problem %q", err, test.problem)
			}
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
			nothingLeft(t, api, ownerOf(t))
		})
	}
}

// A creation that is cancelled at any time leaves nothing behind.
func TestCreateCancelled(t *testing.T) {
	api := engine(t)
	b := newBackend(t, docker.Options{})
	for after := time.Duration(0); ; after += 20*time.Millisecond + after/8 {
		ctx, cancel := context.WithTimeout(testContext(t), after)
		i, err := b.Create(ctx, &backend.Config{ID: "sbx_cancelled"})
		cancel()
		if err == nil {
			closeIn(t, i.Destroy)
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %v: %v", after, err)
		}
		nothingLeft(t, api, ownerOf(t))
		if t.Failed() || after > time.Minute {
			t.Fatalf("after %v", after)
		}
	}
	nothingLeft(t, api, ownerOf(t))
}

// When the engine goes away half-way, what it had made is removed once it is
// back.
func TestCreateEngineStops(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	p := newProxy(t, api)
	b := newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectEngine})
	p.cutAfter("/containers/create?name=sandbox-sbx")
	_, err := b.Create(ctx, &backend.Config{ID: "sbx_stopped"})
	if !errors.Is(err, docker.NoEngine) {
		t.Errorf("got %v, want %v", err, docker.NoEngine)
	}
	if names := strings.Join(left(t, api, ownerOf(t)), " "); !strings.Contains(names, "sbx_stopped") {
		t.Errorf("the engine did not stop half-way: it has %s", names)
	}
	p.restore()
	eventually(t, "what was made is gone", func() bool { return len(left(t, api, ownerOf(t))) == 0 })
}

// An engine that hangs is found out within seconds.
func TestEngineHangs(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "engine.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begin := time.Now()
	_, err = docker.New(testContext(t), &docker.Options{Host: "unix://" + l.Addr().String()})
	if !errors.Is(err, docker.NoEngine) {
		t.Errorf("got %v, want %v", err, docker.NoEngine)
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}
