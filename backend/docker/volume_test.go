package docker_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"archive/tar"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

const agentLabel = "io.github.sandbox-go.agent"

// These tests share the engine's one volume with the agent: they must not run
// in parallel with others.

// An agent's volume that is empty, or that a crash left half-filled or spoilt, is
// filled before it is used.
func TestAgentVolumeRepaired(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	name := agentVolume(t, api)
	for _, test := range []struct {
		name    string
		content func(whole []byte) []byte
	}{
		{"empty", nil},
		{"half", func(whole []byte) []byte { return whole[:len(whole)/2] }},
		{"spoilt", func(whole []byte) []byte { whole[len(whole)/2] ^= 1; return whole }},
	} {
		t.Run(test.name, func(t *testing.T) {
			image := testImage(t, api)
			whole := readAgent(t, api, image, name)
			if _, err := api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil {
				t.Fatal(err)
			}
			if test.content != nil {
				writeAgent(t, api, image, name, test.content(bytes.Clone(whole)))
			}
			sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
			if got := output(t, sb, "echo works"); got != "works\n" {
				t.Errorf("got %q", got)
			}
			if !bytes.Equal(readAgent(t, api, image, name), whole) {
				t.Error("the volume does not hold the agent")
			}
		})
	}
}

// A volume that somebody removes while a backend lives is filled again.
func TestAgentVolumePruned(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	name := agentVolume(t, api)
	b := newBackend(t, docker.Options{})
	closeIn(t, newSandbox(t, b, nil).Close)
	if _, err := api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, newSandbox(t, b, nil), "echo works"); got != "works\n" {
		t.Errorf("got %q", got)
	}
}

// Two services that begin at once both find a whole agent.
func TestAgentVolumeTwoServices(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	name := agentVolume(t, api)
	if _, err := api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for range 3 {
		b := newBackend(t, docker.Options{})
		both.Go(func() {
			sb, err := sandbox.New(ctx, b, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer closeIn(t, sb.Close)
			rec, err := sb.Run(ctx, sandbox.Command{Shell: "echo works"})
			if err != nil || rec.Stdout.String() != "works\n" {
				t.Errorf("%v, %s", err, describe(rec))
			}
		})
	}
	both.Wait()
}

// Volumes of other versions' agents are removed when nothing uses them.
func TestAgentVolumeOfOtherVersions(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	image := testImage(t, api)
	for _, name := range []string{"sandbox-agent-unused", "sandbox-agent-used"} {
		if _, err := api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: map[string]string{agentLabel: name}}); err != nil {
			t.Fatal(err)
		}
		defer api.VolumeRemove(context.Background(), name, client.VolumeRemoveOptions{Force: true})
	}
	user := withVolume(t, api, image, "sandbox-agent-used")
	newBackend(t, docker.Options{})
	if _, err := api.VolumeInspect(ctx, "sandbox-agent-unused", client.VolumeInspectOptions{}); err == nil {
		t.Error("the unused one is still there")
	}
	if _, err := api.VolumeInspect(ctx, "sandbox-agent-used", client.VolumeInspectOptions{}); err != nil {
		t.Errorf("the used one: %v", err)
	}
	if _, err := api.ContainerRemove(ctx, user, client.ContainerRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
}

// agentVolume returns the name of the volume that a sandbox's agent is in.
func agentVolume(tb testing.TB, api *client.Client) string {
	tb.Helper()
	sb := newSandbox(tb, newBackend(tb, docker.Options{Owner: ownerOf(tb) + "/volume"}), nil)
	defer closeIn(tb, sb.Close)
	for _, m := range inspect(tb, api, containerOf(sb)).Mounts {
		if m.Destination == "/.sandbox" {
			return m.Name
		}
	}
	tb.Fatal("the agent is not in a volume")
	return ""
}

// withVolume returns a container, never started, that has the volume at /v.
func withVolume(tb testing.TB, api *client.Client, image, volume string) string {
	tb.Helper()
	labels := map[string]string{agentLabel: strings.TrimPrefix(volume, "sandbox-agent-")}
	if _, err := api.VolumeCreate(testContext(tb), client.VolumeCreateOptions{Name: volume, Labels: labels}); err != nil {
		tb.Fatal(err)
	}
	c, err := api.ContainerCreate(testContext(tb), client.ContainerCreateOptions{
		Config: &container.Config{Image: image, User: "0:0", Cmd: []string{"true"}},
		HostConfig: &container.HostConfig{Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: volume, Target: "/v",
		}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		api.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true})
	})
	return c.ID
}

func readAgent(tb testing.TB, api *client.Client, image, volume string) []byte {
	tb.Helper()
	id := withVolume(tb, api, image, volume)
	defer api.ContainerRemove(context.Background(), id, client.ContainerRemoveOptions{Force: true})
	got, err := api.CopyFromContainer(testContext(tb), id, client.CopyFromContainerOptions{SourcePath: "/v/agent"})
	if err != nil {
		tb.Fatal(err)
	}
	defer got.Content.Close()
	r := tar.NewReader(got.Content)
	if _, err := r.Next(); err != nil {
		tb.Fatal(err)
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(r); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func writeAgent(tb testing.TB, api *client.Client, image, volume string, content []byte) {
	tb.Helper()
	id := withVolume(tb, api, image, volume)
	defer api.ContainerRemove(context.Background(), id, client.ContainerRemoveOptions{Force: true})
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "agent", Mode: 0o555, Size: int64(len(content))})
	w.Write(content)
	w.Close()
	if _, err := api.CopyToContainer(testContext(tb), id, client.CopyToContainerOptions{DestinationPath: "/v", Content: &buf}); err != nil {
		tb.Fatal(err)
	}
}
