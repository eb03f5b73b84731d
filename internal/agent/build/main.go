// Command build builds the programs that package agent embeds. It is run by
// go generate, from the directory of that package. The same sources give the same
// bytes wherever it runs; it writes only what differs.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

// toolchain is exact, since another one makes other bytes.
const toolchain = "go1.26.8"

func main() {
	log.SetFlags(0)
	var sums bytes.Buffer
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := build(arch)
		if err != nil {
			log.Fatal(err)
		}
		name := "sandbox-agent-linux-" + arch
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(program), name)
		if err := save(filepath.Join("bin", name+".gz"), program); err != nil {
			log.Fatal(err)
		}
	}
	if err := os.WriteFile("bin/SHA256SUMS", sums.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// build returns the program for an architecture. Nothing of the machine, of the
// directory or of the environment goes into it.
func build(arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "build")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "sandbox-agent")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=",
		"-o", out, "./cmd/sandbox-agent")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain, "GOOS=linux", "GOARCH="+arch,
		"CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build for %s: %w", arch, err)
	}
	return os.ReadFile(out)
}

// save writes the program compressed, unless path has it: another version of Go
// may compress the same program to other bytes.
func save(path string, program []byte) error {
	if b, err := os.ReadFile(path); err == nil {
		if old, err := expand(b); err == nil && bytes.Equal(old, program) {
			return nil
		}
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w.Write(program)
	w.Close()
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func expand(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
