package docker

import (
	"crypto/rand"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// namePrefix begins the name of a sandbox's container; the sandbox's id ends it.
const namePrefix = "sandbox-"

// A plan is everything that is decided about a container before it is made.
type plan struct {
	name    string // of the container
	volume  string
	image   *image
	agent   *program
	network string
	limits  backend.Limits // as the engine is to enforce them
	create  client.ContainerCreateOptions

	// ownVolume makes the sandbox's volume. It is made apart, since Podman gives one
	// that it makes for a container no labels.
	ownVolume client.VolumeCreateOptions
}

// plan decides what the container of cfg is made of.
func (b *Backend) plan(cfg *backend.Config, img *image, program *program, now time.Time) (*plan, error) {
	p := &plan{name: namePrefix + cfg.ID, image: img, agent: program, network: b.opts.Network}
	// An engine takes a volume of the same name that is there already for the one
	// that was asked for. Nobody's has this name.
	p.volume = p.name + "-" + strings.ToLower(rand.Text())
	labels, err := containerLabels(&b.opts, cfg, p.volume, now)
	if err != nil {
		return nil, err
	}
	if cfg.Network != "" {
		p.network = cfg.Network
	}
	if p.limits = contained.FillLimits(cfg.Limits, b.opts.Limits); p.limits.PIDs > 0 {
		p.limits.PIDs += pidReserve
	}
	p.ownVolume = client.VolumeCreateOptions{Name: p.volume, Labels: map[string]string{
		labelOwner: labels[labelOwner], labelID: labels[labelID], // the config stays with the container
	}}
	mounts, err := b.mounts(p, cfg)
	if err != nil {
		return nil, err
	}
	stopTimeout := 1
	p.create = client.ContainerCreateOptions{
		Name: p.name,
		Config: &container.Config{
			Image:       img.id,
			Entrypoint:  agent.InitCommand(agentPath, cfg.Lifetime, b.opts.AbandonAfter),
			User:        "0:0",
			WorkingDir:  "/",
			Labels:      labels,
			StopSignal:  "SIGTERM",
			StopTimeout: &stopTimeout,
			Healthcheck: img.noHealth,
		},
		HostConfig: &container.HostConfig{
			// A container that ends without us, at its deadline or with the
			// machine, takes itself away.
			AutoRemove:     true,
			NetworkMode:    container.NetworkMode(p.network),
			Runtime:        b.opts.Runtime,
			CapDrop:        []string{"ALL"},
			CapAdd:         []string{"CHOWN", "KILL", "SETGID", "SETPCAP", "SETUID"},
			SecurityOpt:    []string{"no-new-privileges"},
			ReadonlyRootfs: b.opts.ReadOnly,
			Tmpfs:          map[string]string{"/tmp": b.tmpfs()},
			Mounts:         mounts,
			LogConfig:      container.LogConfig{Type: "none"},
			Resources:      resources(p.limits),
		},
	}
	return p, nil
}

// mounts returns the agent's volume, the sandbox's own, twice, and what the user
// asked for.
func (b *Backend) mounts(p *plan, cfg *backend.Config) ([]mount.Mount, error) {
	mounts := []mount.Mount{
		p.agent.mount(true),
		{Type: mount.TypeVolume, Source: p.volume, Target: workspace.Dir},
		{Type: mount.TypeVolume, Source: p.volume, Target: workspace.Alias, VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
	}
	for _, given := range [][]backend.Mount{b.opts.Mounts, cfg.Mounts} {
		for _, m := range given {
			if !path.IsAbs(m.Target) || m.Source == "" {
				return nil, &Error{BadMount, fmt.Sprintf("%q at %q", m.Source, m.Target), "name both by their absolute paths", nil}
			}
			if err := b.checkSource(m.Source); err != nil {
				return nil, err
			}
			mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
		}
	}
	return mounts, nil
}

// tmpfs returns the mount options of /tmp.
func (b *Backend) tmpfs() string {
	opts := "rw,exec,nosuid,nodev,mode=1777"
	if b.opts.TmpSize > 0 {
		opts += ",size=" + strconv.FormatInt(b.opts.TmpSize, 10)
	}
	return opts
}

// resources returns what the engine is to enforce. Negative limits are none.
func resources(l backend.Limits) container.Resources {
	var r container.Resources
	if l.Memory > 0 {
		r.Memory = l.Memory
		r.MemorySwap = l.Memory // memory and swap together: no swap
	}
	if l.CPUs > 0 {
		r.NanoCPUs = int64(math.Round(l.CPUs * 1e9))
	}
	pids := int64(-1) // said, since an engine may have a limit of its own
	if l.PIDs > 0 {
		pids = l.PIDs
	}
	r.PidsLimit = &pids
	return r
}
