//go:build linux && (amd64 || arm64)

package image_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/backend/namespace/image"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// An image is the root of sandboxes, for every kind of user.
func TestSandbox(t *testing.T) {
	img, err := image.Unpack(t.Context(), dockerSaveOf(t, busyboxImage(t)), &image.Options{Dir: filepath.Join(programtest.OwnDir(t, os.Geteuid()), "images")})
	if err != nil {
		t.Fatal(err)
	}
	b, err := namespace.New(&namespace.Options{Root: img.Root, Env: img.Env})
	if err != nil {
		if os.Getenv("SANDBOX_TEST_NAMESPACE") == "require" {
			t.Fatal(err)
		}
		t.Skipf("the machine lacks something: %v", err)
	}
	defer func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	sb, err := sandbox.New(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close(context.Background())
	rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "cat /secret; echo $FROM_IMAGE $PATH; ls -d /old /bin; pwd; echo x >/bin/x"})
	if err != nil {
		t.Fatal(err)
	}
	want := "for root\na=b /bin\n/bin\n/workspace\n"
	if got := rec.Stdout.String(); got != want || rec.Err != nil || *rec.ExitCode == 0 {
		t.Errorf("got %q, %q, %v, %v, want %q", got, rec.Stderr.String(), rec.ExitCode, rec.Err, want)
	}
}

func TestSandboxOneNumber(t *testing.T) { programtest.AsUser(t, 39_998, "^TestSandbox$") }
