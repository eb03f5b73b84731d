package docker_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// A stranger's container and volume that have the names which a sandbox's would
// have are left alone, whatever the engine refuses first.
func TestCreateNameTaken(t *testing.T) {
	for _, test := range []struct {
		name string
		opts docker.Options
		cfg  backend.Config
		want error // nil: any
	}{
		{"good", docker.Options{}, backend.Config{}, docker.NameTaken},
		{"missing-runtime", docker.Options{Runtime: "no-such-runtime"}, backend.Config{}, nil},
		{"missing-network", docker.Options{}, backend.Config{Network: "no-such-network"}, nil},
		{"missing-mount", docker.Options{}, backend.Config{Mounts: []backend.Mount{{Source: "/no/such/directory", Target: "/data"}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := engine(t)
			b := newBackend(t, test.opts)
			s := newStranger(t, api, "sandbox-sbx_taken", nil)
			test.cfg.ID = "sbx_taken"
			_, err := b.Create(testContext(t), &test.cfg)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			s.unharmed(t)
			nothingLeft(t, api, ownerOf(t))
		})
	}
}

// A stranger's volume alone does not become the sandbox's.
func TestCreateVolumeTaken(t *testing.T) {
	api := engine(t)
	s := newStranger(t, api, "sandbox-sbx_other", nil)
	if _, err := api.ContainerRename(testContext(t), s.id, client.ContainerRenameOptions{NewName: "sandbox-test-other"}); err != nil {
		t.Fatal(err)
	}
	i, err := newBackend(t, docker.Options{}).Create(testContext(t), &backend.Config{ID: "sbx_other"})
	if err != nil {
		t.Fatal(err)
	}
	closeIn(t, i.Destroy)
	s.unharmed(t)
	nothingLeft(t, api, ownerOf(t))
}

// A container that runs an image which somebody made of a sandbox has its labels,
// and is nobody's sandbox.
func TestCommittedImage(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	owner := ownerOf(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	labels := maps.Clone(inspect(t, api, containerOf(sb)).Config.Labels)
	labels["io.github.sandbox-go.created"] = "1"
	closeIn(t, sb.Close)
	s := newStranger(t, api, "sandbox-test-committed", labels)
	b := newBackend(t, docker.Options{Owner: owner})
	if opened, err := b.Recover(ctx); err != nil || len(opened) > 0 {
		t.Errorf("opened %v, %v", opened, err)
	}
	s.unharmed(t)
}

// What has the name of the agent's volume, or of its lock, without our label is left
// alone, and the agent goes to a volume of another name.
func TestAgentVolumeTaken(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	name := agentVolume(t, api)
	if _, err := api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	elsewhere := func(s *stranger) {
		t.Helper()
		other := agentVolume(t, api)
		if other == name {
			t.Error("the agent is in the volume of that name")
		} else if _, err := api.VolumeRemove(ctx, other, client.VolumeRemoveOptions{}); err != nil {
			t.Error(err)
		}
		s.unharmed(t)
	}
	both := newStranger(t, api, name, nil)
	elsewhere(both)
	both.remove()
	lock := newStranger(t, api, "sandbox-test-lock", nil)
	if _, err := api.ContainerRename(ctx, lock.id, client.ContainerRenameOptions{NewName: name}); err != nil {
		t.Fatal(err)
	}
	elsewhere(lock)
}

// A stranger is a container with a volume, neither of them made by the library.
type stranger struct {
	api        *client.Client
	id, volume string
}

// newStranger makes a container and a volume of that name. They are removed in the
// end.
func newStranger(tb testing.TB, api *client.Client, name string, labels map[string]string) *stranger {
	tb.Helper()
	ctx := testContext(tb)
	made, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   name,
		Config: &container.Config{Image: testImage(tb, api), User: "0:0", Entrypoint: []string{"/bin/true"}, Labels: labels},
		HostConfig: &container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{
			{Type: mount.TypeVolume, Source: name, Target: "/precious"},
		}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	s := &stranger{api, made.ID, name}
	tb.Cleanup(s.remove)
	return s
}

func (s *stranger) remove() {
	s.api.ContainerRemove(context.Background(), s.id, client.ContainerRemoveOptions{Force: true})
	s.api.VolumeRemove(context.Background(), s.volume, client.VolumeRemoveOptions{Force: true})
}

// unharmed checks that both are there.
func (s *stranger) unharmed(tb testing.TB) {
	tb.Helper()
	if _, err := s.api.ContainerInspect(context.Background(), s.id, client.ContainerInspectOptions{}); err != nil {
		tb.Errorf("the stranger's container: %v", err)
	}
	if _, err := s.api.VolumeInspect(context.Background(), s.volume, client.VolumeInspectOptions{}); err != nil {
		tb.Errorf("the stranger's volume: %v", err)
	}
}
