//go:build linux

package image_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/backend/namespace/image"
)

// asStuck is the variable that makes it unpack an image whose layer never ends, into the
// directory that it holds.
const asStuck = "SANDBOX_TEST_STUCK"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asStuck); dir != "" {
		stuck(dir)
	}
	goleak.VerifyTestMain(m)
}

// A stuckLayer says when all but its end has been read.
type stuckLayer struct{ v1.Layer }

func (l stuckLayer) Uncompressed() (io.ReadCloser, error) {
	content, err := l.Layer.Uncompressed()
	return io.NopCloser(io.MultiReader(io.LimitReader(content, 2048), stuckReader{})), err
}

type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) {
	fmt.Println("stuck")
	select {}
}

// halfImage returns an image of one layer.
func halfImage(t testing.TB) v1.Image { return makeImage(t, []entry{file("a", "1"), file("b", "2")}) }

func stuck(dir string) {
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(1) }() // there is no deadlock, and no life without the test
	img := &changed{halfImage(&testing.T{}), func(l []v1.Layer) []v1.Layer { return []v1.Layer{stuckLayer{l[0]}} }}
	fmt.Println(image.UnpackImage(context.Background(), img, &image.Options{Dir: dir}))
	os.Exit(1)
}

// What a process was unpacking when it was killed is not taken for the image, and the next one
// removes it, also one that has waited for it.
func TestKilled(t *testing.T) {
	t.Run("nobody-waits", func(t *testing.T) { killed(t, false) })
	t.Run("somebody-waits", func(t *testing.T) { killed(t, true) })
}

func killed(t *testing.T, takesOver bool) {
	opts := store(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asStuck+"="+opts.Dir)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	parts, _ := filepath.Glob(filepath.Join(opts.Dir, "*.part", "a"))
	if err != nil || line != "stuck\n" || len(parts) != 1 {
		t.Errorf("the other process says %q, %v, and has unpacked %v", line, err, parts)
	}
	// While it lives, nobody else removes what it does.
	other, err := image.UnpackImage(t.Context(), makeImage(t, []entry{file("other", "")}), opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(parts[0]); err != nil {
		t.Error(err)
	}
	waiting := make(chan error)
	if takesOver {
		go func() {
			_, err := image.UnpackImage(t.Context(), halfImage(t), opts)
			waiting <- err
		}()
		select {
		case err := <-waiting:
			t.Fatalf("it does not wait for the other process: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if takesOver {
		if err := <-waiting; err != nil {
			t.Errorf("it does not take over: %v", err)
		}
	}
	if _, err := image.UnpackImage(t.Context(), makeImage(t, []entry{file("third", "")}), opts); err != nil {
		t.Fatal(err)
	}
	if parts, _ := filepath.Glob(filepath.Join(opts.Dir, "*.part")); len(parts) != 0 {
		t.Errorf("%v is left", parts)
	}
	got, err := image.UnpackImage(t.Context(), halfImage(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	if files := fmt.Sprint(listing(t, got.Root)); files != "map[a:1 b:2]" || !strings.HasPrefix(other.Root, opts.Dir) {
		t.Errorf("got %s", files)
	}
}
