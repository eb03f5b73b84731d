package docker_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// The README's first program, on Docker, leaves no container and no volume when Ctrl-C
// ends it while a command runs.
func TestInterruptedProgramLeavesNothing(t *testing.T) {
	api, ctx, owner := engine(t), testContext(t), ownerOf(t)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	snippet := string(regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)[1])
	for from, to := range map[string]string{
		"local.New(nil)":              fmt.Sprintf("docker.New(ctx, &docker.Options{Image: %q, Owner: %q})", testImage(t, api), owner),
		"make test 2>&1 | tail -n 20": "(setsid sleep 5544 &); sleep 5544",
	} {
		if !strings.Contains(snippet, from) {
			t.Fatalf("the README's first program has no %s any more", from)
		}
		snippet = strings.Replace(snippet, from, to, 1)
	}
	dir := t.TempDir()
	file, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	source := `package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

func main() {
	if err := program(); err != nil {
		log.Fatal(err)
	}
}

func program() error {
` + snippet + "\nreturn nil\n}\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	var out bytes.Buffer
	cmd := exec.Command(bin)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	mine := make(client.Filters).Add("label", "io.github.sandbox-go.owner="+owner)
	containers := func(all bool) []string {
		list, err := api.ContainerList(ctx, client.ContainerListOptions{All: all, Filters: mine})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range list.Items {
			ids = append(ids, c.ID)
		}
		return ids
	}
	eventually(t, "the command runs", func() bool {
		ids := containers(false)
		return len(ids) == 1 && running(t, api, ids[0], "sleep 5544")
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it has not ended")
	}
	if left := containers(true); left != nil {
		t.Errorf("containers are left: %q; it printed:\n%s", left, &out)
	}
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: mine})
	if err != nil || len(volumes.Items) > 0 {
		t.Errorf("volumes are left: %v, %v", volumes.Items, err)
	}
}
