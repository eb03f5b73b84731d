package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/internal/agent"
)

const (
	volumeNames = 8                     // names that are tried for a volume
	staleFill   = 30 * time.Second      // a fill that takes longer has been abandoned
	fillPoll    = 50 * time.Millisecond // how often a fill by another service is looked at
	agentMode   = 0o555
)

// removeLock is how a container that is a lock is removed: with the volumes that
// the engine has made for its image.
var removeLock = client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}

// mount shows the agent's volume in a container. It also makes the volume when
// the container is created and there is none.
func (p *program) mount(readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: p.volume, Target: agentDir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{labelAgent: p.hash}},
	}
}

// ensure installs p, unless this was done before. A volume or a lock of somebody
// else's that has the first name is left alone, and the next name is taken. So is a
// volume of ours that has lost its labels, as those of an engine do whose own records
// were lost.
func (b *Backend) ensure(ctx context.Context, p *program, img *image) error {
	select {
	case b.installing <- struct{}{}:
		defer func() { <-b.installing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.volume = b.installed[p.hash]; p.volume != "" {
		return nil
	}
	var err error
	for n := range volumeNames {
		p.volume = "sandbox-agent-" + p.hash[:16]
		if n > 0 {
			p.volume += "-" + strconv.Itoa(n+1)
		}
		if err = b.install(ctx, p, img.id); !errors.Is(err, NameTaken) {
			break
		}
	}
	if err == nil {
		b.installed[p.hash] = p.volume
	}
	return err
}

// invalidate has p installed again before the next use. Its volume was good, and what
// has the name since was made with a container of ours: without labels by Podman, so
// it is removed if nothing uses it.
func (b *Backend) invalidate(ctx context.Context, p *program) {
	b.installing <- struct{}{}
	defer func() { <-b.installing }()
	delete(b.installed, p.hash)
	found, err := b.api.VolumeInspect(ctx, p.volume, client.VolumeInspectOptions{})
	if err == nil && found.Volume.Labels[labelAgent] == "" {
		b.api.VolumeRemove(ctx, p.volume, client.VolumeRemoveOptions{})
	}
}

// install sees to it that the volume of p holds p, whole. This takes a container
// that is never started: its file system is reached through the engine's API, so
// it works on a remote engine and needs nothing in the image.
//
// The container's name is a lock that the engine keeps: one service at a time
// looks and fills. A volume that was found good is never written again, and one
// that a crash left half-filled is never used before it was filled again.
func (b *Backend) install(ctx context.Context, p *program, image string) error {
	var err error
	if p.data, _, err = agent.Binary(p.arch); err != nil {
		return err
	}
	if err := b.makeVolume(ctx, p); err != nil {
		return err
	}
	id, err := b.lockVolume(ctx, p, image)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		b.api.ContainerRemove(ctx, id, removeLock)
	}()
	good, err := b.verify(ctx, p, id)
	if err != nil || good {
		return err
	}
	if _, err := b.api.CopyToContainer(ctx, id, client.CopyToContainerOptions{
		DestinationPath: agentDir, Content: p.archive(),
	}); err != nil {
		return fmt.Errorf("docker: fill the agent's volume: %w", err)
	}
	switch good, err := b.verify(ctx, p, id); {
	case err != nil:
		return err
	case !good:
		return errors.New("docker: fill the agent's volume: it does not hold what was written")
	}
	return nil
}

// lockVolume creates the container whose name is the lock, and returns its id. A
// call that creates is not broken off, since nobody would remove what it makes.
func (b *Backend) lockVolume(ctx context.Context, p *program, image string) (string, error) {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer cancel()
	for {
		made, err := b.api.ContainerCreate(whole, client.ContainerCreateOptions{
			Name: p.volume,
			// The image may name a user that it does not have.
			Config: &container.Config{Image: image, User: "0:0", Entrypoint: []string{agentPath}, Labels: map[string]string{labelAgent: p.hash}},
			HostConfig: &container.HostConfig{
				NetworkMode: "none", Mounts: []mount.Mount{p.mount(false)},
			},
		})
		if err == nil {
			return made.ID, nil
		}
		if !nameTaken(err) {
			return "", engineError(b.host, err)
		}
		if err := b.removeStaleLock(ctx, p.volume); err != nil {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(fillPoll):
		}
	}
}

// removeStaleLock removes a lock, by its name or id, that a service left which
// died while it held it. Its age is taken by the engine's own clock.
func (b *Backend) removeStaleLock(ctx context.Context, lock string) error {
	held, err := b.api.ContainerInspect(ctx, lock, client.ContainerInspectOptions{})
	if noContainer(err) {
		return nil
	}
	if err != nil {
		return engineError(b.host, err)
	}
	if config := held.Container.Config; config == nil || config.Labels[labelAgent] == "" {
		return &Error{NameTaken, strings.TrimPrefix(held.Container.Name, "/"), "remove or rename the container of that name, which is not ours", nil}
	}
	info, err := b.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return engineError(b.host, err)
	}
	since, err := time.Parse(time.RFC3339Nano, held.Container.Created)
	if err != nil {
		return err
	}
	now, err := time.Parse(time.RFC3339Nano, info.Info.SystemTime)
	if err != nil {
		return err
	}
	if now.Sub(since) < staleFill {
		return nil
	}
	_, err = b.api.ContainerRemove(ctx, held.Container.ID, removeLock)
	if noContainer(err) || errdefs.IsConflict(err) {
		return nil
	}
	return err
}

