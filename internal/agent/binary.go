package agent

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	_ "embed" // for the programs
)

//go:generate go run ./build

// Two variables, and not a table of both: a program that names only one does not have
// the other in it.
var (
	//go:embed bin/sandbox-agent-linux-amd64.gz
	amd64 string

	//go:embed bin/sandbox-agent-linux-arm64.gz
	arm64 string

	//go:embed bin/SHA256SUMS
	sums string
)

// Hash returns the SHA-256, in hexadecimal, of what [Binary] returns, which it does not
// unpack: that takes some 50 ms.
func Hash(goarch string) (string, error) {
	for line := range strings.Lines(sums) {
		if hash, ok := strings.CutSuffix(line, "  sandbox-agent-linux-"+goarch+"\n"); ok {
			return hash, nil
		}
	}
	return "", unsupported(goarch)
}

// Size returns how many bytes [Binary] returns, without unpacking them.
func Size(goarch string) (int, error) {
	compressed, err := packed(goarch)
	if err != nil {
		return 0, err
	}
	// RFC 1952, section 2.3.1: the last four bytes are the size before compression.
	return int(binary.LittleEndian.Uint32([]byte(compressed[len(compressed)-4:]))), nil
}

func unsupported(goarch string) error {
	return fmt.Errorf("agent for linux/%s: %w", goarch, errors.ErrUnsupported)
}

// Binary returns the agent's program for linux on an architecture, as GOARCH names
// it, and the SHA-256 of it in hexadecimal. The error wraps errors.ErrUnsupported
// when there is none.
func Binary(goarch string) (program []byte, hash string, err error) {
	compressed, err := packed(goarch)
	if err != nil {
		return nil, "", err
	}
	return unpack(compressed)
}

func unpack(compressed string) (program []byte, hash string, err error) {
	r, err := gzip.NewReader(strings.NewReader(compressed))
	if err == nil {
		program, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, "", fmt.Errorf("agent: %w", err)
	}
	sum := sha256.Sum256(program)
	return program, hex.EncodeToString(sum[:]), nil
}

func packed(goarch string) (string, error) {
	switch goarch {
	case "amd64":
		return amd64, nil
	case "arm64":
		return arm64, nil
	default:
		return "", unsupported(goarch)
	}
}
