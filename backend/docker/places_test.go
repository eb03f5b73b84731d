package docker_test

import (
	"archive/tar"
	"errors"
	"slices"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// Commands can write where they must, whatever the image has there; or Create says
// that the image is of no use. Nothing is left of the volumes that images declare.
func TestImagePlaces(t *testing.T) {
	dir := func(name string, mode int64, uid int) tar.Header {
		return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: uid}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
	}
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}
	}
	for _, test := range []struct {
		name  string
		files []tar.Header
		lines []string
		bad   bool
	}{
		{name: "nothing"},
		{name: "unknown-user", lines: []string{"USER nosuch"}},
		{name: "volumes", lines: []string{"VOLUME /workspace", "VOLUME /home/user", "VOLUME /tmp", "VOLUME /data", "VOLUME /.sandbox"}},
		{name: "closed-tmp", files: []tar.Header{dir("tmp/", 0o755, 0)}},
		{name: "tmp-of-another", files: []tar.Header{dir("tmp/", 0o700, 33)}},
		{name: "tmp-is-a-link", files: []tar.Header{dir("var/", 0o755, 0), dir("var/tmp/", 0o755, 0), link("tmp", "var/tmp")}},
		{name: "tmp-is-a-file", files: []tar.Header{file("tmp")}, bad: true},
		{name: "workspace-of-another", files: []tar.Header{dir("workspace/", 0o755, 33)}},
		{name: "workspace-closed", files: []tar.Header{dir("workspace/", 0o500, 33)}},
		{name: "workspace-is-a-link", files: []tar.Header{dir("data/", 0o755, 0), link("workspace", "data")}},
		{name: "workspace-leads-nowhere", files: []tar.Header{link("workspace", "/no/such")}},
		{name: "workspace-is-a-file", files: []tar.Header{file("workspace")}, bad: true},
		{name: "home-is-a-file", files: []tar.Header{dir("home/", 0o755, 0), file("home/user")}, bad: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			api, ctx := engine(t), testContext(t)
			a := newArchive(t)
			a.add(dir("bin/", 0o755, 0), nil)
			a.add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, readBusybox(t))
			a.add(link("bin/sh", "busybox"), nil)
			a.add(link("bin/cat", "busybox"), nil)
			for _, h := range test.files {
				a.add(h, nil)
			}
			ref := importImage(t, api, a.bytes(), test.lines)
			defer removeImage(api, ref)
			before := volumes(t, api)
			b, err := docker.New(ctx, &docker.Options{Owner: ownerOf(t), Image: ref})
			if err != nil {
				t.Fatal(err)
			}
			defer closeIn(t, b.Close)
			sb, err := sandbox.New(ctx, b, nil)
			switch {
			case test.bad && !errors.Is(err, docker.BadImage):
				t.Errorf("got %v, want %v", err, docker.BadImage)
			case !test.bad && err != nil:
				t.Error(err)
			}
			if err == nil {
				if got := output(t, sb, "set -e; echo x >$HOME/x; echo x >$TMPDIR/x; echo x >here; cat /home/user/here"); got != "x\n" {
					t.Errorf("got %q", got)
				}
				closeIn(t, sb.Close)
			}
			after := slices.DeleteFunc(volumes(t, api), func(v string) bool { return slices.Contains(before, v) })
			if len(after) > 0 {
				t.Errorf("left behind: %v", after)
			}
		})
	}
}

// volumes returns the names of the engine's volumes that are not an agent's.
func volumes(tb testing.TB, api *client.Client) []string {
	tb.Helper()
	found, err := api.VolumeList(testContext(tb), client.VolumeListOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, v := range found.Items {
		if v.Labels[agentLabel] == "" {
			names = append(names, v.Name)
		}
	}
	return names
}