// makeVolume makes the volume of p, unless it is there. Podman gives a volume that it
// makes for a container no labels. One without our label is refused: nothing is
// written into it.
func (b *Backend) makeVolume(ctx context.Context, p *program) error {
	made, err := b.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: p.volume, Labels: map[string]string{labelAgent: p.hash}})
	if err != nil {
		return engineError(b.host, err)
	}
	if made.Volume.Labels[labelAgent] == "" {
		return &Error{NameTaken, p.volume, "remove the volume of that name, which is not ours", nil}
	}
	return nil
}

// verify reports whether the volume, seen through the container id, holds p: the
// right size first, since that costs nothing, and then the right bytes.
func (b *Backend) verify(ctx context.Context, p *program, id string) (bool, error) {
	stat, err := b.api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: agentPath})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("docker: look at the agent's volume: %w", err)
	}
	if stat.Stat.Size != int64(len(p.data)) || stat.Stat.Mode.Perm() != agentMode {
		return false, nil
	}
	got, err := b.api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: agentPath})
	if err != nil {
		return false, fmt.Errorf("docker: read the agent's volume: %w", err)
	}
	defer got.Content.Close()
	files := tar.NewReader(got.Content)
	if _, err := files.Next(); err != nil {
		return false, fmt.Errorf("docker: read the agent's volume: %w", err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, files); err != nil {
		return false, fmt.Errorf("docker: read the agent's volume: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)) == p.hash, nil
}

// archive returns p as a tar archive of one file.
func (p *program) archive() io.Reader {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	// Writes to a bytes.Buffer do not fail, and the header is a constant.
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(agentPath), Mode: agentMode, Size: int64(len(p.data))})
	w.Write(p.data)
	w.Close()
	return &buf
}

// removeOldAgents removes locks that nobody holds any more, and the volumes of the
// agents of other versions. The engine refuses where a container still uses one;
// that is no error.
func (b *Backend) removeOldAgents(ctx context.Context) error {
	ours := client.Filters{}.Add("label", labelAgent)
	locks, err := b.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return engineError(b.host, err)
	}
	var errs []error
	for _, lock := range locks.Items {
		errs = append(errs, b.removeStaleLock(ctx, lock.ID))
	}
	found, err := b.api.VolumeList(ctx, client.VolumeListOptions{Filters: ours})
	if err != nil {
		return engineError(b.host, err)
	}
	for _, v := range found.Items {
		if current(v.Labels[labelAgent]) {
			continue
		}
		_, err := b.api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
		if err != nil && !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) {
			errs = append(errs, engineError(b.host, err))
		}
	}
	return errors.Join(errs...)
}
