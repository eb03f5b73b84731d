package docker_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/internal/programtest"
)

// The README's first program, on Docker, leaves no container and no volume when Ctrl-C
// ends it while a command runs.
func TestInterruptedProgramLeavesNothing(t *testing.T) {
	api, ctx, owner := engine(t), testContext(t), ownerOf(t)
	source := programtest.ReadmeFirst(t, "../../README.md", "docker")
	for from, to := range map[string]string{
		"local.New(nil)":              fmt.Sprintf("docker.New(ctx, &docker.Options{Image: %q, Owner: %q})", testImage(t, api), owner),
		"make test 2>&1 | tail -n 20": "(setsid sleep 5544 &); sleep 5544",
	} {
		if !strings.Contains(source, from) {
			t.Fatalf("the README's first program has no %s any more", from)
		}
		source = strings.Replace(source, from, to, 1)
	}
	var out bytes.Buffer
	cmd := exec.Command(programtest.Build(t, source))
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
