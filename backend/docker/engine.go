package docker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
)

// An engine is what New found out about the engine.
type engine struct {
	kernel kernel

	// hidden: what holds a sandbox's limits is not to be seen from inside.
	hidden bool

	// limits says what the engine can enforce: a negative field is what it
	// cannot, a zero one is what it claims to.
	limits backend.Limits

	noSwapLimit bool // memory is limited, swap is not
}

// A kernel says whose kernel the runtime gives to commands.
type kernel int

const (
	unknownKernel kernel = iota
	sharedKernel         // of the engine's machine
	gVisorKernel
	guestKernel // of a virtual machine
)

// ask asks the engine what it is. One that may not be asked, as behind a proxy
// that lets only some requests through, is taken to be able to do all.
func (b *Backend) ask(ctx context.Context) (engine, error) {
	bounded, cancel := b.answering(ctx) // Podman runs programs for this answer, slow ones
	defer cancel()
	found, err := b.api.Info(bounded, client.InfoOptions{})
	if errdefs.IsPermissionDenied(err) {
		return engine{}, nil
	}
	if err != nil {
		return engine{}, engineError(b.host, unanswered(bounded, err))
	}
	return readEngine(&found.Info, b.opts.Runtime), nil
}

// readEngine reads what an engine says of itself, for sandboxes of that runtime.
func readEngine(info *system.Info, runtime string) engine {
	program := runtimeProgram(info, cmp.Or(runtime, info.DefaultRuntime))
	e := engine{kernel: kernelOf(program)}
	e.hidden = e.kernel == gVisorKernel || e.kernel == guestKernel || strings.Contains(program, "sysbox")
	// A rootless engine cannot use the first version of control groups. Podman 4 does
	// not even say that it is rootless: there only the look from inside tells.
	none := info.CgroupDriver == "none" ||
		info.CgroupVersion == "1" && slices.ContainsFunc(info.SecurityOptions, isRootless)
	if none || !info.MemoryLimit {
		e.limits.Memory = -1
	}
	if none || !info.CPUCfsQuota {
		e.limits.CPUs = -1
	}
	if none || !info.PidsLimit {
		e.limits.PIDs = -1
	}
	e.noSwapLimit = e.limits.Memory == 0 && !info.SwapLimit
	return e
}

// isRootless reports whether a security option, as in "name=seccomp,profile=default",
// is that of an engine whose root is an ordinary user.
func isRootless(option string) bool {
	name, _, _ := strings.Cut(option, ",")
	return name == "name=rootless"
}

// runtimeProgram returns the name of a runtime's program. What the engine's
// configuration calls the runtime says nothing, but where it has no program: then
// it is the name of a containerd shim, as in "io.containerd.runsc.v1".
func runtimeProgram(info *system.Info, name string) string {
	runtime := info.Runtimes[name]
	return path.Base(cmp.Or(runtime.Type, runtime.Path, name))
}

// kernelOf tells which kernel a runtime gives, by the name of its program.
func kernelOf(program string) kernel {
	has := func(part string) bool { return strings.Contains(program, part) }
	switch {
	case has("runsc"):
		return gVisorKernel
	case has("kata"):
		return guestKernel
	case has("runc"), has("crun"), has("youki"), has("nvidia-container-runtime"):
		return sharedKernel
	default:
		return unknownKernel
	}
}

// tellsOOM reports whether the kernel's count of kills for memory is to be had, and
// is of the sandbox alone.
func (e *engine) tellsOOM() bool {
	return (e.kernel == sharedKernel || e.kernel == guestKernel) && e.limits.Memory == 0
}

// caveats says what is not as the defaults promise it.
func (e *engine) caveats() []string {
	var caveats []string
	switch e.kernel {
	case sharedKernel:
		caveats = append(caveats, "Sandboxes share the kernel of the engine's machine. Name another runtime, such as runsc or kata, for commands that may attack it.")
	case unknownKernel:
		caveats = append(caveats, "The engine's runtime is none that is known here: sandboxes may share the kernel of the engine's machine.")
	}
	if names := contained.Unenforced(backend.Limits{Memory: 1, CPUs: 1, PIDs: 1}, e.limits); len(names) > 0 {
		caveats = append(caveats, "The engine does not enforce "+strings.Join(names, ", ")+
			": a sandbox is only created where Options or Config say that it needs none, with a negative number.")
	}
	if e.noSwapLimit {
		caveats = append(caveats, "The engine does not limit swap: a sandbox may use swap beyond its limit of memory.")
	}
	if !e.tellsOOM() {
		caveats = append(caveats, "Which processes were killed for memory is not told.")
	}
	return caveats
}

// dropped returns the limits that an engine has dropped, by what it warned of when it
// made a container.
func dropped(warnings []string) backend.Limits {
	var held backend.Limits
	for _, text := range warnings {
		text = strings.ToLower(text)
		has := func(part string) bool { return strings.Contains(text, part) }
		if !has("discarded") && !has("ignored") {
			continue
		}
		if has("memory limit") || has("resource limits") {
			held.Memory = -1
		}
		if has("cpu") || has("resource limits") {
			held.CPUs = -1
		}
		if has("pids limit") || has("resource limits") {
			held.PIDs = -1
		}
	}
	return held
}

// logWarnings logs what the engine warned of, each text once.
func (b *Backend) logWarnings(warnings []string) {
	for _, text := range warnings {
		b.logOnce(slog.LevelWarn, "the engine warns of a container that it made", "warning", text)
	}
}

// logOnce logs a message of one attribute, each value of it once.
func (b *Backend) logOnce(level slog.Level, message, key, value string) {
	b.mu.Lock()
	known := b.logged[value]
	b.logged[value] = true
	b.mu.Unlock()
	if !known && b.opts.Logger != nil {
		b.opts.Logger.Log(context.Background(), level, message, key, value)
	}
}

// enforced returns an error that names the limits in want that are not kept by
// held.
func enforced(want, held backend.Limits) error {
	names := contained.Unenforced(want, held)
	if len(names) == 0 {
		return nil
	}
	return &Error{NoLimit, strings.Join(names, ", "),
		"let the engine have control groups with these controllers (a rootless one needs cgroup v2 and delegation), or accept sandboxes without by a negative number in Options or Config",
		errors.ErrUnsupported}
}
