package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

//go:generate go run ./build

//go:embed bin/*.gz
var binaries embed.FS

// Binary returns the agent's program for linux on an architecture, as GOARCH names
// it, and the SHA-256 of it in hexadecimal. The error wraps errors.ErrUnsupported
// when there is none.
func Binary(goarch string) (program []byte, hash string, err error) {
	compressed, err := binaries.ReadFile("bin/sandbox-agent-linux-" + goarch + ".gz")
	if err != nil {
		return nil, "", fmt.Errorf("agent for linux/%s: %w", goarch, errors.ErrUnsupported)
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err == nil {
		program, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, "", fmt.Errorf("agent for linux/%s: %w", goarch, err)
	}
	sum := sha256.Sum256(program)
	return program, hex.EncodeToString(sum[:]), nil
}
