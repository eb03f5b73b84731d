// Package programtest has tests build programs, such as the README's, and look for what
// they leave running.
package programtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// ReadmeFirst returns the README's first whole program, whose file is readme, as the source of
// a main package that imports that backend of the library.
func ReadmeFirst(t testing.TB, readme, backend string) string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	snippet := regexp.MustCompile("(?s)```go\n(ctx, stop :=.*?)```").FindSubmatch(text)[1]
	return `package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/` + backend + `"
)

func main() {
	if err := program(); err != nil {
		log.Fatal(err)
	}
}

func program() error {
` + string(snippet) + "\nreturn nil\n}\n"
}

// Build builds a main package of one file, and returns the program's name.
func Build(t testing.TB, source string) string {
	t.Helper()
	dir := t.TempDir()
	file, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// Running returns the command lines of the machine's processes that contain text, where
// there is a /proc.
func Running(t testing.TB, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(text)) {
			found = append(found, string(line))
		}
	}
	return found
}
