package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
)

// The image that the tests make, of nothing but a static busybox.
const (
	busybox = "/bin/busybox"
	passwd  = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"
	group   = "root:x:0:\nuser:x:1000:\n"

	// nohup is not among the programs of Debian's busybox-static.
	nohup = "#!/bin/sh\ntrap '' HUP\nexec \"$@\"\n"

	imageEnv = "FROM_IMAGE"
)

// made guards the making of the image, once in a run.
var made struct {
	sync.Mutex
	ref string
}

// testImage returns the image that tests run: SANDBOX_TEST_IMAGE, or one made
// here, so that no registry is needed.
func testImage(tb testing.TB, api *client.Client) string {
	tb.Helper()
	if ref := os.Getenv("SANDBOX_TEST_IMAGE"); ref != "" {
		return ref
	}
	made.Lock()
	defer made.Unlock()
	if made.ref != "" {
		return made.ref
	}
	made.ref = importImage(tb, api, busyboxImage(tb), []string{
		"ENV PATH=/bin:/opt/image",
		"ENV " + imageEnv + "=yes",
		"ENV HOME=/root",
		"USER nobody",
		"WORKDIR /etc",
		`ENTRYPOINT ["/bin/false"]`,
		"HEALTHCHECK CMD /bin/touch /tmp/unhealthy",
	})
	return made.ref
}

// removeTestImage removes the image that was made.
func removeTestImage() {
	if made.ref == "" {
		return
	}
	api, err := client.New(client.FromEnv)
	if err != nil {
		return
	}
	defer api.Close()
	removeImage(api, made.ref)
}

func removeImage(api *client.Client, ref string) {
	api.ImageRemove(context.Background(), ref, client.ImageRemoveOptions{Force: true})
}

// importImage makes an image of an archive and of the lines of a Dockerfile, and
// returns its name.
func importImage(tb testing.TB, api *client.Client, archive []byte, lines []string) string {
	tb.Helper()
	sum := sha256.Sum256(archive)
	// Each run has its own, which another that ends does not remove.
	ref := fmt.Sprintf("sandbox-test:%x-%d", sum[:8], os.Getpid())
	resp, err := api.ImageImport(context.Background(),
		client.ImageImportSource{Source: bytes.NewReader(archive), SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: lines})
	if err != nil && strings.Contains(err.Error(), "HEALTHCHECK") { // Podman's import cannot
		return importImage(tb, api, archive, slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return strings.HasPrefix(line, "HEALTHCHECK")
		}))
	}
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Close()
	if _, err := io.Copy(io.Discard, resp); err != nil {
		tb.Fatal(err)
	}
	return ref
}

// busyboxImage returns a file system in which the programs of busybox have their
// names.
func busyboxImage(tb testing.TB) []byte {
	tb.Helper()
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		tb.Skipf("the tests' image is made of a static busybox (Debian: busybox-static), or named by SANDBOX_TEST_IMAGE: %v", err)
	}
	a := newArchive(tb)
	a.add(tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, nil)
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, readBusybox(tb))
	for _, applet := range strings.Fields(string(applets)) {
		if applet != "busybox" && applet != "nohup" {
			a.add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/nohup", Mode: 0o755}, []byte(nohup))
	a.add(tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, nil)
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte(passwd))
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte(group))
	return a.bytes()
}

// busyboxOnly returns a file system of one program.
func busyboxOnly(tb testing.TB) []byte {
	tb.Helper()
	a := newArchive(tb)
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: "busybox", Mode: 0o755}, readBusybox(tb))
	return a.bytes()
}

func readBusybox(tb testing.TB) []byte {
	tb.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		tb.Fatal(err)
	}
	return program
}

// An archive is a tar archive being written.
type archive struct {
	testing.TB
	buf bytes.Buffer
	w   *tar.Writer
}

func newArchive(tb testing.TB) *archive {
	a := &archive{TB: tb}
	a.w = tar.NewWriter(&a.buf)
	return a
}

func (a *archive) add(h tar.Header, content []byte) {
	a.Helper()
	h.Size = int64(len(content))
	if err := a.w.WriteHeader(&h); err != nil {
		a.Fatal(err)
	}
	if _, err := a.w.Write(content); err != nil {
		a.Fatal(err)
	}
}

func (a *archive) bytes() []byte {
	a.Helper()
	if err := a.w.Close(); err != nil {
		a.Fatal(err)
	}
	return a.buf.Bytes()
}
